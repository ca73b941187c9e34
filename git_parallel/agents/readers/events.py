"""What the readers of event streams share: a JSON object a line, folded as it comes.

A line is looked at only as far as needed: what begins like an event that tells nothing is not decoded,
what is no JSON is somebody's message. Nothing is kept but the totals, the last words and the last error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.agents.claim import Claim, Exit, Outcome, Progress, Trouble, claim_of_exit, signal_name
from git_parallel.agents.readers.actions import asks, describe, edits, path_of, shown_path
from git_parallel.agents.readers.lines import Lines, last_line, one_line, printable, readable
from git_parallel.agents.readers.values import decode, whole, word

LINE = 4 * 1024 * 1024  # bytes; the rest of a longer line is dropped, and with it the event
TEXT = 64 * 1024  # characters of the last answer that are kept
_MOST_EDITED = 1000  # files that are remembered as edited

_STATUS = re.compile(r"(?<![\w.])([45]\d\d)(?![\w.])")
_AUTH = re.compile(
    r"authenticat|unauthori[sz]ed|api[ _-]?key|not logged in|log ?in|credential|permission[ _]denied", re.IGNORECASE
)
_LIMIT = re.compile(r"rate.?limit|too many requests|quota|usage limit|resource.?exhausted", re.IGNORECASE)


class Where(Struct, frozen=True):
    """Where a program works: the top of its worktree, and the file beside its log that it reports to.

    ``fresh``: the program has not been started yet, so that what the file holds is an earlier attempt's.
    """

    worktree: str | None = None
    report: str | None = None
    fresh: bool = True


class Said(Struct, frozen=True):
    """What the last word of a program means, before its exit is known."""

    outcome: Outcome
    reason: str
    detail: str | None = None


DONE = Said("done", "done")


class EventReader:
    """Base of the readers: a subclass names what it dismisses and folds one event at a time."""

    DULL: ClassVar[tuple[bytes, ...]] = ()
    """How lines begin that tell nothing: they are not decoded."""

    def __init__(self, exits: Mapping[int, Exit], where: Where | None = None) -> None:
        self.where = where or Where()
        self.steps: int | None = None
        self.cost: float | None = None
        self.tokens: dict[str, int] | None = None
        self.session: str | None = None
        self.model: str | None = None
        self.text: str | None = None
        self.retries = 0
        self.trouble: Trouble | None = None
        self.waiting: str | None = None
        self.denials = 0
        self.denied: str | None = None  # the first denied change of a file, else the first denied call
        self.denied_edit = False
        self.edited: dict[str, None] = {}
        self.error: Said | None = None  # the last error that may still pass
        self.said: Said | None = None  # the last word
        self._exits = exits
        self._lines = Lines(LINE)
        self._noise = b""
        self._action: str | None = None
        self._latest: tuple[str, Any] | str | None = None  # the last call of a tool, or words, not put into a line yet

    def feed(self, data: bytes) -> None:
        dull, known = self.DULL, self.known
        for line in self._lines.feed(data):
            if line.startswith(dull) or known(line):
                self.waiting = None  # whatever it is, it goes on
                continue
            self._line(line)

    @property
    def progress(self) -> Progress:
        return Progress(
            step=self.steps,
            cost=self.spent,
            action=self.doing() or readable(self._noise) or None,
            tokens=self.tokens,
            retries=self.retries,
            trouble=self.trouble,
            denials=self.denials,
            waiting=self.waiting,
            session=self.session,
        )

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        rest = self._lines.rest()
        if rest:
            self._lines = Lines(LINE)
            if not rest.startswith(self.DULL):
                self._line(rest)
        self.ended()
        words = last_line(errors) or readable(self._noise) or None
        claim = self._judged(exit_code, signal, words)
        return replace(
            claim,
            steps=self.steps,
            cost=self.spent,
            tokens=self.tokens,
            session=self.session,
            text=printable(self.text)[:TEXT].strip() or None if self.text else None,
            model=self.model,
            denials=self.denials,
            edited=tuple(self.edited),
        )

    @property
    def spent(self) -> float | None:
        """US dollars. No dollar for tokens that were used means that the program has no price for the model."""
        return None if self.cost == 0 and self.tokens and any(self.tokens.values()) else self.cost

    # What a subclass does.

    def known(self, line: bytes) -> bool:
        """Take a line without decoding it, where its beginning says enough."""
        return False

    def event(self, event: dict[str, Any]) -> None:
        """Fold one event into the totals. Must not raise."""
        raise NotImplementedError

    def doing(self) -> str | None:
        """Say what the program does now."""
        return self.action

    def ended(self) -> None:
        """Be told that nothing more comes."""

    # What a subclass calls.

    @property
    def action(self) -> str | None:
        """What the program does, in one line: made when somebody asks, for most of it is over by then."""
        latest, self._latest = self._latest, None
        if isinstance(latest, str):
            self._action = one_line(latest) or self._action
        elif latest is not None:
            self._action = describe(*latest, self.where.worktree)
        return self._action

    @action.setter
    def action(self, line: str | None) -> None:
        self._action, self._latest = line, None

    def act(self, tool: object, arguments: object) -> None:
        """A tool is called."""
        self.go_on()
        name = word(tool) or "a tool"
        self._latest = name, arguments
        if asks(name):
            self.waiting = self.action
        elif edits(name):
            self.edit(path_of(arguments))

    def edit(self, path: str | None, *, failed: bool = False) -> None:
        """The program changes a file, or has failed to; those outside its worktree do not count."""
        name = os.path.normpath(shown_path(path, self.where.worktree)) if path else ""
        if failed:
            self.edited.pop(name, None)
        elif name and not os.path.isabs(name) and len(self.edited) < _MOST_EDITED:
            self.edited[name] = None

    def say(self, text: object) -> None:
        """The program speaks: its last words are its answer."""
        if said := word(text):
            self.go_on()
            self.text = said[:TEXT]
            self._latest = said[:400]

    def go_on(self) -> None:
        """Nothing is waited for any more: no request that failed, and no person."""
        self.trouble = self.waiting = None

    def step(self) -> None:
        self.steps = (self.steps or 0) + 1

    def retry(self, text: str, reason: str) -> None:
        """A request failed and is made again: it may still pass."""
        self.retries += 1
        self.trouble = "rate limited" if reason == "rate_limit" else "retrying"
        self.waiting = None
        self.error = Said("failed", reason, one_line(text))
        self.action = one_line(text)

    def deny(self, tool: object, arguments: object) -> None:
        """The program was not allowed to do something."""
        name = word(tool) or "a tool"
        edit = edits(name)
        if edit:
            self.edit(path_of(arguments), failed=True)
        self.denials += 1
        if self.denied is None or (edit and not self.denied_edit):
            self.denied = describe(name, arguments, self.where.worktree)
        self.denied_edit = self.denied_edit or edit

    def name_session(self, value: object) -> None:
        self.session = one_line(value) if isinstance(value, str) and value.strip() else self.session

    def name_model(self, value: object) -> None:
        self.model = one_line(value) if isinstance(value, str) and value.strip() else self.model

    # The rest is ours.

    def _line(self, line: bytes) -> None:
        event = decode(line) if line.startswith(b"{") else _behind_noise(line)
        if event is not None:
            self.event(event)
        elif line.strip():
            self._noise = line[:2048]

    def _judged(self, exit_code: int | None, signal: int | None, words: str | None) -> Claim:
        said = self.said
        if said is None:
            return self._without_result(claim_of_exit(exit_code, signal, self._exits), words)
        if said.outcome != "done":
            return Claim(said.outcome, said.reason, said.detail or words)
        if signal is not None:
            return Claim("partial", "signal", f"says success, but was killed by {signal_name(signal)}")
        if exit_code is None:
            return Claim("unknown", "no_exit", "says success, but nobody saw how it ended")
        if exit_code:
            meant = self._exits.get(exit_code)
            return Claim("partial", meant.reason if meant else "agent_error", _but_exited(exit_code))
        if self.denied_edit:
            return Claim("partial", "permission", f"permission denied: {self.denied}")
        return Claim("done", "done", f"permission denied: {self.denied}" if self.denied else said.detail)

    def _without_result(self, claim: Claim, words: str | None) -> Claim:
        """The stream has no end: killed, crashed, or stopped in the middle."""
        if claim.outcome == "done":
            claim = Claim("unknown", "no_result", "exited with 0 and printed no result")
        last = self.error
        if last is not None and claim.reason in ("agent_error", "no_result"):
            claim = replace(claim, outcome="failed", reason=last.reason)
        elif self.denied and claim.reason == "no_result":
            claim = replace(claim, outcome="failed", reason="permission")
        said = (last.detail if last else None) or (f"permission denied: {self.denied}" if self.denied else words)
        return replace(claim, detail=f"{claim.detail}: {said}" if said else claim.detail)


def _behind_noise(line: bytes) -> dict[str, Any] | None:
    start = line.find(b'{"')
    return decode(line[start:]) if start >= 0 else None


def _but_exited(exit_code: int) -> str:
    return f"says success, but exited with {exit_code}"


def api_failure(text: str, status: object = None) -> Said:
    """What a failed request means: ``auth``, ``rate_limit``, ``api_error`` (may pass) or ``agent_error``."""
    code = whole(status)
    if code is None and (found := _STATUS.search(text)):
        code = int(found[1])
    detail = one_line(text)
    if code in (401, 403):
        return Said("failed", "auth", detail)
    if code == 429:
        return Said("failed", "rate_limit", detail)
    if code is not None and 400 <= code < 500 and code not in (408, 409, 425):
        return Said("failed", "rate_limit" if _LIMIT.search(text) else "agent_error", detail)
    if code is None and _LIMIT.search(text):
        return Said("failed", "rate_limit", detail)
    if code is None and _AUTH.search(text):
        return Said("failed", "auth", detail)
    return Said("failed", "api_error", detail)
