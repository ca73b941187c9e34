"""Remove a worktree without losing it: move it to the trash, take away its entry, delete it when it has expired.

One removal is one directory below ``$GIT_COMMON_DIR/architect/trash/``::

    20261129T170000Z-<run>-<n>/info.json   whose it was (written first)
                               admin/      git's entry as it was: index, HEAD, reflog, submodules' repositories
                               worktree/   the files

Where the worktree lies on another file system, it goes beside its old place instead, into
``.architect-parallel-trash/<same name>/``, and ``info.json`` says so. Each step leaves a state that the
next call of :func:`retire` goes on from.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from git_parallel.errors import GitError, ParallelError, RefusedError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.worktrees.placing import exclude_directory
from git_parallel.worktrees.registry import (
    OUR_LOCK,
    entries,
    entry_names,
    forget,
    lock_reason,
    named_by_entry,
    named_by_worktree,
    real,
)

SIBLING = ".architect-parallel-trash"
_INFO = "info.json"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trashed:
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
        return bool(self.hold) and (self.present or os.path.isdir(os.path.join(self.top, "admin", "modules")))


@dataclass(frozen=True, slots=True)
class Purged:
    """What :func:`purge` did with one: ``size`` in bytes; ``error`` says why it is still there, else None."""

    item: Trashed
    size: int
    error: str | None = None


def retire(repo: Repository, path: str, admin: str, *, run: str, worker: int, hold: Sequence[str] = ()) -> str:
    """Move a worktree to the trash and remove its entry ``admin``; return where the files are now.

    The caller holds the lock, has kept what must be kept, and has ended what ran there. What could not be
    kept is named in ``hold``, and the files never expire. Returns '' when the directory had been removed
    by hand. Interrupted anywhere, a second call finishes. Raises
    RefusedError when directory and entry do not name each other, when somebody else locked the worktree,
    or when another worktree lies inside it.
    """
    path, admin = real(path), os.path.realpath(admin)
    registered = _checked(repo, path, admin)
    _refuse_nested(repo, path)
    earlier = [item for item in trashed(repo) if (item.path, item.run, item.worker) == (path, run, worker)]
    moved: Trashed | None
    if os.path.lexists(path):
        for item in earlier:
            _discard(item)
        moved = _move(repo, _describe(repo, path, admin, run=run, worker=worker, hold=tuple(hold)))
    else:
        moved = next((item for item in reversed(earlier) if item.present), None)
    if registered:
        if moved is not None:
            _keep_modules(admin, moved)
        try:
            forget(repo, path, admin)
        except GitError as error:
            where = f"its files are in '{moved.files}'" if moved else "its directory was gone before"
            raise ParallelError(f"cannot remove the entry of worktree '{path}': {error.message}", where) from error
    return moved.files if moved is not None else ""


def trashed(repo: Repository) -> list[Trashed]:
    """Return what is in the trash, oldest first. What is not ours there is passed over."""
    top = State(repo.common_dir).trash
    if os.path.realpath(top) != top:
        raise RefusedError(f"'{top}' is a link to another place", "move it away; the tool makes its own")
    try:
        names = sorted(os.listdir(top))
    except FileNotFoundError:
        return []
    found = (_read_info(os.path.join(top, name)) for name in names)
    return sorted((item for item in found if item is not None), key=lambda item: item.time)


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


def _checked(repo: Repository, path: str, admin: str) -> bool:
    """Say whether the entry is still there. Raises RefusedError when it is not this worktree's, or locked."""
    if os.path.dirname(admin) != os.path.join(repo.common_dir, "worktrees"):
        raise RefusedError(f"'{admin}' is no worktree entry of this repository", "nothing was removed")
    registered = os.path.isdir(admin)
    if registered and (named := named_by_entry(admin)) != path:
        raise RefusedError(
            f"the entry '{os.path.basename(admin)}' is that of the worktree '{named}', not of '{path}'",
            "nothing was removed; 'git worktree repair PATH' joins a moved worktree again",
        )
    others = (os.path.join(repo.common_dir, "worktrees", name) for name in entry_names(repo))
    if registered and any(named_by_entry(other) == path and other != admin for other in others):
        raise RefusedError(f"two entries name the worktree '{path}'", "nothing was removed; see 'git worktree list'")
    if os.path.lexists(path) and (named := named_by_worktree(path)) != admin:
        what = f"belongs to '{named}'" if named else "is no worktree (it has no .git file)"
        raise RefusedError(f"'{path}' {what}, not to the entry '{admin}'", "nothing was removed")
    lock = lock_reason(admin)
    if lock is not None and not lock.startswith(OUR_LOCK):
        reason = f": {lock}" if lock else ""
        raise RefusedError(f"worktree '{path}' is locked{reason}", f"to let it go: git worktree unlock '{path}'")
    return registered


