"""Removes worktrees and branches of workers that have ended, so that nothing is lost and all can be restored.

The order, for each worker: refs that keep everything → the directory into the trash and git's entry away →
the branch deleted in one transaction with the record. Interrupted between any two steps, the next call
finds what is left and goes on; nothing before the last step depends on what the record says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from git_parallel import worktrees
from git_parallel.errors import ParallelError, RaceError
from git_parallel.git import Repository
from git_parallel.integrate import capture, merged, obstacles, remains, removal
from git_parallel.integrate.capture import Captured
from git_parallel.integrate.obstacles import Obstacle
from git_parallel.integrate.remains import Remains
from git_parallel.integrate.removal import Removal
from git_parallel.layout import kept_ref
from git_parallel.store import reading, record, refs
from git_parallel.store.objects import Objects
from git_parallel.store.refs import Update
from git_parallel.supervisor.journal import timestamp
from git_parallel.worktrees import Entry

_TRIES = 3

Action = Literal["removed", "kept", "refused", "nothing"]


class Options(Struct, frozen=True):
    """What is asked for. ``here`` is the directory that the person stands in."""

    merged: bool = False
    keep_branches: bool = False
    dry_run: bool = False
    here: str | None = None


class Outcome(Struct, frozen=True):
    """What became of one worker: ``removed`` (or would be), ``kept`` for a reason, ``refused``, or ``nothing`` left.

    ``obstacle`` says why something stayed; a removed worktree's branch may have one too. ``trash`` is where
    the directory is now, None when there was none.
    """

    remains: Remains
    action: Action
    obstacle: Obstacle | None = None
    captured: Captured | None = None
    branch_removed: bool = False
    worktree_removed: bool = False
    trash: str | None = None

    @property
    def refused(self) -> bool:
        """Whether something that was asked for was not done, in order not to lose work."""
        return self.action == "refused" or (self.action == "removed" and self.obstacle is not None)


def clean(repo: Repository, wanted: Sequence[tuple[str, int | None]] | None, options: Options) -> list[Outcome]:
    """Remove what is left of these workers; None: of all workers that have ended. Return what was done.

    A worker that cannot be removed without loss is refused, and the others go on.
    """
    outcomes = []
    found = remains.find(repo, wanted)
    with Objects(repo) as objects:
        for run in dict.fromkeys(one.run for one in found):
            whole = [one for one in found if one.run == run]
            outcomes += _clean_run(repo, objects, whole, options, explicit=wanted is not None)
    return outcomes


def _clean_run(
    repo: Repository, objects: Objects, workers: Sequence[Remains], options: Options, *, explicit: bool
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    newer = _written_by_newer(repo, workers[0].run)
    target = merged.target_commit(repo, workers[0].spec.target) if options.merged else None
    for worker in workers:
        if not worker.something:
            outcomes.append(Outcome(worker, "nothing"))
            continue
        stop = obstacles.worktree(repo, worker, options.here) or newer
        if stop is None and options.merged:
            stop = _unmerged(repo, objects, worker, target)
        if stop is not None:
            # Whoever asks for all that has ended did not ask for what goes on.
            passed = stop.reason == "unmerged" or (stop.reason == "running" and not explicit)
            outcomes.append(Outcome(worker, "kept" if passed else "refused", stop))
            continue
        outcomes.append(_remove_worker(repo, objects, worker, options))
    return outcomes if options.dry_run else _record(repo, outcomes)


def _written_by_newer(repo: Repository, run: str) -> Obstacle | None:
    kept = record.read(repo, run)
    if kept is None or kept.version is None or kept.version <= reading.VERSION:
        return None
    return Obstacle("newer", "its record was written by a newer git parallel", "upgrade git parallel")


def _unmerged(repo: Repository, objects: Objects, worker: Remains, target: str | None) -> Obstacle | None:
    """With --merged: what is not in the target stays. Everything is asked of the refs as they are now."""
    if target is None:
        name = worker.spec.target
        return Obstacle("unmerged", f"its target {name} does not exist" if name else "its run had no target")
    head = worker.tip or (worker.result.head if worker.result is not None else None) or worker.spec.base
    if merged.integrated(repo, objects, head, target) is None or merged.taken_back(
        repo, worker.spec.base, head, target
    ):
        return Obstacle("unmerged", f"its work is not in {str(worker.spec.target).removeprefix('refs/heads/')}")
    if worker.standing == "here":
        if capture.head_now(repo, worker) not in (head, None):
            return Obstacle("unmerged", "its worktree is at another commit than its branch")
        if capture.peek(repo, worker, branch_goes=False).files:
            return Obstacle("unmerged", "there is uncommitted work in its worktree")
    return None


# --- one worker ------------------------------------------------------------------------------------


def _remove_worker(repo: Repository, objects: Objects, worker: Remains, options: Options) -> Outcome:
    """Keep everything, then move the worktree away. The branch is left for :func:`_record`."""
    for tries_left in reversed(range(_TRIES)):
        obstacle = None if options.keep_branches else obstacles.branch(repo, worker, worktrees.entries(repo))
        branch_goes = worker.tip is not None and obstacle is None and not options.keep_branches
        if worker.standing == "none" and not branch_goes:
            return Outcome(worker, "refused" if obstacle is not None else "kept", obstacle or _BRANCH_STAYS)
        try:
            if options.dry_run:
                captured, trash = capture.peek(repo, worker, branch_goes=branch_goes), None
            else:
                captured = capture.capture(repo, objects, worker, branch_goes=branch_goes)
                trash = _keep_and_retire(repo, worker, captured, options)
        except RaceError:
            # Somebody committed while we looked: look again at all of it.
            (worker,) = remains.find(repo, [worker.address])
            if tries_left and worker.something:
                continue
            return Outcome(worker, "refused", Obstacle("moved", "it changes while it is being looked at"))
        except _BlockedError as blocked:
            return Outcome(worker, "refused", blocked.obstacle)
        except ParallelError as error:
            return Outcome(worker, "refused", Obstacle("unreadable", error.message, "\n".join(error.hints)))
        except OSError as error:
            where = f": '{error.filename}'" if error.filename else ""
            return Outcome(
                worker, "refused", Obstacle("unreadable", f"{(error.strerror or str(error)).lower()}{where}")
            )
        return Outcome(
            worker,
            "removed",
            obstacle,
            captured,
            branch_removed=branch_goes,
            worktree_removed=worker.standing != "none",
            trash=trash or None,
        )
    raise AssertionError("unreachable")


_BRANCH_STAYS = Obstacle("keep_branches", "only its branch is left")


class _BlockedError(Exception):
    """Something came up after the worker had been looked at."""

    def __init__(self, obstacle: Obstacle) -> None:
        super().__init__(obstacle.message)
        self.obstacle = obstacle


def _keep_and_retire(repo: Repository, worker: Remains, captured: Captured, options: Options) -> str | None:
    """Under the lock: see that nothing came up, put the refs in place, move the worktree to the trash."""
    with refs.locked(repo):
        if (came_up := obstacles.worktree(repo, worker, options.here)) is not None:
            raise _BlockedError(came_up)
        if captured.at is not None and capture.head_now(repo, worker) != captured.at:
            raise RaceError("the worktree's HEAD moved")
        refs.transaction(repo, captured.updates, message=f"parallel: kept by cleanup of {worker.handle}")
        if worker.standing == "empty":
            os.rmdir(worker.path)
        if worker.admin is None:
            return None
        return worktrees.retire(
            repo, worker.path, worker.admin, run=worker.run, worker=worker.worker, hold=captured.uncaptured
        )


# --- the record ------------------------------------------------------------------------------------


def _record(repo: Repository, outcomes: list[Outcome]) -> list[Outcome]:
    """Delete the branches and record the removals of one run, in one transaction."""
    removed = [outcome for outcome in outcomes if outcome.action == "removed"]
    if not removed:
        return outcomes
    run = removed[0].remains.run
    settings = _branch_settings(repo, [one.remains.job.branch for one in removed if one.branch_removed])
    with refs.locked(repo):
        entries = worktrees.entries(repo)
        checked = [_still(repo, one, entries) for one in removed]
        now = [one for one in checked if one.action == "removed"]
        try:
            record.write_many(repo, run, [_entry(one, settings) for one in now])
        except RaceError:  # one of the branches moved: each by itself, so that the others get through
            now = [_record_one(repo, one, settings) for one in now]
    for one in now:
        if one.branch_removed:
            _forget_settings(repo, one.remains.job.branch, settings)
    done = {one.remains.worker: one for one in (*checked, *now)}
    return [done.get(outcome.remains.worker, outcome) for outcome in outcomes]


def _still(repo: Repository, outcome: Outcome, entries: Sequence[Entry]) -> Outcome:
    """Look once more, right before the end: nobody may lose the branch that they have just switched to."""
    came_up = obstacles.used_elsewhere(repo, outcome.remains, entries) if outcome.branch_removed else None
    return outcome if came_up is None else _branch_stays(outcome, came_up)


def _branch_stays(outcome: Outcome, obstacle: Obstacle) -> Outcome:
    action: Action = "removed" if outcome.worktree_removed else "refused"
    return replace(outcome, action=action, branch_removed=False, obstacle=obstacle)


def _record_one(repo: Repository, outcome: Outcome, settings: Mapping[str, list[tuple[str, str]]]) -> Outcome:
    try:
        record.write_many(repo, outcome.remains.run, [_entry(outcome, settings)])
    except RaceError:
        outcome = _branch_stays(outcome, Obstacle("moved", "its branch moved meanwhile and is kept", "run it again"))
        if outcome.worktree_removed:
            record.write_many(repo, outcome.remains.run, [_entry(outcome, settings)])
    return outcome


def _entry(outcome: Outcome, settings: Mapping[str, list[tuple[str, str]]]) -> record.Entry:
    worker, captured = outcome.remains, outcome.captured
    assert captured is not None
    branch = worker.job.branch if outcome.branch_removed else None
    removed = Removal(
        time=timestamp(),
        branch=branch,
        head=captured.head,
        snapshot=captured.snapshot,
        worktree=_text(worker.path) if outcome.worktree_removed else None,
        trash=_text(outcome.trash) if outcome.trash else None,
        settings=settings.get(worker.job.branch, []) if branch else [],
    )
    gone = " and ".join(["worktree"] * outcome.worktree_removed + ["branch"] * outcome.branch_removed)
    trailers = [
        ("Architect-Event", "cleanup"),
        ("Architect-Worker", str(worker.worker)),
        *([("Architect-Branch", branch)] if branch else []),
        *([("Architect-Head", captured.head)] if captured.head else []),
        *([("Architect-Snapshot", captured.snapshot)] if captured.snapshot else []),
    ]
    updates = []
    if outcome.branch_removed and captured.head is not None:
        # The branch goes only while the ref that keeps its tip stands.
        updates.append(Update(kept_ref(*worker.address), captured.head, captured.head))
        updates.append(Update(worker.branch, None, captured.head))
    return record.Entry(
        changes={removal.path(worker.worker): removal.encode(removed)},
        subject=f"cleanup: {gone} of worker {worker.worker} removed",
        trailers=trailers,
        updates=updates,
    )


def _text(path: str) -> str:
    """A path for JSON: bytes that are no UTF-8 are written out."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _branch_settings(repo: Repository, branches: Iterable[str]) -> dict[str, list[tuple[str, str]]]:
    """The branches' own lines of the repository's configuration (an upstream, a description), by branch."""
    wanted = set(branches)
    if not wanted:
        return {}
    done = repo.common.run("config", "--local", "-z", "--get-regexp", r"^branch\..*\.", ok=(0, 1))
    settings: dict[str, list[tuple[str, str]]] = {}
    for field in done.fields:
        key, _, value = field.partition("\n")
        _, _, rest = key.partition(".")
        branch, _, name = rest.rpartition(".")
        if branch in wanted:
            settings.setdefault(branch, []).append((name, value))
    return settings


def _forget_settings(repo: Repository, branch: str, settings: Mapping[str, object]) -> None:
    """As `git branch -d` does: the next branch of that name must not inherit an upstream."""
    if branch in settings:
        repo.common.run("config", "--local", "--remove-section", f"branch.{branch}", ok=(0, 5, 128))
