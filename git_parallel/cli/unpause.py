"""``git parallel unpause``: let paused workers go on."""

from __future__ import annotations

from collections.abc import Sequence

import click

from git_parallel.cli import _orders


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
def command(words: Sequence[str]) -> int:
    """Let workers go on that 'pause' or Ctrl-Z has stopped.

    Without words: all of the run that goes on.
    """
    return _orders.carry_out(words, "unpause", "goes on")
