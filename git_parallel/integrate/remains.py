"""What workers left in this repository.

Evidence comes from three places that must agree: the run's own files (or its record), git's entries of
worktrees, and the refs as they are now. A branch or path belongs to the newest worker that was given it,
because numbers are used again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct, field

from git_parallel import worktrees
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import removal
from git_parallel.integrate.removal import Address, Removal
from git_parallel.layout import HEADS, State
from git_parallel.plan.model import Job, Result, RunSpec, decode_result, decode_spec
from git_parallel.store import record
from git_parallel.supervisor import files, view
from git_parallel.worktrees import registry

_LOCK = re.compile(re.escape(registry.OUR_LOCK) + r"(?P<run>[^/]+)/(?P<worker>[1-9][0-9]*)")
_REFS_PER_CALL = 1000  # far below the kernel's limit on arguments

Standing = Literal["none", "here", "gone", "empty", "replaced", "stray"]


class Remains(Struct, frozen=True):
    """What is there of one worker. ``tip`` is its branch's commit, None when the branch is gone or not its own.

    ``standing`` tells how its worktree is: ``here`` (directory and git's entry name each other), ``gone``
    (the entry is there, the directory is not), ``replaced`` (something else lies at the path), ``stray``
    (the path is taken and git has no entry), ``empty`` (by an empty directory: making the worktree was
    interrupted), ``none``. ``admin`` is git's entry; ``attached`` says that HEAD there is on the branch;
    ``symbolic`` that the branch is a symbolic ref.
    """

    run: str
    worker: int
    spec: RunSpec
    job: Job
    result: Result | None
    tip: str | None
    path: str
    standing: Standing
    admin: str | None
    locked: str | None
    removal: Removal | None
    attached: bool
    symbolic: bool

    @property
    def address(self) -> Address:
        return self.run, self.worker

    @property
    def branch(self) -> str:
        """The full name of its branch."""
        return HEADS + self.job.branch

    @property
    def reason(self) -> str:
        """The reason that its worktree is locked with."""
        return f"{registry.OUR_LOCK}{self.run}/{self.worker}"

    @property
    def handle(self) -> str:
        """What a person types for it."""
        return f"{self.run}/{self.worker}"

    @property
    def something(self) -> bool:
        """Whether there is anything to remove."""
        return self.tip is not None or self.standing != "none"


class _Survey(Struct):
    """The repository as it was found, in a constant number of git calls."""

    repo: Repository
    entries: list[registry.Entry]
    locks: dict[Address, registry.Entry] = field(default_factory=dict)
    specs: dict[str, RunSpec] = field(default_factory=dict)
    local: set[str] = field(default_factory=set)
    branch_owner: dict[str, Address] = field(default_factory=dict)
    path_owner: dict[str, Address] = field(default_factory=dict)


def find(repo: Repository, wanted: Sequence[tuple[str, int | None]] | None = None) -> list[Remains]:
    """Return what is left of these workers (a run without number: all of its); None: of every worker.

    Workers asked for by number are in the answer even when nothing is left of them.
    """
    survey = _survey(repo, [] if wanted is None else [run for run, _ in wanted])
    named = {(run, worker) for run, worker in wanted or () if worker is not None}
    asked = list(_addresses(survey, wanted))
    tips = _tips(repo, {HEADS + survey.specs[run].job(worker).branch for run, worker in asked})
    present = [one for one in asked if one in named or _present(survey, one, tips)]
    removals = removal.read(repo, present)
    records: dict[str, record.Record | None] = {}
    found = (_remains(survey, one, tips, removals.get(one), records) for one in present)
    return sorted(
        (remains for remains in found if remains.something or remains.address in named),
        key=lambda remains: (remains.spec.created, remains.run, remains.worker),
    )


def _survey(repo: Repository, runs: Sequence[str]) -> _Survey:
    state = State(repo.common_dir)
    survey = _Survey(repo, worktrees.entries(repo))
    for entry in survey.entries:
        if entry.locked and (match := _LOCK.fullmatch(entry.locked)):
            survey.locks[match["run"], int(match["worker"])] = entry
    for run in view.known_runs(state):
        data = files.read(state.run(run).spec)
        try:
            spec = decode_spec(data) if data is not None else None
        except msgspec.MsgspecError:
            spec = None
        if spec is not None and spec.run == run:
            survey.specs[run] = spec
            survey.local.add(run)
    for run in dict.fromkeys([*(run for run, _ in survey.locks), *runs]):
        if run not in survey.specs and (kept := record.read(repo, run)) is not None:
            survey.specs[run] = kept.spec()
    for run in sorted(survey.local, key=lambda run: (survey.specs[run].created, run)):
        for job in survey.specs[run].jobs:
            survey.branch_owner[job.branch] = (run, job.worker)
            survey.path_owner[registry.real(job.worktree)] = (run, job.worker)
    for address, entry in survey.locks.items():
        survey.path_owner[registry.real(entry.path)] = address
    return survey


def _addresses(survey: _Survey, wanted: Sequence[tuple[str, int | None]] | None) -> Iterator[Address]:
    """Yield the workers that are meant, each once."""
    seen: set[Address] = set()
    runs: Iterable[tuple[str, int | None]] = [(run, None) for run in survey.specs] if wanted is None else wanted
    for run, number in runs:
        spec = survey.specs.get(run)
        if spec is None:
            raise ParallelError(f"run {run} is unknown here", "list the runs with: git parallel list")
        numbers = [job.worker for job in spec.jobs]
        if number is not None and number not in numbers:
            raise ParallelError(f"run {run} has no worker {number}", f"it has {', '.join(map(str, numbers))}")
        for worker in numbers if number is None else [number]:
            if (run, worker) not in seen:
                seen.add((run, worker))
                yield run, worker


def _tips(repo: Repository, names: Collection[str]) -> dict[str, tuple[str, bool]]:
    """Return id and symbolic-ness of the branches that exist."""
    found: dict[str, tuple[str, bool]] = {}
    ordered = sorted(names)
    for start in range(0, len(ordered), _REFS_PER_CALL):
        batch = ordered[start : start + _REFS_PER_CALL]
        done = repo.common.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)", *batch)
        for line in done.lines:
            oid, name, symref = line.split(" ", 2)
            if name in names:
                found[name] = oid, bool(symref)
    return found


def _present(survey: _Survey, address: Address, tips: Mapping[str, tuple[str, bool]]) -> bool:
    """Whether anything at all may be left: only then is the record asked."""
    job = survey.specs[address[0]].job(address[1])
    if address in survey.locks or (HEADS + job.branch in tips and survey.branch_owner.get(job.branch) == address):
        return True
    return survey.path_owner.get(registry.real(job.worktree)) == address and os.path.lexists(job.worktree)


def _remains(
    survey: _Survey,
    address: Address,
    tips: Mapping[str, tuple[str, bool]],
    removed: Removal | None,
    records: dict[str, record.Record | None],
) -> Remains:
    run, worker = address
    spec = survey.specs[run]
    job = spec.job(worker)
    result = _result(survey.repo, address, records)
    over = removed is not None and removed.restored is None
    entry, path, standing, admin = _worktree(survey, address, job, over=over)
    tip, symbolic = tips.get(HEADS + job.branch, (None, False))
    if not _owns_branch(survey, address, job=job, entry=entry, tip=tip, result=result) or (
        over and removed and removed.branch
    ):
        tip = None
    return Remains(
        run=run,
        worker=worker,
        spec=spec,
        job=job,
        result=result,
        tip=tip,
        path=path,
        standing=standing,
        admin=admin,
        locked=entry.locked if entry is not None else None,
        removal=removed,
        attached=entry is not None and entry.branch == HEADS + job.branch,
        symbolic=symbolic,
    )


def _result(repo: Repository, address: Address, records: dict[str, record.Record | None]) -> Result | None:
    run, worker = address
    data = files.read(State(repo.common_dir).run(run).worker(worker).result)
    if data is not None:
        try:
            return decode_result(data)
        except msgspec.MsgspecError:
            pass
    if run not in records:
        records[run] = record.read(repo, run)
    kept = records[run]
    return kept.results().get(worker) if kept is not None else None


def _worktree(
    survey: _Survey, address: Address, job: Job, *, over: bool
) -> tuple[registry.Entry | None, str, Standing, str | None]:
    """Find the worker's worktree by its lock, or else at its recorded path when nobody else's is there."""
    entry = survey.locks.get(address)
    path = registry.real(entry.path if entry is not None else job.worktree)
    if entry is None:
        if survey.path_owner.get(path) != address:
            return None, path, "none", None
        entry = next((one for one in survey.entries if not one.main and registry.real(one.path) == path), None)
        if over and (entry is None or entry.branch != HEADS + job.branch):
            return None, path, "none", None  # removed before: what is there now is somebody else's
    if entry is None:
        return None, path, _unregistered(path), None
    if (admin := worktrees.paired(survey.repo, path)) is not None:
        return entry, path, "here", admin
    if os.path.lexists(path):
        return entry, path, "replaced", None
    return entry, path, "gone", _entry_naming(survey.repo, path)


def _unregistered(path: str) -> Standing:
    if not os.path.lexists(path):
        return "none"
    empty = os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)
    return "empty" if empty else "stray"


def _entry_naming(repo: Repository, path: str) -> str | None:
    """Return the one entry that names a directory which is gone; None when two do."""
    places = (os.path.join(repo.common_dir, "worktrees", name) for name in registry.entry_names(repo))
    naming = [place for place in places if registry.named_by_entry(place) == path]
    return naming[0] if len(naming) == 1 else None


def _owns_branch(
    survey: _Survey,
    address: Address,
    *,
    job: Job,
    entry: registry.Entry | None,
    tip: str | None,
    result: Result | None,
) -> bool:
    if address[0] in survey.local:
        return survey.branch_owner.get(job.branch) == address
    # A record that came from elsewhere: a branch of that name may be anybody's.
    if job.branch in survey.branch_owner:
        return False
    checked_out = entry is not None and entry.branch == HEADS + job.branch
    return checked_out or (result is not None and result.head is not None and result.head == tip)
