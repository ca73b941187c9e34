"""Runs a supervisor where it was started: in this process, or in a child that outlives the terminal."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import Protocol

from msgspec.structs import replace

from git_parallel.errors import ParallelError
from git_parallel.plan.model import Result
from git_parallel.render import table, terminal
from git_parallel.render.live import Display
from git_parallel.supervisor import liveness, notify, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.exit import run_exit_code
from git_parallel.supervisor.journal import timestamp
from git_parallel.supervisor.loop import Supervisor


class Draft(Protocol):
    """What can be started: a run, or further rounds of some of its workers."""

    def begin(self) -> tuple[Context, liveness.Claim]: ...


def run(draft: Draft, *, detach: bool, as_json: bool, quiet: bool) -> int:
    """Run to the end and print the result; with ``detach``, return once the run is up and print its id."""
    if detach:
        up = detached(draft)
        print(view.dumps({"v": 1, "run": up, "status": "running"}) if as_json else up)
        return 0
    context, held = draft.begin()
    live = sys.stderr.isatty() and not quiet and not as_json
    display = Display(sys.stderr, live=live, quiet=quiet, limits=context.spec.limits)
    if not quiet:
        display.message(f"run {context.spec.run}" + (" goes on" if context.going_on else ""))
        if context.terminal is not None:
            display.message("hint: get into a worker with: git parallel attach N")
    return _supervise(context, held, display, as_json=as_json, quiet=quiet)


def _supervise(context: Context, held: liveness.Claim, display: Display, *, as_json: bool, quiet: bool) -> int:
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
        shown = replace(shown, state="interrupted")
    if as_json:
        print(view.dumps(view.document(shown)))
    else:
        print(
            table.results(shown, width=terminal.width(), colour=terminal.colour(context.repo.git, sys.stdout)), end=""
        )
    if not as_json and not quiet:
        _point_onward([result for result in results.values() if result.files_modified])
    if supervisor.interrupted is None:  # else the person is there
        notify.ring(context.spec, shown)
    if warning := notify.run_command(context, shown):
        _say(f"warning: {warning}")
    if supervisor.interrupted is not None:
        return 128 + supervisor.interrupted
    ended = [result for number, result in results.items() if number in context.rounds]
    return run_exit_code(context.spec, ended, len(context.rounds))


def _point_onward(with_work: list[Result]) -> None:
    """Say what to type next, where there is something to look at."""
    if with_work:
        _say("hint: look through the branches and decide: git parallel review")


def _say(line: str) -> None:
    """Print a line for the person; a terminal that has gone is no failure."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


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
    said = json.loads(data)
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
        os.write(writer, json.dumps({field: getattr(error, field) for field in fields}).encode())
        return error.exit_code
    _redirect(context.files.output)
    os.write(writer, json.dumps({"run": context.spec.run}).encode())
    os.close(writer)
    return _supervise(context, held, Display(sys.stderr, live=False, quiet=False), as_json=False, quiet=False)


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
