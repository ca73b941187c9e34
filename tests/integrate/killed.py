"""Runs a git parallel command in a process that is killed before its n-th change, for every n.

A program of its own, so that forking is safe: ``python killed.py REPOSITORY BACKUP EXPECTED FIRST THEN``,
the last three as JSON.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import countdown
from ended_runs import kept_commits, kept_contents

# Calls of git that change something.
_CHANGING = {"update-ref", "worktree", "config", "add", "read-tree", "checkout-index", "update-index"}
_READING = {("worktree", "list"), ("config", "--get"), ("config", "--get-regexp"), ("config", "-z")}


def changes(words: Sequence[str]) -> bool:
    """Whether a git command changes anything."""
    return words[0] in _CHANGING and tuple(words[:2]) not in _READING and "--get-regexp" not in words


def attempt(at: int, command: list[str]) -> bool:
    """Run a command that dies before change ``at``; return whether it died."""
    with tempfile.TemporaryFile() as said:
        code = countdown.attempt(at, command, said, changes)
        if code > 0:
            said.seek(0)
            raise SystemExit(f"{command} exited with {code} at change {at}: {said.read().decode()}")
        return code < 0


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
