"""What stands against removing a worker's worktree or branch. Each question is asked of things as they are now."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from git_parallel import worktrees
from git_parallel.git import Repository
from git_parallel.integrate.remains import Remains
from git_parallel.layout import HEADS, State
from git_parallel.store import snapshots
from git_parallel.supervisor import files, liveness
from git_parallel.worktrees import registry
from git_parallel.worktrees.registry import Entry


class Obstacle(Struct, frozen=True):
    """Why something stays as it is: a word for scripts, a sentence, and what to type next."""

    reason: str
    message: str
    hint: str = ""


def worktree(repo: Repository, remains: Remains, here: str | None) -> Obstacle | None:
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
    if remains.standing in ("none", "empty"):
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
    lock = os.path.join(remains.admin, "index.lock")
    if os.path.lexists(lock):
        return Obstacle(
            "index_locked",
            f"the index of its worktree is locked by '{lock}'",
            f"if no other git is at work in '{path}', remove that file, and try again",
        )
    return _missing(repo, remains) if remains.standing == "gone" else None


def _missing(repo: Repository, remains: Remains) -> Obstacle | None:
    """A worktree whose directory is gone: into the trash, removed by hand, or on a volume that is not there."""
    assert remains.admin is not None
    if any(item.present for item in worktrees.trashed(repo, remains.address)):
        return None
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


def branch(repo: Repository, remains: Remains, entries: Sequence[Entry]) -> Obstacle | None:
    """Say what stands against deleting a worker's branch; ``entries`` are all worktrees as they are now."""
    if remains.tip is None:
        return None
    short = remains.job.branch
    if remains.symbolic:
        return Obstacle("symbolic", f"branch {short} is a symbolic ref", f"git symbolic-ref {remains.branch}")
    return used_elsewhere(repo, remains, entries) or (None if remains.attached else _another_history(repo, remains))


def used_elsewhere(repo: Repository, remains: Remains, entries: Sequence[Entry]) -> Obstacle | None:
    """Say which other worktree stands on the branch, or is rebasing or bisecting it."""
    short = remains.job.branch
    for entry in entries:
        if entry.branch == remains.branch and registry.real(entry.path) != remains.path:
            return Obstacle(
                "checked_out",
                f"branch {short} is checked out in '{entry.path}'",
                f"leave it there first: git -C '{entry.path}' switch <another branch>",
            )
    names = registry.entry_names(repo)
    for place in [repo.common_dir, *(os.path.join(repo.common_dir, "worktrees", name) for name in names)]:
        if registry.named_by_entry(place) != remains.path and remains.branch in _busy_branches(place):
            return Obstacle(
                "in_use", f"branch {short} is being rebased or bisected in another worktree", "see: git worktree list"
            )
    return None


def _busy_branches(git_dir: str) -> set[str]:
    """The branches that a rebase or bisect in this worktree will come back to."""
    names = set()
    for name in ("rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"):
        data = os.fsdecode(files.read(os.path.join(git_dir, name)) or b"").strip()
        if data:
            names.add(data if data.startswith("refs/") else HEADS + data)
    return names


def _another_history(repo: Repository, remains: Remains) -> Obstacle | None:
    """A branch that does not hold what the worker made may be a new one of the same name, and a person's."""
    assert remains.tip is not None
    made = (remains.result.head if remains.result is not None else None) or remains.spec.base
    held = ("merge-base", "--is-ancestor", made, remains.tip)
    if remains.tip == made or repo.common.run(*held, ok=(0, 1, 128)).returncode == 0:
        return None
    short = remains.job.branch
    return Obstacle(
        "not_ours",
        f"branch {short} no longer holds what the worker made ({made[:10]}): it may be yours",
        f"delete it yourself if it is not wanted: git branch -D {short}",
    )
