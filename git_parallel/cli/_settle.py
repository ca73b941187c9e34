"""Waiting for a run: until it has ended by its supervisor, or has been finished in the place of a dead one."""

from __future__ import annotations

import time
from collections.abc import Callable

from git_parallel.cli import _common, _runs
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import liveness
from git_parallel.supervisor.view import RunView

_PAUSE = 0.1  # seconds between two looks
_LOOKS_PER_LOAD = 10  # the files are read once a second; whether somebody supervises is seen sooner


def until(repo: Repository, run: str, done: Callable[[RunView], bool], deadline: float | None) -> RunView | None:
    """Return the run once it has ended or ``done`` says enough; None when ``deadline`` (monotonic) comes first.

    A run whose supervisor died is finished here: its work captured, its record completed. Raises ParallelError for one
    without an end whose files are not here.
    """
    files = State(repo.common_dir).run(run)
    look = 0
    while True:
        dead = liveness.supervisor_pid(files) is None
        if dead or look % _LOOKS_PER_LOAD == 0:
            now = _runs.load(repo, run)
            if now.state == "interrupted":
                if not _runs.here(repo, run):
                    raise ParallelError(f"run {run} cannot be waited for in this repository", *_runs.elsewhere(run))
                _finish(repo, run)
            elif now.state == "ended" or done(now):
                return now
        if deadline is not None and time.monotonic() >= deadline:
            return None
        time.sleep(_PAUSE)
        look += 1


def _finish(repo: Repository, run: str) -> None:
    from git_parallel.supervisor import recover  # noqa: PLC0415 (imports all of the supervisor)

    _common.say("note", f"run {run} has no supervisor any more; capturing its workers' work and finishing its record")
    recover.recover(repo, run)
