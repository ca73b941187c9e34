"""How other processes ask something of a run's supervisor: lines in ``control.jsonl``, and a signal that says look.

An order is ``{"do": …, "worker": number or null for the whole run, "time"}``, where ``do`` is ``stop``, ``kill``,
``pause``, ``unpause`` or ``window`` (a worker's window in the terminal, if it has lost it).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from git_parallel import plain
from git_parallel.layout import RunFiles
from git_parallel.supervisor import journal, liveness
from git_parallel.supervisor.journal import timestamp

Order = dict[str, object]

# A supervisor that has not begun to start workers yet would not listen to the signal, but die of it.
_STARTING = 30.0
_PAUSE = 0.05


def orders(do: str, workers: Iterable[int | None]) -> list[Order]:
    """One order for each worker; None is the whole run."""
    return [{"do": do, "worker": worker, "time": timestamp()} for worker in workers]


def ask(files: RunFiles, given: Sequence[Order]) -> None:
    """Write the orders where the supervisor looks, and tell it to look.

    A supervisor that Ctrl-Z has stopped goes on for it, unless it is only to pause: it has done that already.
    """
    descriptor = os.open(files.control, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"".join(plain.encode(order) + b"\n" for order in given))
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + _STARTING
    while not listens(files) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    pid = liveness.supervisor_pid(files)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
            if any(order["do"] != "pause" for order in given):
                os.kill(pid, signal.SIGCONT)


def listens(files: RunFiles) -> bool:
    """Whether the supervisor has come as far as its workers, or is gone."""
    if liveness.supervisor_pid(files) is None:
        return True
    return any(event.get("event") == "state" for event in journal.read(files.journal))


def parse(data: bytes) -> Iterator[Order]:
    """The orders in ``data``, passing over what is none."""
    for line in data.splitlines():
        with suppress(ValueError):
            order = plain.decode(line)
            if isinstance(order, dict):
                yield order
