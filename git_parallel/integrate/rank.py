"""Which of several attempts at one task is best, and by what evidence. Pure.

Proof comes before taste: what a person approved, checks, whether the work was finished and whether it
lands; only among equals does the smaller, then the cheaper, then the faster one win. A worker that did
nothing, failed or breaks a check cannot win at all, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from git_parallel.render import text

# A status under which there may be usable work. `partial` stopped early, but its checks may still be green.
_MAY_WIN = ("success", "partial")


class Attempt(Struct, frozen=True):
    """What counts of one worker. None is unknown, and never counts for or against anybody.

    ``checks`` and ``green`` count checks that ran; ``conflicts`` are paths that collide with the target;
    ``lines`` added and removed; ``cost`` in US dollars, ``duration`` in seconds. ``status`` is the state of a
    worker that is ``going_on``.
    """

    status: str
    reason: str
    files: int
    lines: int
    checks: int = 0
    green: int = 0
    conflicts: int | None = None
    warnings: int = 0
    cost: float | None = None
    duration: float | None = None
    verdict: Literal["approved", "rejected", "changes"] | None = None
    going_on: bool = False


class Place(Struct, frozen=True):
    """A worker's place, from 1 (equals share one); None: it cannot win, for ``bar``.

    ``evidence`` are all facts that were looked at, in the order in which they count; ``ahead`` is what put it
    before the next one.
    """

    item: int
    place: int | None
    evidence: tuple[str, ...]
    ahead: str | None = None
    bar: str | None = None


class _Criterion(Struct, frozen=True):
    """``key``: smaller is better, None is unknown; ``tell``: the fact in words; ``ahead``: what the better one has."""

    key: Callable[[Attempt], float | None]
    tell: Callable[[Attempt], str | None]
    ahead: str


def _checks(attempt: Attempt) -> str:
    return f"{attempt.green} of {text.count(attempt.checks, 'check')} green" if attempt.checks else "no check ran"


def _ending(attempt: Attempt) -> str:
    said = attempt.reason not in ("", attempt.status) and attempt.status != "success"
    return f"{attempt.status}/{attempt.reason}" if said else attempt.status


def _conflicts(attempt: Attempt) -> str | None:
    if attempt.conflicts is None:
        return None
    return (
        f"{text.count(attempt.conflicts, 'conflict')} with the target"
        if attempt.conflicts
        else "no conflict with the target"
    )


_CRITERIA = (
    _Criterion(lambda one: one.verdict != "approved", lambda one: one.verdict, "a person approved it"),
    _Criterion(lambda one: not one.checks, _checks, "its checks are green"),
    _Criterion(lambda one: _MAY_WIN.index(one.status), _ending, "it was finished"),
    _Criterion(lambda one: one.conflicts, _conflicts, "fewer conflicts with the target"),
    _Criterion(lambda one: one.warnings, lambda one: text.count(one.warnings, "warning"), "fewer warnings"),
    _Criterion(
        lambda one: one.lines,
        lambda one: f"{text.count(one.lines, 'line')} in {text.count(one.files, 'file')}",
        "a smaller change",
    ),
    _Criterion(lambda one: one.cost, lambda one: None if one.cost is None else text.money(one.cost), "cheaper"),
    _Criterion(
        lambda one: one.duration, lambda one: None if one.duration is None else text.duration(one.duration), "faster"
    ),
)


def bar(attempt: Attempt) -> str | None:
    """Why a worker cannot win, or None when it can."""
    if attempt.verdict == "rejected":
        return "a person rejected it"
    if attempt.status not in _MAY_WIN:
        return f"it is {_ending(attempt)}" if attempt.going_on else f"it ended as {_ending(attempt)}"
    if not attempt.files:
        return "it changed nothing"
    if attempt.green < attempt.checks:
        return f"{attempt.checks - attempt.green} of {text.count(attempt.checks, 'check')} red"
    return None


def rank(attempts: Sequence[Attempt]) -> list[Place]:
    """Return the places, the best first; those that cannot win come last, in the order given.

    A criterion counts only where it is known of all who can win: what is unknown must not decide.
    """
    bars = {item: bar(attempt) for item, attempt in enumerate(attempts)}
    able = [item for item in bars if bars[item] is None]
    known = [one for one in _CRITERIA if all(one.key(attempts[item]) is not None for item in able)]
    keys = {item: [float(one.key(attempts[item]) or 0) for one in known] for item in able}
    ordered = sorted(able, key=lambda item: keys[item])
    places: list[Place] = []
    for position, item in enumerate(ordered):
        shared = places[-1].place if position and keys[ordered[position - 1]] == keys[item] else position + 1
        following = next((one for one in ordered[position + 1 :] if keys[one] != keys[item]), None)
        ahead = None
        if following is not None:
            ahead = next(one.ahead for one, a, b in zip(known, keys[item], keys[following], strict=True) if a != b)
        places.append(Place(item, shared, evidence(attempts[item]), ahead))
    return places + [
        Place(item, None, evidence(attempts[item]), bar=why) for item, why in bars.items() if why is not None
    ]


def evidence(attempt: Attempt) -> tuple[str, ...]:
    """All that is known and counts, in the order in which it counts."""
    return tuple(said for said in (one.tell(attempt) for one in _CRITERIA) if said is not None)
