"""``git parallel wait``: wait for a run and exit as it does."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from git_parallel.cli import _common, _runs, _settle
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.render import table, terminal
from git_parallel.supervisor import view
from git_parallel.supervisor.exit import run_exit_code
from git_parallel.supervisor.view import RunView

TIMED_OUT = 124  # as timeout(1)


@click.command()
@click.argument("word", required=False, metavar="[RUN]")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait no longer; then exit with 124.")
@_common.json_option
def command(word: str | None, timeout: float | None, as_json: bool) -> int:
    """Wait until a run has ended, print its results, and exit as 'git parallel run' would have.

    Without RUN: the one that goes on, or else the newest. The record of a run whose supervisor died is
    finished first.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    repo = Repository.discover()
    run = _which(repo, [word] if word else [])
    ended = _settle.until(repo, run, lambda now: False, deadline)
    if ended is None:
        _common.say("note", f"run {run} goes on after {timeout:g} s; see: git parallel status {run}")
        return TIMED_OUT
    _print(repo, ended, as_json)
    return run_exit_code(ended.spec, [worker.result for worker in ended.workers if worker.result is not None])


def _which(repo: Repository, words: Sequence[str]) -> str:
    chosen = _runs.choose(repo, words, _runs.current(repo))
    if not chosen:
        raise UsageError("there is no run yet", 'start one with: git parallel "what is to be done"')
    if len(chosen) > 1:
        names = ", ".join(one.run.spec.run for one in chosen)
        raise UsageError(f"{len(chosen)} runs go on", f"name one of: {names}")
    if not chosen[0].whole:
        raise UsageError(f"'{words[0]}' is a worker; a run is waited for", f"name its run: {chosen[0].run.spec.run}")
    return chosen[0].run.spec.run


def _print(repo: Repository, ended: RunView, as_json: bool) -> None:
    if as_json:
        _common.write(view.dumps(view.document(ended)) + "\n")
    else:
        colour = terminal.colour(repo, sys.stdout)
        _common.write(table.results(ended, width=terminal.width(), colour=colour))
