"""Runs that were interrupted: the next command after a crash finishes their records, and says so.

Apart from :mod:`recover`, which needs nearly all of the supervisor, and which there mostly is no need for.
"""

from __future__ import annotations

from contextlib import suppress

from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import leftovers, view


def notice(repo: Repository) -> list[str]:
    """Finish interrupted runs, if there are any; return a line about each.

    A run that cannot be finished now is a line, too, and stays as it is.
    """
    lines = []
    with suppress(ParallelError, OSError):  # nothing had begun: there is nothing to say
        leftovers.forget_half_made(repo)
    for run in view.live_runs(State(repo.common_dir)):
        from git_parallel.supervisor.recover import recover  # noqa: PLC0415 (see the module's text)

        try:
            results = recover(repo, run)
        except (ParallelError, OSError) as error:
            lines.append(f"warning: run {run} was interrupted and its record could not be finished: {error}")
            continue
        if results:
            kept = ", ".join(f"{number} {result.status}" for number, result in sorted(results.items()))
            lines.append(f"run {run} was interrupted; what its workers had done is captured and recorded ({kept})")
    return lines
