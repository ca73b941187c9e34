"""Removed worktrees: how they lie in the trash, and their deletion when they have expired.

One removal is one directory below ``$GIT_COMMON_DIR/architect/trash/``::

    20261129T170000Z-<run>-<n>/info.json   whose it was (written first)
                               admin/      git's entry as it was: index, HEAD, reflog, submodules' repositories
                               worktree/   the files

Where the worktree lies on another file system, it goes beside its old place instead, into
``.architect-parallel-trash/<same name>/``, and ``info.json`` says so.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress

from msgspec import Struct

from git_parallel.errors import RefusedError
from git_parallel.git import Repository
from git_parallel.layout import State

SIBLING = ".architect-parallel-trash"
FILES = "worktree"
ENTRY = "admin"
_INFO = "info.json"
_VERSION = 1


class Trashed(Struct, frozen=True):
    """A worktree in the trash.

    ``top`` is its directory in the trash, ``files`` the moved worktree (not there when the removal was
    interrupted before the move), ``path`` where it was, ``branch`` a full ref name or None, ``time``
    seconds since the epoch. ``hold`` says why it never expires: what is nowhere else.
    """

    top: str
    files: str
    path: str
    run: str
    worker: int
    branch: str | None
    time: float
    hold: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Whether the files were moved here."""
        return os.path.isdir(self.files) and not os.path.islink(self.files)

    @property
    def held(self) -> bool:
        """Whether it never expires: the files, or repositories of submodules, are here and nowhere else."""
        return bool(self.hold) and (self.present or os.path.isdir(os.path.join(self.top, ENTRY, "modules")))


class Purged(Struct, frozen=True):
    """What :func:`purge` did with one: ``size`` in bytes; ``error`` says why it is still there, else None."""

    item: Trashed
    size: int
    error: str | None = None


def trashed(repo: Repository, of: tuple[str, int] | None = None) -> list[Trashed]:
    """Return what is in the trash (``of``: one run's worker), oldest first. What is not ours is passed over."""
    top = State(repo.common_dir).trash
    if os.path.realpath(top) != top:
        raise RefusedError(f"'{top}' is a link to another place", "move it away; the tool makes its own")
    try:
        names = sorted(os.listdir(top))
    except FileNotFoundError:
        return []
    if of is not None:
        names = [name for name in names if f"-{of[0]}-{of[1]}" in name]  # spares reading the others
    found = (_read_info(os.path.join(top, name)) for name in names)
    wanted = (item for item in found if item is not None and of in {None, (item.run, item.worker)})
    return sorted(wanted, key=lambda item: item.time)


def purge(repo: Repository, older_than: float, *, now: float | None = None) -> list[Purged]:
    """Delete what has been in the trash for more than ``older_than`` seconds and is not held; return what was done.

    Links are removed, never followed, and nothing on another file system is touched. ``info.json`` goes
    last, so that an interrupted deletion is taken up by the next.
    """
    limit = (time.time() if now is None else now) - older_than
    done = []
    for item in trashed(repo):
        if item.time >= limit or item.held:
            continue
        try:
            done.append(Purged(item, _delete(item)))
        except OSError as error:
            done.append(Purged(item, 0, f"{(error.strerror or str(error)).lower()}: '{error.filename}'"))
    return done


def write_info(item: Trashed) -> None:
    import json  # noqa: PLC0415 (paths may hold bytes that are no text, which json keeps)

    content = {
        "v": _VERSION,
        "run": item.run,
        "worker": item.worker,
        "path": item.path,
        "branch": item.branch,
        "time": item.time,
        "files": item.files,
        "hold": list(item.hold),
    }
    target = os.path.join(item.top, _INFO)
    with open(target + ".new", "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")
    os.replace(target + ".new", target)


def _read_info(top: str) -> Trashed | None:
    import json  # noqa: PLC0415

    try:
        if not stat.S_ISDIR(os.lstat(top).st_mode):
            return None
        with open(os.path.join(top, _INFO), encoding="utf-8") as file:
            content = json.load(file)
        item = Trashed(
            top=top,
            files=str(content["files"]),
            path=str(content["path"]),
            run=str(content["run"]),
            worker=int(content["worker"]),
            branch=content["branch"],
            time=float(content["time"]),
            hold=tuple(map(str, content.get("hold", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return item if item.files in _possible_files(item) else None


def _possible_files(item: Trashed) -> tuple[str, str]:
    """The two places where the files of an item can be: nothing else is ever deleted on the word of a file."""
    name = os.path.basename(item.top)
    beside = os.path.join(os.path.dirname(item.path), SIBLING, name, FILES)
    return os.path.join(item.top, FILES), beside


def discard(item: Trashed) -> None:
    """Take back the description of a removal that never moved anything."""
    modules = os.path.join(item.top, ENTRY, "modules")
    if not os.path.lexists(item.files) and not os.path.lexists(modules):
        _delete(item)


def _delete(item: Trashed) -> int:
    """Delete an item of the trash, its description last; return the bytes that its files had."""
    places = [place for place in (item.files, os.path.join(item.top, ENTRY)) if os.path.lexists(place)]
    for place in places:
        if os.path.realpath(place) != place:
            raise OSError(errno.ELOOP, "there is a link on the way", place)
    import shutil  # noqa: PLC0415 (3 ms, and only for removals)

    size = sum(_open_directories(place) for place in places)
    for place in places:
        shutil.rmtree(place)
    if os.path.dirname(item.files) != item.top:
        beside = os.path.dirname(item.files)
        with suppress(OSError):  # others are still there
            os.rmdir(beside)
            os.rmdir(os.path.dirname(beside))
    for name in (_INFO + ".new", _INFO):
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(item.top, name))
    os.rmdir(item.top)
    return size


def _open_directories(top: str) -> int:
    """Make every directory writable by its owner (caches often are not); return the bytes of all files.

    Raises OSError, before anything is deleted, where another file system is mounted inside.
    """
    device = os.lstat(top).st_dev
    size, pending = 0, [top]
    while pending:
        directory = pending.pop()
        status = os.lstat(directory)
        if status.st_dev != device:
            raise OSError(errno.EXDEV, "another file system is mounted there", directory)
        if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(directory, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
        with os.scandir(directory) as found:
            for entry in found:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    return size
