"""``git parallel stop``: end a run or a worker gracefully."""

from __future__ import annotations

from collections.abc import Sequence

import click

from git_parallel.cli import _common, _runs, _settle
from git_parallel.cli._runs import Chosen
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.render import text
from git_parallel.supervisor import control, view
from git_parallel.supervisor.view import RunView


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--now", is_flag=True, help="Kill at once. What is in the worktrees is captured all the same.")
def command(words: Sequence[str], now: bool) -> int:
    """End a run, or some of its workers: each gets time to end, and its work is captured.

    Without words: the run that goes on. Nothing is removed.
    """
    repo = Repository.discover()
    chosen = _runs.choose(repo, words, view.live_runs(State(repo.common_dir)))
    if not words and len(chosen) > 1:
        names = ", ".join(one.run.spec.run for one in chosen)
        raise UsageError(f"{len(chosen)} runs go on", f"name those to stop: {names}")
    if not chosen:
        _common.say("note", "no run goes on")
    for one in chosen:
        if one.run.state == "ended":
            _common.say("note", f"run {one.run.spec.run} has ended already")
            continue
        if one.run.state == "running":
            control.ask(State(repo.common_dir).run(one.run.spec.run), orders(one, now))
        _tell(_end(repo, one), one)
    return 0


def orders(one: Chosen, now: bool) -> list[control.Order]:
    """One order for a whole run, else one for each worker that has not ended."""
    numbers = [None] if one.whole else [worker.worker for worker in one.workers if worker.state != "ended"]
    return control.orders("kill" if now else "stop", numbers)


def _end(repo: Repository, one: Chosen) -> RunView:
    numbers = {worker.worker for worker in one.workers}

    def done(now: RunView) -> bool:
        return not one.whole and all(worker.state == "ended" for worker in now.workers if worker.worker in numbers)

    ended = _settle.until(repo, one.run.spec.run, done, None)
    assert ended is not None, "there is no deadline"
    return ended


def _tell(ended: RunView, one: Chosen) -> None:
    """A line for each worker that this has ended, or that had ended before."""
    before = {worker.worker for worker in one.workers if worker.state == "ended"}
    asked = {worker.worker for worker in one.workers}
    for worker in ended.workers:
        if worker.worker not in asked or worker.result is None:
            continue
        said = text.outcome_line(worker.result)
        if worker.worker not in before:
            _common.write(f"[{worker.worker}] {said}\n")
        elif not one.whole:
            _common.say("note", f"worker {worker.worker} had ended already: {said}")
