"""Small worktrees that begin alike: git fills the first one, and the others get the same files, written in process.

What git does to a file on its way out (line ends, encodings) depends on its path and the commit alone, and so is done
once. For a few files that takes a third of the time of another git; many files are git's, which is faster then.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from git_parallel import index as indexes
from git_parallel import system
from git_parallel.git import Repository
from git_parallel.layout import HEADS
from git_parallel.worktrees.populate import Features, populate
from git_parallel.worktrees.registry import paired

_FEW = 64  # files
_SMALL = 1 << 20  # bytes of them all
# A filter may look where it is (that of LFS is one of the needs); and an index that others may write is git's to make.
_SPECIAL = re.compile(r"filter\.(?!lfs\.).*\.(smudge|process)|core\.sharedrepository")


class _File(Struct, frozen=True):
    """A file as git wrote it: a link where it is not ``regular``; ``data`` is what it holds or where it leads."""

    path: str
    regular: bool
    executable: bool
    data: bytes


class Filler:
    """Fills worktrees that are registered on branches at ``commit``; see :func:`populate` for ``needs``.

    Threads may share it. It expects few files where the caller's own index has few: a wrong guess costs some time.
    """

    def __init__(self, repo: Repository, commit: str, needs: Features) -> None:
        self._repo = repo
        self._commit = commit
        self._needs = needs
        self._lock = threading.Lock()
        self._first: tuple[bytes, Sequence[_File]] | None = None  # the index, and its files in that order
        count = indexes.count(os.path.join(repo.git_dir, "index"))
        special = needs != Features() or any(_SPECIAL.fullmatch(setting.key) for setting in repo.settings)
        self.expects_few = not special and count is not None and count <= _FEW

    def fill(self, path: str, branch: str, scratch: str) -> list[str]:
        """Fill the worktree at ``path``, which nobody else works in yet; return warnings. Raises as :func:`populate`.

        ``scratch`` is for the index while it is made, on the file system of the repository.
        """
        if self.expects_few:
            with self._lock:  # the others wait for the first one; then each is faster without them
                if self._first is None:
                    return self._fill_first(path, branch)
                if self._at_commit(branch) and self._copy(self._first, path, scratch):
                    return []
        return populate(self._repo, path, self._needs)

    def _fill_first(self, path: str, branch: str) -> list[str]:
        warnings = populate(self._repo, path, self._needs)
        if self.expects_few and self._at_commit(branch):
            self._first = self._taken(path)
            self.expects_few = self._first is not None
        return warnings

    def _at_commit(self, branch: str) -> bool:
        return system.read(os.path.join(self._repo.common_dir, HEADS + branch)) == f"{self._commit}\n".encode()

    def _taken(self, path: str) -> tuple[bytes, Sequence[_File]] | None:
        """Read what git has just written; None for more than a few plain files, or when somebody else was there."""
        admin = paired(self._repo, path)
        data = system.read(os.path.join(admin, "index")) if admin is not None else None
        found = indexes.parse(data, len(self._commit) // 2) if data is not None else None
        if data is None or found is None or len(found.entries) > _FEW or found.more:
            return None
        room, files = _SMALL, []
        try:
            for name, mode, _ in found.entries:
                file = _read(os.path.join(path, name), name, mode, room)
                if file is None:
                    return None
                files.append(file)
                room -= len(file.data)
            there = [os.lstat(os.path.join(path, file.path)) for file in files]
        except OSError:
            return None
        return (data, files) if indexes.fresh(data, len(self._commit) // 2, there) else None

    def _copy(self, first: tuple[bytes, Sequence[_File]], path: str, scratch: str) -> bool:
        """Write the same files, and their index last of all; False when git is to do it after all."""
        admin = paired(self._repo, path)
        if admin is None:
            return False
        index, files = first
        try:
            data = indexes.renewed(index, self._repo.object_format, _write(path, files))
            descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                _put(descriptor, data)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(scratch, os.path.join(admin, "index"))
        except OSError:  # git writes over what is there, or says why it cannot
            with suppress(OSError):
                os.unlink(scratch)
            return False
        return True


def _read(place: str, name: str, mode: int, room: int) -> _File | None:
    if stat.S_ISLNK(mode):
        return _File(name, False, False, os.fsencode(os.readlink(place)))
    if not stat.S_ISREG(mode):
        return None
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        data = b""
        while len(data) <= room and (more := os.read(descriptor, room + 1)):
            data += more
    finally:
        os.close(descriptor)
    return _File(name, True, bool(mode & 0o100), data) if len(data) <= room else None


def _write(top: str, files: Sequence[_File]) -> list[os.stat_result]:
    """Write files into an empty worktree as git does; return what the system says of each."""
    made = {""}
    seen = []
    for file in files:
        directory = file.path.rpartition("/")[0]
        if directory not in made:
            _make(top, directory, made)
        place = os.path.join(top, file.path)
        if not file.regular:
            os.symlink(os.fsdecode(file.data), place)
            seen.append(os.lstat(place))
            continue
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(place, flags, 0o777 if file.executable else 0o666)
        try:
            _put(descriptor, file.data)
            seen.append(os.fstat(descriptor))
        finally:
            os.close(descriptor)
    return seen


def _put(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _make(top: str, directory: str, made: set[str]) -> None:
    above = directory.rpartition("/")[0]
    if above not in made:
        _make(top, above, made)
    os.mkdir(os.path.join(top, directory))
    made.add(directory)
