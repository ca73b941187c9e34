"""Git's entries of worktrees: list them, make one, and tell whether entry and directory belong together.

An entry is a directory below ``$GIT_COMMON_DIR/worktrees/``. Git picks its name from the path's last
component and appends a digit when that is taken, so the name says nothing: only the two files that name
each other (the entry's ``gitdir`` and the worktree's ``.git``) do.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress

from msgspec import Struct

from git_parallel import system
from git_parallel.errors import GitError, ParallelError, RaceError, RefusedError
from git_parallel.git import Git, Pending, Repository
from git_parallel.worktrees import entry
from git_parallel.worktrees.names import Place

OUR_LOCK = "git parallel "


class Entry(Struct, frozen=True):
    """One line of ``git worktree list``.

    ``branch`` is a full ref name, None when detached; ``head`` None when there is no commit; ``locked``
    and ``prunable`` are reasons ('' when none was given), None when the worktree is neither. The main
    worktree's ``path`` is git's guess: with a separate git directory it is that directory.
    """

    path: str
    head: str | None
    branch: str | None
    locked: str | None
    prunable: str | None
    main: bool
    bare: bool

    @property
    def ours(self) -> bool:
        """Whether the lock says that a worker lives there."""
        return self.locked is not None and self.locked.startswith(OUR_LOCK)


def entries(repo: Repository, listed: Pending | None = None) -> list[Entry]:
    """Return the repository's worktrees, the main one first. One git call, or what :func:`begin_entries` began."""
    found: list[Entry] = []
    record: dict[str, str] = {}
    for field in (listed or begin_entries(repo)).done().fields:
        if field:
            key, _, value = field.partition(" ")
            record[key] = value
            continue
        head = record.get("HEAD", "")
        found.append(
            Entry(
                path=record["worktree"],
                head=head if head.strip("0") else None,
                branch=record.get("branch"),
                locked=record.get("locked"),
                prunable=record.get("prunable"),
                main=not found,
                bare="bare" in record,
            )
        )
        record = {}
    return found


def begin_entries(repo: Repository) -> Pending:
    """Begin to list the worktrees."""
    return repo.common.begin("worktree", "list", "--porcelain", "-z")


def entry_names(repo: Repository) -> list[str]:
    """Return the names of the entries below ``worktrees/``."""
    try:
        return os.listdir(os.path.join(repo.common_dir, "worktrees"))
    except FileNotFoundError:
        return []


def real(path: str) -> str:
    """Return ``path`` with the links above it resolved, but not one at its end: that would be somebody else's."""
    parent, name = os.path.split(path.rstrip("/"))
    return os.path.join(os.path.realpath(parent), name)


def named_by_entry(admin: str) -> str | None:
    """Return the worktree that an entry names, or None when the entry names none."""
    content = _read(os.path.join(admin, "gitdir"))
    if not content:
        return None
    # Git writes the path with one newline; it is relative with worktree.useRelativePaths (git 2.48).
    return real(os.path.dirname(os.path.join(admin, content)))


def named_by_worktree(path: str) -> str | None:
    """Return the entry that a worktree's ``.git`` file names, or None when there is no such file."""
    said = _said_by_worktree(path)
    return os.path.realpath(os.path.join(path, said)) if said is not None else None


def _said_by_worktree(path: str) -> str | None:
    link = os.path.join(path, ".git")
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode) or not stat.S_ISREG(os.lstat(link).st_mode):
            return None
    except OSError:
        return None
    content = _read(link) or ""
    return content.removeprefix("gitdir: ") if content.startswith("gitdir: ") else None


def lock_reason(admin: str) -> str | None:
    """Return why an entry is locked ('' when no reason was given), or None when it is not locked."""
    return _read(os.path.join(admin, "locked"))


def paired(repo: Repository, path: str) -> str | None:
    """Return the entry of the worktree at ``path`` when directory and entry name each other, else None."""
    said, top = _said_by_worktree(path), os.path.join(repo.common_dir, "worktrees")
    if said is None:
        return None
    plain = os.path.dirname(said) == top and not os.path.islink(said)
    if plain and _read(os.path.join(said, "gitdir")) == os.path.join(path, ".git"):
        return said  # as git and we write them: there is nothing to resolve, which takes long and is asked often
    admin = os.path.realpath(os.path.join(path, said))
    if os.path.dirname(admin) != top:
        return None
    return admin if named_by_entry(admin) == real(path) else None


def opened(repo: Repository, path: str) -> Git:
    """Return git inside a worker's worktree, by its entry. Raises RefusedError when the two are not a pair.

    ``git -C PATH`` would go on looking above when the worktree's ``.git`` file is gone, and find the
    repository that it lies in: the person's own files.
    """
    admin = paired(repo, path)
    if admin is None:
        raise RefusedError(
            f"'{path}' is no worktree of this repository (its .git file and git's entry do not name each other)",
            "see 'git worktree list'; 'git worktree repair PATH' joins a moved worktree again",
        )
    return Git((f"--git-dir={admin}", f"--work-tree={path}"), path)


