"""What a living worker is held to beside time, steps and money. Pure."""

from __future__ import annotations

from msgspec import Struct

from git_parallel.plan.model import Limits
from git_parallel.render import text


class Reading(Struct, frozen=True):
    """Where a worker stands; None is unknown.

    ``idle``: seconds without output and use of the processor. In bytes: ``memory`` of its processes,
    ``output`` that it has written, ``disk`` that its worktree takes.
    """

    idle: float | None = None
    memory: int | None = None
    output: int | None = None
    disk: int | None = None


class Exceeded(Struct, frozen=True):
    """A limit that was reached: the result's ``reason`` and ``detail``. ``now``: every second may do harm."""

    reason: str
    detail: str
    now: bool = False


def exceeded(limits: Limits, seen: Reading) -> Exceeded | None:
    """Return the limit that a worker is over, the most harmful first."""
    sizes = (
        ("memory", "memory", seen.memory, limits.memory_per_worker, True),
        ("disk", "the worktree's size", seen.disk, limits.max_disk, False),
        ("output", "output", seen.output, limits.max_output, False),
    )
    for reason, name, value, limit, now in sizes:
        if value is not None and limit is not None and value > limit:
            return Exceeded(reason, f"{name}: {text.size(value)}, and the limit is {text.size(limit)}", now)
    if seen.idle is not None and limits.idle_timeout is not None and seen.idle >= limits.idle_timeout:
        return Exceeded("idle", f"no output and no use of the processor for {text.duration(seen.idle)}")
    return None
