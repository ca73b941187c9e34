"""``git parallel show``: one run or worker as it was recorded."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from git_parallel.cli import _common, _runs, status
from git_parallel.cli._runs import Chosen
from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import merges, owners, verdicts
from git_parallel.integrate.merges import Landed
from git_parallel.integrate.verdicts import Verdict
from git_parallel.layout import HEADS, State, kept_ref, logs_ref, run_ref, wip_ref
from git_parallel.render import details, terminal
from git_parallel.render.details import Places
from git_parallel.store import refs
from git_parallel.supervisor import journal, view
from git_parallel.supervisor.view import RunView


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--events", is_flag=True, help="Every event of the run, too.")
@click.option("--trace", is_flag=True, help="The commits of the run's record, as git log shows them.")
@_common.json_option
def command(words: Sequence[str], events: bool, trace: bool, as_json: bool) -> int:
    """Show a run or a worker: tasks, base, limits, results, checks, warnings, and where everything lies.

    Without words: the newest run. A run that has ended is read from its record in git, one that goes on
    from its live files.
    """
    if as_json and trace:
        raise UsageError("--json and --trace exclude each other", "the JSON has the events with --events")
    repo = Repository.discover()
    chosen = _recorded(repo, _runs.choose(repo, words, _runs.newest(repo)))
    if not chosen:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')
        return 0
    if trace:
        return _trace(repo, chosen)
    if as_json:
        _common.write(view.dumps(_document(repo, chosen, events)) + "\n")
        return 0
    colour = terminal.colour(repo, sys.stdout)
    with terminal.paged(repo.git):
        _common.write("\n".join(_described(repo, one, events, colour) for one in chosen))
    sys.stdout.flush()
    for one in chosen:
        for hint in status.hints(one.run, here=_runs.here(repo, one.run.spec.run)):
            _common.say("hint", hint)
    return 0


def _recorded(repo: Repository, chosen: Sequence[Chosen]) -> list[Chosen]:
    """The same as their records have them, where those are complete."""
    return [one.of(_runs.load_recorded(repo, one.run.spec.run)) for one in chosen]


def _described(repo: Repository, one: Chosen, events: bool, colour: bool) -> str:
    now = time.time()
    places = _places(repo, one)
    parts = [details.run(one.run, places, now=now, colour=colour)] if one.whole else []
    given = verdicts.of_run(repo, one.run.spec.run)
    landed = _landed(repo, one)
    parts += [
        details.worker(
            one.run.spec,
            worker,
            places,
            now=now,
            colour=colour,
            reviews=given.get(worker.worker, []),
            landed=[branch for branch in landed if branch.worker == worker.worker],
        )
        for worker in one.workers
    ]
    if events:
        numbers = None if one.whole else {worker.worker for worker in one.workers}
        parts.append(details.events(_events(repo, one.run, numbers)))
    return "\n".join(parts)


def _places(repo: Repository, one: Chosen) -> Places:
    """Where things lie now: asked of git at once for all refs that could matter."""
    run = one.run.spec.run
    names = [run_ref(run), logs_ref(run)]
    for worker in one.workers:
        names += [HEADS + worker.branch, wip_ref(run, worker.worker), kept_ref(run, worker.worker)]
    files = State(repo.common_dir).run(run).top
    there = refs.read(repo, *names)
    away = _away(repo, one, there)
    return Places(
        refs={ref: oid for ref, oid in there.items() if ref.removeprefix(HEADS) not in away},
        worktrees=frozenset(
            worker.worker for worker in one.workers if worker.worktree not in away and os.path.isdir(worker.worktree)
        ),
        files=files if os.path.isdir(files) else None,
        away=away,
    )


def _away(repo: Repository, one: Chosen, there: Mapping[str, str]) -> owners.Away:
    """The branches and worktrees that are another run's now."""
    shown = {worker.worker for worker in one.workers}
    moved = {
        worker.branch
        for worker in one.workers
        if (tip := there.get(HEADS + worker.branch)) and worker.result is not None and worker.result.head != tip
    }
    return owners.given_away(repo, one.run.spec.run, [job for job in one.run.spec.jobs if job.worker in shown], moved)


def _events(repo: Repository, run: RunView, numbers: set[int] | None) -> list[dict[str, Any]]:
    """The run's events: from the journal, and from the record where that is gone."""
    found = journal.read(State(repo.common_dir).run(run.spec.run).journal)
    if not found:
        from git_parallel.store import reading  # noqa: PLC0415 (only where the journal is gone)

        kept = reading.read(repo, run.spec.run)
        found = kept.events() if kept is not None else []
    return [event for event in found if numbers is None or event.get("worker") in numbers]


def _document(repo: Repository, chosen: Sequence[Chosen], events: bool) -> Mapping[str, object]:
    shown = dict(status.document([one.narrowed for one in chosen]))
    if len(chosen) == 1:
        shown.update(details.document(chosen[0].run.spec, _places(repo, chosen[0])))
    shown["landed"] = [msgspec.to_builtins(branch) for one in chosen for branch in _landed(repo, one)]
    shown["verdicts"] = [msgspec.to_builtins(verdict) for one in chosen for verdict in _verdicts(repo, one)]
    if events:
        shown["events"] = [
            event
            for one in chosen
            for event in _events(repo, one.run, None if one.whole else {worker.worker for worker in one.workers})
        ]
    return shown


def _landed(repo: Repository, one: Chosen) -> list[Landed]:
    """How the workers that are shown have landed."""
    shown = {worker.worker for worker in one.workers}
    return [branch for branch in merges.of_run(repo, one.run.spec.run) if branch.worker in shown]


def _verdicts(repo: Repository, one: Chosen) -> Iterator[Verdict]:
    """All verdicts on the workers that are shown."""
    given = verdicts.of_run(repo, one.run.spec.run)
    return (verdict for worker in one.workers for verdict in given.get(worker.worker, []))


def _trace(repo: Repository, chosen: Sequence[Chosen]) -> int:
    names = [run_ref(one.run.spec.run) for one in chosen]
    there = refs.read(repo, *names)
    if missing := [name for name in names if name not in there]:
        raise ParallelError(f"there is no record at {missing[0]}", "its events: git parallel show --events")
    return repo.git.show("log", "--first-parent", *names, "--")
