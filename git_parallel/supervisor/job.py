"""Ctrl-Z: whether a shell has stopped the job that this process is a part of, and stopping with it."""

from __future__ import annotations

import os
import signal
import threading
import time

from git_parallel.supervisor import processes

_LIMIT = 0.5  # seconds that the processes above us, which got the signal too, may take to stop
_PAUSE = 0.01


def is_stopped() -> bool:
    """Whether the job was stopped and not let go on since: what is above us in it stands still.

    False as well where no shell of our session would let us go on: the system ignores the key there, and so do we.
    """
    parent = os.getppid()
    try:
        while os.getpgid(parent) == os.getpgrp():  # git, that started us
            if not processes.LINUX:
                return True
            fields = processes.stat(parent)
            if fields is None or fields[0] != b"T":
                return False
            parent = int(fields[1])
        return os.getsid(parent) == os.getsid(0)
    except OSError:
        return False


def stops() -> bool:
    """Wait a moment for :func:`is_stopped` to become true."""
    deadline = time.monotonic() + _LIMIT
    while not (stopped := is_stopped()) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return stopped


def stop() -> None:
    """Stop this process, all threads of it; returns when somebody lets it go on."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
