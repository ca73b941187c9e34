"""Temporary indexes among the tool's own files. What a killed command left of its own, a later one removes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from git_parallel.git import Repository
from git_parallel.layout import State

_NAME = r"[a-z0-9-]+\.(?P<pid>[0-9]+)\.index(?:\.lock)?"
# Seconds: a process that is not to be seen here may live on another machine, or in another container.
_OLD = 3600.0


@contextmanager
def index(repo: Repository, name: str) -> Iterator[str]:
    """A path for a temporary index of our own process; nothing is left of it after the block."""
    top = State(repo.common_dir).top
    os.makedirs(top, exist_ok=True)
    _sweep(top)
    path = os.path.join(top, f"{name}.{os.getpid()}.index")
    try:
        yield path
    finally:
        for one in (path, f"{path}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(one)


def _sweep(top: str) -> None:
    for name in os.listdir(top):
        match = re.fullmatch(_NAME, name)
        path = os.path.join(top, name)
        if match is None or _alive(int(match["pid"])):
            continue
        with suppress(FileNotFoundError):
            if time.time() - os.lstat(path).st_mtime > _OLD:
                os.unlink(path)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
