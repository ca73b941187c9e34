"""The beginning of a further round: what workers left is put aside, and they wait for their turn again.

The order makes it safe to die at any point: first the journal says what is meant, then one transaction moves
branches and record, and only then change the files by which others see how the workers stand.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Preset
from git_parallel.errors import ParallelError, RaceError, RefusedError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import RunFiles, State, wip_ref
from git_parallel.plan.model import Limits, Result, RunSpec, decode_spec
from git_parallel.render import text
from git_parallel.store import record, refs
from git_parallel.store.objects import Objects
from git_parallel.store.record import Entry
from git_parallel.supervisor import files, hookfiles, journal, liveness, rounds, standing, surroundings
from git_parallel.supervisor.context import Context, prepare
from git_parallel.supervisor.journal import Journal
from git_parallel.supervisor.rounds import Round, Usage
from git_parallel.supervisor.standing import Start


class Order(Struct, frozen=True):
    """One worker that is to go on.

    ``seen`` is its result so far; ``more``: it must do more than is there already;
    ``anew``: not in the conversation it had.
    """

    worker: int
    prompt: str
    reason: str
    seen: Result
    more: bool = False
    anew: bool = False


class Ended(Struct, frozen=True):
    """A run that has ended, with what its files and its record know."""

    spec: RunSpec
    preset: Preset
    recorded: record.Record
    results: dict[int, Result]
    files: RunFiles


class Again(Struct, frozen=True):
    """Workers of one run that can go on; :meth:`begin` makes them."""

    repo: Repository
    run: str
    orders: tuple[Order, ...]
    limits: Limits
    terminal: Literal["tmux"] | None = None

    def begin(self) -> tuple[Context, liveness.Claim]:
        """Become the run's supervisor again: branches, worktrees and record are ready when this returns."""
        # Whoever finds our id in the lock file may signal us before the loop listens.
        signal.signal(signal.SIGUSR1, lambda _number, _frame: None)
        run = State(self.repo.common_dir).run(self.run)
        held = liveness.claim(run)
        if held is None:
            raise goes_on(self.run)
        try:
            context, starts = _begin(self, run)
        except BaseException:
            held.release()
            raise
        try:
            for order in self.orders:
                _set_out(context, order, starts[order.worker])
        except BaseException:
            context.host.close()
            os.close(held.descriptor)  # the file stays: the run is interrupted, and the next command finishes it
            raise
        return context, held


def read(repo: Repository, run: str) -> Ended:
    """Read a run that has ended. Raises ParallelError or UsageError when it cannot go on here."""
    run_files = State(repo.common_dir).run(run)
    data, recorded = files.read(run_files.spec), record.read(repo, run)
    if data is None or recorded is None:
        missing = "its files are" if data is None else "its record is"
        raise ParallelError(
            f"run {run} cannot go on in this repository: {missing} not here",
            "a run goes on where it was started; to do its tasks again, start a new one",
        )
    spec = decode_spec(data)
    preset = presets.from_data(spec.preset)
    if not os.access(preset.command[0], os.X_OK):
        raise UsageError(f"the program of run {run} is not there any more: {preset.command[0]}")
    return Ended(spec, preset, recorded, recorded.results(), run_files)


def goes_on(run: str) -> RefusedError:
    """Somebody supervises the run."""
    return RefusedError(
        f"run {run} goes on",
        f"wait for it with: git parallel wait {run}",
        f"or end it with: git parallel stop {run}",
    )


def _begin(again: Again, run: RunFiles) -> tuple[Context, dict[int, Start]]:
    repo, numbers = again.repo, [order.worker for order in again.orders]
    found = read(repo, again.run)
    state = msgspec.structs.replace(found, preset=presets.settled(found.preset, again.terminal))
    for order in again.orders:
        if state.results.get(order.worker) != order.seen:
            raise RaceError(f"worker {order.worker} went on meanwhile", f"see: git parallel show {again.run}")
    heard = os.path.getsize(run.control) if os.path.exists(run.control) else 0
    places = standing.bring_back(repo, again.run, standing.sites(repo, again.run, numbers))
    before = surroundings.look(repo)
    wips = refs.read(repo, *(wip_ref(again.run, number) for number in numbers))
    with Objects(repo) as objects:
        starts = {}
        for order, place in zip(again.orders, _ordered(places, numbers), strict=True):
            attempt = order.seen.attempts + 1
            starts[order.worker] = standing.start(repo, objects, run, state.preset, place, attempt=attempt)
    events = journal.read(run.journal)
    begun = {
        order.worker: _round(state, order, starts[order.worker], events, wips.get(wip_ref(again.run, order.worker)))
        for order in again.orders
    }
    earlier = {number: result for number, result in state.results.items() if number not in begun}
    spec = msgspec.structs.replace(state.spec, limits=again.limits, terminal=again.terminal)
    context = prepare(
        repo, spec, run, Journal(run.journal), before=before, rounds=begun, earlier=earlier, control_offset=heard
    )
    files.replace(run.config_before, before.config)
    hookfiles.keep(repo.common_dir, run.hooks_before)
    try:
        _record(context, again.orders, state.recorded, starts)
    except BaseException:
        context.host.close()
        context.journal.append("run-ended", reason="no worker went on", durable=True)
        raise
    return context, starts


