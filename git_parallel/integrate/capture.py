"""Captures everything of a worker that only its worktree, its branch and their reflogs know.

Objects are written here, refs are not: the caller puts :attr:`Captured.updates` in place, all or none,
before anything is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from git_parallel import worktrees
from git_parallel.errors import RaceError, RefusedError
from git_parallel.git import Git, Repository
from git_parallel.integrate import nested
from git_parallel.integrate.remains import Remains
from git_parallel.layout import HEADS, kept_ref, wip_ref
from git_parallel.store import refs, scratch, snapshots
from git_parallel.store.lost import logged, lost_commits, on_no_ref, unreachable
from git_parallel.store.objects import Objects
from git_parallel.store.refs import Update
from git_parallel.store.snapshots import Look
from git_parallel.worktrees import submodules
from git_parallel.worktrees.uncaptured import Ignored, ignored

_NOTHING_IGNORED = Ignored()


class Captured(Struct, frozen=True):
    """What was found of a worker and is safe once ``updates`` have been made.

    ``head``: the branch's tip, None where there is no branch to remove. ``snapshot``: the commit with what
    no other commit holds. ``files``: paths that differ from HEAD; ``staged``: the index held something of
    its own; ``lost``: commits that no ref had. ``uncaptured``: what git could not take in, with the
    reason. ``at``: the worktree's HEAD, when it was not on the branch.
    """

    head: str | None = None
    snapshot: str | None = None
    files: int = 0
    staged: bool = False
    lost: tuple[str, ...] = ()
    ignored: Ignored = _NOTHING_IGNORED
    uncaptured: tuple[str, ...] = ()
    updates: tuple[Update, ...] = ()
    at: str | None = None


class _Case(Struct, frozen=True):
    """A worker and the values that its refs have now. ``head`` is the tip of a branch that is to go."""

    repo: Repository
    objects: Objects
    remains: Remains
    head: str | None
    kept: str | None
    wip: str | None


def capture(repo: Repository, objects: Objects, remains: Remains, *, branch_goes: bool) -> Captured:
    """Look at everything there is of a worker. Raises RefusedError or GitError when not all of it can be seen."""
    kept_name, wip_name = kept_ref(*remains.address), wip_ref(*remains.address)
    there = refs.read(repo, kept_name, wip_name)
    head = remains.tip if branch_goes else None
    case = _Case(repo, objects, remains, head, there.get(kept_name), there.get(wip_name))
    return _without_worktree(case) if remains.admin is None else _with_worktree(case)


def peek(repo: Repository, remains: Remains, *, branch_goes: bool) -> Captured:
    """What :func:`capture` would find of files, without writing a single object."""
    head = remains.tip if branch_goes else None
    if remains.standing != "here":
        return Captured(head=head)
    git = worktree_git(repo, remains)
    fields = git.run("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames").fields
    made = [field[3:-1] for field in fields if field.startswith("?? ") and field.endswith("/")]
    if (at := head_now(repo, remains)) is not None:
        made += nested.inside(git, remains.path, remains.spec.base, at)
    return Captured(
        head=head, files=len(fields), ignored=ignored(git, remains.path), uncaptured=tuple(_repositories(made))
    )


def _repositories(paths: Sequence[str]) -> list[str]:
    """Name the repositories that lie in the worktree and go where it goes."""
    return [f"{path}: a repository of its own" for path in dict.fromkeys(paths)]


def worktree_git(repo: Repository, remains: Remains) -> Git:
    """Git in a worker's worktree; only with its entry when the directory is gone."""
    assert remains.admin is not None
    if remains.standing == "gone":
        return Git((f"--git-dir={remains.admin}",), remains.admin)
    return worktrees.opened(repo, remains.path)


def head_now(repo: Repository, remains: Remains) -> str | None:
    """The commit that the worktree's HEAD is at, None on a branch without commits."""
    done = worktree_git(repo, remains).run("rev-parse", "-q", "--verify", "HEAD^{commit}", ok=(0, 1, 128))
    return done.text or None


