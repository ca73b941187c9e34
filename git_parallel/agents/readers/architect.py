"""``architect run --json``: one JSON object at the end of standard output, among whatever libraries print there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from git_parallel.agents.claim import Claim, Exit, Outcome, Progress, claim_of_exit, signal_name
from git_parallel.agents.readers.lines import Lines, last_line, one_line, printable, readable
from git_parallel.agents.readers.values import number, whole

LINE = 4 * 1024 * 1024  # bytes; the program's whole answer is one line of its result
RESULT = 8 * 1024 * 1024  # bytes; a larger result is not read
TEXT = 64 * 1024  # characters of the answer that are kept

_STATUSES: dict[str, Outcome] = {"success": "done", "partial": "partial", "failed": "failed"}
_REASONS = {
    "llm_done": "done",
    "budget_exceeded": "budget",
    "max_steps": "max_steps",
    "timeout": "timeout",
    "llm_error": "agent_error",
    "user_interrupt": "signal",
    "context_full": "context_full",
}
# Failed requests, by the name of its library's exception; any other is an "agent_error".
_FAILURES = {
    "AuthenticationError": "auth",
    "PermissionDeniedError": "auth",
    "RateLimitError": "rate_limit",
    "InternalServerError": "api_error",
    "ServiceUnavailableError": "api_error",
    "APIConnectionError": "api_error",
}
_KEYS = ("status", "stop_reason", "output", "steps", "model", "cost", "costs")
# In a result printed over several lines every line but the first and the last is indented, so another
# line that begins at the margin with none of these is a library's, printed in between.
_JSON_STARTS = b' \t\r"{}[]'


class ArchitectReader:
    """Finds the last complete top-level object that has a ``status``."""

    def __init__(self, exits: Mapping[int, Exit]) -> None:
        self._exits = exits
        self._lines = Lines(LINE)
        self._open = bytearray()  # an object whose end has not come yet
        self._result: dict[str, Any] | None = None
        self._noise = b""

    def feed(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._line(line)

    @property
    def progress(self) -> Progress:
        result = self._result or {}
        action = readable(self._noise) or None
        return Progress(whole(result.get("steps")), _cost(result), action, _tokens(result))

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        rest = self._lines.rest()
        if rest:
            self._lines = Lines(LINE)
            self._line(rest)
        words = last_line(errors) or readable(self._noise) or None
        if self._result is None:
            return _without_result(claim_of_exit(exit_code, signal, self._exits), words)
        return _judge(self._result, exit_code, signal, words)

    def _line(self, line: bytes) -> None:
        if self._open and not line.startswith(b"{"):
            if line[:1] in _JSON_STARTS:
                self._continue(line)
            else:
                self._hear(line)
            return
        self._open.clear()
        start = line.find(b"{")
        if start < 0:
            self._hear(line)
            return
        opening = line[start:]
        if b"}" in opening and b'"status"' in opening:
            found = _object(opening)
            if found is not None:
                self._take(found)
                return
        if start and opening.strip() != b"{":
            self._hear(line)  # a brace in a sentence opens nothing
            return
        self._open += opening

    def _continue(self, line: bytes) -> None:
        if len(self._open) + len(line) >= RESULT:
            self._open.clear()
            return
        self._open += b"\n" + line
        if line.startswith(b"}"):
            found = _object(bytes(self._open))
            self._open.clear()
            if found is not None:
                self._take(found)

    def _take(self, found: dict[str, Any]) -> None:
        known = isinstance(found.get("status"), str) and found["status"] in _STATUSES
        if known or ("status" in found and self._result is None):
            self._result = {key: found[key] for key in _KEYS if key in found}

    def _hear(self, line: bytes) -> None:
        if line.strip():
            self._noise = line[:2048]


def _object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object that ``data`` begins with; what follows it is ignored."""
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _without_result(claim: Claim, words: str | None) -> Claim:
    if claim.outcome == "done":
        claim = Claim("unknown", "no_result", "exited with 0 and printed no result")
    return replace(claim, detail=f"{claim.detail}: {words}" if words else claim.detail)


def _judge(result: Mapping[str, Any], exit_code: int | None, signal: int | None, words: str | None) -> Claim:
    """Hold what the result says against how the program ended."""
    status, stop = result["status"], result.get("stop_reason")
    text = result.get("output")
    text = printable(text)[:TEXT].strip() or None if isinstance(text, str) else None
    reason = _REASONS.get(stop, "agent_error") if isinstance(stop, str) else None
    outcome: Outcome = _STATUSES.get(status, "unknown") if isinstance(status, str) else "unknown"
    detail: str | None = None
    if outcome == "unknown":
        reason, detail = "no_result", f"printed a result with the status {one_line(repr(status), 60)}"
    elif outcome == "done":
        reason = reason or "done"
        if signal is not None:
            outcome, reason, detail = "partial", "signal", f"says success, but was killed by {signal_name(signal)}"
        elif exit_code is None:
            outcome, reason, detail = "unknown", "no_exit", "says success, but nobody saw how it ended"
        elif exit_code:
            outcome, detail = "partial", f"says success, but exited with {exit_code}"
            reason = "signal" if exit_code == 130 else "agent_error"
        elif reason != "done":
            outcome, detail = "partial", f"says success, but stopped for {one_line(str(stop), 60)}"
    else:
        reason = reason if reason not in (None, "done") else "agent_error"
        detail = (one_line(text) if text else None) or words
        if stop == "llm_error":
            reason = next((means for name, means in _FAILURES.items() if name in (detail or "")), reason)
    return Claim(
        outcome,
        reason,
        detail,
        steps=whole(result.get("steps")),
        cost=_cost(result),
        tokens=_tokens(result),
        text=text,
        model=_name(result.get("model")),
    )


def _cost(result: Mapping[str, Any]) -> float | None:
    """Return US dollars. Absent after a failure, which is unknown and not 0."""
    cost = number(result.get("cost"))
    costs = result.get("costs")
    if cost is None and isinstance(costs, dict):
        cost = number(costs.get("total_cost_usd"))
    return cost


def _tokens(result: Mapping[str, Any]) -> dict[str, int] | None:
    costs = result.get("costs")
    if not isinstance(costs, dict):
        return None
    names = {"input": "total_input_tokens", "output": "total_output_tokens", "cache_read": "total_cached_tokens"}
    found = {name: count for name, key in names.items() if (count := whole(costs.get(key))) is not None}
    return found or None


def _name(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) else None
