"""What ``retry`` and ``resume`` share: limits for another round, and workers of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.plan.settings import BY_NAME
from git_parallel.store import handles
from git_parallel.store.handles import Handle

Command = Callable[..., int]

_LIMITS = {
    "timeout_per_worker": ("SECONDS", "Time for one worker in this round."),
    "budget_per_worker": ("USD", "US dollars that one worker may spend in this round."),
    "idle_timeout": ("SECONDS", "Time that a worker may do nothing."),
    "max_steps": ("N", "Steps of one worker in this round."),
    "memory_per_worker": ("SIZE", "Memory that one worker's processes may use."),
    "memfree": ("SIZE", "Memory that must be free for a worker to start."),
    "max_output": ("SIZE", "Output that one worker may write, with that of earlier rounds."),
    "max_disk": ("SIZE", "Room on the disk that one worktree may take."),
    "budget": ("USD", "US dollars that the whole run may spend, with what it has spent already."),
    "timeout": ("SECONDS", "Time for this round of the run."),
}


def limit_options(function: Command) -> Command:
    """The limits of the run that another round may have differently."""
    for name, (metavar, told) in reversed(_LIMITS.items()):
        function = click.option(BY_NAME[name].flag, name, metavar=metavar, help=told)(function)
    return function


def terminal_option(function: Command) -> Command:
    """Where the agents of another round run."""
    told = "Where the agents of this round run: tmux, or none."
    return click.option("--terminal", metavar="WHERE", callback=_terminal, help=told)(function)


def _terminal(_context: click.Context, _option: click.Parameter, typed: str | None) -> str | None:
    if typed is not None:
        try:
            BY_NAME["terminal"].parse([typed])
        except ValueError as error:
            raise UsageError(f"--terminal {error}") from None
    return typed


def limits(given: dict[str, Any]) -> dict[str, float | None]:
    """Read the limits that were typed; None takes one away. Raises UsageError."""
    read: dict[str, float | None] = {}
    for name, typed in given.items():
        if typed is None:
            continue
        try:
            read[name] = BY_NAME[name].parse([typed])
        except ValueError as error:
            raise UsageError(f"{BY_NAME[name].flag} {error}") from None
    return read


def of_one_run(repo: Repository, words: Sequence[str]) -> tuple[str, list[Handle]]:
    """Return the run that the words are about, and what they name in it. Raises UsageError when there are several."""
    found = handles.resolve(repo, words)
    runs = list(dict.fromkeys(handle.run for handle in found))
    if len(runs) > 1:
        raise UsageError(
            f"these are workers of {len(runs)} runs: {', '.join(runs)}", "one run at a time; give one command for each"
        )
    return runs[0], found
