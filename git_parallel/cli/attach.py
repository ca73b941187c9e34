"""``git parallel attach``: get into a worker."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import click

from git_parallel.cli import _runs
from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import RunFiles, State

_LIMIT = 15.0  # seconds until a window that does not come is an error
_PAUSE = 0.05
_WITH_AGENT = ("running", "blocked", "paused")


@click.command()
@click.argument("words", nargs=-1, metavar="[WORKER]")
def command(words: Sequence[str]) -> int:
    """Open the window of a worker that runs in a terminal ('run --terminal tmux'). C-b d leaves it; the run goes on.

    WORKER may be left out when there is only one.
    """
    repo = Repository.discover()
    run, worker = _runs.choose_worker(repo, words)
    number = worker.worker
    if run.state != "running" or worker.state == "ended":
        raise UsageError(f"worker {number} has ended; its output: git parallel log {number}")
    files = State(repo.common_dir).run(run.spec.run)
    if not os.path.exists(files.window(number)):
        has = "no terminal" if worker.state in _WITH_AGENT else f"no agent yet, it is {worker.state}"
        raise UsageError(f"worker {number} has {has}; follow its output with: git parallel log -f {number}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("attach needs a terminal")
    return _attach(files, run.spec.run, number)


def _attach(files: RunFiles, run: str, number: int) -> int:
    """Become tmux. The socket is named from its directory: a whole path may be too long."""
    from git_parallel.supervisor import control, tmux  # noqa: PLC0415 (not needed for -h)

    program = tmux.find()
    os.chdir(files.terminal)
    deadline = time.monotonic() + _LIMIT
    if not tmux.shows(program, files.terminal, run, number):  # somebody has closed it
        control.ask(files, control.orders("window", [number]))
        while not tmux.shows(program, files.terminal, run, number):
            if time.monotonic() >= deadline or not os.path.exists(files.window(number)):
                raise ParallelError(f"worker {number} has no window", f"see: git parallel show {run}/{number}")
            time.sleep(_PAUSE)
    environment = {name: value for name, value in os.environ.items() if name not in tmux.FOREIGN}
    os.execve(program, tmux.attach(program, run, number, nested="TMUX" in os.environ), environment)  # noqa: S606
