"""``git parallel doctor``: find trouble, and repair it when asked to."""

from __future__ import annotations

import click

from git_parallel.errors import OK, WORKER_FAILED, GitError, ParallelError
from git_parallel.git import Repository


@click.command()
@click.option("--repair", is_flag=True, help="Do the repairs that are shown.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(repair: bool, as_json: bool) -> int:
    """Find what a crash or somebody else left in disorder: interrupted runs, processes, worktrees, locks, refs.

    Only reports, unless --repair is given. Nothing is removed that a ref or the trash does not keep. Exits
    with 1 when something is left that needs attention.
    """
    from git_parallel.supervisor import doctor, view  # noqa: PLC0415 (not needed for -h)

    repo = Repository.discover()
    left, shown = 0, []
    for finding in doctor.examine(repo):
        outcome = "found"
        if repair and finding.act is not None:
            try:
                finding.act()
                outcome = "repaired"
            except (GitError, ParallelError, OSError) as error:
                outcome = f"not repaired: {error}"
        left += outcome != "repaired"
        shown.append({"kind": finding.kind, "what": finding.what, "repair": finding.repair, "outcome": outcome})
        if not as_json:
            click.echo(f"{finding.kind}: {finding.what}")
            click.echo(f"    {outcome}" if outcome != "found" else f"    repair: {finding.repair or 'by hand'}")
            click.echo(f"hint: {finding.hint}", err=True)
    if as_json:
        click.echo(view.dumps({"v": 1, "findings": shown}))
    elif not shown:
        click.echo("everything is in order", err=True)
    elif not repair and any(entry["repair"] for entry in shown):
        click.echo("hint: do the repairs with: git parallel doctor --repair", err=True)
    return WORKER_FAILED if left else OK
