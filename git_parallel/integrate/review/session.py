"""Where a person is in the walk from worker to worker, and what a key means there. Pure.

The verdicts themselves are written by the time a session hears of them: it may be thrown away at any moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from git_parallel.integrate.verdicts import Word

Address = tuple[str, int]
"""A worker: its run's id and its number."""

Action = Literal[
    "approve",
    "reject",
    "changes",
    "edit",
    "hunks",
    "diff",
    "difftool",
    "interdiff",
    "log",
    "check",
    "compare",
    "arrive",
    "leave",
    "help",
    "first",
    "unknown",
]

# Key: what it leads to, and its line in the help. The order is the one in which keys are offered.
KEYS: dict[str, tuple[Action, str]] = {
    "y": ("approve", "approve this head"),
    "n": ("reject", "reject this head"),
    "c": ("changes", "ask for changes: write comments in your editor"),
    "e": ("edit", "edit in the worktree, with your shell or editor"),
    "h": ("hunks", "take some hunks and leave others"),
    "d": ("diff", "show the diff again"),
    "D": ("difftool", "show the diff with git difftool"),
    "i": ("interdiff", "show what changed since it was last reviewed"),
    "l": ("log", "show the agent's output"),
    "t": ("check", "run the checks now"),
    "x": ("compare", "compare with the other workers of the task"),
    "s": ("arrive", "skip this worker for now"),
    "b": ("arrive", "go back to the worker before"),
    "q": ("leave", "quit; what you have decided is recorded already"),
    "?": ("help", "this help"),
}


class Session(Struct, frozen=True):
    """The walk. ``position`` is an index into ``workers``, or their number when all have been visited.

    ``given`` are verdicts that stand, ``skipped`` the workers that were passed over this time. ``every``: also
    those that have a verdict already are visited, because they were named.
    """

    workers: tuple[Address, ...]
    position: int = 0
    given: Mapping[Address, Word] = field(default_factory=dict)
    skipped: frozenset[Address] = frozenset()
    every: bool = False

    @property
    def worker(self) -> Address | None:
        """The worker that is looked at; None at the end."""
        return self.workers[self.position] if self.position < len(self.workers) else None

    @property
    def left(self) -> list[Address]:
        """The workers that have no verdict and were not skipped."""
        return [one for one in self.workers if self._open(one)]

    def _open(self, one: Address) -> bool:
        return one not in self.given and one not in self.skipped


def begin(workers: Iterable[Address], given: Mapping[Address, Word], *, every: bool) -> Session:
    """Begin at the first worker that there is something to decide about."""
    session = Session(tuple(workers), given=dict(given), every=every)
    return replace(session, position=_next(session, 0))


def step(session: Session, key: str) -> tuple[Session, Action]:
    """Take a key; return where that leads and what is to be done. At the end only ``b`` and ``q`` mean something."""
    action, _ = KEYS.get(key, ("unknown", ""))
    if key == "b":
        if session.position == 0:
            return session, "first"
        return replace(session, position=session.position - 1), "arrive"
    here = session.worker
    if here is None:
        return session, "leave" if action == "leave" else "unknown"
    if key == "s":
        passed = replace(session, skipped=session.skipped | {here})
        return replace(passed, position=_next(passed, session.position + 1)), "arrive"
    return session, action


def decided(session: Session, word: Word) -> Session:
    """Go on after a verdict on the worker that is looked at was recorded."""
    assert session.worker is not None
    given = {**session.given, session.worker: word}
    after = replace(session, given=given, skipped=session.skipped - {session.worker})
    return replace(after, position=_next(after, session.position + 1))


def stands(session: Session, worker: Address, word: Word | None) -> Session:
    """Take note of the verdict that a worker has now, which may come from somebody else (None: none, or void)."""
    given = {one: old for one, old in session.given.items() if one != worker}
    return replace(session, given=given if word is None else {**given, worker: word})


def joined(session: Session, workers: Iterable[Address], given: Mapping[Address, Word]) -> Session:
    """Take in workers that have ended meanwhile, behind the others; verdicts of those known stay as they are."""
    new = tuple(one for one in workers if one not in session.workers)
    if not new:
        return session
    at_end = session.worker is None
    more = replace(
        session,
        workers=(*session.workers, *new),
        given={**{one: word for one, word in given.items() if one in new}, **session.given},
    )
    return replace(more, position=_next(more, session.position)) if at_end else more


def reopened(session: Session, worker: Address) -> Session:
    """Take a worker whose verdict is void behind the others: its branch moved, as after a second round."""
    at = session.workers.index(worker)
    others = tuple(one for one in session.workers if one != worker)
    position = session.position - (at < session.position)
    return replace(stands(session, worker, None), workers=(*others, worker), position=position)


def _next(session: Session, start: int) -> int:
    """The first position from ``start`` on that is to be visited."""
    count = len(session.workers)
    if session.every:
        return min(start, count)
    return next((at for at in range(start, count) if session._open(session.workers[at])), count)
