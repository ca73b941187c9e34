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
    ``act`` is about to be done (``worktree``, ``spawn``, ``capture``, ``record``): what a crash may have left
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

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

Event = dict[str, Any]


def timestamp(seconds: float | None = None) -> str:
    """The wall time (default: now) as ``2026-11-29T16:50:00.123Z``."""
    moment = datetime.fromtimestamp(time.time() if seconds is None else seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Journal:
    """Appends events. Each is one write(2) on an O_APPEND descriptor, so lines of several threads never mix."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock = threading.Lock()

    def append(
        self,
        event: str,
        *,
        source: str = "supervisor",
        worker: int | None = None,
        durable: bool = False,
        **facts: object,
    ) -> Event:
        """Write one event and return it. ``durable`` waits until it is on the disk. Raises OSError (disk full)."""
        entry: Event = {"time": timestamp(), "mono": round(time.monotonic(), 3), "event": event, "source": source}
        if worker is not None:
            entry["worker"] = worker
        entry.update((name, value) for name, value in facts.items() if value is not None)
        line = json.dumps(entry, ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"
        with self._lock:
            written = os.write(self._descriptor, line)
            while written < len(line):  # a signal or a nearly full disk cut the write short
                written += os.write(self._descriptor, line[written:])
            if durable:
                os.fsync(self._descriptor)
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
            event = json.loads(line.decode("utf-8", "surrogateescape")) if line else None
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event
