"""``gemini -o stream-json``: messages in pieces, calls of tools, one result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from git_parallel.agents.claim import Exit
from git_parallel.agents.readers.events import DONE, TEXT, EventReader, Said, Where, api_failure
from git_parallel.agents.readers.lines import last_line, one_line
from git_parallel.agents.readers.values import at, whole, word

_SHOWN = 40  # pieces, each a few words


class GeminiReader(EventReader):
    """``result.status`` decides. Its exit code may be an HTTP status modulo 256, which looks like a signal's."""

    DULL: ClassVar[tuple[bytes, ...]] = (b'{"type":"tool_result"',)

    def __init__(self, exits: Mapping[int, Exit], where: Where | None = None) -> None:
        super().__init__(exits, where)
        self._pieces: list[str] = []  # the answer so far, or the last one
        self._length = 0
        self._speaking = False

    def known(self, line: bytes) -> bool:
        return line.startswith(b'{"type":"message"') and line.find(b'"role":"user"', 0, 160) > 0

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message" and event.get("role") == "assistant":
            self._message(event)
        elif kind == "tool_use":
            self._speaking = False
            self.step()
            self.act(event.get("tool_name"), event.get("parameters"))
        elif kind == "init":
            self.name_session(event.get("session_id"))
            self.name_model(event.get("model"))
        elif kind == "error":
            self.error = api_failure(word(event.get("message")) or "")
        elif kind == "result":
            self._result(event)

    def _message(self, event: dict[str, Any]) -> None:
        piece = event.get("content")
        if not isinstance(piece, str) or not piece:
            return
        if not self._speaking or event.get("delta") is not True:
            self._pieces, self._length = [], 0
        self._speaking = True
        self.go_on()
        if self._length < TEXT:
            self._pieces.append(piece[: TEXT - self._length])
            self._length += len(self._pieces[-1])

    def doing(self) -> str | None:
        if not self._speaking:
            return self.action
        said = "".join(self._pieces[-_SHOWN:])[-400:]
        return last_line(said.encode("utf-8", "replace")) or self.action

    def ended(self) -> None:
        self.text = "".join(self._pieces) or None

    def _result(self, event: dict[str, Any]) -> None:
        stats = event.get("stats")
        steps = whole(at(stats, "tool_calls"))
        self.steps = self.steps if steps is None else steps
        cached, read = whole(at(stats, "cached")), whole(at(stats, "input_tokens"))
        fresh = whole(at(stats, "input"))
        if fresh is None and read is not None:
            fresh = max(0, read - (cached or 0))
        found = {"input": fresh, "output": whole(at(stats, "output_tokens")), "cache_read": cached}
        self.tokens = {name: count for name, count in found.items() if count is not None} or self.tokens
        message = word(at(event, "error", "message")) or "the result is an error"
        kind = word(at(event, "error", "type")) or ""
        if event.get("status") == "success":
            self.said = DONE
        elif kind == "FatalTurnLimitedError":
            self.said = Said("partial", "max_steps", one_line(message))
        elif kind == "FatalCancellationError":
            self.said = Said("failed", "signal", one_line(message))
        elif kind == "FatalAuthenticationError":
            self.said = Said("failed", "auth", one_line(message))
        else:
            self.said = api_failure(message)
