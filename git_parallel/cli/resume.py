"""``git parallel resume``: go on after a crash or an interrupt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from git_parallel.cli import _common, _going_on
from git_parallel.errors import OK, UsageError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import liveness, view


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--failed", is_flag=True, help="Also those that ended without success: failed, partial, timeout.")
@_going_on.limit_options
@_going_on.terminal_option
@click.option("--detach", is_flag=True, help="Return once the run is up again, and print its id.")
@_common.json_option
@click.option("-q", "--quiet", is_flag=True, help="Show only the final result.")
def command(
    *, words: Sequence[str], failed: bool, terminal: str | None, detach: bool, as_json: bool, quiet: bool, **given: Any
) -> int:
    """Run those workers of a run again that did not end by themselves, each on its own branch.

    Without words: the run that was interrupted, else the newest one. Its record is finished first: what the
    workers had done is captured. Workers that ended by themselves stay as they are.
    """
    from git_parallel.cli import _supervise  # noqa: PLC0415 (imports the loop)
    from git_parallel.supervisor import again, interrupted  # noqa: PLC0415 (not needed for -h)

    repo = Repository.discover()
    run, named = _going_on.of_one_run(repo, words or _default(repo))
    numbers = [handle.worker for handle in named if handle.worker is not None]
    whole = len(numbers) != len(named)
    for line in interrupted.notice(repo):
        click.echo(line, err=True)
    draft = again.resuming(
        repo, run, () if whole else numbers, failed=failed, limits=_going_on.limits(given), terminal=terminal
    )
    if draft is None:
        _common.say("note", f"nothing of run {run} is to be resumed: its workers ended by themselves")
        if not failed:
            _common.say("hint", f"to run those again that ended without success: git parallel resume --failed {run}")
        return OK
    return _supervise.run(draft, detach=detach, as_json=as_json, quiet=quiet)


def _default(repo: Repository) -> list[str]:
    """The interrupted run, else the newest."""
    state = State(repo.common_dir)
    live = view.live_runs(state)
    interrupted = [run for run in live if liveness.supervisor_pid(state.run(run)) is None]
    if len(interrupted) > 1:
        raise UsageError(f"{len(interrupted)} runs were interrupted", f"name one of: {', '.join(interrupted)}")
    return interrupted or ["last"]
