"""Runs a supervisor where it was started: in this process, or in a child that outlives the terminal."""

from __future__ import annotations

import os
import sys

from git_parallel.errors import ParallelError
from git_parallel.render import table, terminal
from git_parallel.render.live import Display
from git_parallel.supervisor import liveness, start, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.exit import run_exit_code
from git_parallel.supervisor.loop import Supervisor


def run(draft: start.Draft, *, detach: bool, as_json: bool, quiet: bool) -> int:
    """Run to the end and print the result; with ``detach``, return once the run is up and print its id."""
    if detach:
        return _detach(draft, as_json)
    context, held = start.begin(draft)
    live = sys.stderr.isatty() and not quiet and not as_json
    display = Display(sys.stderr, live=live, quiet=quiet)
    if not quiet:
        display.message(f"run {context.spec.run}")
    return _supervise(context, held, display, as_json=as_json)


def _supervise(context: Context, held: liveness.Claim, display: Display, *, as_json: bool) -> int:
    supervisor = Supervisor(context, held, display)
    results = supervisor.run()
    shown = view.load(context.files)
    if shown is None:
        raise ParallelError(
            f"the live files of run {context.spec.run} are gone", "its record is in git: git parallel list"
        )
    if as_json:
        print(view.dumps(view.document(shown)))
    else:
        print(
            table.results(shown, width=terminal.width(), colour=terminal.colour(context.repo.git, sys.stdout)), end=""
        )
    if supervisor.interrupted is not None:
        return 128 + supervisor.interrupted
    return run_exit_code(context.spec, results)


def _detach(draft: start.Draft, as_json: bool) -> int:
    """Fork: the child becomes the supervisor, the parent prints the run's id once branches and record exist."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        os.close(writer)
        with open(reader, "rb") as pipe:
            said = pipe.read().decode()
        if not said.startswith("up "):
            raise ParallelError(said or "the supervisor ended before the run was up")
        run = said.removeprefix("up ")
        print(view.dumps({"v": 1, "run": run, "status": "running"}) if as_json else run)
        return 0
    os.close(reader)
    code = 1
    try:
        code = _child(draft, writer)
    finally:
        os._exit(code)


def _child(draft: start.Draft, writer: int) -> int:
    os.setsid()
    try:
        context, held = start.begin(draft)
    except ParallelError as error:
        os.write(writer, error.message.encode())
        return error.exit_code
    _redirect(context.files.output)
    os.write(writer, f"up {context.spec.run}".encode())
    os.close(writer)
    return _supervise(context, held, Display(sys.stderr, live=False, quiet=False), as_json=False)


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
