"""What a person is told of a worker before they decide: all of it from git and the record."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from git_parallel.git import Repository
from git_parallel.integrate import conflicts, verdicts
from git_parallel.integrate.conflicts import Finding, Forecast
from git_parallel.integrate.verdicts import Verdict
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS
from git_parallel.store import refs, snapshots
from git_parallel.store.snapshots import Change

_NOTHING = Change([], 0, 0, [])


class Clash(Struct, frozen=True):
    """Another worker whose branch does not merge with this one; ``same_task``: only one of the two is wanted."""

    worker: Candidate
    paths: tuple[str, ...]
    same_task: bool


class Facts(Struct, frozen=True):
    """A worker as it stands.

    ``fork`` is where its branch left the base, from where its change is shown. ``commits`` is how many it has
    since, ``later`` how many of them came after the worker's end (None: the branch was rewritten since).
    ``age`` is how many commits the target (a short name) moved since the base, None when there is no target.
    ``outside`` are changed paths that the task did not allow. ``verdict`` stands for this head, or is the newest one
    where the branch is gone; ``void`` is the newest one when it was given for another head. ``target_paths`` conflict
    with the target (None: not known).
    """

    candidate: Candidate
    fork: str
    change: Change = _NOTHING
    commits: int = 0
    later: int | None = 0
    target: str | None = None
    age: int | None = None
    outside: tuple[str, ...] = ()
    verdict: Verdict | None = None
    void: Verdict | None = None
    history: tuple[Verdict, ...] = ()
    target_paths: tuple[str, ...] | None = None
    clashes: tuple[Clash, ...] = ()

    @property
    def tip(self) -> str:
        assert self.candidate.tip is not None
        return self.candidate.tip

    @property
    def empty(self) -> bool:
        """The branch brings nothing."""
        return self.fork == self.tip or not self.change.paths


def gather(repo: Repository, candidate: Candidate, given: Sequence[Verdict]) -> Facts:
    """Look at one worker, without its conflicts (see :func:`with_conflicts`); ``given`` are all verdicts on it."""
    tip, task = candidate.tip, candidate.task
    target = candidate.spec.target
    stands = verdicts.standing(given, tip)
    facts = Facts(
        candidate,
        fork=candidate.base,
        verdict=stands,
        void=given[-1] if given and stands is None else None,
        history=tuple(given),
        target=target.removeprefix(HEADS) if target else None,
    )
    there = target if target is not None and target in refs.read(repo, target) else None
    if there is not None:
        facts = replace(facts, age=_count(repo, candidate.base, there))
    if tip is None:
        return facts
    fork = fork_of(repo, candidate.base, tip, there)
    change = snapshots.change(repo.common, fork, tip)
    left = candidate.result.head if candidate.result is not None else None
    return replace(
        facts,
        fork=fork,
        change=change,
        commits=_count(repo, fork, tip) or 0,
        later=_later(repo, left, tip),
        outside=_outside(repo, fork, tip, change.paths, task.paths),
    )


def fork_of(repo: Repository, base: str, tip: str, target: str | None = None) -> str:
    """From where a branch's own change is shown.

    That is where it left its base; or later, where it has taken in commits of the ``target`` since: those are
    no work of its own. Where it has nothing in common with its base, it is the base.
    """
    found = _merge_base(repo, base, tip)
    if found is None:
        return base
    taken_in = _merge_base(repo, target, tip) if target is not None else None
    if taken_in in (None, found, tip):  # `tip`: it has landed
        return found
    return taken_in if _merge_base(repo, found, str(taken_in)) == found else found


def _merge_base(repo: Repository, one: str, other: str) -> str | None:
    done = repo.common.run("merge-base", one, other, ok=(0, 1, 128))
    return done.lines[0] if done.returncode == 0 else None


def _count(repo: Repository, old: str, new: str) -> int | None:
    done = repo.common.run("rev-list", "--count", f"{old}..{new}", "--", ok=(0, 128))
    return int(done.text) if done.returncode == 0 else None


def _later(repo: Repository, left: str | None, tip: str) -> int | None:
    if left is None or left == tip:
        return 0
    grown = repo.common.run("merge-base", "--is-ancestor", left, tip, ok=(0, 1, 128)).returncode == 0
    return _count(repo, left, tip) if grown else None


def _outside(repo: Repository, fork: str, tip: str, changed: Sequence[str], allowed: Sequence[str]) -> tuple[str, ...]:
    """The changed paths that none of the task's pathspecs matches."""
    if not allowed or not changed:
        return ()
    inside = repo.common.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", fork, tip, "--", *allowed)
    known = set(inside.fields)
    return tuple(path for path in changed if path not in known)


# --- conflicts -------------------------------------------------------------------------------------


class Outlook(Struct):
    """The conflicts foreseen among workers and with their targets; looked at again when a head or a target moved."""

    repo: Repository
    _seen: object = None
    _forecast: Forecast | None = None
    _places: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, facts: Facts, others: Sequence[Candidate]) -> Facts:
        """Return the facts with what is foreseen for this worker among ``others`` (which may include it)."""
        here = facts.candidate
        forecast = self._look([one for one in others if one.tip is not None])
        index = self._places.get((here.run, here.worker))
        if forecast is None or index is None:
            return facts
        clashes = [
            Clash(head.candidate, _paths(found), same_task(head.candidate, here))
            for other, head in enumerate(forecast.heads)
            if other != index and head.commit != facts.tip and not (found := forecast.between(index, other)).clean
        ]
        known = forecast.targets[index] is not None
        return replace(
            facts,
            target_paths=_paths(forecast.with_target(index)) if known else None,
            clashes=tuple(clashes),
        )

    def _look(self, workers: Sequence[Candidate]) -> Forecast | None:
        targets = {one.spec.target for one in workers if one.spec.target is not None}
        seen = (tuple((one.run, one.worker, one.tip) for one in workers), refs.read(self.repo, *targets))
        if seen != self._seen:
            self._seen = seen
            self._forecast = conflicts.foresee(self.repo, workers, look=False)
            heads = (head.candidate for head in self._forecast.heads)
            self._places = {(one.run, one.worker): index for index, one in enumerate(heads)}
        return self._forecast


def _paths(found: Finding) -> tuple[str, ...]:
    if found.clean:
        return ()
    return tuple(one.path for one in found.conflicts) or (found.failed or "",)


def same_task(one: Candidate, other: Candidate) -> bool:
    """Whether two workers are attempts at one task of one run."""
    return one.run == other.run and one.job.task == other.job.task
