"""When a run ends early: ``--halt``, in the grammar of GNU parallel. Pure.

``never``, or ``WHEN,WHY[=N[%]]`` with WHEN ``soon`` (start nothing more) or ``now`` (stop those that
run, too), and WHY ``fail``, ``success`` or ``done``. N is 1 when it is left out; a percentage is of
all workers of the run, rounded up: their number is known from the start, so that GNU parallel's
minimum of three jobs is not needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from git_parallel.plan.model import Status

When = Literal["never", "soon", "now"]
Why = Literal["fail", "success", "done"]
Decision = Literal["continue", "soon", "now"]

_GRAMMAR = r"(soon|now),(fail|success|done)(?:=([0-9]{1,9})(%?))?"  # compiled when it is needed


class Counts(Struct, frozen=True):
    """How the workers of a run stand: all of them, those with success, those that ended in another way.

    ``failed`` counts ``failed``, ``timeout`` and ``partial``. ``cancelled`` and ``skipped`` workers
    count as neither: they are what halting did, and must not make it go further.
    """

    total: int
    success: int = 0
    failed: int = 0

    @classmethod
    def of(cls, total: int, ended: Iterable[Status]) -> Counts:
        """Count the statuses of the workers that have ended."""
        statuses = list(ended)
        return cls(
            total=total,
            success=statuses.count("success"),
            failed=sum(status in ("failed", "timeout", "partial") for status in statuses),
        )

    @property
    def done(self) -> int:
        return self.success + self.failed


class Halt(Struct, frozen=True):
    """When to halt. ``number`` is a count of workers, or a percentage of them when ``percent``."""

    when: When = "never"
    why: Why = "fail"
    number: int = 1
    percent: bool = False

    def decide(self, counts: Counts) -> Decision:
        """Say what to do after a worker has ended."""
        if self.when == "never" or self._reached(counts) < self._needed(counts):
            return "continue"
        return self.when

    def succeeded(self, counts: Counts) -> bool:
        """Say whether a run that has ended did what was asked: exit code 0 or 1.

        With ``success=N`` that many must have succeeded, with ``done=N`` that many have ended and none
        has failed; else every worker must have succeeded.
        """
        if self.when != "never" and self.why == "success":
            return counts.success >= self._needed(counts)
        if self.when != "never" and self.why == "done":
            return not counts.failed and counts.done >= self._needed(counts)
        return counts.success == counts.total

    def _reached(self, counts: Counts) -> int:
        return {"fail": counts.failed, "success": counts.success, "done": counts.done}[self.why]

    def _needed(self, counts: Counts) -> int:
        """The number that halts. More than there are workers means all of them."""
        if self.percent:
            return max(1, -(-counts.total * self.number // 100))
        return min(self.number, counts.total)


def until(text: str) -> str:
    """Return the ``--halt`` that ``--until`` (``first-success``, a number of successes, ``all``) stands for.

    Raises ValueError.
    """
    if text == "all":
        return "never"
    if text == "first-success":
        return "now,success=1"
    if re.fullmatch(r"[1-9][0-9]{0,8}", text):
        return f"now,success={text}"
    raise ValueError("must be 'first-success', a number of successes from 1 on, or 'all'")


def parse(text: str) -> Halt:
    """Parse the value of ``--halt``. Raises ValueError."""
    if text == "never":
        return Halt()
    found = re.fullmatch(_GRAMMAR, text)
    if found is None:
        raise ValueError("must be 'never' or like 'now,fail=1', 'soon,fail=30%', 'now,success=1', 'soon,done=5'")
    when, why, number, percent = found.groups()
    halt = Halt(when, why, 1 if number is None else int(number), percent == "%")  # type: ignore[arg-type]
    if halt.number < 1:
        raise ValueError("must not be 0: use 'never'")
    if halt.percent and halt.number > 100:
        raise ValueError("must be at most 100%")
    return halt
