"""When a worker last did something: wrote output, or used the processor. Pure; the caller brings the clock."""

from __future__ import annotations

from msgspec import Struct

# Programs that only wait still wake up now and then, claude at a question for 0.02: less than this share of a core
# is idling.
_BUSY = 0.05


class Usage(Struct, frozen=True):
    """One look at a worker's process tree: resident bytes, seconds of processor so far, process ids."""

    rss: int = 0
    cpu: float = 0.0
    processes: frozenset[int] = frozenset()


class Activity(Struct):
    """Times are of the monotonic clock.

    ``busy``: when it last wrote output or used a noticeable share of a core; ``stirred``: when it last did
    anything that could be seen at all.
    """

    busy: float
    stirred: float
    seen: float
    usage: Usage | None = None

    @classmethod
    def begin(cls, now: float) -> Activity:
        return cls(busy=now, stirred=now, seen=now)

    def shift(self, seconds: float) -> None:
        """Pass over a time in which nothing could happen."""
        self.busy, self.stirred, self.seen = self.busy + seconds, self.stirred + seconds, self.seen + seconds

    def note(self, now: float, *, output: bool, usage: Usage | None) -> None:
        """Take in what was seen since the last call. ``usage`` None: nobody looked at the processes."""
        used = 0.0
        if usage is not None:
            before = self.usage or Usage()
            used = usage.cpu - before.cpu
            if used or usage.processes != before.processes:
                self.stirred = now
            self.usage = usage
        if output or (used > 0 and used >= _BUSY * (now - self.seen)):
            self.busy = self.stirred = now
        if usage is not None:
            self.seen = now
