"""``git parallel push``: give records of runs to a remote."""

from __future__ import annotations

import click

from git_parallel.cli import _common


@click.command()
@click.argument("remote", required=False, metavar="[REMOTE]")
@click.option("--logs", is_flag=True, help="Also what agents printed, which may hold secrets.")
@_common.json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but what goes wrong.")
def command(remote: str | None, logs: bool, as_json: bool, quiet: bool) -> int:
    """Give the records of runs and landings, and the notes, to REMOTE (default: the branch's own).

    What REMOTE has and you do not is fetched and merged first. Snapshots of uncommitted work are never pushed.
    Prompts, paths of worktrees and command lines are part of a record.
    """
    from git_parallel.cli import _share  # noqa: PLC0415 (not needed for -h)

    return _share.move(remote, push=True, logs=logs, as_json=as_json, quiet=quiet)
