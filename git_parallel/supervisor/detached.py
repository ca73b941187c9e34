"""Runs a supervisor to its end: in this process, or in a child that outlives the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from git_parallel import plain
from git_parallel.errors import ParallelError
from git_parallel.plan.model import Result
from git_parallel.render import table, terminal
from git_parallel.render.live import Display
from git_parallel.supervisor import liveness, notify, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.exit import run_exit_code
from git_parallel.supervisor.journal import timestamp
from git_parallel.supervisor.loop import Supervisor
from git_parallel.supervisor.outcome import unfinished
from git_parallel.supervisor.view import RunView


class Draft(Protocol):
    """What can be started: a run, or further rounds of some of its workers."""

    def begin(self) -> tuple[Context, liveness.Claim]: ...


class Ended(Struct, frozen=True):
    """How a run came out. ``shown`` has the workers of this round; ``with_work``: some changed something.

    ``unfinished``: some did not end by themselves, and `resume` has the means to run them again.

    ``interrupted`` is the signal that a person ended it with; ``code`` what the process exits with.
    """

    shown: RunView
    with_work: bool
    unfinished: bool
    interrupted: int | None
    code: int


def supervise(context: Context, held: liveness.Claim, display: Display) -> Ended:
    """Run a run, or another round of it, to its end. Raises ParallelError when its live files are gone."""
    begun = timestamp()
    supervisor = Supervisor(context, held, display)
    results = supervisor.run()
    shown = view.load(context.files)
    if shown is None:
        raise ParallelError(
            f"the live files of run {context.spec.run} are gone", "its record is in git: git parallel list"
        )
    workers = [worker for worker in shown.workers if worker.worker in context.rounds]
    shown = replace(shown, workers=workers, started=begun if context.going_on else shown.started)
    if supervisor.failures:
        shown = view.settled(replace(shown, state="interrupted"))
    interrupted = supervisor.interrupted
    ended = [result for number, result in results.items() if number in context.rounds]
    code = 128 + interrupted if interrupted is not None else run_exit_code(context.spec, ended, len(context.rounds))
    with_work = any(result.files_modified for result in results.values())
    return Ended(shown, with_work, _can_be_resumed(context, results.values()), interrupted, code)


def _can_be_resumed(context: Context, results: Collection[Result]) -> bool:
    budget = context.spec.limits.budget
    spent = budget is not None and sum(result.cost or 0.0 for result in results) >= budget
    return not spent and any(map(unfinished, results))


def detached(draft: Draft) -> str:
    """Fork: the child becomes the supervisor; return the run's id once it is up. Raises what its beginning raises."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        os.close(writer)
        with open(reader, "rb") as pipe:
            return _heard(pipe.read())
    os.close(reader)
    code = 1
    try:
        code = _child(draft, writer)
    finally:
        os._exit(code)


def _heard(data: bytes) -> str:
    if not data:
        raise ParallelError("the supervisor ended before the run was up")
    said = plain.decode(data)
    if "run" in said:
        return str(said["run"])
    error = ParallelError(said["message"], *said["hints"])
    error.exit_code, error.label = said["exit_code"], said["label"]
    raise error


def _child(draft: Draft, writer: int) -> int:
    os.setsid()
    try:
        context, held = draft.begin()
    except ParallelError as error:
        fields = ("message", "hints", "exit_code", "label")
        os.write(writer, plain.encode({field: getattr(error, field) for field in fields}))
        return error.exit_code
    _redirect(context.files.output)
    os.write(writer, plain.encode({"run": context.spec.run}))
    os.close(writer)
    ended = supervise(context, held, Display(sys.stderr, live=False, quiet=False))
    warning = notify.run_command(context, ended.shown)
    with suppress(OSError), open(context.files.output, "a", encoding="utf-8", errors="surrogateescape") as log:
        log.write(table.results(ended.shown, width=terminal.UNLIMITED, colour=False))
        log.write(f"warning: {warning}\n" if warning else "")
    return ended.code


def _redirect(path: str) -> None:
    """Give up the terminal: input from nowhere, output into the run's own log."""
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(null)
    os.close(log)
    os.chdir("/")