def _ordered(places: Iterable[standing.Site], numbers: Sequence[int]) -> list[standing.Site]:
    found = {place.remains.worker: place for place in places}
    return [found[number] for number in numbers]


def _round(state: Ended, order: Order, begun: Start, events: Sequence[journal.Event], wip: str | None) -> Round:
    seen = order.seen
    session = seen.session if "resume" in state.preset.options and not order.anew else None
    own = [event for event in events if event.get("event") == "round" and event.get("worker") == order.worker]
    # A round that is only gone on with has done something when anything is new since it began.
    since = own[-1].get("since") if own else None
    return Round(
        prompt=order.prompt,
        start=begun.tip,
        since=begun.tip if order.more else since or state.spec.base,
        attempt=seen.attempts + 1,
        before=seen if seen.head is not None else None,
        wip=wip,
        session=session,
        reported=rounds.reported(events, session) if session else Usage(),
    )


def _record(context: Context, orders: Sequence[Order], recorded: record.Record, starts: Mapping[int, Start]) -> None:
    """Write the intent, then in one transaction what it needs: branches, commits of edits, and the record."""
    for order in orders:
        of = context.rounds[order.worker]
        context.journal.append(
            "round",
            worker=order.worker,
            source="person",
            reason=order.reason,
            attempt=of.attempt,
            start=of.start,
            since=of.since,
            session=of.session,
            wip=of.wip,
            durable=True,
        )
    changes: dict[str, bytes | None] = {"events.jsonl": files.read(context.files.journal) or b""}
    for order in orders:
        changes.update(_archived(recorded, order))
    one = f"worker {orders[0].worker} goes on: attempt {orders[0].seen.attempts + 1}, {orders[0].reason}"
    named = [("Architect-Worker", str(orders[0].worker))] if len(orders) == 1 else []
    edits = [begun.tip for begun in starts.values() if begun.index is not None]
    entry = Entry(
        changes=changes,
        subject=one if len(orders) == 1 else f"{text.count(len(orders), 'worker')} go on",
        trailers=[("Architect-Event", "worker-continued"), *named, ("Architect-State", "running")],
        parents=edits,
        updates=[begun.update for begun in starts.values()],
        begun=[order.worker for order in orders],
    )
    record.write_many(context.repo, context.spec.run, [entry])


def _archived(recorded: record.Record, order: Order) -> dict[str, bytes | None]:
    """Move what the last attempt left in the record to its own place; what is there is never overwritten."""
    changes: dict[str, bytes | None] = {}
    for name in ("result.json", "report.md", "prompt.txt"):
        path = f"workers/{order.worker}/{name}"
        kept = rounds.archive(order.worker, order.seen.attempts, name)
        if order.seen.attempts and recorded.file(kept) is None and (data := recorded.file(path)) is not None:
            changes[kept] = data
        changes[path] = None
    changes[f"workers/{order.worker}/prompt.txt"] = order.prompt.encode("utf-8", "surrogateescape")
    return changes


def _set_out(context: Context, order: Order, begun: Start) -> None:
    """Make the worker's live files those of a worker that waits for its turn."""
    worker = context.files.worker(order.worker)
    os.makedirs(worker.top, exist_ok=True)
    files.replace(worker.prompt, order.prompt.encode("utf-8", "surrogateescape"))
    for path in (worker.result, worker.ending, worker.progress):
        with suppress(FileNotFoundError):
            os.unlink(path)
    if not standing.settle(begun):
        context.journal.append("note", worker=order.worker, reason="index.lock is held; `git reset` in the worktree")
    for path in begun.missing:
        context.journal.append("note", worker=order.worker, reason=f"not captured before it went on: {path}")
    context.journal.append(
        "state", worker=order.worker, state="queued", source="person", attempt=order.seen.attempts + 1
    )
