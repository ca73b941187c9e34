"""``git parallel compare``: the workers of one task side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from git_parallel import errors
from git_parallel.cli import _common
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import compare, workers
from git_parallel.integrate.compare import Comparison
from git_parallel.render import comparison as page
from git_parallel.render import terminal
from git_parallel.supervisor import view


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--rank", is_flag=True, help="Say which is best, and by what evidence.")
@click.option(
    "--range-diff",
    "pair",
    nargs=2,
    metavar="WORKER WORKER",
    help="Show git's range-diff of two workers' commits instead.",
)
@_common.json_option
def command(words: Sequence[str], *, rank: bool, pair: tuple[str, str] | None, as_json: bool) -> int:
    """Show workers side by side: how they ended, what they changed, what they share and where they part.

    Of a run: the workers of each task that has several. Of one worker: it and the others of its task. Of
    several workers: just these. Without words: the runs that go on, or else the newest run.
    """
    repo = Repository.discover()
    if pair is not None:
        if words or as_json or rank:
            raise UsageError("--range-diff takes two workers and nothing else")
        return _range_diff(repo, pair)
    found = compare.groups(repo, words, default=workers.going_on(repo))
    if not found and not as_json:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done" --workers 3')
        return errors.OK
    comparisons = [compare.compare(repo, group) for group in found]
    if as_json:
        _common.write(view.dumps({"v": 1, "tasks": [document(one) for one in comparisons]}) + "\n")
        return errors.OK
    colour = terminal.colour(repo, sys.stdout)
    width = terminal.width()
    with terminal.paged(repo.git):
        _common.write("\n".join(page.described(one, ranked=rank, width=width, colour=colour) for one in comparisons))
    return errors.OK


def _range_diff(repo: Repository, pair: tuple[str, str]) -> int:
    """Let git compare the two series of commits, in its colours and pager."""
    chosen = workers.gather(repo, pair)
    if len(chosen) != 2:
        raise UsageError("--range-diff takes two workers", "list them with: git parallel status")
    for one in chosen:
        if one.tip is None:
            raise errors.ParallelError(
                f"worker {one.worker} has no commits to compare: {one.gone}", f"get it back with: {one.back}"
            )
        if one.tip == one.base:
            raise errors.ParallelError(f"worker {one.worker} has no commit of its own")
    return repo.git.show("range-diff", *(f"{one.base}..{one.tip}" for one in chosen), "--")


def document(comparison: Comparison) -> dict[str, object]:
    """One task as JSON. Workers are named as ``run/number``; a deleted file has null for its content."""
    handles = [head.candidate.handle for head in comparison.heads]
    return {
        "run": comparison.heads[0].candidate.run if comparison.heads else None,
        "task": comparison.heads[0].candidate.task.id if comparison.heads and comparison.task is not None else None,
        "title": comparison.task,
        "workers": [_worker(comparison, index) for index in range(len(handles))],
        "absent": [{"handle": one.candidate.handle, "reason": one.reason} for one in comparison.absent],
        "files": [
            {
                "path": path,
                "versions": {
                    handle: None if version is None else {"mode": version[0], "id": version[1]}
                    for handle, work in zip(handles, comparison.work, strict=True)
                    if path in work.versions
                    for version in (work.versions[path],)
                },
            }
            for path in comparison.paths
        ],
        "common": comparison.common,
        "identical": comparison.identical,
        "pairs": [
            {
                "workers": [handles[one], handles[other]],
                "files": {"alike": kin.alike, "different": kin.different, "only": list(kin.only)},
                "commits": {
                    "alike": kin.commits["="],
                    "changed": kin.commits["!"],
                    "only": [kin.commits["<"], kin.commits[">"]],
                },
                "conflicts": [conflict.path for conflict in comparison.forecast.between(one, other).conflicts],
            }
            for (one, other), kin in comparison.pairs.items()
        ],
        "ranking": [
            {
                "worker": handles[one.item],
                "place": one.place,
                "ahead_by": one.ahead,
                "cannot_win": one.bar,
                "evidence": list(one.evidence),
            }
            for one in comparison.ranking()
        ],
    }


def _worker(comparison: Comparison, index: int) -> dict[str, object]:
    head, work, verdict = comparison.heads[index], comparison.work[index], comparison.verdicts[index]
    candidate = head.candidate
    result = candidate.result if candidate.ended else None
    target = comparison.forecast.targets[index]
    return {
        "handle": candidate.handle,
        "run": candidate.run,
        "worker": candidate.worker,
        "model": candidate.job.model,
        "branch": candidate.name,
        "state": candidate.state,
        "status": result.status if result is not None else None,
        "reason": result.reason if result is not None else None,
        "commit": None if head.uncommitted else head.commit,
        "uncommitted": head.uncommitted,
        "checks": [{"command": check.command, "exit_code": check.exit_code} for check in (result.check or [])]
        if result is not None
        else None,
        "files": len(work.versions),
        "insertions": work.insertions,
        "deletions": work.deletions,
        "commits": work.commits,
        "steps": result.steps if result is not None else None,
        "cost": result.cost if result is not None else None,
        "duration": result.duration if result is not None else None,
        "verdict": verdict.verdict if verdict is not None else None,
        "target": target.name if target is not None else None,
        "conflicts_with_target": comparison.forecast.with_target(index).size if target is not None else None,
    }