def _refuse_nested(repo: Repository, path: str) -> None:
    for name in entry_names(repo):
        inner = named_by_entry(os.path.join(repo.common_dir, "worktrees", name))
        if inner is not None and inner.startswith(path + "/") and os.path.lexists(inner):
            raise RefusedError(
                f"another worktree lies inside '{path}': '{inner}'", "move it away: git worktree move, or remove it"
            )


def _describe(repo: Repository, path: str, admin: str, *, run: str, worker: int, hold: tuple[str, ...]) -> Trashed:
    """Make the directory in the trash, with ``info.json`` and a copy of the entry."""
    now = time.time()
    trash = State(repo.common_dir).trash
    name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{run}-{worker}"
    branch = next((entry.branch for entry in entries(repo) if entry.path == path), None)
    try:
        os.makedirs(trash, exist_ok=True)
        top = _new_directory(os.path.join(trash, name))
        files = os.path.join(top, "worktree")
        if os.lstat(top).st_dev != os.lstat(path).st_dev:
            files = _beside(repo, path, os.path.basename(top))
        item = Trashed(top, files, path, run, worker, branch, now, hold)
        _write_info(item)
        if os.path.isdir(admin):
            _copy_entry(admin, os.path.join(top, "admin"))
    except OSError as error:
        raise _immovable(path, error) from error
    return item


def _beside(repo: Repository, path: str, name: str) -> str:
    sibling = os.path.join(os.path.dirname(path), SIBLING)
    if os.path.islink(sibling):
        raise RefusedError(f"'{sibling}' is a link to another place", "nothing was removed; move the link away")
    exclude_directory(repo, sibling)
    os.makedirs(os.path.join(sibling, name), exist_ok=True)
    return os.path.join(sibling, name, "worktree")


def _move(repo: Repository, item: Trashed) -> Trashed:
    """Rename the worktree into the trash, whole or not at all; return the item with where it is now."""
    try:
        try:
            _rename(item.path, item.files)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            # One device number, but two mounts.
            item = replace(item, files=_beside(repo, item.path, os.path.basename(item.top)))
            _write_info(item)
            _rename(item.path, item.files)
    except OSError as error:
        with suppress(OSError):
            _discard(item)
        raise _immovable(item.path, error) from error
    return item


def _rename(source: str, target: str) -> None:
    try:
        os.rename(source, target)
    except PermissionError:
        # A directory that its owner may not write to cannot get another parent.
        mode = stat.S_IMODE(os.lstat(source).st_mode)
        if mode & stat.S_IWUSR:
            raise
        os.chmod(source, mode | stat.S_IWUSR)
        try:
            os.rename(source, target)
        except OSError:
            os.chmod(source, mode)
            raise


def _immovable(path: str, error: OSError) -> ParallelError:
    reason = (error.strerror or str(error)).lower()
    return ParallelError(f"cannot move worktree '{path}' to the trash: {reason}", "nothing was removed")


def _copy_entry(admin: str, copy: str) -> None:
    """Keep the entry: git deletes it with its index, its reflog and a rebase in progress.

    Files are linked where that is possible: git replaces them by renaming, so a link stays as it is.
    Submodules' repositories follow in :func:`_keep_modules`, by renaming.
    """
    shutil.copytree(
        admin, copy, symlinks=True, copy_function=_link, ignore=lambda top, _: ["modules"] if top == admin else []
    )


def _link(source: str, target: str) -> None:
    # The reflog is the one file that git appends to.
    if os.path.basename(os.path.dirname(source)) == "logs":
        shutil.copy2(source, target, follow_symlinks=False)
        return
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _keep_modules(admin: str, item: Trashed) -> None:
    """Move the repositories of submodules, which may hold the only copy of an agent's commits."""
    modules, kept = os.path.join(admin, "modules"), os.path.join(item.top, "admin", "modules")
    if os.path.isdir(modules):
        os.makedirs(os.path.dirname(kept), exist_ok=True)
        os.rename(modules, kept)


def _new_directory(path: str) -> str:
    """Create a directory of this name, or with a number added."""
    for suffix in _suffixes():
        with suppress(FileExistsError):
            os.mkdir(path + suffix)
            return path + suffix
    raise AssertionError("unreachable")


def _suffixes() -> Iterator[str]:
    yield ""
    number = 2
    while True:
        yield f".{number}"
        number += 1


def _write_info(item: Trashed) -> None:
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
    beside = os.path.join(os.path.dirname(item.path), SIBLING, name, "worktree")
    return os.path.join(item.top, "worktree"), beside


def _discard(item: Trashed) -> None:
    """Take back the description of a removal that never moved anything."""
    if not os.path.lexists(item.files):
        _delete(item)


def _delete(item: Trashed) -> int:
    """Delete an item of the trash, its description last; return the bytes that its files had."""
    places = [place for place in (item.files, os.path.join(item.top, "admin")) if os.path.lexists(place)]
    for place in places:
        if os.path.realpath(place) != place:
            raise OSError(errno.ELOOP, "there is a link on the way", place)
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
