"""Lands in a process that is killed with SIGKILL before its n-th change, for every n, and judges what is left.

A program of its own, so that forking is safe: ``python killed_landing.py REPOSITORY BACKUP ARGUMENT…``, where the
arguments are those of ``git parallel merge``. It prints one JSON object a number: what was found, before the
next command and after it.
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

import countdown
from landings import tree_on_disk

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
    """What a person would find."""
    return {
        "main": git(repository, "log", "--first-parent", "--format=%s", "main").splitlines(),
        "status": git(repository, "status", "--porcelain", "--", ":!.architect-*").splitlines(),
        "lock": (repository / ".git/index.lock").exists(),
        "files": {path: data.decode() for path, data in tree_on_disk(repository).items()},
        "worktrees": git(repository, "worktree", "list", "--porcelain").count("worktree "),
        "fsck": git(repository, "fsck", "--connectivity-only", "--no-dangling"),
        "notes": len(git(repository, "notes", "--ref=architect", "list").splitlines()),
    }


def main() -> None:
    repository, backup = Path(sys.argv[1]), Path(sys.argv[2])
    command = ["merge", *sys.argv[3:]]
    step = int(os.environ.get("FIRST", "1"))
    stride = int(os.environ.get("STRIDE", "1"))
    while True:
        shutil.rmtree(repository)
        shutil.copytree(backup, repository, symlinks=True)
        os.chdir(repository)
        with tempfile.TemporaryFile() as output:
            died = countdown.attempt(step, command, output, changes) < 0
            output.seek(0)
            said = output.read().decode()
        between = judge(repository)
        continued = subprocess.run(
            [sys.executable, "-m", "git_parallel", "merge", "--continue", "--yes"],
            cwd=repository,
            capture_output=True,
            text=True,
            check=False,
        )
        after = judge(repository)
        print(
            json.dumps(
                {
                    "step": step,
                    "died": died,
                    "said": said,
                    "between": between,
                    "code": continued.returncode,
                    "continued": continued.stderr + continued.stdout,
                    "after": after,
                }
            ),
            flush=True,
        )
        if not died:
            return
        step += stride


if __name__ == "__main__":
    main()
