"""Whose a branch or a worktree is now: numbers are used again once they are free, and the names with them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

import msgspec

from git_parallel.git import Repository
from git_parallel.integrate import removal
from git_parallel.integrate.removal import Address, Removal
from git_parallel.layout import State
from git_parallel.plan.model import Job, decode_result, decode_spec
from git_parallel.supervisor import files

Away = Mapping[str, str | None]
"""Names that are not the workers' own any more, and the handle of whose they are (None: of no worker)."""


def given_away(repo: Repository, run: str, jobs: Sequence[Job], moved: Collection[str] = ()) -> Away:
    """Return those branches (short names) and worktrees (paths) of a run's ``jobs`` that are not theirs any more.

    A name is the newest worker's that was given it and has not had it removed. ``moved`` are names that are not as
    the worker left them: of these alone older runs are asked, too, which may have been restored since. With nothing
    moved, and for the newest run, this is one look into a directory; git is asked only of names that several had.
    """
    own = {name: (run, job.worker) for job in jobs for name in (job.branch, job.worktree)}
    claims = _claims(State(repo.common_dir), run, own, moved)
    if not claims:
        return {}
    removals = removal.read(repo, sorted({one for claimants in claims.values() for one in claimants}))
    away: dict[str, str | None] = {}
    for name, claimants in claims.items():
        holders = [one for one in claimants if _holds(repo, one, name, removals.get(one))]
        holder = max(holders, default=None)  # ids of runs begin with their time
        if holder != own[name]:
            away[name] = f"{holder[0]}/{holder[1]}" if holder is not None else None
    return away


def _claims(state: State, run: str, own: Mapping[str, Address], moved: Collection[str]) -> dict[str, list[Address]]:
    """The workers that were given one of the names: only of names that another run's worker was given, too."""
    found: dict[str, list[Address]] = {}
    for other in os.listdir(state.runs) if os.path.isdir(state.runs) else ():
        wanted: Collection[str] = own if other > run else moved
        data = files.read(state.run(other).spec) if wanted and other != run else None
        try:
            jobs = decode_spec(data).jobs if data is not None else ()
        except msgspec.MsgspecError:
            continue
        for job in jobs:
            for name in (job.branch, job.worktree):
                if name in wanted:
                    found.setdefault(name, [own[name]]).append((other, job.worker))
    return found


def _holds(repo: Repository, one: Address, name: str, removed: Removal | None) -> bool:
    """Whether a worker that was given a name has it still."""
    over = removed if removed is not None and removed.restored is None else None
    if over is not None and (over.worktree is not None if os.path.isabs(name) else over.branch == name):
        return False
    data = files.read(State(repo.common_dir).run(one[0]).worker(one[1]).result)
    try:
        return data is None or decode_result(data).head is not None  # without any head its branch went with its end
    except msgspec.MsgspecError:
        return True
