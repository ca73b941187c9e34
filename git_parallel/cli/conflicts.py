"""``git parallel conflicts``: which branches collide, and a good order to land them in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from git_parallel import errors
from git_parallel.cli import _common
from git_parallel.git import Repository
from git_parallel.integrate import conflicts, workers
from git_parallel.integrate.conflicts import Finding, Forecast
from git_parallel.render import matrix, terminal
from git_parallel.supervisor import view


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--target", metavar="COMMIT", help="What they are to land on (default: each run's own target).")
@click.option("--committed", is_flag=True, help="Look at branches alone, not at what live worktrees hold beside them.")
@_common.json_option
@_common.porcelain_options
def command(
    words: Sequence[str], *, target: str | None, committed: bool, as_json: bool, porcelain: bool, nul: bool
) -> int:
    """Foresee which workers' branches collide, every two of them and each with the target, and suggest an order.

    Without words: the runs that go on, or else the newest run. Nothing is merged, checked out or locked;
    workers still at work count with what lies in their worktrees. Exits with 3 when something conflicts.
    """
    _common.one_format(as_json, porcelain, nul)
    repo = Repository.discover()
    candidates = workers.gather(repo, words, default=workers.going_on(repo))
    if not candidates and not as_json:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')
        return errors.OK
    forecast = conflicts.foresee(repo, candidates, target=target, look=not committed)
    called = matrix.names(forecast.heads)
    if as_json:
        _common.write(view.dumps(document(forecast, called)) + "\n")
    elif porcelain or nul:
        _common.write_lines(lines(forecast, called), nul=nul)
    else:
        colour = terminal.colour(repo, sys.stdout)
        with terminal.paged(repo.git):
            _common.write(matrix.described(forecast, width=terminal.width(), colour=colour))
        for warning in matrix.warnings(forecast, called):
            _common.say("warning", warning)
    return errors.CONFLICT if forecast.collisions else errors.OK


def document(forecast: Forecast, called: Sequence[str]) -> dict[str, object]:
    """The JSON: workers, every pair with something to tell, and the order. Workers are named as ``run/number``."""
    handles = [head.candidate.handle for head in forecast.heads]
    return {
        "v": 1,
        "conflicts": forecast.collisions,
        "pairs_possible": forecast.possible,
        "merges_made": forecast.merged,
        "workers": [
            {
                "handle": handles[index],
                "run": head.candidate.run,
                "worker": head.candidate.worker,
                "branch": head.candidate.name,
                "state": head.candidate.state,
                "commit": None if head.uncommitted else head.commit,
                "uncommitted": head.uncommitted,
                "target": _target(forecast, index),
                "files": forecast.files[index],
                "note": head.note,
            }
            for index, head in enumerate(forecast.heads)
        ],
        "absent": [{"handle": one.candidate.handle, "reason": one.reason} for one in forecast.absent],
        "against_target": [
            {"worker": handles[head], "target": _target(forecast, head), **_finding(found)}
            for head, found in sorted(forecast.against.items())
        ],
        "pairs": [
            {"workers": [handles[one], handles[other]], **_finding(found)}
            for (one, other), found in sorted(forecast.pairs.items())
        ],
        "order": [
            {
                "worker": handles[step.item],
                "reason": matrix.reason(step, forecast, called),
                "conflicts_with_target": step.target,
                "conflicts_before": {handles[one]: count for one, count in step.earlier.items()},
                "conflicts_after": {handles[one]: count for one, count in step.later.items()},
                "depends": [handles[one] for one in step.after],
            }
            for step in forecast.order()
        ],
    }


def _target(forecast: Forecast, head: int) -> str | None:
    target = forecast.targets[head]
    return target.name if target is not None else None


def _finding(found: Finding) -> dict[str, object]:
    return {
        "clean": found.clean,
        "shared_paths": found.shared,
        "failed": found.failed,
        "conflicts": [
            {
                "path": conflict.path,
                "kind": conflict.kind,
                "stages": {str(stage): {"mode": mode, "id": oid} for stage, (mode, oid) in conflict.stages.items()},
            }
            for conflict in found.conflicts
        ],
        "same_but_case": [list(both) for both in found.same_but_case],
    }


def lines(forecast: Forecast, called: Sequence[str]) -> Iterator[Sequence[object]]:
    """The rows of --porcelain: what kind of row, a worker, a worker or the target, a number or kind, the rest."""
    handles = [head.candidate.handle for head in forecast.heads]
    both: list[tuple[str, str, Finding]] = [
        (handles[head], _target(forecast, head) or "", found) for head, found in sorted(forecast.against.items())
    ]
    both += [(handles[one], handles[other], found) for (one, other), found in sorted(forecast.pairs.items())]
    for one, other, found in both:
        if found.failed is not None:
            yield ("conflict", one, other, "failed", found.failed)
        for conflict in found.conflicts:
            yield ("conflict", one, other, conflict.kind, conflict.path)
    for one, other, found in both:
        for names in found.same_but_case:
            yield from (("case", one, other, "same but case", name) for name in names)
    for position, step in enumerate(forecast.order(), 1):
        yield ("order", handles[step.item], None, position, matrix.reason(step, forecast, called))
