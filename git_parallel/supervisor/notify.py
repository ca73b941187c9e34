"""Tells the person that a run has ended or a worker waits for them: by a command of theirs, and words for the terminal.

Nothing here is a failure.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_parallel.errors import ParallelError
from git_parallel.git import clean_environment
from git_parallel.render import table, text
from git_parallel.supervisor import files, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.host import Ending, Guard, GuardHost, GuardSpec
from git_parallel.supervisor.view import RunView, WorkerView

_TIMEOUT = 30.0  # seconds
_GRACE = 2.0
_AGAIN = 60.0
_BELL = "\a"
_OSC, _END = "\x1b]9;", "\x1b\\"  # a notification, to terminals that know it; the others show nothing


def run_command(context: Context, shown: RunView) -> str | None:
    """Run the ``notify`` command with the run's document on its standard input; return a warning if it failed."""
    if context.spec.notify is None:
        return None
    try:
        os.makedirs(context.files.notify, exist_ok=True)
        host = GuardHost(os.path.join(context.files.notify, "guard.log"))
        try:
            ending = _start(context, host, "run", view.document(shown)).wait()
        finally:
            host.close()
    except (ParallelError, OSError) as error:
        return f"the notify command could not be run: {error}"
    return _warning(context, ending)


class Calls:
    """Calls of the ``notify`` command while the run goes on: nobody waits for one, and none outlives the run."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._guards: list[Guard] = []
        self._count = 0
        self._told: dict[int, float] = {}

    def due(self, worker: int, now: float) -> bool:
        """Whether the person is to hear that a worker waits: once in a while, of one that asks again and again."""
        if now - self._told.get(worker, float("-inf")) < _AGAIN:
            return False
        self._told[worker] = now
        return True

    def blocked(self, shown: RunView, worker: int) -> None:
        """Tell that a worker waits for a person: the run's document, with ``event`` and ``worker``."""
        context = self._context
        if context.spec.notify is None:
            return
        self._count += 1
        document = {**view.document(shown), "event": "blocked", "worker": worker}
        try:
            os.makedirs(context.files.notify, exist_ok=True)
            self._guards.append(_start(context, context.host, f"blocked-{self._count}", document))
        except (ParallelError, OSError) as error:
            context.journal.append("note", worker=worker, reason=f"the notify command could not be run: {error}")

    def faults(self) -> list[str]:
        """What went wrong with those that have ended since the last time."""
        over = [(guard, ending) for guard in self._guards if (ending := guard.wait(0)) is not None]
        self._guards = [guard for guard in self._guards if guard not in [one for one, _ in over]]
        return [warning for _, ending in over if (warning := _warning(self._context, ending)) is not None]

    def close(self) -> None:
        """End those that still run."""
        for guard in self._guards:
            guard.kill("the run has ended")
        for guard in self._guards:
            guard.wait(_GRACE)


def _start(context: Context, host: GuardHost, name: str, document: Mapping[str, object]) -> Guard:
    """Start the command with ``document`` on its standard input. Raises ParallelError and OSError."""
    assert context.spec.notify is not None
    place = context.files.notify
    told = os.path.join(place, f"{name}.json")
    files.replace(told, view.dumps(document).encode())
    return host.start(
        GuardSpec(
            argv=("/bin/sh", "-c", context.spec.notify),
            cwd=_directory(context),
            env=clean_environment(),
            stdin=told,
            stdout=_output(context),
            timeout=_TIMEOUT,
            grace=_GRACE,
            ending=os.path.join(place, f"{name}.exit.json"),
        )
    )


def _output(context: Context) -> str:
    return os.path.join(context.files.notify, "output.log")


def _warning(context: Context, ending: Ending | None) -> str | None:
    wrong = fault(ending)
    return f"the notify command {wrong}; what it wrote: {_output(context)}" if wrong else None


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
    """What is sent to the terminal when a run has ended. Pure."""
    return _sequence(f"run {shown.state}: {table.tally(shown.workers)}")


def words_of_one(worker: WorkerView) -> str:
    """What is sent to the terminal when a worker waits for a person. Pure."""
    return _sequence(f"worker {worker.worker} {table.state(worker)}: {worker.progress.waiting or worker.title}")


def _sequence(said: str) -> str:
    return f"{_OSC}git parallel: {text.printable(said)}{_END}{_BELL}"
