"""What a capture of a worktree leaves out, counted and named: ignored files, and what git has no object for."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from git_parallel import index as indexes
from git_parallel.git import Git

_MOST_FILES = 50_000  # counting on is not worth the wait: a build directory may hold millions
_MOST_ENTRIES = 500_000  # of a worktree that is looked through: about a third of a second

_KINDS = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}
EMPTY = "empty directory"


class Size(Struct, frozen=True):
    """Files below some paths and their bytes; ``more`` says that counting stopped early."""

    files: int = 0
    size: int = 0
    more: bool = False


class Ignored(Struct, frozen=True):
    """The ignored files of a worktree: all of them, and the paths, each with what lies below it.

    Paths are relative to the top, directories with a slash.
    """

    total: Size = Size()
    paths: tuple[tuple[str, Size], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.paths)


def ignored(git: Git, top: str) -> Ignored:
    """Count the ignored files of the worktree at ``top``."""
    names = git.run("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z").fields
    total = Size()
    paths = []
    for name in names:
        one = Size(more=True)  # not counted
        if total.files < _MOST_FILES:
            one = measure([os.path.join(top, name.rstrip("/"))])
        total = Size(total.files + one.files, total.size + one.size, total.more or one.more)
        paths.append((name, one))
    return Ignored(total, tuple(paths))


def nothing(top: str, index: str) -> bool:
    """Whether surely all that lies in the worktree at ``top`` is in ``index``, which ``git add -A`` has just written.

    Every entry of such an index is a file there, so that equal numbers mean the same files. An index of version 2 has
    no entries without one (skip-worktree, intent-to-add); a split index counts too few, which only ends in False.
    What is not a plain file, link or filled directory ends the look too, as does a repository inside.
    """
    count = indexes.count(index)  # there is no index of an empty worktree
    return count is not None and _plain_files(top, count) == count


def _plain_files(top: str, most: int) -> int | None:
    """Count files and links below ``top``, up to one more than ``most``; None where something else lies there."""
    files, pending = 0, [top]
    while pending and files <= most:
        place = pending.pop()
        try:
            with os.scandir(place) as entries:
                found = [entry for entry in entries if entry.name != ".git" or place != top]
        except OSError:
            return None
        if not found and place != top:
            return None
        for entry in found:
            if entry.name == ".git":
                return None
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif entry.is_file(follow_symlinks=False) or entry.is_symlink():
                files += 1
            else:
                return None
    return files


def fitting(found: Ignored, room: int) -> tuple[list[tuple[str, Size]], list[tuple[str, Size]]]:
    """Part ignored paths into those that fit into ``room`` bytes, the smallest first, and the others. Pure."""
    taken, left = [], []
    for name, size in sorted(found.paths, key=lambda one: (one[1].more, one[1].size)):
        if size.more or size.size > room:
            left.append((name, size))
        else:
            taken.append((name, size))
            room -= size.size
    return taken, left


def measure(paths: Sequence[str]) -> Size:
    """Count files and bytes below ``paths``. Links are counted, never followed; what cannot be read counts as one."""
    files = size = 0
    pending = list(reversed(paths))
    while pending:
        if files >= _MOST_FILES:
            return Size(files, size, True)
        path = pending.pop()
        if os.path.isdir(path) and not os.path.islink(path):
            try:
                pending.extend(os.path.join(path, name) for name in os.listdir(path))
                continue
            except OSError:
                files += 1
                continue
        files += 1
        try:
            size += os.lstat(path).st_size
        except OSError:
            continue
    return Size(files, size)


def unusual(top: str, skip: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what git has no object for below ``top``: each path (relative) and what it is.

    ``skip`` are paths not to look at, directories with a slash; repositories inside are passed over, too.
    Gives up in a worktree of more than half a million entries.
    """
    looked = 0
    pending = [""]
    while pending and looked < _MOST_ENTRIES:
        place = pending.pop()
        try:
            with os.scandir(os.path.join(top, place)) as entries:
                found = list(entries)
        except OSError:  # named by the capture itself
            continue
        looked += len(found)
        if place and not found:
            yield place, EMPTY
        if place and any(entry.name == ".git" for entry in found):
            continue
        for entry in found:
            name = place + entry.name
            if entry.is_dir(follow_symlinks=False):
                if name + "/" not in skip and name != ".git":
                    pending.append(name + "/")
            elif not entry.is_file(follow_symlinks=False) and not entry.is_symlink() and name not in skip:
                yield name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        return _KINDS.get(stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode), "special file")
    except OSError:
        return "special file"
