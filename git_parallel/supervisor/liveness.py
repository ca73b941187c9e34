"""Who supervises a run: a file lock that lives exactly as long as the process does.

A process id alone lies after a reboot or when ids are reused; a lock held with flock(2) is gone the
moment its holder is, however it died.
"""

from __future__ import annotations

import fcntl
import os
import time

from msgspec import Struct

from git_parallel import plain
from git_parallel.layout import RunFiles
from git_parallel.supervisor.journal import timestamp

# Somebody who only looks whether there is a holder takes the lock for a moment: that is not a holder.
_TRIES = 5
_PAUSE = 0.005


class Claim(Struct, frozen=True):
    """The held lock of a run; closing it without :meth:`release` leaves the file, which says 'interrupted'."""

    descriptor: int
    path: str

    def release(self) -> None:
        """The run's record is complete: remove the file and give the lock back."""
        os.unlink(self.path)
        os.close(self.descriptor)


def claim(files: RunFiles) -> Claim | None:
    """Become the run's supervisor, or return None when somebody else is."""
    return claim_file(files.supervisor)


def claim_file(path: str) -> Claim | None:
    """Take the lock of this file, which is made when there is none; None when somebody else has it."""
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            time.sleep(_PAUSE)
            continue
        if _still_named(descriptor, path):
            sign(descriptor)
            return Claim(descriptor, path)
        os.close(descriptor)  # given back and removed between opening and locking
    return None


def _still_named(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def sign(descriptor: int) -> None:
    """Write this process's id into the lock file (again after a fork: the lock is shared, the id is not)."""
    text = plain.encode({"pid": os.getpid(), "since": timestamp()})
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text + b"\n", 0)


def supervisor_pid(files: RunFiles) -> int | None:
    """The process id of the run's living supervisor, or None when there is none."""
    return holder(files.supervisor)


def holder(path: str) -> int | None:
    """The process id of whoever holds the lock of this file, or None when nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        try:
            return int(plain.decode(os.pread(descriptor, 4096, 0))["pid"])
        except (ValueError, KeyError, TypeError):
            return 0  # alive, and writing its name this very moment
    finally:
        os.close(descriptor)
    return None
