"""The moment in which the target moves: its ref, the records, the notes and the checkouts (DESIGN section 9.5).

Everything happens under the repository's lock, and every step is written down before it is made. The target,
the landing's record, the runs' records and the notes move in one transaction; the files follow. Whoever finds
the journal of a landing that died knows from the target whether it moved, and :func:`settle` brings the
checkouts to the same side.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.errors import ParallelError, RaceError, RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import changes, checkout, halfway
from git_parallel.integrate.changes import Changed
from git_parallel.integrate.checkout import Checkout, Held
from git_parallel.layout import MergeFiles
from git_parallel.signals import uninterrupted
from git_parallel.store import record, refs
from git_parallel.store.objects import Objects
from git_parallel.store.record import Chain
from git_parallel.store.refs import Update
from git_parallel.supervisor import journal
from git_parallel.supervisor.journal import Event, Journal


class Move(Struct, frozen=True):
    """The target from ``old`` to ``new``, and what is recorded with it: ``chains``.

    ``back`` is recorded instead when the checkouts cannot follow and the target is moved back.
    """

    target: str
    old: str
    new: str
    changed: Sequence[Changed]
    chains: Sequence[Chain]
    back: Sequence[Chain]


class BetweenError(ParallelError):
    """The target has moved, a checkout could not follow, and neither could be taken back: as after a crash.

    Whoever is told leaves everything as it is, locks too, for :func:`settle`.
    """


def advance(
    repo: Repository,
    move: Move,
    files: MergeFiles,
    events: Journal,
    keep: Sequence[int],
    *,
    objects: Objects | None = None,
) -> list[Checkout]:
    """Move the target; return the checkouts of it, which have followed.

    Raises RaceError when it is not at ``old`` any more, RefusedError when a checkout cannot follow; then
    everything is as it was. Raises BetweenError when that cannot be had either.
    ``keep``: see :meth:`Held.follow`; ``objects``: see :func:`record.write_chains`.
    """
    with refs.locked(repo), record.begin_tips(repo, move.chains) as tips:
        places = checkout.find(repo, move.target)
        if any(place.head != move.old for place in places):  # else the transaction finds out
            raise RaceError(f"{move.target} moved meanwhile", "nothing was changed; try again")
        events.append("intent", act="advance", durable=True, **_facts(move, places))
        held: list[Held] = []
        between = False
        try:
            for number, place in enumerate(places):
                held.append(
                    checkout.hold(
                        place, move.old, move.new, move.changed, index=files.index(number), marker=_marker(files)
                    )
                )
            chains = _with_target(move.chains, Update(move.target, move.new, move.old))
            with uninterrupted():
                where = places[0].path if places else None
                # git looks through the checkouts while the records are made.
                record.write_chains(
                    repo, chains, worktree=where, ready=lambda: _check(held), objects=objects, tips=tips
                )
                _follow(repo, move, held, keep)
        except BetweenError:
            between = True
            raise
        except ParallelError as error:
            events.append("abandoned", act="advance", reason=error.message)
            raise
        finally:
            for one in held if not between else ():
                one.release()
        _verify(repo, move)
        events.append("done", act="advance", durable=True)
    return places


def _check(held: Sequence[Held]) -> None:
    for one in held:
        one.check()


def _facts(move: Move, places: Sequence[Checkout]) -> dict[str, Any]:
    return {
        "target": move.target,
        "old": move.old,
        "new": move.new,
        "checkouts": [{"path": place.path, "admin": place.admin} for place in places],
    }


def _marker(files: MergeFiles) -> str:
    return f"git parallel merge {os.path.basename(files.top)}"


def _with_target(chains: Sequence[Chain], update: Update) -> list[Chain]:
    """The records to write, the first of them together with the target."""
    first, *others = chains
    *before, last = first.entries
    entries = [*before, replace(last, updates=[*last.updates, update])]
    return [replace(first, entries=entries), *others]


def _follow(repo: Repository, move: Move, held: Sequence[Held], keep: Sequence[int]) -> None:
    """Bring the checkouts along; if one cannot follow, all of it is taken back."""
    for number, one in enumerate(held):
        try:
            one.follow(keep)
        except RefusedError:  # its files are as they were
            try:
                for earlier in held[:number]:
                    earlier.back()
                taken_back = _with_target(move.back, Update(move.target, move.old, move.new))
                record.write_chains(repo, taken_back, worktree=held[0].place.path)
            except (ParallelError, OSError) as second:
                raise _between(move, one.place, second) from second
            raise
        except (ParallelError, OSError) as error:
            raise _between(move, one.place, error) from error


def _between(move: Move, place: Checkout, error: ParallelError | OSError) -> BetweenError:
    why = error.message if isinstance(error, ParallelError) else error.strerror or str(error)
    return BetweenError(
        f"{_short(move.target)} has moved, but the files in '{place.path}' could not follow, nor it go back: {why}",
        "nothing is lost; put that right (is the disk full?), then: git parallel doctor --repair",
    )


def _verify(repo: Repository, move: Move) -> None:
    """Read back: the target contains what was said to land (DESIGN section 9, step 6)."""
    now = refs.read(repo, move.target).get(move.target)
    if now == move.new or (now and repo.common.succeeds("merge-base", "--is-ancestor", move.new, now)):
        return
    raise ParallelError(
        f"{move.target} does not contain {move.new} after it was moved there (it is at {now})",
        f"somebody else moved it; the commit is kept: git log {move.new}",
    )


# --- after a crash -----------------------------------------------------------------------------------


def unfinished(events: Sequence[Event]) -> Event | None:
    """The move that a dead landing had begun and not ended, or None. Pure."""
    begun: Event | None = None
    for event in events:
        if event.get("act") == "advance":
            begun = event if event.get("event") == "intent" else None
    return begun


def settle(repo: Repository, files: MergeFiles) -> list[str]:
    """Finish the move of a landing that died: afterwards target and checkouts are both before or both after it.

    Returns lines for the person: what was done, and what was left alone because it was theirs. The caller holds
    the landing's own lock; nothing is done twice.
    """
    event = unfinished(journal.read(files.journal))
    if event is None:
        return []
    said: list[str] = []
    target, old, new = str(event["target"]), str(event["old"]), str(event["new"])
    events = Journal(files.journal)
    try:
        with refs.locked(repo):
            at = refs.read(repo, target).get(target)
            for number, where in enumerate(event.get("checkouts", ())):
                place = Checkout(where["path"], where["admin"])
                said += _settle_checkout(repo, place, (target, at, old, new), files, number)
            events.append("done", act="advance", source="supervisor", reason="after a crash", durable=True)
    finally:
        events.close()
    return said


def _settle_checkout(
    repo: Repository, place: Checkout, move: tuple[str, str | None, str, str], files: MergeFiles, number: int
) -> list[str]:
    target, at, old, new = move
    ours = checkout.is_ours(place, _marker(files))
    try:
        if at == old or not os.path.isdir(place.path):
            return []  # it had not moved yet, or had been moved back after the files
        if at != new or _head(place) != target:
            return [f"{_short(target)} has moved on since; the files in '{place.path}' are left as they are"]
        changed = changes.between(repo, old, new)
        if not _behind(place, changed):
            return []  # the new index was in place: the files had been written before
        if not ours:
            checkout.lock_index(place, _marker(files))
            ours = True
        index = files.index(number)
        left = halfway.bring(place.git, place.index, changed, "new", index)
        checkout.install(place, index)
        said = [f"the files in '{place.path}' were brought to where {_short(target)} is"]
        return said + [f"'{path}' there was changed by somebody meanwhile, and is left as it is" for path in left]
    except RefusedError as error:
        return [f"{error.message}: the files there may be behind {_short(target)}"]
    finally:
        if ours:
            for path in (files.index(number), place.lock):
                with suppress(FileNotFoundError):
                    os.unlink(path)


def _head(place: Checkout) -> str:
    return place.git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1, 128)).text


def _behind(place: Checkout, changed: Sequence[Changed]) -> bool:
    """Whether the index still has the old entry of every path that changed."""
    stdin = None
    fields = place.git.run("ls-files", "-s", "-z", stdin=stdin).fields
    entries = {}
    for field in fields:
        about, _, path = field.partition("\t")
        mode, oid, _ = about.split(" ")
        entries[path] = (mode, oid)
    return bool(changed) and all(
        entries.get(one.path) == (None if one.added else (one.old_mode, one.old)) for one in changed
    )


def _short(target: str) -> str:
    return target.removeprefix("refs/heads/")
