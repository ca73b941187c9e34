"""``git parallel retry``: send workers back, with what a review says or with words of one's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from git_parallel.cli import _common, _going_on
from git_parallel.errors import UsageError
from git_parallel.git import Repository


@click.command()
@click.argument("words", nargs=-1, metavar="WORKER...")
@click.option("-m", "--message", metavar="TEXT", help="What to do, beside what the review says.")
@click.option("-F", "--file", metavar="FILE", help="The same from a file; '-' is standard input.")
@click.option("--new-session", "anew", is_flag=True, help="Begin a new conversation: the old one is lost, or astray.")
@_going_on.limit_options
@_going_on.terminal_option
@click.option("--detach", is_flag=True, help="Return once the run is up again, and print its id.")
@_common.json_option
@click.option("-q", "--quiet", is_flag=True, help="Show only the final result.")
def command(
    *,
    words: Sequence[str],
    message: str | None,
    file: str | None,
    anew: bool,
    terminal: str | None,
    detach: bool,
    as_json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Let workers go on, each as a new attempt on its own branch and in its own worktree.

    After a review that asks for changes its message and comments are the task, together with the original one.
    Without a review and without -m a worker that failed gets its task again. What you edited in the worktree is
    committed first. A verdict on the old head no longer counts.
    """
    from git_parallel.cli import _supervise  # noqa: PLC0415 (imports the loop)
    from git_parallel.supervisor import again  # noqa: PLC0415 (not needed for -h)

    if not words:
        raise UsageError("which worker?", "name those that are to go on, as in: git parallel retry 2")
    repo = Repository.discover()
    told = _text(message, file)
    run, named = _going_on.of_one_run(repo, words)
    numbers = [handle.worker for handle in named if handle.worker is not None]
    if len(numbers) != len(named):
        numbers = _only_worker(repo, run)
    limits = _going_on.limits(given)
    draft = again.retrying(repo, run, numbers, message=told, limits=limits, terminal=terminal, anew=anew)
    return _supervise.run(draft, detach=detach, as_json=as_json, quiet=quiet)


def _only_worker(repo: Repository, run: str) -> list[int]:
    from git_parallel.cli import _runs  # noqa: PLC0415 (only for a run's name)

    known = [worker.worker for worker in _runs.load(repo, run).workers]
    if len(known) > 1:
        names = ", ".join(f"{run}/{number}" for number in known)
        raise UsageError(
            f"'{run}' is a run of {len(known)} workers", f"name those you mean: {names}", "or: git parallel resume"
        )
    return known


def _text(message: str | None, file: str | None) -> str | None:
    if message is not None and file is not None:
        raise UsageError("-m and -F exclude each other")
    if file == "-":
        message = os.fsdecode(sys.stdin.buffer.read())
    elif file is not None:
        try:
            with open(file, "rb") as opened:
                message = os.fsdecode(opened.read())
        except OSError as error:
            raise UsageError(f"cannot read '{file}': {error.strerror}") from None
    if message is not None and not message.strip():
        raise UsageError("the message is empty")
    if message is not None and "\0" in message:
        raise UsageError("the message holds a NUL byte, which no program can be given")
    return message
