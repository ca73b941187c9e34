"""``git parallel list``: the runs of this repository."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import click
from msgspec import Struct

from git_parallel.cli import _common, _runs
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.render import table, terminal, text
from git_parallel.render.table import Column
from git_parallel.supervisor import view

# How the subject of a run's first record begins; its number is said by the counts.
_PREFIX = re.compile(r"run \d+ workers?: ")
_ID = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-")


class Row(Struct, frozen=True):
    """A run in a list. ``started`` is epoch seconds; ``counts`` its workers by status or state; ``tip`` its record."""

    run: str
    state: str
    started: float | None
    counts: Counter[str]
    title: str
    tip: str | None


@click.command(name="list")
@click.option("-n", "--max-count", "limit", type=click.IntRange(min=1), metavar="N", help="At most N runs.")
@_common.json_option
@_common.porcelain_options
def command(limit: int | None, as_json: bool, porcelain: bool, nul: bool) -> int:
    """List the runs of this repository, the newest first.

    --porcelain prints a line a run, fields parted by TAB: run, state (running, interrupted, ended),
    start (seconds since the epoch), workers by status (success=2,failed=1), record, first task.
    """
    _common.one_format(as_json, porcelain, nul)
    repo = Repository.discover()
    rows = listed(repo, limit)
    if as_json:
        _common.write(view.dumps({"v": 1, "runs": [as_document(row) for row in rows]}) + "\n")
    elif porcelain or nul:
        _common.write_lines(map(_fields, rows), nul=nul)
    elif rows:
        colour = terminal.colour(repo, sys.stdout)
        width = terminal.width()
        with terminal.paged(repo.git):
            _common.write(described(rows, now=time.time(), width=width, colour=colour))
    return 0


def listed(repo: Repository, limit: int | None) -> list[Row]:
    """All runs, recorded or only begun, the newest first."""
    from git_parallel.store import reading  # noqa: PLC0415 (imports what other commands do without)

    live = set(view.live_runs(State(repo.common_dir)))
    recorded = {summary.run: summary for summary in reading.list_runs(repo, limit)}
    rows = []
    for run in sorted(live | recorded.keys(), reverse=True)[:limit]:
        summary = recorded.get(run)
        if run in live:
            rows.append(_live_row(repo, run, summary.tip if summary else None))
        elif summary is not None:
            # Without live files here, a record that ends in the middle may be another machine's run.
            state = "unfinished" if summary.state == "running" else summary.state
            title = _PREFIX.sub("", summary.title, count=1)
            rows.append(Row(run, state, started(run) or summary.time, Counter(summary.counts), title, summary.tip))
    return rows


def _live_row(repo: Repository, run: str, tip: str | None) -> Row:
    now = _runs.load(repo, run)
    counts = Counter(table.standing(worker) for worker in now.workers)
    title = now.spec.tasks[0].title if now.spec.tasks else ""
    if len(now.spec.tasks) > 1:
        title += f" and {text.count(len(now.spec.tasks) - 1, 'more task')}"
    return Row(run, now.state, started(run), counts, title, tip)


def started(run: str) -> float | None:
    """Epoch seconds of a run's start, from its id; None for an id of another form."""
    found = _ID.match(run)
    return text.moment("{}-{}-{}T{}:{}:{}Z".format(*found.groups())) if found else None


def as_document(row: Row) -> Mapping[str, object]:
    """A run in the JSON: ``{"v": 1, "runs": [these]}``."""
    return {
        "run": row.run,
        "status": row.state,
        "started": row.started,
        "counts": dict(row.counts),
        "title": row.title,
        "record": row.tip,
    }


def _fields(row: Row) -> Sequence[object]:
    counts = ",".join(f"{name}={number}" for name, number in row.counts.items())
    return (row.run, row.state, None if row.started is None else int(row.started), counts, row.tip, row.title)


def described(rows: Sequence[Row], *, now: float, width: int, colour: bool) -> str:
    """The table for people. Pure."""
    columns = [
        Column("run", [text.fit(row.run, 60) for row in rows]),
        Column("started", [text.age(row.started, now) for row in rows], rank=2),
        Column("state", [row.state for row in rows], rank=1, colours=[_colour(row) for row in rows]),
        Column("workers", ["?" if row.state == "unreadable" else table.tallied(row.counts) for row in rows], rank=3),
        Column("first task", [text.fit(row.title, 100) for row in rows], rank=4, least=16),
    ]
    return "".join(f"{line}\n" for line in table.lay_out(columns, width=width, colour=colour))


def _colour(row: Row) -> str | None:
    return {"running": "cyan", "interrupted": "red", "unfinished": "yellow", "unreadable": "red"}.get(row.state)
