"""Removes a landing's scratch worktree in a process that is killed before each kind of change that it makes.

The first time it is a power cut.

A program of its own, so that forking is safe: ``python killed_scratch.py REPOSITORY``. It prints one JSON object a
time: the worktrees and files that are left once the next command has taken up what it finds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

from kinds import Kinds, do

from git_parallel.git import Repository
from git_parallel.integrate.scratch import Scratch
from git_parallel.layout import State

MERGE = "20261129T170000Z-7f3a"


def scratch() -> Scratch:
    return Scratch(repo=Repository.discover(), merge=MERGE, template=".wt/{n}")


def left(top: Path) -> list[str]:
    listed = subprocess.run(["git", "worktree", "list", "--porcelain"], capture_output=True, text=True, check=True)
    entries = [line for line in listed.stdout.splitlines() if line.startswith("worktree ")]
    kept = Path(State(str(top / ".git")).scratch)
    places = (top / ".wt", kept, top / ".git/worktrees")
    return [*entries[1:], *(str(path) for place in places if place.is_dir() for path in place.iterdir())]


def cut_power(made: Scratch, path: str) -> int:
    """Die as in a power cut that has emptied what names the worktree in git's own entry."""
    shutil.rmtree(path)
    os.truncate(os.path.join(made.admin or "", "gitdir"), 0)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def remove(made: Scratch) -> int:
    made.remove()
    return 0


def main() -> None:
    top = Path(sys.argv[1])
    os.chdir(top)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    kinds = Kinds(lambda words: "worktree" in words)
    first, code = True, -signal.SIGKILL
    while code:
        made = scratch()
        path = made.show(head)
        if first:
            code = do(partial(cut_power, made, path), sys.stderr.buffer)
        else:
            code = kinds.attempt(partial(remove, made), sys.stderr.buffer)
        first = False
        died_with = left(top)
        later = scratch()
        if later.find():
            later.remove()
        print(json.dumps({"code": code, "died with": died_with, "left": left(top)}), flush=True)


if __name__ == "__main__":
    main()
