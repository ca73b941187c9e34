#!/usr/bin/env python3
"""`git parallel conflicts` of 50 branches against `git merge-tree` of each of the 1225 pairs: at most 0.12.

About one pair in six changes a path in common; some branches rename directories, turn files into directories,
or change modes. Before anything is measured, both must have found the same conflicts.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path

import paired

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "integrate"))

from made_history import EXECUTABLE, FILE, Made, Tree, lines, make  # the tests' own maker of branches

from git_parallel.git import Repository
from git_parallel.integrate import mergetree
from git_parallel.layout import HEADS, State
from git_parallel.plan.model import Job, Limits, Result, RunSpec, Task, encode
from git_parallel.supervisor import files
from git_parallel.supervisor.journal import Journal, timestamp

BRANCHES = 50
FILES = 2000
DIRECTORIES = 40
HISTORY = 200  # commits before the base, and a tenth of that on the target since
POOL = 75  # files that branches meet in, 3 of them to a branch
RUN = "20261129T165000Z-be9c"


def main() -> int:
    """Make the repository, compare what both find, measure."""
    options = paired.arguments(__doc__ or "", count=5)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its byte code
    with paired.scratch() as top:
        path = top / "repository"
        path.mkdir()
        paired.git(path, "init", "-q")
        commits = branches(path, random.Random(7))
        record(path, commits)
        sharing = same_findings(path, commits)
        pairs = list(itertools.combinations(commits, 2))
        print(f"{len(pairs)} pairs, {sharing} share a path ({sharing / len(pairs):.2f})")
        script = top / "pair-by-pair.sh"
        script.write_text("".join(f"git merge-tree --write-tree {one} {other}\n" for one, other in pairs) + "exit 0\n")
        samples = paired.rounds(
            [
                paired.Subject("git parallel conflicts", [paired.git_parallel(), "conflicts"], path, exit_codes=(3,)),
                paired.Subject("pair by pair", ["sh", str(script)], path),
            ],
            options.rounds,
            warm_up=1,
        )
    return not paired.report(f"conflicts of {BRANCHES} branches", samples, {"pair by pair": 0.12})


def branches(path: Path, rng: random.Random) -> list[str]:
    """Make the branches; return their tips."""
    base = {
        f"d{number % DIRECTORIES:02}/s{number % 3}/file{number}.txt": (FILE, lines(number, 40))
        for number in range(FILES)
    }
    history: list[Made] = []
    for number in range(HISTORY):
        base = {**base, "log.txt": (FILE, f"{number}\n")}
        parents = (number - 1,) if number else ()
        history.append(Made(base, parents))
    fork, target = HISTORY - 1, base
    for number in range(HISTORY // 10):
        target = {**target, "log.txt": (FILE, f"target {number}\n")}
        history.append(Made(target, (len(history) - 1,), f"{HEADS}main"))
    pool = rng.sample(sorted(base), POOL)
    first = len(history)
    for number in range(1, BRANCHES + 1):
        history.append(Made(work(rng, base, number, pool), (fork,), f"{HEADS}architect/parallel-{number}"))
    # The whole history without its blobs being loose: as it is after a clone.
    made = make(path, history)
    paired.git(path, "repack", "-adq")
    paired.git(path, "reset", "-q", "--hard", "main")
    return made[first:]


def work(rng: random.Random, base: Tree, number: int, pool: list[str]) -> Tree:
    """What one worker makes of the base: edits, a new file, and every now and then a change of the layout."""
    tree = dict(base)
    for name in rng.sample(pool, 3):
        mode, content = tree[name]
        edited = content.splitlines(keepends=True)
        edited[rng.randrange(40)] = f"branch {number} was here\n"
        tree[name] = (mode, "".join(edited))
    tree[f"new/worker{number}.txt"] = (FILE, lines(("new", number)))
    if number % 10 == 3:  # a directory moves away
        old, new = f"d{number % 7:02}/", f"moved{number}/"
        tree = {new + name.removeprefix(old) if name.startswith(old) else name: what for name, what in tree.items()}
    if number % 10 == 4:  # and others add to it
        tree[f"d{(number - 1) % 7:02}/added{number}.txt"] = (FILE, lines(("added", number)))
    if number % 10 == 5:
        tree["notes"] = (FILE, lines(("notes", number)))
    if number % 10 == 6:
        tree[f"notes/worker{number}.txt"] = (FILE, lines(("notes", number)))
    if number % 10 == 7:
        name = rng.choice(pool)
        tree[name] = (EXECUTABLE, tree[name][1])
    return tree


def record(path: Path, commits: list[str]) -> None:
    """Write the live files of a run that has ended with these branches."""
    fork = subprocess.run(
        ["git", "merge-base", "main", commits[0]], cwd=path, capture_output=True, text=True, check=True
    ).stdout.strip()
    numbers = range(1, len(commits) + 1)
    jobs = tuple(
        Job(number, f"t{number}", None, f"architect/parallel-{number}", str(path / f".architect-parallel-{number}"))
        for number in numbers
    )
    spec = RunSpec(
        run=RUN,
        created=timestamp(),
        argv=("git", "parallel"),
        person="A U Thor <author@example.com>",
        base=fork,
        base_name="main",
        target=f"{HEADS}main",
        subdir="",
        top=str(path),
        program="shell",
        role="build",
        tasks=tuple(Task(f"t{number}", f"task {number}") for number in numbers),
        jobs=jobs,
        workers=8,
        limits=Limits(),
    )
    live = State(str(path / ".git")).run(RUN)
    Path(live.top).mkdir(parents=True)
    files.replace(live.spec, encode(spec))
    journal = Journal(live.journal)
    for job, head in zip(jobs, commits, strict=True):
        result = Result(
            worker_id=job.worker,
            branch=job.branch,
            model=None,
            status="success",
            steps=None,
            cost=None,
            duration=1.0,
            files_modified=[],
            worktree_path=job.worktree,
            run=RUN,
            task=job.task,
            agent="shell",
            role="build",
            base=fork,
            head=head,
            reason="done",
        )
        Path(live.worker(job.worker).top).mkdir(parents=True)
        files.replace(live.worker(job.worker).result, encode(result))
        journal.append("state", worker=job.worker, state="ended")
    journal.append("run-ended")


def same_findings(path: Path, commits: list[str]) -> int:
    """Hold what the command says against git's word on every pair; return how many pairs share a path."""
    done = subprocess.run(
        [paired.git_parallel(), "conflicts", "--json"], cwd=path, capture_output=True, text=True, check=False
    )
    if done.returncode != 3:
        sys.exit(f"git parallel conflicts: exit code {done.returncode}\n{done.stderr}")
    found = {
        tuple(int(handle.rpartition("/")[2]) for handle in pair["workers"]): sorted(
            (conflict["path"], conflict["kind"]) for conflict in pair["conflicts"]
        )
        for pair in json.loads(done.stdout)["pairs"]
    }
    kinds: set[str] = set()
    repo = Repository.discover(str(path))
    for one, other in itertools.combinations(range(len(commits)), 2):
        sides = (commits[one], commits[other])
        argv = ["git", "merge-tree", "--write-tree", "-z", "--messages", *sides]
        naive = subprocess.run(argv, cwd=path, capture_output=True, check=False)
        clean = b"0" if naive.returncode else b"1"  # in a batch 1 is clean, in an exit code 0
        outcome = mergetree.parse(clean + b"\0" + naive.stdout + b"\0", [sides])[0]
        expected = sorted((conflict.path, conflict.kind) for conflict in outcome.conflicts)
        kinds.update(conflict.kind for conflict in outcome.conflicts)
        if found.get((one + 1, other + 1), []) != expected:
            sys.exit(f"{shlex.join(argv)}: found {found.get((one + 1, other + 1))}, git says {expected}")
    print(f"the same conflicts in all pairs of {repo.top}: {', '.join(sorted(kinds))}")
    return sum(1 for pair in json.loads(done.stdout)["pairs"] if pair["shared_paths"])


if __name__ == "__main__":
    sys.exit(main())
