"""``git parallel status``: where every worker is now."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import click

from git_parallel.cli import _common, _runs
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.render import table, terminal
from git_parallel.supervisor import view
from git_parallel.supervisor.view import RunView


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--all", "everything", is_flag=True, help="Every run that has files here, not only those that go on.")
@_common.json_option
@_common.porcelain_options
def command(words: Sequence[str], everything: bool, as_json: bool, porcelain: bool, nul: bool) -> int:
    """Show where every worker is now: of the runs that go on, or else of the newest run.

    RUN is an id, a unique beginning of one, or 'last'; WORKER a number, RUN/NUMBER or a branch.

    --porcelain prints a line a worker, fields parted by TAB: run, worker, state, status, reason,
    steps, cost, seconds, files, model, branch, head, worktree; '-' is unknown.
    """
    _common.one_format(as_json, porcelain, nul)
    repo = Repository.discover()
    default = view.known_runs(State(repo.common_dir)) if everything else _runs.current(repo)
    chosen = [one.narrowed for one in _runs.choose(repo, words, default)]
    if as_json:
        _common.write(view.dumps(document(chosen)) + "\n")
    elif porcelain or nul:
        _common.write_lines(lines(chosen, time.time()), nul=nul)
    elif chosen:
        colour = terminal.colour(repo, sys.stdout)
        _common.write(described(chosen, now=time.time(), width=terminal.width(), colour=colour))
        sys.stdout.flush()
        for run in chosen:
            for hint in hints(run, here=_runs.here(repo, run.spec.run)):
                _common.say("hint", hint)
    else:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')
    return 0


def document(runs: Sequence[RunView]) -> Mapping[str, object]:
    """The JSON: one run's own document; of several, all their workers together and the runs by name."""
    if len(runs) == 1:
        return view.document(runs[0])
    states = [run.state for run in runs]
    return {
        "v": 1,
        "run": None,
        "status": next((state for state in ("running", "interrupted", "ended") if state in states), None),
        "runs": [{"run": run.spec.run, "status": run.state} for run in runs],
        "workers": [view.worker_document(worker, run.spec) for run in runs for worker in run.workers],
    }


def lines(runs: Sequence[RunView], now: float) -> Iterator[Sequence[object]]:
    """The rows of --porcelain."""
    for run in runs:
        for worker in run.workers:
            result = worker.result
            seconds = table.elapsed(worker, now)
            cost = table.cost(worker) if table.began(worker) else None
            yield (
                run.spec.run,
                worker.worker,
                worker.state,
                result.status if result else None,
                (result.reason if result else worker.reason or worker.progress.trouble) or None,
                table.steps(worker),
                None if cost is None else f"{cost:.6f}",
                None if seconds is None else f"{seconds:.3f}",
                table.files(worker),
                worker.model,
                worker.branch,
                result.head if result else None,
                worker.worktree,
            )


def described(runs: Sequence[RunView], *, now: float, width: int, colour: bool) -> str:
    """Each run's heading and table. Pure."""
    parts = []
    for run in runs:
        workers = table.workers(run.workers, now=now, width=width, colour=colour)
        parts.append(f"{table.heading(run, now, colour=colour)}\n{workers}")
    return "\n".join(parts)


def hints(run: RunView, *, here: bool) -> list[str]:
    """What to type next when something is wrong with a run. Pure; ``here``: its files are in this repository."""
    if run.state != "interrupted":
        return []
    if not here:
        return _runs.elsewhere(run.spec.run)
    return [
        f"{run.spec.run} has no supervisor any more and its record is not complete; nothing was removed",
        f"to capture their work and finish the record: git parallel wait {run.spec.run}",
    ]
