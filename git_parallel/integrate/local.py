"""What a person has changed in a checkout and what of it is in the way of a step of the target."""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterable, Sequence

from git_parallel.integrate import changes
from git_parallel.integrate.changes import Changed


def parse_status(fields: Sequence[str]) -> tuple[list[str], list[str]]:
    """Read ``status --porcelain=v2 -z --no-renames``: paths with local changes, and unmerged ones. Pure."""
    local, unmerged = [], []
    for field in fields:
        if field.startswith("1 "):
            local.append(field.split(" ", 8)[8])
        elif field.startswith("u "):
            unmerged.append(field.split(" ", 10)[10])
    return local, unmerged


def parse_entries(listed: bytes) -> tuple[set[bytes], list[bytes]]:
    """Read ``ls-files -v -z``: the tags that occur, and the paths in the index's order. Pure.

    A small letter, or ``S``, marks an entry that git was told not to look at, ``M`` one with a conflict.
    """
    fields = listed.split(b"\0")[:-1]
    return {field[:1] for field in fields}, [field[2:] for field in fields]


def staged_in_the_way(names: Sequence[bytes], changed: Sequence[Changed]) -> bool:
    """Whether the index may have entries of the person's own where something new will be. Pure.

    A look at the files does not show those whose file is gone. ``names`` are the index's paths, in byte order.
    """
    for one in changed:
        if not one.added:
            continue
        path = os.fsencode(one.path)
        below = path + b"/"
        if any(_from(names, up) == up for up in (path, *map(os.fsencode, changes.parents(one.path)))):
            return True
        if _from(names, below).startswith(below):
            return True
    return False


def _from(names: Sequence[bytes], path: bytes) -> bytes:
    """The first of these names that does not come before ``path``."""
    at = bisect.bisect_left(names, path)
    return names[at] if at < len(names) else b""


def overlapping(local: Iterable[str], changed: Sequence[str]) -> list[str]:
    """Return the local paths that are among those that change, or are above or below one of them. Pure."""
    paths = set(changed)
    directories = changes.above(paths)
    return [
        path
        for path in local
        if path in paths or path in directories or any(up in paths for up in changes.parents(path))
    ]


def in_the_way(top: str, changed: Sequence[Changed], *, ignores_case: bool = False) -> list[str]:
    """Return what lies below ``top``, tracked by nobody, where something new will be: untracked or ignored files alike.

    ``ignores_case``: the file system takes names that differ only in case for one.
    """
    gone = {one.path for one in changed if one.deleted or one.old_mode == changes.GITLINK}
    gone |= {one.path for one in changed if not one.added}
    folded = {path.casefold() for path in gone} if ignores_case else set()
    found: dict[str, None] = {}
    known: dict[str, bool] = {}
    for one in changed:
        if one.deleted or not one.added:
            if one.old_mode == changes.GITLINK != one.new_mode and os.path.lexists(os.path.join(top, one.path, ".git")):
                found[one.path] = None  # a submodule that is checked out: its files are not ours to remove
            continue
        for directory in changes.parents(one.path):
            if directory not in known:
                full = os.path.join(top, directory)
                known[directory] = os.path.lexists(full) and (not os.path.isdir(full) or os.path.islink(full))
            if known[directory] and directory not in gone:
                found[directory] = None
        full = os.path.join(top, one.path)
        if not os.path.lexists(full) or one.path.casefold() in folded:
            continue
        if os.path.isdir(full) and not os.path.islink(full):
            if one.new_mode != changes.GITLINK:
                found.update(dict.fromkeys(_untracked_below(top, one.path, gone)))
        elif not any(up in gone for up in changes.parents(one.path)):
            found[one.path] = None
    return list(found)


def _untracked_below(top: str, directory: str, gone: set[str]) -> list[str]:
    """Files below a directory that makes room for a file, other than those that go with it."""
    left = []
    for path, names, files in os.walk(os.path.join(top, directory)):
        links = [name for name in names if os.path.islink(os.path.join(path, name))]
        for name in (*files, *links):
            relative = os.path.relpath(os.path.join(path, name), top)
            if relative not in gone:
                left.append(relative)
    return left
