"""aider: its output is for people, what can be relied on stands in the file of ``--analytics-log``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from git_parallel.agents.claim import Claim, Exit, Progress
from git_parallel.agents.readers.events import DONE, EventReader, Said, Where, api_failure
from git_parallel.agents.readers.lines import printable
from git_parallel.agents.readers.plain import PlainReader
from git_parallel.agents.readers.values import at, number, whole, word

_CHUNK = 1 << 16
_ADDED = {"input": "prompt_tokens", "output": "completion_tokens"}


class _Analytics(EventReader):
    """The log's events. Every start begins with ``launched``: what stands before is an earlier attempt's."""

    def event(self, event: dict[str, object]) -> None:
        kind, facts = event.get("event"), event.get("properties")
        if kind == "launched":
            self.steps, self.cost, self.tokens, self.said, self.error = None, None, None, None, None
        elif kind == "message_send_starting":
            self.said, self.error = None, Said("failed", "api_error")
        elif kind == "message_send":
            self.step()
            self.said, self.error = DONE, None
            self.name_model(at(facts, "main_model"))
            cost = number(at(facts, "cost"))
            self.cost = self.cost if cost is None else (self.cost or 0.0) + cost
            for ours, theirs in _ADDED.items():
                if (count := whole(at(facts, theirs))) is not None:
                    self.tokens = {**(self.tokens or {}), ours: (self.tokens or {}).get(ours, 0) + count}


class AiderReader:
    """Done when every request that began was answered; its exit code is 0 in any case."""

    def __init__(self, exits: Mapping[int, Exit], where: Where | None = None) -> None:
        self._where = where or Where()
        self._plain = PlainReader(exits)
        self._events = _Analytics(exits)
        self._offset = 0
        if self._where.fresh and self._where.report is not None:
            with suppress(OSError):
                self._offset = os.path.getsize(self._where.report)

    def feed(self, data: bytes) -> None:
        self._plain.feed(data)

    @property
    def progress(self) -> Progress:
        self._look()
        seen = self._events.progress
        return replace(seen, action=self._plain.progress.action, session=None)

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        self._look()
        plain = self._plain.finish(exit_code, signal, errors)
        if self._events.error is not None and plain.text is not None:
            self._events.error = _complaint(plain.text)
        claim = self._events.finish(exit_code, signal, errors)
        detail = claim.detail if claim.outcome == "done" or self._events.error else plain.detail or claim.detail
        return replace(claim, text=plain.text, detail=detail)

    def _look(self) -> None:
        """Read on in the log, which the program appends to."""
        if self._where.report is None:
            return
        with suppress(OSError), open(self._where.report, "rb") as log:
            log.seek(self._offset)
            while data := log.read(_CHUNK):
                self._offset += len(data)
                self._events.feed(data)


def _complaint(text: str) -> Said:
    """The last line of the output that tells of a failed request."""
    lines = [printable(line) for line in text.splitlines() if "Error" in line or "error" in line]
    about = next((line for line in reversed(lines) if word(line)), "a request had no answer")
    return api_failure(about)
