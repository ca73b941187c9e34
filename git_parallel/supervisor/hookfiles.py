"""The repository's own hooks: scripts that git runs in every worktree, and that any agent may write."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from git_parallel import system
from git_parallel.supervisor import files

# What a hook is now, against what it was.
NEW, CHANGED, GONE = "new", "changed", "gone"

_MOST = 1 << 20  # bytes; a larger one is no script


def keep(common_dir: str, copies: str) -> None:
    """Copy the hooks as they are, in place of what was copied before. Raises OSError."""
    if os.path.isdir(copies):  # the run goes on
        system.remove(copies)
    os.mkdir(copies)
    for name, (content, mode) in _read(os.path.join(common_dir, "hooks")).items():
        path = os.path.join(copies, name)
        files.replace(path, content, durable=True)
        os.chmod(path, mode)


def changes(common_dir: str, copies: str) -> dict[str, str]:
    """Which hooks are new, changed or gone since :func:`keep`; empty where nothing was copied."""
    if not os.path.isdir(copies):
        return {}
    before, now = _read(copies), _read(os.path.join(common_dir, "hooks"))
    how = {name: NEW if name not in before else CHANGED for name in now if now[name] != before.get(name)}
    return {**how, **{name: GONE for name in before if name not in now}}


def put_back(common_dir: str, copies: str, name: str, aside: str) -> None:
    """Make a hook what it was; what it is now is moved to the path ``aside``."""
    hook, copy = os.path.join(common_dir, "hooks", name), os.path.join(copies, name)
    if os.path.lexists(hook):
        os.makedirs(os.path.dirname(aside), exist_ok=True)
        os.rename(hook, aside)
    if os.path.exists(copy):
        os.makedirs(os.path.dirname(hook), exist_ok=True)
        system.copy(copy, hook)


def _read(directory: str) -> dict[str, tuple[bytes, int]]:
    """The hooks in a directory: content, and permissions as far as git asks (whether it may be run)."""
    found = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(directory)):
            if name.endswith(".sample"):
                continue
            path = os.path.join(directory, name)
            with suppress(OSError):
                about = os.stat(path)
                if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST:
                    continue
                with open(path, "rb") as file:
                    found[name] = file.read(), 0o755 if about.st_mode & stat.S_IXUSR else 0o644
    return found
