"""Runs a git parallel command in a process that is killed before its n-th change, for every n.

A program of its own, so that forking is safe: ``python killed.py REPOSITORY BACKUP EXPECTED FIRST THEN``,
the last three as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ended_runs import kept_commits, kept_contents

from git_parallel import cli
from git_parallel.git import Git

# Calls of git that change something. What they change they change at once or not at all.
_CHANGING = {"update-ref", "worktree", "config", "add", "read-tree", "checkout-index", "update-index"}
_READING = {("worktree", "list"), ("config", "--get"), ("config", "--get-regexp"), ("config", "-z")}


class Countdown:
    """Counts changes; the process dies before number ``at``."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.count = 0

    def step(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Put a step before everything that changes the disk or a ref."""
        for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "link"):
            setattr(os, name, self._before(getattr(os, name)))
        run = Git.run

        def watched(git: Git, *arguments: str, **options: Any) -> Any:
            words = [word for word in arguments if not word.startswith("core.") and word != "-c"]
            if words[0] in _CHANGING and tuple(words[:2]) not in _READING and "--get-regexp" not in words:
                self.step()
            return run(git, *arguments, **options)

        Git.run = watched  # type: ignore[method-assign]

    def _before(self, function: Any) -> Any:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.step()
            return function(*arguments, **options)

        return watched


def attempt(at: int, command: list[str]) -> bool:
    """Run a command in a forked process that dies before change ``at``; return whether it died."""
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            Countdown(at).watch()
            os._exit(cli.run(command))
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return True
        code = os.waitstatus_to_exitcode(status)
        if code:
            said.seek(0)
            raise SystemExit(f"{command} exited with {code} at change {at}: {said.read().decode()}")
        return False


def every_change(repo: Path, backup: Path, first: list[str], then: list[str]) -> Iterator[int]:
    """Yield n for every change of the command ``first``, after it was killed there and ``then`` went through.

    Each time the repository is put back from ``backup`` before.
    """
    for at in itertools.count(1):
        shutil.rmtree(repo)
        shutil.copytree(backup, repo, symlinks=True)
        if not attempt(at, first):
            return
        attempt(0, then)
        yield at


@dataclass(frozen=True)
class Directory:
    """As much of conftest's Repo as the checks need."""

    path: Path

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.path, capture_output=True, text=True, check=check)
        return done.stdout.rstrip("\n")


def main(repo: Path, backup: Path, expected: dict[str, list[str]], first: list[str], then: list[str]) -> None:
    """Print as JSON how often the command was killed, and what was missing afterwards, by number."""
    os.chdir(repo.parent)
    os.environ["GIT_DIR"] = str(repo / ".git")
    here = Directory(repo)
    problems: dict[int, list[str]] = {}
    at = 0
    for at in every_change(repo, backup, first, then):
        contents, commits, refs = kept_contents(here), kept_commits(here), here.git("for-each-ref")
        entries = here.git("worktree", "list", "--porcelain")
        missing = [text for text in expected["contents"] if text.encode() not in contents]
        missing += [commit for commit in expected["commits"] if commit not in commits]
        missing += [f"still there: {path}" for path in expected["gone"] if os.path.lexists(path) or path in entries]
        missing += [f"still there: {name}" for name in expected["gone_refs"] if name in refs]
        missing += [f"no ref: {line}" for line in expected["refs"] if line not in refs]
        scratch = [path.name for path in (repo / ".git/architect").glob("*.index*")]
        if missing or (at == 0 and scratch):
            problems[at] = missing
    print(json.dumps({"changes": at, "problems": problems}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *(json.loads(argument) for argument in sys.argv[3:6]))
