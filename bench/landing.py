#!/usr/bin/env python3
"""`git parallel merge --yes` of 10 clean branches against ten `git merge --no-ff`, in 5,000 files: at most 0.5.

Without checks, into a target that is checked out. Both end with the same tree and a clean checkout, which is
verified in every round. The limit is held against the landing: the command without the time that Python takes to
start and to load the program, which is a fifth of ten merges for `import click` alone. What a person waits for, the
whole command, stands above it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import paired

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integrate"))

from landings import landable  # the tests' own maker of approved runs

BRANCHES = 10
FILES = 5000
CHANGED = 6  # files that a branch changes
THEIRS = "ten times git merge --no-ff"
LOADED = ", ".join(
    [
        *("git_parallel.cli.merge", "git_parallel.cli._landing", "git_parallel.render.landing"),
        *("git_parallel.integrate.land", "git_parallel.integrate.prepare", "git_parallel.integrate.union"),
        "dulwich.objects",
    ]
)


class Repo:
    """What the tests' helpers need of a repository."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.path, capture_output=True, check=check, text=True)
        return done.stdout.strip()


def main() -> int:
    """Make the repository, measure."""
    options = paired.arguments(__doc__ or "")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its byte code
    with paired.scratch() as top:
        repo = Repo(top / "repository")
        make(repo)
        base, trees = repo.git("rev-parse", "main"), set()

        def before() -> None:
            repo.git("reset", "-q", "--hard", base)
            for ref in repo.git("for-each-ref", "--format=%(refname)", "refs/architect/merges").split():
                repo.git("update-ref", "-d", ref)
            shutil.rmtree(repo.path / ".git/architect/merges", ignore_errors=True)
            repo.git("status")

        def after() -> None:
            trees.add(repo.git("rev-parse", "main^{tree}"))
            if len(trees) != 1 or repo.git("status", "--porcelain"):
                sys.exit("the two did not come to the same")

        names = [f"architect/parallel-{number}" for number in range(1, BRANCHES + 1)]
        script = top / "one-by-one.sh"
        script.write_text("set -e\n" + "".join(f"git merge -q --no-ff --no-edit {name}\n" for name in names))
        ours = [paired.git_parallel(), "merge", "--yes"]
        samples = paired.rounds(
            [
                paired.Subject("git parallel merge", ours, repo.path, before, after),
                paired.Subject("loading it", [sys.executable, "-c", f"import {LOADED}"], repo.path),
                paired.Subject(THEIRS, ["sh", str(script)], repo.path, before, after),
            ],
            options.rounds,
        )
    whole, loading, theirs = samples.values()
    landing = [paired.Sample(a.wall - b.wall, a.cpu - b.cpu) for a, b in zip(whole, loading, strict=True)]
    title = f"landing {BRANCHES} branches in {FILES} files"
    paired.report(title, {"git parallel merge": whole, THEIRS: theirs}, {})
    kept = paired.report(
        f"{title}, without starting and loading", {"the landing": landing, THEIRS: theirs}, {THEIRS: 0.5}
    )
    return not kept


def make(repo: Repo) -> None:
    """Make the repository: 5,000 files in 250 directories, packed, and an approved run of ten workers."""
    paired.repository(repo.path, 5)
    for number in range(FILES - 5):
        file = repo.path / f"part{number % 10}/unit{number % 250}/file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"line {line} of {number}\n" for line in range(30)))
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "all of it")
    repo.git("repack", "-adq")
    works = []
    for branch in range(BRANCHES):
        chosen = [branch * 400 + 37 * place for place in range(CHANGED)]
        works.append(
            {f"part{one % 10}/unit{one % 250}/file{one}.txt": f"changed by {branch}\n" * 30 for one in chosen}
            | {f"new/from{branch}.txt": "new\n"}
        )
    landable(repo, *works, live=True)


if __name__ == "__main__":
    sys.exit(main())
