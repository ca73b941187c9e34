"""``git parallel fetch``: get records of runs from a remote."""

from __future__ import annotations

import click

from git_parallel.cli import _common


@click.command()
@click.argument("remote", required=False, metavar="[REMOTE]")
@click.option("--logs", is_flag=True, help="Also what agents printed, as far as it was pushed.")
@_common.json_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but what goes wrong.")
def command(remote: str | None, logs: bool, as_json: bool, quiet: bool) -> int:
    """Get the records of runs and landings, and the notes, from REMOTE (default: the branch's own), and merge them.

    Workers of those runs can be reviewed and merged here; no branch of yours is touched.
    """
    from git_parallel.cli import _share  # noqa: PLC0415 (not needed for -h)

    return _share.move(remote, push=False, logs=logs, as_json=as_json, quiet=quiet)
