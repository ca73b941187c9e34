"""``pi --mode json``: the messages of a session as they come; its exit code is 0 after failed requests."""

from __future__ import annotations

from typing import Any, ClassVar

from git_parallel.agents.readers.events import DONE, EventReader, Said, api_failure
from git_parallel.agents.readers.values import at, items, number, whole, word

_TOKENS = {"input": "input", "output": "output", "cache_read": "cacheRead", "cache_write": "cacheWrite"}


class PiReader(EventReader):
    """The last answer's ``stopReason`` decides."""

    DULL: ClassVar[tuple[bytes, ...]] = (
        b'{"type":"message_update"',
        b'{"type":"message_start"',
        b'{"type":"tool_execution_update"',
        b'{"type":"tool_execution_end"',
        b'{"type":"turn_end"',  # the answer again, with all results
        b'{"type":"agent_end"',  # and the whole conversation again
    )

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "session":
            self.name_session(event.get("id"))
        elif kind == "tool_execution_start":
            self.act(event.get("toolName"), event.get("args"))
        elif kind == "auto_retry_start":
            message = word(event.get("errorMessage")) or "a request failed"
            self.retry(f"retry {whole(event.get('attempt')) or ''}: {message}", api_failure(message).reason)
        elif kind == "message_end" and at(event, "message", "role") == "assistant":
            self._answer(event["message"])

    def _answer(self, message: dict[str, Any]) -> None:
        self.go_on()
        self.step()
        self.name_model(message.get("model"))
        for part in items(message.get("content")):
            if at(part, "type") == "text":
                self.say(part.get("text"))
        usage = message.get("usage")
        cost = number(at(usage, "cost", "total"))
        self.cost = self.cost if cost is None else (self.cost or 0.0) + cost
        for ours, theirs in _TOKENS.items():
            if (count := whole(at(usage, theirs))) is not None:
                self.tokens = {**(self.tokens or {}), ours: (self.tokens or {}).get(ours, 0) + count}
        stop, error = message.get("stopReason"), word(message.get("errorMessage"))
        if stop == "stop":
            self.said = DONE
        elif stop == "toolUse":
            self.said = None
        elif stop == "aborted":
            self.said = Said("failed", "signal", error or "aborted")
        elif stop == "length":
            self.said = Said("partial", "agent_error", "stopped for length")
        else:
            self.said = api_failure(error or f"stopped for {stop}")
