"""Refs: the lock around every change, and the one transaction that makes it.

The lock keeps this tool's own processes apart; the old values in the transaction catch everybody else
(``git fetch``, a person's ``git branch -f``). Both are needed: DESIGN section 6.

Only git reads and writes refs, so that loose, packed and reftable refs all work.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from msgspec import Struct, field

from git_parallel.errors import GitError, MissingError, ParallelError, RaceError
from git_parallel.git import Completed, Git, Pending, Repository
from git_parallel.layout import State
from git_parallel.store.conversation import Conversation

# Polling flock: the first look comes soon, because most holders are done within one git call.
_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.05

# git gives up on a ref's own lock file after 0.1 s (1 s for packed-refs). `git gc` in a large repository,
# or an agent's `git fetch`, may hold one for longer; failing then would lose nothing but the record.
_PATIENCE = ("-c", "core.filesRefLockTimeout=5000", "-c", "core.packedRefsTimeout=15000")

# What git says when a ref is not at its expected old value (refs/files-backend.c, refs/reftable-backend.c).
# `reference broken` and other suffixes after the name are faults, not races, hence the `$`. Compiled when it is needed.
_RACE = (
    r"(?m)cannot lock ref '(?P<ref>[^']*)': "
    r"(?:is at [0-9a-f]+ but expected [0-9a-f]+"
    r"|reference already exists"
    r"|reference is missing but expected [0-9a-f]+"
    r"|unable to resolve reference '[^']*')$"
)
_IN_THE_WAY = r"'(?P<there>refs/[^']*)' exists; cannot create '(?P<wanted>refs/[^']*)'"


class Update(Struct, frozen=True):
    """One ref's change: to ``new`` (None deletes it) if it is still at ``old``.

    ``old`` is the value read before; the repository's null id (``Repository.zero``) means that the ref
    must not exist; None does not look. Where ``new`` is ``old`` nothing is written: the ref must only be
    where it was.
    """

    ref: str
    new: str | None
    old: str | None


# --- the lock --------------------------------------------------------------------------------------


class _Held(Struct):
    """One lock file as this process knows it: flock excludes other processes, ``mutex`` other threads."""

    mutex: threading.RLock = field(default_factory=threading.RLock)
    depth: int = 0
    fd: int | None = None


_held: dict[str, _Held] = {}
_held_guard = threading.Lock()


def _forget_after_fork() -> None:
    """A child made by fork(2) has a copy of the descriptor, but the lock is its parent's."""
    global _held_guard  # noqa: PLW0603 (the copy may have been locked by a thread that the child does not have)
    for held in _held.values():
        if held.fd is not None:
            os.close(held.fd)
    _held.clear()
    _held_guard = threading.Lock()


os.register_at_fork(after_in_child=_forget_after_fork)


@contextmanager
def locked(repo: Repository, timeout: float = 60.0) -> Iterator[None]:
    """Hold the repository's lock (``State.lock``) for the length of the block.

    A thread that holds it already goes straight on; other threads and processes wait up to ``timeout``
    seconds. Raises ParallelError when the time is over, naming the holder, or when the file cannot be made.
    """
    path = State(repo.common_dir).lock
    deadline = time.monotonic() + timeout
    with _held_guard:
        held = _held.setdefault(path, _Held())
    if not held.mutex.acquire(timeout=max(timeout, 0)):
        raise _timed_out(path)
    try:
        if held.depth == 0:
            held.fd = _take(path, deadline)
        held.depth += 1
        try:
            yield
        finally:
            held.depth -= 1
            if held.depth == 0:
                _release(held)
    finally:
        held.mutex.release()


def _take(path: str, deadline: float) -> int:
    """Open and flock the file; write our process id into it for whoever waits. Returns the descriptor."""
    pause = _FIRST_PAUSE
    while True:
        fd = _open(path)
        try:
            while not _try(fd, path):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise _timed_out(path)
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, _LONGEST_PAUSE)
            if _still_named(fd, path):
                # The id is for people: a full disk must not stop a cleanup that would free it.
                with suppress(OSError):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _release(held: _Held) -> None:
    fd, held.fd = held.fd, None
    if fd is not None:
        with suppress(OSError):
            os.ftruncate(fd, 0)
        os.close(fd)


def _open(path: str) -> int:
    for attempt in (1, 2):
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno != errno.ENOENT or attempt == 2:
                raise _unusable(path, error) from error
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        except OSError as error:
            raise _unusable(path, error) from error
    raise AssertionError("unreachable")


def _try(fd: int, path: str) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError as error:  # ENOLCK: a network file system without locks
        raise _unusable(path, error) from error
    return True


