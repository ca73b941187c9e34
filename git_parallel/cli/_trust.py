"""Commands that nobody on this machine has typed run only after the person has seen and approved their text."""

from __future__ import annotations

from collections.abc import Sequence

import click

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.plan import trust
from git_parallel.render import text


def ask(
    repo: Repository, commands: Sequence[str], *, told: str, approved: bool, attended: bool, hints: Sequence[str] = ()
) -> None:
    """Approve the commands that are not yet approved, or raise UsageError: before anything was done.

    ``told`` introduces them, ``approved`` is what ``--trust`` said; without it a person who is ``attended`` is asked,
    and ``hints`` say what else to type for a no.
    """
    unknown = trust.unapproved(repo.common_dir, list(dict.fromkeys(commands)))
    if not unknown:
        return
    if not approved:
        click.echo(f"{told}:", err=True)
        for line in unknown:
            click.echo(f"    {text.printable(line)}", err=True)
        if not attended:
            raise UsageError("they have not been approved on this machine", "read them, then repeat with --trust")
        if not click.confirm("run them?", default=False, err=True):
            raise UsageError("not approved; nothing was done", *hints)
    trust.approve(repo.common_dir, unknown)
