"""Which runs and workers a command line means, as they are now: live files first, then the record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import journal, view
from git_parallel.supervisor.view import RunView, WorkerView

if TYPE_CHECKING:
    from git_parallel.store.reading import Record


class Chosen(Struct, frozen=True):
    """A run and those of its workers that were asked for, in order of their numbers."""

    run: RunView
    workers: list[WorkerView]
    whole: bool

    @property
    def narrowed(self) -> RunView:
        """The run as if it had only these workers."""
        return replace(self.run, workers=self.workers)

    def of(self, run: RunView) -> Chosen:
        """The same workers of another view of the run."""
        return _part(run, None if self.whole else {one.worker for one in self.workers})

    def again(self, repo: Repository) -> Chosen:
        """The same workers as they are now."""
        return self.of(load(repo, self.run.spec.run))


def choose(repo: Repository, words: Sequence[str], default: Sequence[str]) -> list[Chosen]:
    """Return what ``words`` name, each run once, in the order named; without words the runs in ``default``."""
    if not words:
        return [_whole(load(repo, run)) for run in default]
    from git_parallel.store import handles  # noqa: PLC0415 (not needed for the plain command)

    wanted: dict[str, set[int] | None] = {}
    for handle in handles.resolve(repo, words):
        if handle.worker is None:
            wanted[handle.run] = None
        elif (numbers := wanted.setdefault(handle.run, set())) is not None:
            numbers.add(handle.worker)
    return [_part(load(repo, run), numbers) for run, numbers in wanted.items()]


def choose_worker(repo: Repository, words: Sequence[str]) -> tuple[RunView, WorkerView]:
    """Return the one worker that ``words`` mean; a run of a single worker, and no word while such a one is current, do.

    Raises UsageError when it could be several.
    """
    chosen = choose(repo, words, current(repo))
    found = [(one.run, worker) for one in chosen for worker in one.workers]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError("there is no run yet", 'start one with: git parallel "what is to be done"')
    names = ", ".join(_handles(chosen))
    raise UsageError("which worker?" if not words else "one worker is meant here", f"one of: {names}")


def _handles(chosen: Sequence[Chosen]) -> list[str]:
    """What to type for each worker, as short as it is unambiguous."""
    several = len(chosen) > 1
    return [
        f"{one.run.spec.run}/{worker.worker}" if several else str(worker.worker)
        for one in chosen
        for worker in one.workers
    ]


def _whole(run: RunView) -> Chosen:
    return Chosen(run, run.workers, True)


def _part(run: RunView, numbers: set[int] | None) -> Chosen:
    if numbers is None:
        return _whole(run)
    known = {worker.worker for worker in run.workers}
    if missing := sorted(numbers - known):
        raise ParallelError(
            f"run {run.spec.run} has no worker {missing[0]}", f"it has {', '.join(map(str, sorted(known)))}"
        )
    return Chosen(run, [worker for worker in run.workers if worker.worker in numbers], False)


def current(repo: Repository) -> list[str]:
    """The runs that ``status`` means without words: those that go on or were interrupted, else the newest."""
    state = State(repo.common_dir)
    if live := view.live_runs(state):
        return live
    return newest(repo)


def newest(repo: Repository) -> list[str]:
    """The newest run, or an empty list: from the live files, and from the record where those are gone."""
    if known := view.known_runs(State(repo.common_dir)):
        return known[-1:]
    from git_parallel.store import reading  # noqa: PLC0415 (imports more than status needs)

    return [summary.run for summary in reading.list_runs(repo, limit=1)]


def here(repo: Repository, run: str) -> bool:
    """Say whether the run's own files are in this repository: it was started here, and nobody has removed them."""
    return os.path.exists(State(repo.common_dir).run(run).spec)


def elsewhere(run: str) -> list[str]:
    """What to say of a run without an end whose files are not here."""
    return [
        f"the record of {run} has no end, and the run's files are not here: it goes on elsewhere, or they were removed",
        f"worktrees of it that are here keep their work: git parallel cleanup {run}",
    ]


def load(repo: Repository, run: str) -> RunView:
    """Return a run as it is now. Raises ParallelError when nothing knows it."""
    live = view.load(State(repo.common_dir).run(run))
    if live is not None:
        return view.settled(live)
    from git_parallel.store import reading  # noqa: PLC0415 (imports more than status needs)

    kept = reading.read(repo, run)
    if kept is None:
        raise ParallelError(f"run {run} is unknown here", "list the runs with: git parallel list")
    return recorded(kept)


def load_recorded(repo: Repository, run: str) -> RunView:
    """Return a run as its record has it once it has ended, and as its live files have it until then."""
    from git_parallel.store import reading  # noqa: PLC0415 (imports more than status needs)

    live = view.load(State(repo.common_dir).run(run))
    if live is not None and live.state != "ended":
        return view.settled(live)
    kept = reading.read(repo, run)
    return recorded(kept) if kept is not None else load(repo, run)


def recorded(kept: Record) -> RunView:
    """A run as its record has it, for one whose live files are gone or never were here."""
    spec = kept.spec()
    events = kept.events()
    results = kept.results()
    workers = [
        replace(worker, state="ended", result=results[worker.worker]) if worker.worker in results else worker
        for worker in view.fold(spec, events).values()
    ]
    ended = journal.ended(events)
    run = RunView(
        spec=spec,
        state="ended" if ended or len(results) == len(spec.jobs) else "interrupted",
        pid=None,
        workers=workers,
        started=spec.created,
        ended=ended,
    )
    return view.settled(run)
