"""What git ignores in a worktree: nobody captures it, so it is counted and named before it goes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from git_parallel.git import Git

_MOST_FILES = 50_000  # counting on is not worth the wait: a build directory may hold millions
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class Size:
    """Files below some paths and their bytes; ``more`` says that counting stopped early."""

    files: int = 0
    size: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """The ignored files of a worktree; ``names`` are the first ones, directories with a slash."""

    total: Size = Size()
    names: tuple[str, ...] = ()


def ignored(git: Git, top: str) -> Ignored:
    """Count the ignored files of the worktree at ``top``."""
    names = git.run("ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z").fields
    total = measure([os.path.join(top, name.rstrip("/")) for name in names])
    return Ignored(total, tuple(names[:_MOST_NAMES]))


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
