"""Workers whose branches can be reviewed, compared or landed: what the person named, as it is now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import owners
from git_parallel.layout import HEADS, State, away_ref, branch_name
from git_parallel.plan.model import Job, Result, RunSpec, Task
from git_parallel.store import handles, reading, refs
from git_parallel.store.handles import Handle
from git_parallel.supervisor import view

_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]+")

# States in which an agent may be writing into the worktree.
_AT_WORK = frozenset({"preparing", "running", "blocked", "paused", "finishing"})


class Candidate(Struct, frozen=True):
    """A worker and its branch. ``branch`` is a full ref name, ``tip`` its commit, or None when it is gone.

    For a run that came from another clone, ``branch`` is the ref that stands for the branch here.
    When its number was given away, the branch counts as gone, and ``successor`` is the handle of the worker that has
    the name now. ``state`` is one of section 5's states, or ``interrupted`` when the supervisor died while it worked;
    ``base`` the commit it started from.
    """

    run: str
    worker: int
    spec: RunSpec
    result: Result | None
    branch: str
    tip: str | None
    base: str
    worktree: str
    state: str
    successor: str | None = None

    @property
    def handle(self) -> str:
        """``<run>/<n>``, which names it for good."""
        return f"{self.run}/{self.worker}"

    @property
    def name(self) -> str:
        """The branch as people call it."""
        return branch_name(self.branch)

    @property
    def job(self) -> Job:
        return self.spec.job(self.worker)

    @property
    def task(self) -> Task:
        return self.spec.task(self.job.task)

    @property
    def ended(self) -> bool:
        return self.state == "ended"

    @property
    def gone(self) -> str:
        """Why it has no tip though it has ended."""
        if self.successor is not None:
            return f"its number was given away: '{self.name}' is {self.successor}'s now"
        return "its branch is gone"

    @property
    def back(self) -> str:
        """The command that brings its branch back."""
        return f"git parallel restore {self.handle}{' --branch NAME' if self.successor is not None else ''}"


def gather(
    repo: Repository, words: Sequence[str], *, ended_only: bool = False, default: Sequence[str] = (handles.LAST,)
) -> list[Candidate]:
    """Return the workers that ``words`` name (without any: ``default``), each once, in the order named.

    A run stands for its workers in order of their numbers. All tips are read with one git call.
    ``ended_only`` leaves out those that have not ended. Raises UsageError for a word that names nothing.
    """
    if not words and not default:
        return []
    runs: dict[str, dict[int, Candidate]] = {}
    chosen: dict[tuple[str, int], Candidate] = {}
    for handle in _whole_runs(repo, words or default) or handles.resolve(repo, words, default=default):
        if handle.run not in runs:
            runs[handle.run] = {one.worker: one for one in _of_run(repo, handle.run)}
        workers = runs[handle.run]
        if handle.worker is not None and handle.worker not in workers:
            raise UsageError(
                f"run {handle.run} has no worker {handle.worker}", f"it has {', '.join(map(str, sorted(workers)))}"
            )
        for one in workers.values() if handle.worker is None else (workers[handle.worker],):
            chosen.setdefault((one.run, one.worker), one)
    wanted = [one for one in chosen.values() if one.ended or not ended_only]
    away = {one.run for one in wanted if not os.path.isfile(State(repo.common_dir).run(one.run).spec)}
    stand_ins = {away_ref(one.run, one.name) for one in wanted if one.run in away}
    tips = refs.read(repo, *{one.branch for one in wanted}, *stand_ins)
    found = [_away(repo, one, tips) if one.run in away else replace(one, tip=tips.get(one.branch)) for one in wanted]
    return _own(repo, found)


def _own(repo: Repository, found: Sequence[Candidate]) -> list[Candidate]:
    """Take the branches from those whose number was given away: what is on them is not their work."""
    there = [one for one in found if one.tip is not None and one.branch.startswith(HEADS)]
    lost: dict[str, owners.Away] = {}
    for run in {one.run for one in there}:
        of_run = [one for one in there if one.run == run]
        moved = {one.name for one in of_run if one.result is not None and one.result.head != one.tip}
        lost[run] = owners.given_away(repo, run, [one.job for one in of_run], moved)
    return [
        replace(one, tip=None, successor=away[one.name]) if one.name in (away := lost.get(one.run, {})) else one
        for one in found
    ]


def _away(repo: Repository, one: Candidate, tips: Mapping[str, str]) -> Candidate:
    """Find the tip of a worker whose run has no files here: a branch of its name may be anybody's."""
    stand_in = away_ref(one.run, one.name)
    if stand_in in tips:
        return replace(one, branch=stand_in, tip=tips[stand_in])
    tip, head = tips.get(one.branch), one.result.head if one.result is not None else None
    if tip is None or head is None:
        return replace(one, tip=None)
    own = tip == head or (head != one.base and repo.common.succeeds("merge-base", "--is-ancestor", head, tip))
    return replace(one, tip=tip if own else None)


def _whole_runs(repo: Repository, words: Sequence[str]) -> list[Handle]:
    """What the words mean without asking git, when all of them are ids of runs with live files; else nothing."""
    state = State(repo.common_dir)
    known = all(_ID.fullmatch(word) and os.path.isfile(state.run(word).spec) for word in words)
    return [Handle(word) for word in dict.fromkeys(words)] if known else []


def going_on(repo: Repository) -> list[str]:
    """Words for ``default``: the runs that go on or were interrupted, else the newest one, if there is any."""
    state = State(repo.common_dir)
    if live := view.live_runs(state):
        return live
    if known := view.known_runs(state):
        return known[-1:]
    return [summary.run for summary in reading.list_runs(repo, limit=1)]


def _of_run(repo: Repository, run: str) -> Iterator[Candidate]:
    """Every worker of a run, without its tip: from the live files, and from the record where those are gone."""
    live = view.load(State(repo.common_dir).run(run))
    if live is not None:
        for worker in live.workers:
            stopped = live.state == "interrupted" and worker.state in _AT_WORK
            yield _candidate(live.spec, worker.worker, worker.result, "interrupted" if stopped else worker.state)
        return
    kept = reading.read(repo, run)
    if kept is None:
        raise ParallelError(f"run {run} is unknown here", "list the runs with: git parallel list")
    spec, results = kept.spec(), kept.results()
    for number, seen in view.fold(spec, kept.events()).items():
        result = results.get(number)
        state = "interrupted" if seen.state in _AT_WORK else seen.state
        yield _candidate(spec, number, result, "ended" if result is not None else state)


def _candidate(spec: RunSpec, worker: int, result: Result | None, state: str) -> Candidate:
    job = spec.job(worker)
    return Candidate(
        run=spec.run,
        worker=worker,
        spec=spec,
        result=result,
        branch=HEADS + job.branch,
        tip=None,
        base=result.base if result is not None else spec.base,
        worktree=job.worktree,
        state=state,
    )
