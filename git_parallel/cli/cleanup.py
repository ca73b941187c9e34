"""``git parallel cleanup``: remove worktrees and branches of workers that have ended, safely."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

from git_parallel import errors, worktrees
from git_parallel.cli import _common
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import cleanup
from git_parallel.integrate.cleanup import Outcome
from git_parallel.plan import config
from git_parallel.render import removals, text
from git_parallel.supervisor import view
from git_parallel.worktrees import Purged

_MOST_HANDLES = 3


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--all", "everything", is_flag=True, help="All workers that have ended (the default without words).")
@click.option("--merged", is_flag=True, help="Only workers whose work is in the run's target already.")
@click.option("--keep-branches", is_flag=True, help="Remove worktrees only.")
@click.option("-n", "--dry-run", is_flag=True, help="Show what would be removed and kept; change nothing.")
@_common.json_option
@_common.porcelain_options
def command(
    *,
    words: Sequence[str],
    everything: bool,
    merged: bool,
    keep_branches: bool,
    dry_run: bool,
    as_json: bool,
    porcelain: bool,
    nul: bool,
) -> int:
    """Remove worktrees and branches of workers that have ended. Everything can be restored.

    Uncommitted, untracked and staged work and commits that only a reflog knows are kept as a snapshot, the
    branch's tip as a ref, the directory in the trash (parallel.trashExpire). What could be lost, or may be
    yours, is left alone and named; the exit code is then 5.

    --porcelain prints a line a worker, fields parted by TAB: action (removed, kept, refused, nothing), run,
    worker, reason, branch, head, snapshot, worktree, trash.
    """
    _common.one_format(as_json, porcelain, nul)
    if everything and words:
        raise UsageError("--all goes without the name of a run or worker")
    repo = Repository.discover()
    if not dry_run:
        from git_parallel.supervisor import interrupted  # noqa: PLC0415 (a dry run changes nothing)

        for line in interrupted.notice(repo):
            click.echo(line, err=True)
    wanted = _wanted(repo, words)
    options = cleanup.Options(merged=merged, keep_branches=keep_branches, dry_run=dry_run, here=_here())
    outcomes = cleanup.clean(repo, wanted, options)
    expire = _expire(repo)
    if as_json:
        purged = _purge(repo, expire, dry_run=dry_run)
        _common.write(view.dumps(document(outcomes, purged, dry_run=dry_run)) + "\n")
    elif porcelain or nul:
        _common.write_lines(map(_fields, outcomes), nul=nul)
        _purge(repo, expire, dry_run=dry_run)
    else:
        _print(outcomes, dry_run=dry_run, expire=expire)
        _say_purged(_purge(repo, expire, dry_run=dry_run), dry_run=dry_run)
    return errors.REFUSED if any(one.refused for one in outcomes) else errors.OK


def _wanted(repo: Repository, words: Sequence[str]) -> list[tuple[str, int | None]] | None:
    if not words:
        return None
    from git_parallel.store import handles  # noqa: PLC0415 (not needed for the plain command)

    return [(handle.run, handle.worker) for handle in handles.resolve(repo, words)]


def _here() -> str | None:
    try:
        return os.path.realpath(os.getcwd())
    except FileNotFoundError:
        return None


def _expire(repo: Repository) -> float | None:
    """How long trash is kept, in seconds. A wrong setting keeps it: a cleanup must not fail on that."""
    try:
        return config.load(repo).trash_expire
    except UsageError as error:
        _common.say("warning", f"the trash is left as it is: {error.message}")
        return None


def _purge(repo: Repository, expire: float | None, *, dry_run: bool) -> list[Purged]:
    if expire is None:
        return []
    if not dry_run:
        return worktrees.purge(repo, expire)
    limit = time.time() - expire
    return [Purged(item, 0) for item in worktrees.trashed(repo) if item.time < limit and not item.held]


def document(outcomes: Sequence[Outcome], purged: Sequence[Purged], *, dry_run: bool) -> dict[str, object]:
    """The JSON: what was done with each worker, and what was deleted from the trash."""
    return {
        "v": 1,
        "dry_run": dry_run,
        "workers": [removals.outcome_document(one) for one in outcomes],
        "purged": [
            {
                "run": one.item.run,
                "worker": one.item.worker,
                "was": one.item.path,
                "bytes": one.size,
                "error": one.error,
            }
            for one in purged
        ],
    }


def _fields(one: Outcome) -> Sequence[object]:
    captured = one.captured
    return (
        one.action,
        one.remains.run,
        one.remains.worker,
        one.obstacle.reason if one.obstacle else None,
        one.remains.job.branch,
        captured.head if captured else one.remains.tip,
        captured.snapshot if captured else None,
        one.remains.path,
        one.trash,
    )


def _print(outcomes: Sequence[Outcome], *, dry_run: bool, expire: float | None) -> None:
    if not outcomes:
        click.echo("nothing to clean up", err=True)
        return
    _common.write(removals.lines(removals.outcome(one, dry_run=dry_run, expire=expire) for one in outcomes))
    _common.write(removals.outcomes_total(outcomes, dry_run=dry_run) + "\n")
    done = [one.remains.handle for one in outcomes if one.action == "removed"]
    if done and not dry_run:
        rest = " …" if len(done) > _MOST_HANDLES else ""
        _common.say("hint", f"get them back with: git parallel restore {' '.join(done[:_MOST_HANDLES])}{rest}")


def _say_purged(purged: Sequence[Purged], *, dry_run: bool) -> None:
    gone = [one for one in purged if one.error is None]
    if gone and dry_run:
        _common.say("note", f"{text.count(len(gone), 'expired worktree')} would be deleted from the trash")
    elif gone:
        total = text.size(sum(one.size for one in gone))
        _common.say("note", f"{text.count(len(gone), 'expired worktree')} deleted from the trash ({total})")
    for one in purged:
        if one.error is not None:
            _common.say("warning", f"'{one.item.top}' stays in the trash: {one.error}")
