"""Remove a worktree without losing it: copy its entry, move its files to the trash, take the entry away.

Each step leaves a state that the next call of :func:`retire` goes on from.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

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
from git_parallel.worktrees.trash import ENTRY, FILES, SIBLING, Trashed, discard, trashed, write_info


def retire(repo: Repository, path: str, admin: str, *, run: str, worker: int, hold: Sequence[str] = ()) -> str:
    """Move a worktree to the trash and remove its entry ``admin``; return where the files are now.

    The caller holds the lock, has kept what must be kept, and has ended what ran there. What could not be
    kept is named in ``hold``, and the files never expire. Returns '' when the directory had been removed
    by hand. Interrupted anywhere, a second call finishes. Raises RefusedError when directory and entry do
    not name each other, when somebody else locked the worktree, or when another worktree lies inside it.
    """
    path, admin = real(path), os.path.realpath(admin)
    registered = _checked(repo, path, admin)
    _refuse_nested(repo, path)
    earlier = [item for item in trashed(repo, (run, worker)) if item.path == path]
    moved: Trashed | None
    if os.path.lexists(path):
        for item in earlier:
            discard(item)
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
    lock = lock_reason(admin)
    if lock is not None and not lock.startswith(OUR_LOCK):
        reason = f": {lock}" if lock else ""
        raise RefusedError(f"worktree '{path}' is locked{reason}", f"to let it go: git worktree unlock '{path}'")
    if os.path.lexists(path) and (named := named_by_worktree(path)) != admin and not _removed_empty(path):
        what = f"belongs to '{named}'" if named else "is no worktree (it has no .git file)"
        raise RefusedError(f"'{path}' {what}, not to the entry '{admin}'", "nothing was removed")
    return registered


def _removed_empty(path: str) -> bool:
    """Remove an empty directory: what `register` leaves when it is killed before git has done anything."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


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
    branch = _branch(repo, path, admin)
    try:
        os.makedirs(trash, exist_ok=True)
        top = _new_directory(os.path.join(trash, name))
        files = os.path.join(top, FILES)
        if os.lstat(top).st_dev != os.lstat(path).st_dev:
            files = _beside(repo, path, os.path.basename(top))
        item = Trashed(top, files, path, run, worker, branch, now, hold)
        write_info(item)
        if os.path.isdir(admin):
            _copy_entry(admin, os.path.join(top, ENTRY))
    except OSError as error:
        raise _immovable(path, error) from error
    return item


def _branch(repo: Repository, path: str, admin: str) -> str | None:
    """Return the branch that the worktree is on: from its HEAD, or by asking git where refs are no files."""
    with suppress(OSError), open(os.path.join(admin, "HEAD"), "rb") as file:
        head = os.fsdecode(file.read()).strip()
        if not head.startswith("ref: "):
            return None
        if head != "ref: refs/heads/.invalid":
            return head.removeprefix("ref: ")
    return next((entry.branch for entry in entries(repo) if entry.path == path), None)


def _beside(repo: Repository, path: str, name: str) -> str:
    sibling = os.path.join(os.path.dirname(path), SIBLING)
    if os.path.islink(sibling):
        raise RefusedError(f"'{sibling}' is a link to another place", "nothing was removed; move the link away")
    exclude_directory(repo, sibling)
    os.makedirs(os.path.join(sibling, name), exist_ok=True)
    return os.path.join(sibling, name, FILES)


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
            write_info(item)
            _rename(item.path, item.files)
    except OSError as error:
        with suppress(OSError):
            discard(item)
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
    import shutil  # noqa: PLC0415 (3 ms, and only for removals)

    shutil.copytree(
        admin, copy, symlinks=True, copy_function=_link, ignore=lambda top, _: ["modules"] if top == admin else []
    )


def _link(source: str, target: str) -> None:
    import shutil  # noqa: PLC0415

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
    modules, kept = os.path.join(admin, "modules"), os.path.join(item.top, ENTRY, "modules")
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
