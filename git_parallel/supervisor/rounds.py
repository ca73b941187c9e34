"""A worker's rounds: the run gives it its first, ``retry`` and ``resume`` give it further ones. Pure.

A round may take several attempts (``--retries``). What earlier rounds came to is added to its result:
a worker's cost, tokens, steps and time are those of all its attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from git_parallel.agents.claim import Claim
from git_parallel.agents.preset import Preset
from git_parallel.plan.model import Job, Result, RunSpec, decode_result
from git_parallel.supervisor.journal import Event

Number = TypeVar("Number", int, float)

_ARCHIVED = r"workers/(?P<worker>[0-9]+)/attempts/(?P<attempt>[0-9]+)/result\.json"


class Usage(Struct, frozen=True):
    """What a program reports of itself: US dollars and tokens; None is unknown."""

    cost: float | None = None
    tokens: Mapping[str, int] | None = None


class Round(Struct, frozen=True):
    """How a worker starts.

    ``prompt`` is what it is told, ``attempt`` the number of its next attempt. ``start`` is its branch's tip;
    it has worked when something differs from ``since``. ``before`` is the result so far (None: no agent ever
    ran), ``wip`` what its wip ref holds from before. ``session`` is the program's conversation to go on with, of
    which it had ``reported`` so much already.
    """

    prompt: str
    start: str
    since: str
    attempt: int = 1
    before: Result | None = None
    wip: str | None = None
    session: str | None = None
    reported: Usage = Usage()


def first(spec: RunSpec, job: Job) -> Round:
    """A worker's first round."""
    return Round(prompt=spec.task(job.task).prompt, start=spec.base, since=spec.base)


def own(preset: Preset, claim: Claim, before: Usage) -> Claim:
    """The claim with what this attempt alone used: totals that go on counting over a session are less ``before``.

    A total below the one before it was counted anew.
    """
    tokens, known = claim.tokens, before.tokens or {}
    goes_on = tokens is not None and all(tokens.get(kind, 0) >= count for kind, count in known.items())
    if tokens is not None and goes_on and "tokens" in preset.cumulative:
        tokens = {kind: count - known.get(kind, 0) for kind, count in tokens.items()}
    return msgspec.structs.replace(claim, cost=own_cost(preset, claim.cost, before), tokens=tokens)


def own_cost(preset: Preset, cost: float | None, before: Usage) -> float | None:
    """The dollars of one attempt, from what its program reports."""
    known = before.cost or 0.0
    return cost if cost is None or "cost" not in preset.cumulative or cost < known else round(cost - known, 9)


def most(one: Usage, other: Usage) -> Usage:
    """The larger of two totals of one session: a failed attempt tells nothing, or less, and uncounts nothing."""
    costs = [cost for cost in (one.cost, other.cost) if cost is not None]
    kinds = {*(one.tokens or {}), *(other.tokens or {})}
    tokens = {kind: max((one.tokens or {}).get(kind, 0), (other.tokens or {}).get(kind, 0)) for kind in kinds}
    return Usage(max(costs, default=None), tokens or None)


def session_after(claim: Claim, known: str | None) -> str | None:
    """The conversation to go on with after an attempt.

    One that could not be gone on with names another, or none: the one that holds the work stays.
    """
    return known if claim.outcome == "failed" and known is not None else claim.session or known


def added(before: Result | None, now: Result) -> Result:
    """The result of a round with all that was used before it; a session once known is never lost."""
    if before is None:
        return now
    kinds = dict.fromkeys([*(before.tokens or {}), *(now.tokens or {})])
    tokens = {kind: (before.tokens or {}).get(kind, 0) + (now.tokens or {}).get(kind, 0) for kind in kinds}
    return msgspec.structs.replace(
        now,
        cost=_sum(before.cost, now.cost),
        tokens=tokens or None,
        steps=_sum(before.steps, now.steps),
        duration=_sum(before.duration, now.duration),
        peak_rss=max(before.peak_rss or 0, now.peak_rss or 0) or None,
        session=now.session or before.session,
        started=before.started or now.started,
        model=now.model or before.model,
    )


def total_cost(before: Result | None, cost: float | None) -> float | None:
    """Dollars of all rounds; None while nothing is known."""
    return _sum(before.cost if before is not None else None, cost)


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return other if one is None else one if other is None else round(one + other, 9)  # no 0.30000000000000004


# --- what journal and record tell -------------------------------------------------------------------


def current(events: Iterable[Event]) -> list[Event]:
    """The events without those of workers' earlier rounds."""
    kept = list(events)
    begun = {event.get("worker"): at for at, event in enumerate(kept) if event.get("event") == "round"}
    return [event for at, event in enumerate(kept) if at >= begun.get(event.get("worker"), 0)]


def reported(events: Iterable[Event], session: str) -> Usage:
    """What a session's program has said that it had used."""
    found = Usage()
    for event in events:
        if event.get("event") == "reported" and event.get("session") == session:
            found = most(found, Usage(event.get("session_cost"), event.get("session_tokens")))
    return found


class Files(Protocol):
    """The part of a record that is asked for here."""

    def paths(self) -> list[str]: ...

    def file(self, path: str) -> bytes | None: ...


def archive(worker: int, attempt: int, name: str) -> str:
    """Where the record keeps a file of an earlier attempt."""
    return f"workers/{worker}/attempts/{attempt}/{name}"


def archived(recorded: Files) -> dict[int, Result]:
    """The newest result of each worker that went on after it."""
    newest: dict[int, int] = {}
    for path in recorded.paths():
        if match := re.fullmatch(_ARCHIVED, path):
            worker = int(match["worker"])
            newest[worker] = max(newest.get(worker, 0), int(match["attempt"]))
    results = {}
    for worker, attempt in newest.items():
        if (data := recorded.file(archive(worker, attempt, "result.json"))) is not None:
            results[worker] = decode_result(data)
    return results


def begun(spec: RunSpec, events: Iterable[Event], results: Mapping[int, Result]) -> dict[int, Round]:
    """Each worker's present round, as a supervisor that died had begun it; ``results`` are those archived.

    What it was told is not read again: nothing is started from these.
    """
    seen = list(events)
    last = {event["worker"]: event for event in seen if event.get("event") == "round" and "worker" in event}
    found = {}
    for job in spec.jobs:
        event, of = last.get(job.worker), first(spec, job)
        if event is not None:
            session = event.get("session")
            of = Round(
                prompt=of.prompt,
                start=event.get("start", spec.base),
                since=event.get("since", spec.base),
                attempt=event.get("attempt", 1),
                before=results.get(job.worker),
                wip=event.get("wip"),
                session=session,
                reported=reported(seen, session) if session else Usage(),
            )
        found[job.worker] = of
    return found
