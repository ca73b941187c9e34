"""Running a run at the terminal, or sending it to the background, and what is said of it.

What is not needed to begin a run is loaded when it has begun, or before that while git works.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from git_parallel import git
from git_parallel.cli import _common
from git_parallel.render import terminal
from git_parallel.supervisor import view

if TYPE_CHECKING:
    from git_parallel.supervisor.context import Context
    from git_parallel.supervisor.detached import Draft
    from git_parallel.supervisor.view import RunView

_LATER = (
    "dulwich.objects",
    "dulwich.object_format",
    "git_parallel.supervisor.detached",
    "git_parallel.agents.readers.lines",
    "git_parallel.store.logs",
)


def prepare() -> None:
    """Have loaded while git works what :func:`run` needs."""
    git.load_meanwhile(*_LATER)


def run(draft: Draft, *, detach: bool, as_json: bool, quiet: bool) -> int:
    """Run to the end and print the result; with ``detach``, return once the run is up and print its id."""
    if detach:
        from git_parallel.supervisor import detached  # noqa: PLC0415

        up = detached.detached(draft)
        _common.write((view.dumps({"v": 1, "run": up, "status": "running"}) if as_json else up) + "\n")
        return 0
    context, held = draft.begin()
    git.load_rest()
    from git_parallel.render import table  # noqa: PLC0415
    from git_parallel.render.live import Display  # noqa: PLC0415
    from git_parallel.supervisor import detached, notify  # noqa: PLC0415

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
        colour = terminal.colour(context.repo, sys.stdout)
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
        from git_parallel.supervisor import notify  # noqa: PLC0415

        with suppress(OSError):
            sys.stderr.write(notify.words(shown))
            sys.stderr.flush()


def _say(line: str) -> None:
    """Print a line for the person; a terminal that has gone is no failure."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
