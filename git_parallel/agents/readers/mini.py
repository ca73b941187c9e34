"""mini-swe-agent: its output is for people, the trajectory that it writes with ``-o`` says how it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from git_parallel.agents.claim import Claim, Exit, Progress
from git_parallel.agents.readers.events import DONE, EventReader, Said, Where, api_failure
from git_parallel.agents.readers.plain import PlainReader
from git_parallel.agents.readers.values import at, decode, number, whole, word

LARGEST = 256 * 1024 * 1024  # bytes; a trajectory holds every command's output


class _Trajectory(EventReader):
    """The ``info`` of a trajectory."""

    def event(self, event: dict[str, Any]) -> None:
        info = event.get("info")
        stats = at(info, "model_stats")
        self.steps, cost = whole(at(stats, "api_calls")), number(at(stats, "instance_cost"))
        self.cost = None if cost == 0 and self.steps else cost  # it has no price for the model
        self.name_model(at(info, "config", "model", "model_name"))
        self.text = word(at(info, "submission"))
        end = word(at(info, "exit_status"))
        if end == "Submitted":
            self.said = DONE
        elif end == "LimitsExceeded":
            self.said = Said("partial", "budget", "its limit of cost or steps is reached")
        elif end == "UserInterruption":
            self.said = Said("failed", "signal", end)
        elif end is not None:
            self.said = api_failure(end)


class MiniReader:
    """Done only when the work was submitted."""

    def __init__(self, exits: Mapping[int, Exit], where: Where | None = None) -> None:
        self._where = where or Where()
        self._plain = PlainReader(exits)
        self._events = _Trajectory(exits)
        self._before = self._state() if self._where.fresh else None

    def feed(self, data: bytes) -> None:
        self._plain.feed(data)

    @property
    def progress(self) -> Progress:
        return self._plain.progress

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        state = self._state()
        if state is not None and state != self._before and state[1] <= LARGEST:
            with suppress(OSError), open(self._where.report or "", "rb") as file:
                found = decode(file.read())
                if found is not None:
                    self._events.event(found)
        claim = self._events.finish(exit_code, signal, errors)
        plain = self._plain.finish(exit_code, signal, errors)
        return replace(claim, text=claim.text or plain.text, detail=claim.detail or plain.detail)

    def _state(self) -> tuple[int, int, int] | None:
        """What tells one version of the file from another: time, size, inode."""
        try:
            found = os.stat(self._where.report or "")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
