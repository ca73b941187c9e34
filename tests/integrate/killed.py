"""Runs a git parallel command in a process that is killed before each kind of change that it makes.

A program of its own, so that forking is safe: ``python killed.py REPOSITORY BACKUP EXPECTED FIRST THEN``,
the last three as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ended_runs import kept
from kinds import Act, Kinds, command, do

# Calls of git that change something.
_CHANGING = {"update-ref", "worktree", "config", "add", "read-tree", "checkout-index", "update-index"}
_READING = {("worktree", "list"), ("config", "--get"), ("config", "--get-regexp"), ("config", "-z")}


def changes(words: Sequence[str]) -> bool:
    """Whether a git command changes anything."""
    return words[0] in _CHANGING and tuple(words[:2]) not in _READING and "--get-regexp" not in words


def every_kind(repo: Path, backup: Path, first: Act, then: Act) -> Iterator[str]:
    """Yield every kind of change of ``first``, after it was killed there and ``then`` went through.

    Each time the repository is put back from ``backup`` before.
    """
    kinds = Kinds(changes)
    while True:
        shutil.rmtree(repo)
        shutil.copytree(backup, repo, symlinks=True)
        os.chdir(repo)
        with tempfile.TemporaryFile() as said:
            code = kinds.attempt(first, said)
            codes = (code, do(then, said)) if code else (0, 0)
            if codes not in ((-9, 0), (0, 0)):
                said.seek(0)
                raise SystemExit(f"exited with {codes} at {list(kinds.killed)[-1:]}: {said.read().decode()}")
        if code == 0:
            return
        yield list(kinds.killed)[-1]


@dataclass(frozen=True)
class Directory:
    """As much of conftest's Repo as the checks need."""

    path: Path

    def git(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.path, capture_output=True, text=True, check=check)
        return done.stdout.rstrip("\n")


def main(repo: Path, backup: Path, expected: dict[str, list[str]], first: list[str], then: list[str]) -> None:
    """Print as JSON what was missing or left afterwards, by the kind of change that the command was killed before."""
    here = Directory(repo)
    found: dict[str, list[str]] = {}
    for kind in every_kind(repo, backup, command(*first), command(*then)):
        contents, commits = kept(here)
        refs, entries = here.git("for-each-ref"), here.git("worktree", "list", "--porcelain")
        missing = [text for text in expected["contents"] if text.encode() not in contents]
        missing += [commit for commit in expected["commits"] if commit not in commits]
        missing += [f"still there: {path}" for path in expected["gone"] if os.path.lexists(path) or path in entries]
        missing += [f"still there: {name}" for name in expected["gone_refs"] if name in refs]
        missing += [f"no ref: {line}" for line in expected["refs"] if line not in refs]
        found[kind] = missing
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *(json.loads(argument) for argument in sys.argv[3:6]))
