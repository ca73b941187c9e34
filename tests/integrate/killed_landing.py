"""Lands in a process that is killed with SIGKILL before each kind of change that it makes, and judges what is left.

A program of its own, so that forking is safe: ``python killed_landing.py REPOSITORY BACKUP LANDINGS``, the last one
as JSON: the arguments of ``git parallel merge`` for each way to land. The first is killed at all of its kinds of
changes, the others at those that are new and at some of the rest. It prints one JSON object a kind, and one a landing
that was not killed any more: what was found, before the next command and after it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kinds import Kinds, command, do
from landings import tree_on_disk

AGAIN = 8  # of so many kinds of changes that were killed in another landing, one is killed again

_CHANGING = {
    "update-ref",
    "worktree",
    "read-tree",
    "checkout-index",
    "update-index",
    "status",
    "commit-tree",
    "clean",
    "hook",
    "merge",
    "write-tree",
}


def changes(words: Sequence[str]) -> bool:
    """Whether a git command changes anything."""
    return next(word for word in words if not word.startswith("-")) in _CHANGING


def git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repository, capture_output=True, check=False, text=True)
    return done.stdout.rstrip()


def judge(repository: Path) -> dict[str, Any]:
    """What a person would find right after the crash."""
    return {
        "main": git(repository, "log", "--first-parent", "--format=%s", "main").splitlines(),
        "files": {path: data.decode() for path, data in tree_on_disk(repository).items()},
        "fsck": git(repository, "fsck", "--connectivity-only", "--no-dangling"),
    }


def judge_all(repository: Path) -> dict[str, Any]:
    """What a person would find once a command has gone on from there."""
    return {
        **judge(repository),
        "status": git(repository, "status", "--porcelain", "--", ":!.architect-*").splitlines(),
        "lock": (repository / ".git/index.lock").exists(),
        "worktrees": git(repository, "worktree", "list", "--porcelain").count("worktree "),
    }


def land(repository: Path, backup: Path, kinds: Kinds, arguments: Sequence[str]) -> dict[str, Any]:
    """Have a landing die at its first kind of change that is new; go on with the next command."""
    shutil.rmtree(repository)
    shutil.copytree(backup, repository, symlinks=True)
    os.chdir(repository)
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as continued:
        code = kinds.attempt(command("merge", *arguments), said)
        between = judge(repository)
        do(command("merge", "--continue", "--yes"), continued)
        for output in (said, continued):
            output.seek(0)
        return {
            "killed": list(kinds.killed)[-1] if code < 0 else None,
            "said": said.read().decode(),
            "between": between,
            "continued": continued.read().decode(),
            "after": judge_all(repository),
        }


def main(repository: Path, backup: Path, landings: Sequence[Sequence[str]]) -> None:
    kinds = Kinds(changes)
    for arguments in landings:
        kinds.forget(AGAIN)
        while True:
            found = land(repository, backup, kinds, arguments)
            print(json.dumps({"landing": arguments, **found}), flush=True)
            if not found["killed"]:
                break


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
