"""``--output-format stream-json`` of Claude Code, and of programs that write the same (qwen)."""

from __future__ import annotations

from typing import Any, ClassVar

from git_parallel.agents.readers.events import DONE, EventReader, Said, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, counts, items, number, whole, word

_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


class ClaudeReader(EventReader):
    """The last ``result`` decides; its ``subtype`` is "success" even after a failed request."""

    # Results of tools, which may be whole files, and pieces of messages that come whole as well.
    DULL: ClassVar[tuple[bytes, ...]] = (b'{"type":"user"', b'{"type":"stream_event"')

    _message: str | None = None
    _before: dict[str, int] | None = None  # tokens of the messages before the present one
    _mode: str | None = None

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "assistant":
            self._assistant(event)
        elif kind == "result":
            self._result(event)
        elif kind == "system":
            self._system(event)
        elif kind == "rate_limit_event":
            rejected = at(event, "rate_limit_info", "status") == "rejected"
            self.trouble = "rate limited" if rejected else None

    def _system(self, event: dict[str, Any]) -> None:
        if event.get("subtype") == "init":
            self.name_session(event.get("session_id"))
            self.name_model(event.get("model"))
            self._mode = word(event.get("permissionMode")) or word(event.get("permission_mode"))
        elif event.get("subtype") == "api_retry":
            status = event.get("error_status")
            reason = api_failure(word(event.get("error")) or "", status).reason
            of = f"{whole(event.get('attempt')) or '?'} of {whole(event.get('max_retries')) or '?'}"
            what = "rate limited" if reason == "rate_limit" else f"request failed ({whole(status) or 'no answer'})"
            self.retry(f"{what}: retry {of}", reason)

    def _assistant(self, event: dict[str, Any]) -> None:
        if event.get("is_api_error_message") is True or word(event.get("parent_tool_use_id")):
            return  # an error told as an answer; or a helper that the program started, which is not its own step
        self.go_on()
        message = event.get("message")
        identity = word(at(message, "id"))
        if identity is None or identity != self._message:
            self._message, self._before = identity, self.tokens
            self.step()
        if usage := counts(at(message, "usage"), _TOKENS):
            before = self._before or {}
            self.tokens = {name: before.get(name, 0) + usage.get(name, 0) for name in {**before, **usage}}
        for part in items(at(message, "content")):
            if at(part, "type") == "text":
                self.say(part.get("text"))
            elif at(part, "type") == "tool_use":
                self.act(part.get("name"), part.get("input"))
            elif at(part, "type") == "thinking":
                self.action = "thinking"

    def _result(self, event: dict[str, Any]) -> None:
        self.name_session(event.get("session_id"))
        steps, cost = whole(event.get("num_turns")), number(event.get("total_cost_usd"))
        self.steps = self.steps if steps is None else steps
        self.cost = self.cost if cost is None else cost
        used = counts(event.get("usage"), _TOKENS)
        if used and (any(used.values()) or not self.tokens):  # all 0 after its budget ended it
            self.tokens = used
        models = event.get("modelUsage")
        if self.model is None and isinstance(models, dict) and len(models) == 1:
            self.name_model(next(iter(models)))
        text = word(event.get("result"))
        self.text = text or self.text
        errors = " ".join(error for error in items(event.get("errors")) if isinstance(error, str))
        if self._mode != "plan":  # where changes are not wanted, a denied one is no news
            self.denials, self.denied, self.denied_edit = 0, None, False
            for denial in items(event.get("permission_denials")):
                self.deny(at(denial, "tool_name"), at(denial, "tool_input"))
        self.said = _meaning(event, text or errors)


def _meaning(event: dict[str, Any], text: str) -> Said:
    end, subtype = event.get("terminal_reason"), word(event.get("subtype")) or ""
    if event.get("is_error") is False and end in (None, "completed") and subtype in ("", "success"):
        return DONE
    detail = one_line(text)
    if end == "budget_exhausted" or subtype == "error_max_budget_usd":
        return Said("partial", "budget", detail)
    if end == "max_turns" or subtype == "error_max_turns":
        return Said("partial", "max_steps", detail)
    if isinstance(end, str) and end.startswith("aborted"):
        return Said("failed", "signal", f"interrupted ({one_line(end, 60)})")
    status = event.get("api_error_status")
    if end == "api_error" or status is not None:
        return api_failure(text, status)
    said = one_line(end, 60) if isinstance(end, str) else subtype
    return Said("failed", "agent_error", detail or (f"ended with {said}" if said else None))
