"""``opencode run --format json``, and the result of ``oh-my-opencode run --json``."""

from __future__ import annotations

from typing import Any, ClassVar

from git_parallel.agents.readers.actions import path_of
from git_parallel.agents.readers.events import DONE, EventReader, Said, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, number, whole, word

_DENIED = ("prevents you from using", "rejected permission")
# The rules that a refusal quotes: those of the plan mode allow its own files and nothing else.
_PLAN = ".opencode/plans/"


class OpencodeReader(EventReader):
    """Done when the last step stopped by itself and there was no ``error`` event."""

    DULL: ClassVar[tuple[bytes, ...]] = (b'{"type":"step_start"', b'{"type":"reasoning"')

    _failed = False

    def event(self, event: dict[str, Any]) -> None:
        self.name_session(event.get("sessionID"))
        kind, part = event.get("type"), event.get("part")
        if kind == "tool_use":
            self._tool(part)
        elif kind == "text":
            self.say(at(part, "text"))
        elif kind == "step_finish":
            self._step(part)
        elif kind == "error":
            self._error(event.get("error"))
        elif kind is None and isinstance(event.get("success"), bool):
            self._summary(event)

    def _tool(self, part: object) -> None:
        state = at(part, "state")
        self.act(at(part, "tool"), at(state, "input"))
        error = word(at(state, "error")) or ""
        if at(state, "status") == "error":
            self.edit(path_of(at(state, "input")), failed=True)
        if at(state, "status") == "error" and any(words in error for words in _DENIED) and _PLAN not in error:
            self.deny(at(part, "tool"), at(state, "input"))

    def _step(self, part: object) -> None:
        self.step()
        cost = number(at(part, "cost"))
        self.cost = self.cost if cost is None else (self.cost or 0.0) + cost
        used = at(part, "tokens")
        counted = {
            "input": whole(at(used, "input")),
            "output": whole(at(used, "output")),
            "reasoning": whole(at(used, "reasoning")),
            "cache_read": whole(at(used, "cache", "read")),
            "cache_write": whole(at(used, "cache", "write")),
        }
        for name, count in counted.items():
            if count is not None:
                self.tokens = {**(self.tokens or {}), name: (self.tokens or {}).get(name, 0) + count}
        reason = at(part, "reason")
        if self._failed:
            return
        if reason == "stop":
            self.said = DONE
        elif reason == "tool-calls":
            self.said = None  # another step is to come
        else:
            self.said = Said("partial", "agent_error", f"stopped for {one_line(str(reason), 60)}")

    def _error(self, error: object) -> None:
        self._failed = True
        name, message = word(at(error, "name")) or "error", word(at(error, "data", "message"))
        if name == "MessageAbortedError":
            self.said = Said("failed", "signal", message or name)
        elif name == "ProviderAuthError":
            self.said = Said("failed", "auth", one_line(message or name))
        else:
            self.said = api_failure(message or name, at(error, "data", "statusCode"))

    def _summary(self, event: dict[str, Any]) -> None:
        self.name_session(event.get("sessionId"))
        self.text = word(event.get("summary")) or self.text
        self.said = DONE if event["success"] else Said("failed", "agent_error", one_line(self.text or "no success"))
