"""Tells the person that a run has ended: their ``notify`` command, and words for the terminal."""

from __future__ import annotations

import os

from git_parallel.errors import ParallelError
from git_parallel.git import clean_environment
from git_parallel.render import table, text
from git_parallel.supervisor import files, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.host import Ending, GuardHost, GuardSpec
from git_parallel.supervisor.view import RunView

_TIMEOUT = 30.0  # seconds
_GRACE = 2.0
_BELL = "\a"
_OSC, _END = "\x1b]9;", "\x1b\\"  # a notification, to terminals that know it; the others show nothing


def run_command(context: Context, shown: RunView) -> str | None:
    """Run the ``notify`` command with the run's document on its standard input; return a warning if it failed."""
    spec = context.spec
    if spec.notify is None:
        return None
    place = context.files.notify
    told, output = os.path.join(place, "run.json"), os.path.join(place, "output.log")
    try:
        os.makedirs(place, exist_ok=True)
        files.replace(told, view.dumps(view.document(shown)).encode())
        host = GuardHost(os.path.join(place, "guard.log"))
        try:
            guard = host.start(
                GuardSpec(
                    argv=("/bin/sh", "-c", spec.notify),
                    cwd=_directory(context),
                    env=clean_environment(),
                    stdin=told,
                    stdout=output,
                    timeout=_TIMEOUT,
                    grace=_GRACE,
                    ending=os.path.join(place, "exit.json"),
                )
            )
            ending = guard.wait()
        finally:
            host.close()
    except (ParallelError, OSError) as error:
        return f"the notify command could not be run: {error}"
    wrong = fault(ending)
    return f"the notify command {wrong}; what it wrote: {output}" if wrong else None


def _directory(context: Context) -> str:
    top = context.spec.top
    return top if top is not None and os.path.isdir(top) else context.repo.common_dir


def fault(ending: Ending | None) -> str | None:
    """Say what went wrong. Pure."""
    if ending is None or ending.ended_by not in ("exit", "timeout"):
        return "did not end by itself"
    if ending.ended_by == "timeout":
        return f"took longer than {text.duration(_TIMEOUT)} and was ended"
    if ending.spawn_error is not None:
        return f"could not be started: {ending.spawn_error}"
    if ending.signal is not None:
        return f"was killed by signal {ending.signal}"
    return f"failed with exit code {ending.exit_code}" if ending.exit_code else None


def words(shown: RunView) -> str:
    """What is sent to the terminal. Pure."""
    said = text.printable(f"git parallel: run {shown.state}: {table.tally(shown.workers)}")
    return f"{_OSC}{said}{_END}{_BELL}"
