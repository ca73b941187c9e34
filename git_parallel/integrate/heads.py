"""The commit that stands for a worker's work now: its branch's tip, or what lies in the worktree of a live one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from git_parallel.errors import ParallelError
from git_parallel.git import Git, Repository
from git_parallel.integrate import mergetree
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS

if TYPE_CHECKING:
    from git_parallel.store.snapshots import Look

# States in which the worktree is filled and may hold more than the branch. While it is being prepared its
# files are still to come: every one of them would look deleted.
_LIVE = frozenset({"running", "blocked", "paused", "finishing", "interrupted"})
# Looks wait for the disk as much as for the processor.
_LOOKS_AT_ONCE = 8


class Head(Struct, frozen=True):
    """A worker and the commit that stands for it.

    ``uncommitted``: the commit is none of the agent's, it holds what its worktree has beyond its last one.
    ``note`` says why a live worktree could not be looked at, so that only the branch counts.
    """

    candidate: Candidate
    commit: str
    uncommitted: bool = False
    note: str | None = None


class Absent(Struct, frozen=True):
    """A worker without any commit, and why."""

    candidate: Candidate
    reason: str


def present(
    repo: Repository, candidates: Sequence[Candidate], env: Mapping[str, str], *, look: bool = True
) -> tuple[list[Head], list[Absent]]:
    """Return the heads of the workers that have one, in order, and the workers that have none.

    Live worktrees are looked at through a copy of their index: no lock is taken, nothing of theirs is written.
    What they hold beyond their commits is written to the objects that ``env`` names (see
    :func:`git_parallel.integrate.mergetree.scratch_objects`). ``look`` False: only branches count.
    """
    there = [one for one in candidates if one.tip is not None]
    absent = [Absent(one, _absence(one)) for one in candidates if one.tip is None]
    live = [one for one in there if look and one.state in _LIVE]
    if not live:
        return [_branch(one) for one in there], absent
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (only for live workers)

    with mergetree.scratch_directory() as scratch, ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        looks = pool.map(lambda one: _live(repo, one, env, os.path.join(scratch, f"{one.run}.{one.worker}")), live)
        seen = {one.handle: head for one, head in zip(live, looks, strict=True)}
    return [seen.get(one.handle) or _branch(one) for one in there], absent


def _absence(candidate: Candidate) -> str:
    return candidate.gone if candidate.ended else f"it is {candidate.state} and has no branch"


def _branch(candidate: Candidate, note: str | None = None) -> Head:
    assert candidate.tip is not None
    return Head(candidate, candidate.tip, note=note)


def _live(repo: Repository, candidate: Candidate, env: Mapping[str, str], scratch: str) -> Head:
    """Look at one worktree; whatever an agent does to it meanwhile, the branch still counts."""
    from git_parallel import worktrees  # noqa: PLC0415 (only for live workers)
    from git_parallel.store import snapshots  # noqa: PLC0415

    try:
        git = msgspec.structs.replace(worktrees.opened(repo, candidate.worktree), environment=env)
        admin = worktrees.paired(repo, candidate.worktree)
        if admin is None:
            return _branch(candidate, "its worktree is gone")
        with _removed(scratch):
            seen = snapshots.look_at(git, admin, scratch, _left_out(candidate))
        if seen.branch not in (None, candidate.branch):
            return _branch(candidate, f"its worktree is on another branch, {seen.branch.removeprefix(HEADS)}")
        if seen.head is None or not seen.dirty:
            return _branch(candidate) if seen.head is None else Head(candidate, seen.head)
        return Head(candidate, _commit(git, seen), uncommitted=True)
    except (ParallelError, OSError) as error:
        return _branch(candidate, f"its worktree cannot be read: {error}")


def _left_out(candidate: Candidate) -> list[str]:
    """What capture leaves out, too: files that the program drops."""
    from git_parallel.agents import launch, preset  # noqa: PLC0415 (only for live workers)

    return launch.pathspecs(preset.from_data(candidate.spec.preset)) if candidate.spec.preset else []


def _commit(git: Git, seen: Look) -> str:
    """Write a commit of a worktree as it is. Its date is now's: one before its parent's slows merge bases down."""
    who = f"git parallel <git-parallel@localhost> {int(time.time())} +0000"
    text = f"tree {seen.tree}\nparent {seen.head}\nauthor {who}\ncommitter {who}\n\nnot committed\n"
    return git.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).text


@contextmanager
def _removed(index: str) -> Iterator[None]:
    """A temporary index is of no use once its tree is written."""
    try:
        yield
    finally:
        for name in (index, f"{index}.lock"):
            if os.path.exists(name):
                os.unlink(name)
