"""The journal of a run: every fact on its way, one JSON event a line, appended and never rewritten.

An event has ``time`` (wall clock, UTC, ISO 8601 with milliseconds), ``mono`` (monotonic seconds, for
durations that survive a clock change), ``event``, ``source`` (``event-stream``, ``process``, ``hook``,
``timer``, ``person`` or ``supervisor``), and where they apply ``worker``, ``state``, ``reason`` and
further facts. The events:

``run-started`` ``run-stopping`` ``run-ended``
    the run as a whole
``state``
    a worker's transition (DESIGN section 5); the last one is ``ended`` with ``status`` and ``reason``
``intent``
    ``act`` is about to be done (``worktree``, ``spawn``, ``capture``, ``check``): what a crash may have left
``started``
    the agent's process: ``pid`` and ``start`` (kernel ticks), by which it is told from a later one
``round``
    a worker begins another round (``attempt``, ``start``, ``since``, ``session``, ``wip``) for a ``reason``;
    its earlier events are of the rounds before
``reported``
    what a program says at the end of an attempt: its ``session``, ``session_cost`` and ``session_tokens``;
    ``cost`` is that of the attempt alone
``note``
    anything a person reading the trace wants to know

What changes every second (step, cost, last action) is not here but in each worker's ``progress.json``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from git_parallel import plain

Event = dict[str, Any]


def timestamp(seconds: float | None = None) -> str:
    """The wall time (default: now) as ``2026-11-29T16:50:00.123Z``."""
    moment = datetime.fromtimestamp(time.time() if seconds is None else seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# What has to be on the disk before it is done. Every other event waits for room there, when there is none.
_FIRST = ("run-started", "run-ended", "round", "intent")


class Journal:
    """Appends events. Each is one write(2) on an O_APPEND descriptor, so lines of several threads never mix."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()
        self._waiting = b""
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":  # a power cut tore the last line
            self._waiting = b"\n"

    def append(
        self,
        event: str,
        *,
        source: str = "supervisor",
        worker: int | None = None,
        durable: bool = False,
        **facts: object,
    ) -> Event:
        """Write one event and return it. ``durable`` waits until it is on the disk.

        Raises OSError when an event that must come before what it tells of cannot be written (disk full).
        """
        entry: Event = {"time": timestamp(), "mono": round(time.monotonic(), 3), "event": event, "source": source}
        if worker is not None:
            entry["worker"] = worker
        entry.update((name, value) for name, value in facts.items() if value is not None)
        line = plain.encode(entry) + b"\n"
        with self._lock:
            whole = rest = self._waiting + line
            try:
                while rest:  # a signal or a nearly full disk may cut a write short
                    rest = rest[os.write(self._descriptor, rest) :]
                self._waiting = b""
                if durable:
                    os.fsync(self._descriptor)
            except OSError:
                if len(rest) < len(whole):
                    end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
                    os.ftruncate(self._descriptor, end - (len(whole) - len(rest)))
                if event in _FIRST:
                    raise
                self._waiting += line
        return entry

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        os.close(self._descriptor)


def read(path: str) -> list[Event]:
    """Return the events of a journal; a line torn by a crash is passed over, a missing file is empty."""
    try:
        with open(path, "rb") as file:
            return list(parse(file.read()))
    except FileNotFoundError:
        return []


def ended(events: Sequence[Event]) -> str | None:
    """When the run ended; None while it goes on, for the first time or again."""
    for event in reversed(events):
        if event.get("event") in ("run-ended", "round"):
            return event.get("time") if event["event"] == "run-ended" else None
    return None


def parse(data: bytes) -> Iterator[Event]:
    """Yield the events in ``data``, passing over what is not a whole JSON object."""
    for line in data.split(b"\n"):
        try:
            event = plain.decode(line) if line else None
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
