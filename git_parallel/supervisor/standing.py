"""Where a worker can go on: its branch and worktree as they are, brought back, or made anew.

Nothing of the person's is overwritten: what they edited in the worktree is committed on the branch before
the agent goes on, and whatever is in the way refuses.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from git_parallel.agents import launch
from git_parallel.agents.preset import Preset
from git_parallel.errors import RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import remains, restorable, restore
from git_parallel.integrate.remains import Remains
from git_parallel.layout import RunFiles
from git_parallel.render import text
from git_parallel.store import refs, snapshots
from git_parallel.store.objects import Objects
from git_parallel.store.refs import Update
from git_parallel.worktrees import registry

How = Literal["reuse", "make", "restore", "create"]


class Site(Struct, frozen=True):
    """One worker's place. ``how``: the worktree is there, is to be made for the branch, is to be brought back
    (with the branch, where that is gone, and the state it had), or both are to be made at the base.
    """

    remains: Remains
    how: How


class Start(Struct, frozen=True):
    """The commit that a worker goes on from, once ``update`` is made; then ``index`` belongs to it."""

    tip: str
    update: Update
    admin: str | None = None
    index: str | None = None
    missing: tuple[str, ...] = ()


def sites(repo: Repository, run: str, numbers: Sequence[int]) -> list[Site]:
    """Return the place of each worker. Raises RefusedError for the first that has none; nothing is changed."""
    found = remains.find(repo, [(run, number) for number in numbers])
    taken = refs.read(repo, *(one.branch for one in found))
    return [Site(one, _how(repo, one, one.branch in taken)) for one in found]


def can_go_on(repo: Repository, run: str, number: int) -> bool:
    """Whether there is a place for this one worker."""
    try:
        return bool(sites(repo, run, [number]))
    except RefusedError:
        return False


def _how(repo: Repository, one: Remains, branch_exists: bool) -> How:
    if one.standing == "here":
        _refuse_unusable(one)
        return "reuse"
    if one.standing == "gone":
        raise RefusedError(
            f"the worktree of worker {one.worker} was removed without git: '{one.path}'",
            f"let git forget it, and then go on: git parallel cleanup --keep-branches {one.handle}",
        )
    never = one.result is None or one.result.head is None  # then its branch went when the run ended
    if one.standing in ("stray", "replaced") or (one.standing == "none" and os.path.lexists(one.job.worktree)):
        if (other := _holder(repo, one)) is not None:
            raise RefusedError(
                f"the number of worker {one.handle} was given away: '{one.path}' is the worktree of {other}",
                _under_another_name(one, never),
            )
        raise RefusedError(
            f"'{one.path}', where worker {one.worker} worked, is something else now", "move it away, and try again"
        )
    if branch_exists and (one.tip is None or never):
        raise RefusedError(
            f"branch '{one.job.branch}' is not worker {one.handle}'s any more: its number was given away",
            _under_another_name(one, never),
        )
    if one.tip is not None:
        return "restore" if one.removal is not None and one.removal.snapshot is not None else "make"
    return "create" if never else "restore"


def _holder(repo: Repository, one: Remains) -> str | None:
    """Which worker's worktree lies at the path that this one was given, if it is another one's."""
    for entry in registry.entries(repo):
        if registry.real(entry.path) == one.path and (entry.locked or "").startswith(registry.OUR_LOCK):
            return str(entry.locked).removeprefix(registry.OUR_LOCK) if entry.locked != one.reason else None
    return None


def _under_another_name(one: Remains, never: bool) -> str:
    if never:
        return "it had not begun, and has no work to go on with: give its task to a new run"
    return f"its work under another name: git parallel restore {one.handle} --branch NAME"


def _refuse_unusable(one: Remains) -> None:
    assert one.admin is not None
    if one.tip is None:
        raise RefusedError(
            f"the branch of worker {one.worker} is gone: '{one.job.branch}'",
            f"git parallel cleanup {one.handle} keeps what its worktree has; the worker can go on then",
        )
    if not one.attached:
        raise RefusedError(
            f"the worktree of worker {one.worker} is not on its branch",
            f"put it there: git -C '{one.path}' switch {one.job.branch}",
        )
    if (operation := snapshots.operation_in_progress(one.admin)) is not None:
        raise RefusedError(
            f"a {operation} is in progress in the worktree of worker {one.worker}",
            f"finish or abort it in '{one.path}', and try again",
        )


def bring_back(repo: Repository, run: str, found: Sequence[Site]) -> list[Site]:
    """Restore what is to be restored; return the places as they are now. Raises what restoring raises."""
    for site in found:
        if site.remains.standing == "empty":
            os.rmdir(site.remains.path)  # making it was interrupted
    gone = [site.remains for site in found if site.how == "restore"]
    for item in restorable.named(repo, [one.handle for one in gone]) if gone else ():
        restore.restore_worktree(repo, item, None)
    return sites(repo, run, [site.remains.worker for site in found]) if gone else list(found)


def start(repo: Repository, objects: Objects, run: RunFiles, preset: Preset, site: Site, *, attempt: int) -> Start:
    """Look at a worker's branch and worktree; what a person edited there becomes a commit, unless there is none."""
    one = site.remains
    if site.how == "create":
        return Start(one.spec.base, Update(one.branch, one.spec.base, repo.zero))
    assert one.tip is not None
    same = Start(one.tip, Update(one.branch, one.tip, one.tip))
    if site.how != "reuse" or one.admin is None or not os.path.exists(os.path.join(one.admin, "index")):
        return same
    scratch = os.path.join(run.worker(one.worker).top, "edits.index")
    seen = snapshots.look(repo, one.path, one.admin, scratch, launch.pathspecs(preset))
    if not seen.dirty or seen.branch != one.branch or seen.head != one.tip:
        os.unlink(scratch)
        return same
    commit = objects.commit(seen.tree, [one.tip], _message(one, attempt))
    return Start(commit, Update(one.branch, commit, one.tip), one.admin, scratch, seen.missing)


def _message(one: Remains, attempt: int) -> str:
    title = one.spec.task(one.job.task).title
    trailers = f"Parallel-Run: {one.run}\nParallel-Worker: {one.worker}\n"
    return f"{text.subject(f'edits before attempt {attempt}: {title}')}\n\n{trailers}"


def settle(begun: Start) -> bool:
    """After its commit is on the branch, the worktree's index follows. False when somebody holds that."""
    if begun.index is None or begun.admin is None:
        return True
    done = snapshots.install_index(begun.admin, begun.index)
    os.unlink(begun.index)
    return done
