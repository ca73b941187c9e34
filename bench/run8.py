#!/usr/bin/env python3
"""Figure: a run of 8 trivial workers on a small repository.

Against a shell script that makes the same worktrees and runs the same commands with `xargs -P`
(limit: 2.5), and with --architect PATH against `architect parallel` (limit: 0.35), whose workers fail
at once when no model is configured: what remains is its own fixed cost.
"""

import shutil
import sys
from pathlib import Path

import paired

WORKERS = 8
AT_ONCE = 8
SCRIPT_LIMIT = 2.5
ARCHITECT_LIMIT = 0.35

SCRIPT = """set -e
for n in $(seq WORKERS); do
    git worktree add -q --no-track -b "plain/$n" "$PWD/.plain-$n" HEAD
done
seq WORKERS | xargs -P AT_ONCE -I{} sh -c 'cd .plain-{} && echo {} > new-{}COMMIT'
"""
COMMIT = " && git add -A && git commit -q -m {}"
"""What a run does besides, so that the work is not lost."""


def fresh(path: Path) -> None:
    """The same repository again, as it was: no run may profit from what an earlier one left."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(path.with_name("pristine"), path, symlinks=True)


def ours(repo: Path) -> list[str]:
    """The command line of a run in which each worker writes one file."""
    tasks = [word for number in range(WORKERS) for word in ("--task", f"echo {number} > new-{number}")]
    return [paired.git_parallel(), "run", "--quiet", "--program", "shell", "--workers", str(AT_ONCE), *tasks]


def main() -> None:
    given = paired.arguments(
        __doc__, 20, architect={"metavar": "PATH", "help": "an executable of architect to compare with"}
    )
    with paired.scratch() as path:
        paired.repository(path / "pristine")
        repo = path / "repo"
        script = SCRIPT.replace("WORKERS", str(WORKERS)).replace("AT_ONCE", str(AT_ONCE))
        prepare = {"cwd": repo, "before": lambda: fresh(repo)}
        run = paired.Subject(f"git parallel, {WORKERS} workers", ours(repo), **prepare)
        plain, committing = (
            paired.Subject(name, ["sh", "-c", script.replace("COMMIT", commit)], **prepare)
            for name, commit in (("git worktree add + xargs -P", ""), ("the same, with commits", COMMIT))
        )
        kept = paired.report("run", paired.rounds([run, plain, committing], given.rounds), {plain.name: SCRIPT_LIMIT})
        if given.architect:
            tasks = [word for number in range(WORKERS) for word in ("--task", f"write {number} into new-{number}")]
            argv = [str(Path(given.architect).absolute()), "parallel", "--workers", str(AT_ONCE), "--quiet", *tasks]
            seed = paired.Subject("architect parallel", argv, exit_codes=(0, 1), **prepare)
            samples = paired.rounds([run, seed], max(3, given.rounds // 4), warm_up=1)
            kept = paired.report("run, against the seed", samples, {seed.name: ARCHITECT_LIMIT}) and kept
    sys.exit(not kept)


if __name__ == "__main__":
    main()
