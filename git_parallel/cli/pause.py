"""``git parallel pause``: let workers stand still."""

from __future__ import annotations

from collections.abc import Sequence

import click

from git_parallel.cli import _orders


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
def command(words: Sequence[str]) -> int:
    """Stop every process of workers where it is, and their limits on time; 'unpause' lets them go on.

    Without words: the run that goes on, which starts no further worker either.
    """
    return _orders.carry_out(words, "pause", "paused")
