"""``git parallel watch``: the same as ``status``, live."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import click

from git_parallel.cli import _common, _runs, status
from git_parallel.cli._runs import Chosen
from git_parallel.git import Repository
from git_parallel.plan.model import Limits
from git_parallel.render import table, terminal
from git_parallel.render.live import Display
from git_parallel.supervisor.view import RunView

TICK = 1.0  # seconds; the files change no oftener


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
def command(words: Sequence[str]) -> int:
    """Show where every worker is, as it changes, until all have ended.

    On a terminal a table stays in place; elsewhere each change is one line. Ctrl-C leaves; the run
    goes on.
    """
    repo = Repository.discover()
    chosen = _runs.choose(repo, words, _runs.current(repo))
    if not chosen:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')
        return 0
    colour = terminal.colour(repo, sys.stdout)
    runs = _follow(repo, chosen, colour=colour)
    for run in runs:
        _common.write(table.heading(run, time.time(), colour=colour) + "\n")
        _common.write(table.results(run, width=terminal.width(), colour=colour))
    sys.stdout.flush()
    for run in runs:
        for hint in status.hints(run, here=_runs.here(repo, run.spec.run)):
            _common.say("hint", hint)
    return 0


def _follow(repo: Repository, chosen: Sequence[Chosen], *, colour: bool) -> list[RunView]:
    """Show the workers until none of them is at work any more; return their runs as they are then."""
    runs = [one.narrowed for one in chosen]
    limits = runs[0].spec.limits if len(runs) == 1 else Limits()
    display = Display(sys.stdout, live=True, quiet=False, colour=colour, limits=limits)
    try:
        while True:
            display.update([worker for run in runs for worker in run.workers], time.time())
            if all(map(over, runs)):
                return runs
            time.sleep(TICK)
            runs = [one.again(repo).narrowed for one in chosen]
    except KeyboardInterrupt:
        display.close()
        if not all(map(over, runs)):
            _common.say("hint", "the run goes on; to end it: git parallel stop")
        raise
    finally:
        display.close()


def over(run: RunView) -> bool:
    """Whether nothing more is to be seen of a run, or of the part of it that was asked for."""
    return run.state != "running" or all(worker.state == "ended" for worker in run.workers)