def _still_named(fd: int, path: str) -> bool:
    """Say whether the file that we locked is the one that the next process will open."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _unusable(path: str, error: OSError) -> ParallelError:
    return ParallelError(
        f"cannot lock '{path}': {error.strerror or error}",
        "nothing was changed; git parallel keeps its state there and needs to write it",
    )


def _timed_out(path: str) -> ParallelError:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            pid = file.read(32).strip()
    except OSError:
        pid = ""
    holder = f"process {pid}" if pid.isdigit() else "another process"
    return ParallelError(f"cannot lock '{path}': held by {holder}", "nothing was changed; try again when it is done")


# --- reading and changing --------------------------------------------------------------------------


def read(repo: Repository, *refs: str) -> dict[str, str]:
    """Return the object ids of these full ref names in one git call; refs that do not exist are absent."""
    return {name: oid for name, oid in read_below(repo, *refs).items() if name in refs}


def read_below(repo: Repository, *refs: str) -> dict[str, str]:
    """Return the object ids of these refs and of every ref in a directory of that name."""
    return parse_read(begin_read(repo, *refs).done()) if refs else {}


def begin_read(repo: Repository, *refs: str) -> Pending:
    """Begin to read what :func:`read_below` reads, of one ref at least; :func:`parse_read` says what came of it."""
    return repo.common.begin("for-each-ref", "--format=%(objectname) %(refname)", *refs)


def parse_read(done: Completed) -> dict[str, str]:
    """Return refs' names and object ids."""
    return {name: oid for oid, _, name in (line.partition(" ") for line in done.lines)}


class Transactions:
    """One ``git update-ref`` for many transactions, of a process that makes them often. Threads may share it.

    ``message`` goes to the reflogs.
    """

    def __init__(self, repo: Repository, message: str) -> None:
        arguments = (*_PATIENCE, "update-ref", "-m", message, "--stdin", "-z")
        self._conversation = Conversation(repo.common, *arguments, writes=True)

    def make(self, updates: Sequence[Update], zero: str) -> bool:
        """Make all the updates; False when it is not known what came of them. Another git says why."""
        try:
            self._conversation.ask(_commands(updates, zero), _made)
        except ParallelError:
            return False
        return True

    def close(self) -> None:
        """Let the process go."""
        self._conversation.close()


def _made(output: IO[bytes]) -> None:
    for step in (b"start", b"prepare", b"commit"):
        if output.readline() != step + b": ok\n":
            raise EOFError


def transaction(
    repo: Repository,
    updates: Sequence[Update],
    *,
    message: str = "",
    worktree: str | None = None,
    through: Transactions | None = None,
) -> None:
    """Make all the updates or none, in one ``git update-ref``.

    ``message`` goes to the reflogs; with ``worktree``, the reflog of that worktree's HEAD is written too. ``through``
    is the process for it where there is one, with a message of its own; should it die, what it has done is a race.
    Raises RaceError when a ref is not at its ``old`` value, MissingError when a new one is not there, else GitError.
    """
    if not updates:
        return
    if through is not None and through.make(updates, repo.zero):
        return
    git: Git = repo.common if worktree is None else repo.at(worktree)
    said = ("-m", message) if message else ()
    patience = _PATIENCE if through is None else ()  # the other has waited already
    try:
        git.run(*patience, "update-ref", *said, "--stdin", "-z", stdin=_commands(updates, repo.zero), quiet=True)
    except GitError as error:
        raise _explain(error) from error


def _commands(updates: Sequence[Update], zero: str) -> bytes:
    commands = ["start", *(_command(update, zero) for update in updates), "prepare", "commit"]
    return os.fsencode("".join(f"{command}\0" for command in commands))


def _command(update: Update, zero: str) -> str:
    # A branch may be a symbolic ref, whose deletion would delete what it names. HEAD is meant to be followed.
    plain = "" if update.ref == "HEAD" else "option no-deref\0"
    old = update.old or ""
    if update.new is not None and update.new == update.old:
        return f"{plain}verify {update.ref}\0{old}"
    if update.new is not None:
        return f"{plain}update {update.ref}\0{update.new}\0{old}"
    if old == zero:  # `delete` refuses to expect nothing
        return f"{plain}verify {update.ref}\0{old}"
    return f"{plain}delete {update.ref}\0{old}"


def _explain(error: GitError) -> ParallelError:
    """Turn git's complaint into a race, or say what to do about it."""
    race = re.search(_RACE, error.stderr)
    if race:
        return RaceError(
            f"{race['ref']} was changed by another process meanwhile ({error.message.rpartition(': ')[2]})",
            "nothing was changed; try again",
        )
    if "nonexistent object" in error.stderr:
        return MissingError(error.message, "nothing was changed; 'git fsck' may tell the cause")
    clash = re.search(_IN_THE_WAY, error.stderr)
    if clash:
        error.message = f"cannot create '{clash['wanted']}': '{clash['there']}' exists"
        error.hints = ("git cannot hold a ref and a directory of the same name; rename or delete one of them",)
    elif ".lock': File exists" in error.stderr:
        error.hints = ("if no git process is running in this repository, remove that file and try again",)
    else:
        error.hints = ("nothing was changed; 'git fsck' may tell the cause",)
    return error
