"""Runs that many tests begin with: made by the program, and put back as it left them for the tests that follow."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from repository import Repo

# Variables that name a directory of the test, or the test; none of them is a matter of a run's record.
_OF_THE_TEST = ("HOME", "TMPDIR", "PYTEST_CURRENT_TEST")


class Stage:
    """A directory of one path for all tests, as worktrees and records name absolute paths; and what is kept of it."""

    def __init__(self, top: Path) -> None:
        self.path = top / "stage"
        self._kept = top / "kept"
        self._outputs: dict[str, subprocess.CompletedProcess[str] | None] = {}  # None: seen once

    def begin(self, make: Callable[[Path], None]) -> Repo:
        """Put the repository there that ``make`` makes; return it."""
        first = self._kept / "first"
        if first.exists():
            shutil.copytree(first, self.path)
        else:
            self.path.mkdir()
            make(self.path / "repo")
            shutil.copytree(self.path, first)
        return StagedRepo(self.path / "repo", self)

    def run(self, repo: Repo, arguments: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        """Make a run, or put everything back as it was left after the same run from the same state.

        It is kept when it is made for the second time: most are not.
        """
        key = self._key(arguments)
        done = self._outputs.get(key)
        if done is not None:
            shutil.rmtree(self.path)
            shutil.copytree(self._kept / key, self.path, symlinks=True)
            return done
        home = digest(Path.home())
        done = repo.parallel(*arguments)
        if key not in self._outputs:
            self._outputs[key] = None
        elif digest(Path.home()) == home:
            shutil.copytree(self.path, self._kept / key, symlinks=True)
            self._outputs[key] = done
        return done

    def _key(self, arguments: tuple[str, ...]) -> str:
        environment = sorted(one for one in os.environ.items() if one[0] not in _OF_THE_TEST)
        state = (arguments, environment, digest(self.path), digest(Path.home()))
        return hashlib.sha256(repr(state).encode("utf-8", "surrogateescape")).hexdigest()


def digest(top: Path) -> str:
    """Every name, mode and content in a directory. What cannot be read is never the same again."""
    found = hashlib.sha256()
    for directory, names, files in os.walk(top):
        names.sort()
        found.update(repr((os.path.relpath(directory, top), names)).encode())
        for name in sorted(files):
            path = Path(directory, name)
            found.update(repr((name, path.lstat().st_mode, _content(path))).encode())
    return found.hexdigest()


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return os.fsencode(path.readlink())
    if path.is_file() and os.access(path, os.R_OK):
        return path.read_bytes()
    return os.urandom(16)


@dataclass(frozen=True)
class StagedRepo(Repo):
    """A repository on the stage: its runs come from there. Without a stage, as any other."""

    stage: Stage | None = None

    def parallel(self, *arguments: str, **options) -> subprocess.CompletedProcess[str]:
        if self.stage is None or arguments[:1] != ("run",) or "--detach" in arguments or options:
            return super().parallel(*arguments, **options)
        return self.stage.run(Repo(self.path), arguments)