# --- a branch alone --------------------------------------------------------------------------------


def _without_worktree(case: _Case) -> Captured:
    """The branch's reflog goes with it: commits that only it knows are kept, beside the tip."""
    repo, remains, head = case.repo, case.remains, case.head
    if head is None:
        return Captured()
    lost = _lost(case, logged(repo.common, remains.branch), [head])
    if lost:
        tree = case.objects.read_commit(head)[0]
        clean = Look(head, tree, remains.branch, tree, None, (), "")
        snapshot: str | None = _write_snapshot(case, clean, None, lost)
    else:
        snapshot = _snapshot_before(case)
    return Captured(head=head, snapshot=snapshot, lost=tuple(lost), updates=tuple(_updates(case, snapshot)))


def _snapshot_before(case: _Case) -> str | None:
    """What an earlier removal kept of the worktree, or a removal that was interrupted, or the run's end."""
    return case.remains.removal.snapshot if case.remains.removal is not None else case.wip


# --- a worktree ------------------------------------------------------------------------------------


def _with_worktree(case: _Case) -> Captured:
    remains = case.remains
    assert remains.admin is not None
    git = worktree_git(case.repo, remains)
    with scratch.index(case.repo, f"cleanup-{remains.worker}") as index:
        seen, staged = _look(case, git, index)
    lost = _lost(case, _lost_in_worktree(case, git, seen), [one for one in (case.head, seen.head) if one])
    snapshot = _snapshot(case, seen, staged, lost)
    change = snapshots.change(git, seen.head_tree or case.objects.tree({}), seen.tree)
    here = remains.standing == "here"
    inside = nested.inside(git, remains.path, remains.spec.base, seen.tree) if here else []
    uncaptured = [*seen.missing, *_repositories([*change.nested, *inside])]
    return Captured(
        head=case.head,
        snapshot=snapshot,
        files=len(change.paths),
        staged=_own_index(seen, staged),
        lost=tuple(lost),
        ignored=ignored(git, remains.path) if here else _NOTHING_IGNORED,
        uncaptured=(*uncaptured, *(_submodules(git, remains.admin) if here else ())),
        updates=tuple(_updates(case, snapshot)),
        at=seen.head if seen.branch != remains.branch else None,
    )


def _look(case: _Case, git: Git, index: str) -> tuple[Look, str | None]:
    """Return what lies in the worktree, and the tree of its index (None where there is no index)."""
    remains = case.remains
    assert remains.admin is not None
    indexed = os.path.exists(os.path.join(remains.admin, "index"))
    staged = snapshots.staged_tree(git) if indexed else None
    if indexed and staged is None:
        if os.path.lexists(os.path.join(remains.admin, "index.lock")):
            raise RaceError("its index was locked meanwhile")
        raise RefusedError(
            "its worktree has unresolved conflicts in the index",
            f"resolve them, or: git -C '{remains.path}' reset",
        )
    if remains.standing == "gone":
        return _look_at_entry(case, git, staged), staged
    seen = snapshots.look_at(git, remains.admin, index, thorough=True)
    if not indexed and seen.head_tree is not None and seen.tree == case.objects.tree({}):
        seen = msgspec.structs.replace(seen, tree=seen.head_tree)  # never filled: nothing was deleted
    return seen, staged


def _look_at_entry(case: _Case, git: Git, staged: str | None) -> Look:
    """A worktree whose directory is gone, as its entry tells: HEAD and the index."""
    asked = git.run("rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD", ok=(0, 128))
    head, head_tree, name = asked.lines if asked.returncode == 0 else (None, None, None)
    tree = staged or head_tree or case.objects.tree({})
    return Look(head, head_tree, name if name != "HEAD" else None, tree, None, (), "")


def _own_index(seen: Look, staged: str | None) -> bool:
    return staged is not None and staged not in (seen.tree, seen.head_tree)


