"""What ``pause`` and ``unpause`` share: asking the supervisor, and waiting until it is so."""

from __future__ import annotations

import time
from collections.abc import Sequence

from git_parallel.cli import _common, _runs
from git_parallel.cli._runs import Chosen
from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import control, view

_PAUSE = 0.05  # seconds between two looks
_LIMIT = 20.0  # seconds until a supervisor that does nothing is an error


def carry_out(words: Sequence[str], do: str, done: str) -> int:
    """Have the supervisor ``do`` something with workers, and print a line for each with which it is ``done``."""
    repo = Repository.discover()
    chosen = _runs.choose(repo, words, view.live_runs(State(repo.common_dir)))
    if not words and len(chosen) > 1:
        names = ", ".join(one.run.spec.run for one in chosen)
        raise UsageError(f"{len(chosen)} runs go on", f"name those to {do}: {names}")
    if not any(one.run.state == "running" for one in chosen):
        raise UsageError("no run goes on" if not words else f"there is nothing to {do}: it has ended already")
    for one in chosen:
        if one.run.state == "running":
            _carry_out(repo, one, do, done)
    return 0


def _carry_out(repo: Repository, one: Chosen, do: str, done: str) -> None:
    run = one.run.spec.run
    for worker in () if one.whole else one.workers:
        if worker.state == "ended":
            _common.say("note", f"worker {worker.worker} has ended already")
    wanted = {worker.worker for worker in one.workers if worker.state != "ended" and not _is_so(worker.state, do)}
    control.ask(State(repo.common_dir).run(run), control.orders(do, [None] if one.whole else sorted(wanted)))
    deadline = time.monotonic() + _LIMIT
    now = one.run
    while not all(_settled(worker.state, do) for worker in now.workers if worker.worker in wanted):
        if now.state != "running" or time.monotonic() >= deadline:
            raise ParallelError(f"the supervisor of run {run} does not answer", f"see: git parallel status {run}")
        time.sleep(_PAUSE)
        now = _runs.load(repo, run)
    for worker in now.workers:
        if worker.worker in wanted and worker.state != "ended":
            _common.write(f"[{worker.worker}] {done}\n")


def _is_so(state: str, do: str) -> bool:
    return (state == "paused") == (do == "pause")


def _settled(state: str, do: str) -> bool:
    """Whether nothing more is to be waited for: where no agent runs now, the next one is paused as it starts."""
    return _is_so(state, do) or state in ("ended", "finishing", "waiting")
