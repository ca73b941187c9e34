"""Signals that a person or the system sends to everything at a terminal at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

_OF_ALL = frozenset(
    {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP},
)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C and its kin back from this thread, and from the git processes that it starts, while in the block.

    These sit at the same terminal. One that is ended half way through a capture or a record is no way to stop a run.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