def _snapshot(case: _Case, seen: Look, staged: str | None, lost: Sequence[str]) -> str | None:
    """Write the snapshot that is needed; return it, or the one that already says all, or None."""
    away = seen.branch != case.remains.branch
    gone = case.remains.standing == "gone"
    if not (seen.dirty or _own_index(seen, staged) or lost or away):
        return _snapshot_before(case) if gone else None
    if case.wip is not None and not lost:
        (before,) = snapshots.read_snapshots(case.repo, [case.wip])
        if before is not None and _covers(case, before, seen, staged):
            return case.wip
    return _write_snapshot(case, seen, staged, lost)


def _covers(case: _Case, before: snapshots.Snapshot, seen: Look, staged: str | None) -> bool:
    """Whether a snapshot says all that is seen now: the usual case when an interrupted removal goes on."""
    branch = seen.branch.removeprefix(HEADS) if seen.branch else None
    index = case.objects.read_commit(before.index)[0] if before.index else None
    if (before.head, before.branch) != (seen.head, branch):
        return False
    if case.remains.standing == "gone":  # only the index is left to compare
        return staged is None or staged in (before.tree, index, seen.head_tree)
    return (before.tree, index) == (seen.tree, staged if _own_index(seen, staged) else None)


def _write_snapshot(case: _Case, seen: Look, staged: str | None, lost: Sequence[str]) -> str:
    said = f"{case.remains.handle}: what no commit held when cleanup removed it"
    return snapshots.snapshot(case.objects, seen, said, index_tree=staged, lost=lost, previous=case.wip)


def _submodules(git: Git, admin: str) -> Iterator[str]:
    """Name the submodules whose repository, which is the worktree's own, holds work."""
    modules = os.path.join(admin, "modules")
    if not os.path.isdir(modules):
        return
    for line in git.run("status", "--porcelain=v2", "-z", "--ignore-submodules=none", "--untracked-files=no").fields:
        words = line.split(" ", 8)
        if words[0] == "1" and words[2].startswith("S") and words[2] != "S...":
            yield f"{words[8]}: a submodule with changes of its own"
    for top in submodules.repositories(modules):
        asked = ("rev-list", "--max-count=1", "--all", "HEAD", "--not", "--remotes")
        done = Git((f"--git-dir={top}",), top).run(*asked, ok=(0, 128))
        if done.returncode or done.stdout:
            yield f"{os.path.relpath(top, modules)}: a submodule with commits of its own"


# --- commits that nothing else knows ---------------------------------------------------------------


def _lost_in_worktree(case: _Case, git: Git, seen: Look) -> list[str]:
    """Commits that the worktree's HEAD, reflogs and own refs know, less those that are surely kept."""
    remains = case.remains
    assert remains.admin is not None
    made = remains.result.head if remains.result is not None else None
    sure = [commit for commit in (remains.spec.base, remains.tip, made, seen.head) if commit]
    logs = ["HEAD"] if case.head is None else ["HEAD", remains.branch]
    return lost_commits(git, remains.admin, sure, logs)


def _lost(case: _Case, candidates: Sequence[str], sure: Sequence[str]) -> list[str]:
    """Which of these commits no ref will have, when ``sure`` are kept in any case."""
    lost = on_no_ref(case.repo, candidates)
    if case.kept is not None and case.head is not None:
        lost.append(case.kept)  # the kept ref of an earlier removal moves on
    return unreachable(case.repo.common, list(dict.fromkeys(lost)), sure)


def _updates(case: _Case, snapshot: str | None) -> Iterator[Update]:
    """What to put in place before anything is removed."""
    address, zero = case.remains.address, case.repo.zero
    if case.head is not None:
        yield Update(case.remains.branch, case.head, case.head)  # what is kept is what will be removed
        yield Update(kept_ref(*address), case.head, case.kept or zero)
    if snapshot is not None and snapshot != case.wip:
        yield Update(wip_ref(*address), snapshot, case.wip or zero)
