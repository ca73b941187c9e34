"""What workers left in this repository, and what stands against removing it.

Evidence comes from three places that must agree: the run's own files (or its record), git's entries of
worktrees, and the refs as they are now. A branch or path belongs to the newest worker that was given it,
because numbers are used again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from git_parallel import worktrees
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import removal
from git_parallel.integrate.removal import Address, Removal
from git_parallel.layout import HEADS, State
from git_parallel.plan.model import Job, Result, RunSpec, decode_result, decode_spec
from git_parallel.store import record, snapshots
from git_parallel.supervisor import files, liveness, view
from git_parallel.worktrees import registry

_LOCK = re.compile(re.escape(registry.OUR_LOCK) + r"(?P<run>[^/]+)/(?P<worker>[1-9][0-9]*)")
_REFS_PER_CALL = 1000  # far below the kernel's limit on arguments

Standing = Literal["none", "here", "gone", "replaced", "stray"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why something stays as it is: a word for scripts, a sentence, and what to type next."""

    reason: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Remains:
    """What is there of one worker. ``tip`` is its branch's commit, None when the branch is gone or not its own.

    ``standing`` tells how its worktree is: ``here`` (directory and git's entry name each other), ``gone``
    (the entry is there, the directory is not), ``replaced`` (something else lies at the path), ``stray``
    (the path is taken and git has no entry), ``none``. ``admin`` is git's entry.
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
    branch_obstacle: Obstacle | None = None

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


@dataclass
class _Survey:
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
    obstacle = None
    if tip is not None:
        attached = entry is not None and entry.branch == HEADS + job.branch
        obstacle = (
            Obstacle("symbolic", f"branch {job.branch} is a symbolic ref", f"git symbolic-ref {HEADS}{job.branch}")
            if symbolic
            else _used_elsewhere(survey, HEADS + job.branch, path)
            or (None if attached else _another_history(survey.repo, job, spec, result, tip))
        )
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
        branch_obstacle=obstacle,
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
        return None, path, "stray" if os.path.lexists(path) else "none", None
    if (admin := worktrees.paired(survey.repo, path)) is not None:
        return entry, path, "here", admin
    if os.path.lexists(path):
        return entry, path, "replaced", None
    return entry, path, "gone", _entry_naming(survey.repo, path)


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


def _used_elsewhere(survey: _Survey, branch: str, path: str) -> Obstacle | None:
    """Say which other worktree stands on the branch or is rebasing or bisecting it."""
    short = branch.removeprefix(HEADS)
    for entry in survey.entries:
        if entry.branch == branch and registry.real(entry.path) != path:
            return Obstacle(
                "checked_out",
                f"branch {short} is checked out in '{entry.path}'",
                f"leave it there first: git -C '{entry.path}' switch <another branch>",
            )
    repo = survey.repo
    places = [repo.common_dir, *(os.path.join(repo.common_dir, "worktrees", one) for one in registry.entry_names(repo))]
    for place in places:
        if registry.named_by_entry(place) != path and branch in _busy_branches(place):
            return Obstacle(
                "in_use", f"branch {short} is being rebased or bisected in another worktree", "see: git worktree list"
            )
    return None


def _busy_branches(git_dir: str) -> set[str]:
    """The branches that a rebase or bisect in this worktree will come back to."""
    names = set()
    for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
        data = _read(os.path.join(git_dir, name))
        if data:
            names.add(data if data.startswith("refs/") else HEADS + data)
    return names


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read()).strip()
    except OSError:
        return None


def _another_history(repo: Repository, job: Job, spec: RunSpec, result: Result | None, tip: str) -> Obstacle | None:
    """A branch that does not hold what the worker made may be a new one of the same name, and a person's."""
    made = (result.head if result is not None else None) or spec.base
    if tip == made:
        return None
    if repo.common.run("merge-base", "--is-ancestor", made, tip, ok=(0, 1, 128)).returncode == 0:
        return None
    return Obstacle(
        "not_ours",
        f"branch {job.branch} no longer holds what the worker made ({made[:10]}): it may be yours",
        f"delete it yourself if it is not wanted: git branch -D {job.branch}",
    )


def obstacle(repo: Repository, remains: Remains, here: str | None) -> Obstacle | None:
    """Say what stands against removing a worker's worktree; None when nothing does.

    ``here`` is the directory that the person stands in. Reads the disk as it is now; asks git nothing.
    """
    run_files = State(repo.common_dir).run(remains.run)
    pid = liveness.supervisor_pid(run_files)
    if pid is not None:
        return Obstacle("running", f"its run is going on (process {pid})", f"git parallel stop {remains.run}")
    if os.path.exists(run_files.supervisor):
        return Obstacle("interrupted", "its run was interrupted and its record is not complete", "git parallel status")
    path = remains.path
    if remains.standing == "none":
        return None
    if remains.locked is not None and remains.locked != remains.reason:
        why = f": {remains.locked}" if remains.locked else ""
        return Obstacle("locked", f"its worktree is locked{why}", f"git worktree unlock '{path}'")
    if remains.standing in ("replaced", "stray"):
        return Obstacle(
            "replaced",
            f"'{path}' is not its worktree (git's entry and the directory do not name each other)",
            "look at it and move it away; 'git worktree repair PATH' joins a moved worktree again",
        )
    if remains.admin is None:
        return Obstacle("ambiguous", f"more than one entry names the worktree '{path}'", "see: git worktree list")
    if here is not None and (here == path or here.startswith(path + os.sep)):
        elsewhere = repo.main_top or os.path.dirname(path)
        return Obstacle("standing", "you are standing in its worktree", f"cd '{elsewhere}'")
    if operation := snapshots.operation_in_progress(remains.admin):
        if remains.standing == "gone":
            return Obstacle(
                "operation",
                f"'{path}' is gone, and git's entry holds a {operation} in progress",
                f"if it is not needed: git worktree remove '{path}'",
            )
        finish = f"git -C '{path}' {operation} --abort" if operation != "bisect" else f"git -C '{path}' bisect reset"
        return Obstacle("operation", f"a {operation} is in progress in its worktree", f"finish it, or: {finish}")
    return _missing(remains) if remains.standing == "gone" else None


def _missing(remains: Remains) -> Obstacle | None:
    """A worktree whose directory is gone: removed by hand, or on a volume that is not there."""
    assert remains.admin is not None
    if not os.path.isdir(os.path.dirname(remains.path)):
        return Obstacle(
            "absent",
            f"'{remains.path}' is gone with the directory it was in: is its volume mounted?",
            f"if it will not come back: git worktree remove '{remains.path}'",
        )
    if os.path.isdir(os.path.join(remains.admin, "modules")):
        return Obstacle(
            "submodules",
            f"'{remains.path}' is gone, but repositories of its submodules are still in '{remains.admin}/modules'",
            f"keep what you need of them, then: git worktree remove '{remains.path}'",
        )
    return None
