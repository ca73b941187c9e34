"""Checkpoints: what lies in a live worker's worktree, kept under its wip ref from time to time.

Each names the one before it, back to what the ref held when the round began. The agent's index is only
copied, and none of its locks are taken. They stay when the worker ends: the state that it ends with names the
last of them. Only one that holds nothing else than the branch has done its work, and the ref goes back.
"""

from __future__ import annotations

import contextlib
import os
import threading

from git_parallel import worktrees
from git_parallel.agents import launch
from git_parallel.layout import HEADS, wip_ref
from git_parallel.plan.model import Job
from git_parallel.store import refs, snapshots
from git_parallel.store.lost import lost_commits, on_no_ref
from git_parallel.store.refs import Update
from git_parallel.supervisor.context import Context

# Seconds without output or use of the processor after which a worktree is likely to be in one piece.
_QUIET = 3.0
# Of the time between two checkpoints, what at least lies between them when the second is at a quiet moment.
_QUIET_SHARE = 0.25
# A write may be too small to show in any counter: after so many quiet intervals, look all the same.
_LOOK_ANYWAY = 5


def due(now: float, *, every: float, looked: float, stirred: float) -> bool:
    """Say whether to look at a worktree that was last looked at at ``looked``. Pure; all in seconds.

    ``stirred`` is when its worker was last seen to do something. With something new, it is time after
    ``every`` seconds, and earlier at a quiet moment.
    """
    since = now - looked
    if stirred <= looked:
        return since >= every * _LOOK_ANYWAY
    quiet = now - stirred >= _QUIET and since >= every * _QUIET_SHARE
    return since >= every or quiet


class Checkpoints:
    """The checkpoints of one worker. Methods may be called from any thread."""

    def __init__(self, context: Context, job: Job) -> None:
        self._context = context
        self._job = job
        self._lock = threading.Lock()
        self._closed = False
        self._tip = context.rounds[job.worker].wip
        self._last: tuple[str | None, ...] | None = None
        self._scratch = os.path.join(context.files.worker(job.worker).top, "checkpoint.index")
        self._index: snapshots.Stamp | None = None
        self._staged: str | None = None
        self._log: snapshots.Stamp | None = None

    @property
    def made(self) -> bool:
        """Whether this round has a checkpoint."""
        return self._tip != self._context.rounds[self._job.worker].wip

    def take(self) -> str | None:
        """Make a checkpoint when something has changed since the last one, and return its commit.

        Raises ParallelError or OSError when the worktree cannot be read just now.
        """
        with self._lock:
            return None if self._closed else self._take()

    def close(self) -> None:
        """Make no more; one that is being made is waited for."""
        with self._lock:
            self._closed = True
            self._tidy()

    def _take(self) -> str | None:
        context, job = self._context, self._job
        admin = worktrees.paired(context.repo, job.worktree)
        if admin is None:
            return None
        try:
            seen = self._look(admin)
        except BaseException:
            self._tidy()
            raise
        log, lost = self._lost(admin, seen)
        state = (seen.head, seen.branch, seen.tree, self._staged)
        if state == self._last and not lost:
            return None
        begun = seen.dirty or lost or seen.head != context.rounds[job.worker].start
        if self._last is None and not begun:
            self._last = state  # nothing has been done yet
            return None
        commit = snapshots.snapshot(
            context.objects,
            seen,
            f"git parallel {context.spec.run}/{job.worker}: checkpoint",
            index_tree=self._staged,
            lost=lost,
            previous=self._tip,
        )
        with refs.locked(context.repo):
            refs.transaction(context.repo, [Update(wip_ref(context.spec.run, job.worker), commit, None)])
        self._tip, self._last, self._log = commit, state, log
        return commit

    def _look(self, admin: str) -> snapshots.Look:
        """See what lies there; while the agent leaves its index alone, only what has changed is read."""
        context, job = self._context, self._job
        index = os.path.join(admin, "index")
        now = snapshots.stamp(index)
        again = now is not None and now == self._index and os.path.exists(self._scratch)
        if not again:
            self._tidy()
            snapshots.copy_index(index, self._scratch)
            # Writing the tree of an index takes that index's lock: a copy's here, never the agent's.
            self._staged = snapshots.staged_tree(context.repo.at(job.worktree), self._scratch)
        leave = launch.pathspecs(context.preset)
        seen = snapshots.look(
            context.repo, job.worktree, admin, self._scratch, leave, again=again, objects=context.objects
        )
        self._index = now
        return seen

    def _lost(self, admin: str, seen: snapshots.Look) -> tuple[snapshots.Stamp | None, list[str]]:
        """The commits that only reflogs know, but for those that the last checkpoint holds, and HEAD's reflog's stamp.

        Nothing is asked while that is as it was at the last checkpoint.
        """
        log = snapshots.stamp(os.path.join(admin, "logs", "HEAD"))
        if log is not None and log == self._log:
            return log, []
        context, own = self._context, HEADS + self._job.branch
        kept = [commit for commit in (context.rounds[self._job.worker].start, seen.head, self._tip) if commit]
        found = lost_commits(context.repo.common, admin, kept, ("HEAD", own))
        return log, on_no_ref(context.repo, found, besides=wip_ref(context.spec.run, self._job.worker))

    def _tidy(self) -> None:
        self._index = None
        for name in (self._scratch, f"{self._scratch}.lock"):  # the lock is what somebody's death left
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


def newest(context: Context, job: Job) -> str | None:
    """The last checkpoint of the worker's present round, also of a supervisor that died; None when there is none."""
    ref = wip_ref(context.spec.run, job.worker)
    tip = refs.read(context.repo, ref).get(ref)
    return tip if tip != context.rounds[job.worker].wip else None


def past(context: Context, job: Job, tree: str) -> str | None:
    """What the state that a worker ends with goes on from, ``tree`` being all of that.

    The last checkpoint, unless it is the only one and holds the same; then what the ref held before the round.
    """
    before, tip = context.rounds[job.worker].wip, newest(context, job)
    if tip is None:
        return before
    (last,) = snapshots.read_snapshots(context.repo, [tip])
    same = last is not None and last.tree == tree and last.previous == before and not (last.lost or last.index)
    return before if same else tip


def dropped(context: Context, job: Job) -> list[Update]:
    """What brings the wip ref back to where it was before the worker's present round."""
    if newest(context, job) is None:
        return []
    return [Update(wip_ref(context.spec.run, job.worker), context.rounds[job.worker].wip, None)]
