"""Removes a landing's scratch worktree in a process that is killed before its n-th change, for every n.

Number 0 is a power cut that has emptied what names the worktree in git's own entry.

A program of its own, so that forking is safe: ``python killed_scratch.py REPOSITORY``. It prints one JSON object a
number: the worktrees and files that are left once the next command has taken up what it finds.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import countdown

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


def main() -> None:
    top = Path(sys.argv[1])
    os.chdir(top)
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    step, code = -1, -signal.SIGKILL
    while code:
        step += 1
        made = scratch()
        path = made.show(head)
        child = os.fork()
        if child == 0:
            if not step:
                shutil.rmtree(path)
                os.truncate(os.path.join(made.admin or "", "gitdir"), 0)
                os.kill(os.getpid(), signal.SIGKILL)
            countdown.Countdown(step, lambda words: "worktree" in words).watch()
            made.remove()
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        died_with = left(top)
        later = scratch()
        if later.find():
            later.remove()
        print(json.dumps({"step": step, "code": code, "died with": died_with, "left": left(top)}))


if __name__ == "__main__":
    main()