def register(repo: Repository, place: Place, *, reason: str, others: entry.Others | None = None) -> str:
    """Make git's entry for a worktree of an existing branch, locked and without files; return the entry's path.

    The caller holds the lock. Where git is needed it runs in the caller's worktree, whose sparse patterns and own
    configuration it copies. Whatever fails, only what this call made is removed. Raises RaceError when the path was
    taken meanwhile, ParallelError for git's other reasons. ``others``: see :func:`entry.make`.
    """
    made = _claim(place.path)
    try:
        simple = entry.make(repo, place, reason, others)
    except BaseException as error:
        remove_empty(made)
        if isinstance(error, OSError):
            raise _refused(place.path, error) from error
        raise
    if simple is not None:
        return simple
    before = set(entry_names(repo))
    arguments = ("worktree", "add", "--quiet", "--no-checkout", "--lock", "--reason", reason, "--")
    try:
        # LC_ALL: the answers in `explained` are recognised by their text.
        repo.git.run(*arguments, place.path, place.branch, env={"LC_ALL": "C"})
        admin = paired(repo, place.path)
        if admin is None:
            raise ParallelError(f"git made no worktree at '{place.path}'")
    except BaseException as error:
        _undo(repo, place.path, made, before)
        if isinstance(error, GitError):
            raise explained(error, place) from error
        raise
    return admin


def write_through(admin: str, path: str) -> None:
    """Have the files that make a worktree one on the disk: git leaves them to the system, and without them it is lost.

    A power cut may leave them empty otherwise, and git then sees neither the worktree nor what lies in it.
    """
    for name in (*(os.path.join(admin, own) for own in ("HEAD", "commondir", "gitdir", "locked")), f"{path}/.git"):
        with suppress(FileNotFoundError):
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def take_back(repo: Repository, path: str) -> None:
    """Remove what an interrupted :func:`register` of ``path`` left that is no worktree. The caller holds the lock.

    That is a directory with nothing in it but its ``.git``, and an entry that names nothing and has no index: a power
    cut empties files. Whatever holds anything stays.
    """
    link, admin = os.path.join(path, ".git"), named_by_worktree(path)
    with suppress(OSError):
        alone = os.listdir(path) == [".git"] and stat.S_ISREG(os.lstat(link).st_mode)
        if alone and (not os.path.getsize(link) or (admin is not None and not _read(os.path.join(admin, "gitdir")))):
            os.unlink(link)
        os.rmdir(path)
    if os.path.lexists(path):
        return
    name = re.sub(r"^\.", "-", os.path.basename(path))  # as git makes it
    for admin in (os.path.join(repo.common_dir, "worktrees", one) for one in entry_names(repo)):
        ours = re.fullmatch(re.escape(name) + r"\d*", os.path.basename(admin))
        if ours and not _read(os.path.join(admin, "gitdir")) and not os.path.lexists(os.path.join(admin, "index")):
            import shutil  # noqa: PLC0415 (only after a power cut)

            shutil.rmtree(admin)


def forget(repo: Repository, path: str, admin: str) -> None:
    """Remove the entry of a worktree whose directory is gone: that one, by its path, with git's own checks."""
    if os.path.lexists(os.path.join(admin, "locked")):
        repo.common.run("worktree", "unlock", path)
    repo.common.run("worktree", "remove", path)


def explained(error: GitError, place: Place) -> ParallelError:
    """Return git's refusal to add a worktree as a message that says what to do next. Nothing was created."""
    kept = "nothing was created"
    text = error.stderr
    if "already checked out at" in text or "already used by worktree at" in text:
        return ParallelError(
            error.message,
            f"{kept}; see 'git worktree list', and 'git worktree remove' or 'git switch' there to free the branch",
        )
    if "already registered worktree" in text or "missing but locked worktree" in text:
        return ParallelError(
            f"git still has an entry for a worktree at '{place.path}' that is gone",
            f"{kept}; if it will not come back: git worktree remove '{place.path}'",
        )
    return ParallelError(f"cannot create worktree '{place.path}': {error.message}", kept)


def make_directories(path: str, *, new: bool = False) -> list[str]:
    """Create ``path`` with its parents; return those that did not exist before, outermost first.

    ``new``: raise FileExistsError when ``path`` itself exists. Nothing is left behind on failure.
    """
    missing = [path]
    while not os.path.lexists(parent := os.path.dirname(missing[-1])):
        missing.append(parent)
    made: list[str] = []
    try:
        for directory in reversed(missing):
            try:
                os.mkdir(directory)
            except FileExistsError:
                if new and directory == path:
                    raise
                continue
            made.append(directory)
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(directories: list[str]) -> None:
    """Remove directories that :func:`make_directories` made, as far as they are still empty."""
    for directory in reversed(directories):
        with suppress(OSError):  # gone, or somebody put something there
            os.rmdir(directory)


def _claim(path: str) -> list[str]:
    try:
        return make_directories(path, new=True)
    except FileExistsError:
        raise RaceError(f"'{path}' was taken meanwhile", "nothing was created; run the command again") from None
    except OSError as error:
        raise _refused(path, error) from error


def _refused(path: str, error: OSError) -> ParallelError:
    return ParallelError(
        f"cannot create worktree '{path}': {(error.strerror or str(error)).lower()}",
        "nothing was created; 'git config parallel.worktree' says where worktrees go",
    )


def _undo(repo: Repository, path: str, made: list[str], before: set[str]) -> None:
    """Remove what a failed ``git worktree add`` left (git removes its own traces unless it was killed)."""
    link = os.path.join(path, ".git")
    try:
        if os.listdir(path) == [".git"] and stat.S_ISREG(os.lstat(link).st_mode):
            os.unlink(link)
    except FileNotFoundError:  # git removed its own traces
        pass
    remove_empty(made)
    if os.path.lexists(path):
        return
    for name in set(entry_names(repo)) - before:
        admin = os.path.join(repo.common_dir, "worktrees", name)
        if named_by_entry(admin) == real(path):
            with suppress(GitError):  # what made the first call fail is the message to give
                forget(repo, path, admin)


def _read(path: str) -> str | None:
    content = system.read(path)
    return os.fsdecode(content.rstrip(b"\r\n")) if content is not None else None
