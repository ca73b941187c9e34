"""Running a run at the terminal, or sending it to the background, and what is said of it."""

from __future__ import annotations

import sys
from contextlib import suppress

from git_parallel.cli import _common
from git_parallel.render import table, terminal
from git_parallel.render.live import Display
from git_parallel.supervisor import detached, notify, view
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.view import RunView


def run(draft: detached.Draft, *, detach: bool, as_json: bool, quiet: bool) -> int:
    """Run to the end and print the result; with ``detach``, return once the run is up and print its id."""
    if detach:
        up = detached.detached(draft)
        _common.write((view.dumps({"v": 1, "run": up, "status": "running"}) if as_json else up) + "\n")
        return 0
    context, held = draft.begin()
    live = sys.stderr.isatty() and not quiet and not as_json
    display = Display(sys.stderr, live=live, quiet=quiet, limits=context.spec.limits)
    if not quiet:
        display.message(f"run {context.spec.run}" + (" goes on" if context.going_on else ""))
        if context.terminal is not None:
            display.message("hint: get into a worker with: git parallel attach N")
    ended = detached.supervise(context, held, display)
    if as_json:
        _common.write(view.dumps(view.document(ended.shown)) + "\n")
    else:
        colour = terminal.colour(context.repo.git, sys.stdout)
        _common.write(table.results(ended.shown, width=terminal.width(), colour=colour))
    sys.stdout.flush()
    if ended.shown.state == "interrupted":
        _say(f"hint: nothing was removed; to capture and record what is missing: git parallel wait {context.spec.run}")
    if ended.with_work and not as_json and not quiet:
        _say("hint: look through the branches and decide: git parallel review")
    if ended.unfinished and ended.shown.state == "ended" and not as_json and not quiet:
        _say(f"hint: some workers did not come to an end; let them go on: git parallel resume {context.spec.run}")
    if ended.interrupted is None:  # else the person is there
        _ring(context, ended.shown)
    if warning := notify.run_command(context, ended.shown):
        _say(f"warning: {warning}")
    return ended.code


def _ring(context: Context, shown: RunView) -> None:
    """Ring the bell of the terminal at standard error, if there is one, and have it say how the run ended."""
    if context.spec.bell and terminal.can_redraw(sys.stderr):
        with suppress(OSError):
            sys.stderr.write(notify.words(shown))
            sys.stderr.flush()


def _say(line: str) -> None:
    """Print a line for the person; a terminal that has gone is no failure."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
