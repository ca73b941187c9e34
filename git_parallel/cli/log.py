"""``git parallel log``: an agent's output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

import click

from git_parallel.cli import _common, _runs
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State, WorkerFiles, logs_ref
from git_parallel.render import terminal
from git_parallel.supervisor import liveness
from git_parallel.supervisor.view import RunView, WorkerView

_PAUSE = 0.1  # seconds between two looks at a file that grows
_CHUNK = 1 << 16


@click.command()
@click.argument("words", nargs=-1, metavar="[WORKER]")
@click.option("-f", "--follow", is_flag=True, help="Go on as the output grows, until the worker has ended.")
@click.option("--errors", is_flag=True, help="Standard error, of agents whose standard output is data.")
@click.option("--check", type=click.IntRange(min=1), metavar="N", help="The output of check N.")
def command(words: Sequence[str], follow: bool, errors: bool, check: int | None) -> int:
    """Print what a worker's agent wrote, byte for byte.

    When the file is gone, the head and tail that were kept in git are printed. WORKER may be left out
    when there is only one.
    """
    repo = Repository.discover()
    run, worker = _runs.choose_worker(repo, words)
    files = State(repo.common_dir).run(run.spec.run).worker(worker.worker)
    path = _path(files, errors, check)
    if follow:
        _follow(repo, run, worker, path)
        return 0
    with terminal.paged(repo.git):
        if not _copy(path):
            _common.write_bytes(_kept(repo, run, worker, path == files.log))
    return 0


def _path(files: WorkerFiles, errors: bool, check: int | None) -> str:
    if check is not None:
        return files.check(check)
    return files.errors if errors else files.log


def _copy(path: str) -> bool:
    """Write a file to standard output; False when there is none."""
    try:
        with open(path, "rb") as file:
            while data := file.read(_CHUNK):
                _common.write_bytes(data)
    except FileNotFoundError:
        return False
    return True


def _kept(repo: Repository, run: RunView, worker: WorkerView, output: bool) -> bytes:
    """What git has of the output of a worker whose live file is gone. Raises ParallelError when it has nothing."""
    if worker.state in ("queued", "waiting", "preparing"):
        raise ParallelError(f"worker {worker.worker} has not started yet", "follow it with: git parallel log -f")
    if output:
        name = f"{logs_ref(run.spec.run)}:{worker.worker}/output.log"
        found = repo.common.run("cat-file", "blob", name, ok=(0, 128))
        if found.returncode == 0:
            _common.say("note", "the whole output is gone; these are the parts that were kept in git")
            return found.stdout
        raise ParallelError(f"there is no output of worker {worker.worker} of run {run.spec.run}")
    raise ParallelError(f"worker {worker.worker} of run {run.spec.run} has no such output")


def _follow(repo: Repository, run: RunView, worker: WorkerView, path: str) -> None:
    """Write the file as it grows. The worker is asked for its end before the last look, so that nothing is missed."""
    files = State(repo.common_dir).run(run.spec.run)
    position, seen, over = 0, None, False
    while not over:
        mark = (liveness.supervisor_pid(files), _size(files.journal))
        if mark != seen:
            over, seen = _over(repo, run.spec.run, worker.worker), mark
        position += _copy_from(path, position)
        sys.stdout.buffer.flush()
        if not over:
            time.sleep(_PAUSE)
    if not os.path.exists(path):
        _common.write_bytes(_kept(repo, run, worker, path == files.worker(worker.worker).log))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def _copy_from(path: str, position: int) -> int:
    """Write what a file holds beyond ``position``; return how much that was."""
    try:
        with open(path, "rb") as file:
            file.seek(position)
            copied = 0
            while data := file.read(_CHUNK):
                _common.write_bytes(data)
                copied += len(data)
            return copied
    except FileNotFoundError:
        return 0


def _over(repo: Repository, run: str, number: int) -> bool:
    now = _runs.load(repo, run)
    state = next((worker.state for worker in now.workers if worker.worker == number), "ended")
    return now.state != "running" or state == "ended"
