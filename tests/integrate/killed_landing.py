"""Lands in a process that is killed with SIGKILL before its n-th change, for every n, and judges what is left.

A program of its own, so that forking is safe: ``python killed_landing.py REPOSITORY BACKUP ARGUMENT…``, where the
arguments are those of ``git parallel merge``. It prints one JSON object a number: what was found, before the
next command and after it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from landings import tree_on_disk

from git_parallel import cli
from git_parallel.git import Git

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


class Countdown:
    """Counts changes; the process dies before number ``at``, counting also where one has just been made."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "ftruncate"):
            setattr(os, name, self._before(getattr(os, name)))
        run = Git.run

        def watched(git: Git, *arguments: str, **options: Any) -> Any:
            word = next(one for one in arguments if not one.startswith(("-", "core.")))
            if word in _CHANGING:
                self.step()
            return run(git, *arguments, **options)

        Git.run = watched  # type: ignore[method-assign]

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.step()
            return function(*arguments, **options)

        return watched


def attempt(at: int, command: list[str], output: Any) -> bool:
    """Run a command in a forked process that dies before change ``at``; return whether it died."""
    child = os.fork()
    if child == 0:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        Countdown(at).watch()
        os._exit(cli.run(command))
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


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
            died = attempt(step, command, output)
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
