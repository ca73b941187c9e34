"""``cline --json``: every line begins with its time; ``run_result`` tells how it ended."""

from __future__ import annotations

from typing import Any

from git_parallel.agents.readers.events import DONE, EventReader, Said, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, counts, number, whole, word

_HEAD = 160  # bytes in which a line says what it is
_TOTALS = {
    "input": "totalInputTokens",
    "output": "totalOutputTokens",
    "cache_read": "totalCacheReadTokens",
    "cache_write": "totalCacheWriteTokens",
}
_USAGE = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadTokens",
    "cache_write": "cacheWriteTokens",
}


class ClineReader(EventReader):
    """Its ``finishReason`` decides."""

    def known(self, line: bytes) -> bool:
        if not line.startswith(b'{"ts":"'):
            return False
        if line.find(b'"type":"hook_event"', 0, _HEAD) > 0:
            return True
        return line.find(b'"type":"content_end","contentType":"tool"', 0, _HEAD) > 0  # all that a tool printed

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "agent_event":
            self._agent(event.get("event"))
        elif kind == "run_result":
            self._result(event)
        elif kind == "run_aborted":
            self.said = Said("failed", "signal", one_line(f"aborted: {event.get('reason')}"))
        elif kind == "error":
            self.error = api_failure(word(event.get("message")) or "an error")

    def _agent(self, event: object) -> None:
        kind, content = at(event, "type"), at(event, "contentType")
        if kind == "iteration_start":
            self.steps = whole(at(event, "iteration")) or self.steps
            self.action = "thinking"
        elif kind == "content_start" and content == "tool":
            self.act(at(event, "toolName"), at(event, "input"))
        elif kind == "content_end" and content == "text":
            self.say(at(event, "text"))
        elif kind == "usage":
            self.go_on()
            self.tokens = counts(event, _TOTALS) or self.tokens
            self._spend(at(event, "totalCost"))
        elif kind == "error":
            self.error = api_failure(word(at(event, "error", "message")) or "an error")

    def _result(self, event: dict[str, Any]) -> None:
        self.steps = whole(event.get("iterations")) or self.steps
        self.tokens = counts(event.get("usage"), _USAGE) or self.tokens
        self._spend(at(event, "usage", "totalCost"))
        self.name_model(at(event, "model", "id"))
        reason, text = word(event.get("finishReason")) or "", word(event.get("text"))
        if reason == "completed":
            self.text = text or self.text
            self.said = DONE
        elif reason == "aborted":
            self.said = Said("failed", "signal", "aborted")
        elif reason.startswith("max"):
            self.said = Said("partial", "max_steps", one_line(reason))
        else:
            self.said = api_failure(text or (self.error.detail if self.error else None) or f"ended with {reason}")

    def _spend(self, cost: object) -> None:
        spent = number(cost)
        self.cost = self.cost if spent is None else spent
