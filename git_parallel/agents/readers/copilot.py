"""``copilot --output-format json``: events with their facts in ``data``, and one result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from git_parallel.agents.claim import Exit
from git_parallel.agents.readers.events import DONE, EventReader, Said, Where, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, whole, word

_DONE = b'{"type":"tool.execution_complete"'
_OPEN = 100  # calls of tools whose end has not come yet


class CopilotReader(EventReader):
    """The result's ``exitCode`` decides, and a ``session.error`` before it says why; denied tools leave it at 0."""

    DULL: ClassVar[tuple[bytes, ...]] = (
        b'{"type":"session.skills_loaded"',
        b'{"type":"session.info"',
        b'{"type":"session.tools_updated"',
        b'{"type":"user.message"',
        b'{"type":"assistant.message_delta"',
        b'{"type":"assistant.tool_call_delta"',
        b'{"type":"model.call_finished"',
    )

    def __init__(self, exits: Mapping[int, Exit], where: Where | None = None) -> None:
        super().__init__(exits, where)
        self._calls: dict[str, tuple[object, object]] = {}
        self._failure = api_failure("")

    def known(self, line: bytes) -> bool:
        return line.startswith(_DONE) and b'"success":false' not in line

    def event(self, event: dict[str, Any]) -> None:
        kind, data = event.get("type"), event.get("data")
        if kind == "assistant.message":
            self.go_on()
            self.step()
            self.name_model(at(data, "model"))
            self.say(at(data, "content"))
        elif kind == "tool.execution_start":
            self._start(data)
        elif kind == "tool.execution_complete":
            self._end(data)
        elif kind == "model.call_failure":
            self._failure = api_failure("", at(data, "statusCode"))
        elif kind == "assistant.turn_retry":
            reason = self._failure.reason
            self.retry("rate limited: again" if reason == "rate_limit" else "request failed: again", reason)
        elif kind == "session.error":
            said = api_failure(word(at(data, "message")) or "an error", at(data, "statusCode"))
            self.said = Said("failed", "auth", said.detail) if at(data, "errorType") == "authentication" else said
        elif kind == "result":
            self._result(event)

    def _start(self, data: object) -> None:
        if len(self._calls) >= _OPEN:
            self._calls.clear()
        self._calls[str(at(data, "toolCallId"))] = at(data, "toolName"), at(data, "arguments")
        self.act(at(data, "toolName"), at(data, "arguments"))

    def _end(self, data: object) -> None:
        call = self._calls.pop(str(at(data, "toolCallId")), (None, None))
        if at(data, "success") is False and at(data, "error", "code") == "denied":
            self.deny(*call)

    def _result(self, event: dict[str, Any]) -> None:
        self.name_session(event.get("sessionId"))
        code = whole(event.get("exitCode"))
        if self.said is None or self.said.outcome == "done":
            self.said = DONE if code == 0 else Said("failed", "agent_error", one_line(f"its result says {code}"))
