"""``git parallel stop``: end a run or a worker gracefully."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import click

from git_parallel.cli import _common, _runs, _settle
from git_parallel.cli._runs import Chosen
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.layout import RunFiles, State
from git_parallel.render import text
from git_parallel.supervisor import journal, liveness, view
from git_parallel.supervisor.journal import timestamp
from git_parallel.supervisor.view import RunView

# A supervisor that has not begun to start workers yet would not listen to the signal, but die of it.
_STARTING = 30.0
_PAUSE = 0.05


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
            _ask(State(repo.common_dir).run(one.run.spec.run), one, now)
        _tell(_end(repo, one), one)
    return 0


def orders(one: Chosen, now: bool) -> list[dict[str, object]]:
    """The lines for the supervisor: one for a whole run, one for each worker that has not ended."""
    numbers = [None] if one.whole else [worker.worker for worker in one.workers if worker.state != "ended"]
    return [{"do": "kill" if now else "stop", "worker": number, "time": timestamp()} for number in numbers]


def _ask(files: RunFiles, one: Chosen, now: bool) -> None:
    """Write the orders where the supervisor looks, and tell it to look."""
    lines = "".join(json.dumps(order) + "\n" for order in orders(one, now)).encode()
    descriptor = os.open(files.control, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, lines)
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + _STARTING
    while not _listens(files) and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    pid = liveness.supervisor_pid(files)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)


def _listens(files: RunFiles) -> bool:
    """Whether the supervisor has come as far as its workers, or is gone."""
    if liveness.supervisor_pid(files) is None:
        return True
    return any(event.get("event") == "state" for event in journal.read(files.journal))


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
