"""Git's entry of a worktree, made in process where nothing about it is special: a run makes many under the lock.

As `git worktree add --no-checkout --lock` makes it (builtin/worktree.c), but with ``gitdir`` last: whatever a death
leaves before that names no worktree, and is known by it. `git worktree add` reads every other entry, starts another
git and takes ten times as long; where it would do more than write these files, or refuse, it is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

from git_parallel import system
from git_parallel.git import Repository
from git_parallel.layout import HEADS
from git_parallel.worktrees.names import Place

# With one of these git copies sparse patterns or configuration, links by relative paths, gives other permissions, or
# keeps HEAD elsewhere.
_SPECIAL = (
    "core.sharedrepository",
    "core.sparsecheckout",
    "extensions.refstorage",
    "extensions.relativeworktrees",
    "extensions.worktreeconfig",
    "worktree.userelativepaths",
)
_NAME = re.compile(r"\.?[A-Za-z0-9][A-Za-z0-9_-]*")  # of a directory: git makes it a part of a ref's name
_BUSY = ("rebase-merge", "rebase-apply", "BISECT_LOG")  # may hold a branch that HEAD does not name


class Others:
    """The worktrees that there are, as one look sees them; for as long as the caller holds the lock."""

    def __init__(self, repo: Repository) -> None:
        self._heads: set[str | None] = set()
        self._links: set[str | None] = set()
        self._busy = False
        common = repo.common_dir
        for own in (common, *_entries(os.path.join(common, "worktrees"))):
            self._heads.add(_line(os.path.join(own, "HEAD")))
            self._links.add(_line(os.path.join(own, "gitdir")))
            self._busy = self._busy or any(os.path.lexists(os.path.join(own, name)) for name in _BUSY)

    def may_use(self, place: Place) -> bool:
        """Whether one of them may have the branch checked out, or is registered at the path."""
        return self._busy or f"ref: {HEADS}{place.branch}" in self._heads or _link(place) in self._links

    def add(self, place: Place) -> None:
        """Count one in that was made since."""
        self._heads.add(f"ref: {HEADS}{place.branch}")
        self._links.add(_link(place))


def make(repo: Repository, place: Place, reason: str, others: Others | None = None) -> str | None:
    """Make the entry of a worktree at the empty directory ``place.path``, and its link there; return the entry.

    None when that is git's to do or to refuse: nothing was made. Raises OSError, and leaves nothing either. The
    caller holds the lock; ``others`` are those that were there when it was taken, where several are made under it.
    """
    name = os.path.basename(place.path)
    if not _NAME.fullmatch(name) or any(repo.setting(key) is not None for key in _SPECIAL):
        return None
    if not os.path.isfile(os.path.join(repo.common_dir, HEADS + place.branch)):  # packed, or there is none
        return None
    others = others or Others(repo)
    if others.may_use(place):
        return None
    admin = _directory(os.path.join(repo.common_dir, "worktrees"), name.replace(".", "-"))
    link = _link(place)
    made: list[str] = []
    try:
        for path, content in (
            (os.path.join(admin, "locked"), reason),
            (os.path.join(admin, "commondir"), "../.."),
            (os.path.join(admin, "HEAD"), f"ref: {HEADS}{place.branch}"),
            (link, f"gitdir: {admin}"),
            (os.path.join(admin, "gitdir"), link),
        ):
            _write(path, content, made)
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):
                os.unlink(path)
        with suppress(OSError):
            os.rmdir(admin)
        raise
    others.add(place)
    return admin


def _link(place: Place) -> str:
    return os.path.join(place.path, ".git")


def _write(path: str, line: str, made: list[str]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    made.append(path)
    try:
        os.write(descriptor, os.fsencode(line + "\n"))
    finally:
        os.close(descriptor)


def _entries(top: str) -> Iterator[str]:
    with suppress(FileNotFoundError):
        yield from (os.path.join(top, name) for name in os.listdir(top))


def _line(path: str) -> str | None:
    content = system.read(path)
    return os.fsdecode(content.rstrip(b"\n")) if content is not None else None


def _directory(top: str, name: str) -> str:
    """Make a directory of this name, with a number added while it is taken, as git does."""
    os.makedirs(top, exist_ok=True)
    number = 0
    while True:
        admin = os.path.join(top, f"{name}{number or ''}")
        with suppress(FileExistsError):
            os.mkdir(admin)
            return admin
        number += 1
