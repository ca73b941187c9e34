"""Tables of workers: where they are now, and how they ended.

Everything here is pure: values, the clock (seconds since the epoch), the width in columns and whether
colours are wanted go in, lines of text come out. What has no room is left out by rank, never wrapped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from git_parallel.plan.model import CheckResult
from git_parallel.render import text
from git_parallel.supervisor.view import RunView, WorkerView

GAP = "  "
NOTHING = "-"

# In the order in which a summary names them.
STATE_COLOURS = {
    "success": "green",
    "partial": "yellow",
    "failed": "red",
    "timeout": "red",
    "cancelled": "yellow",
    "skipped": "dim",
    "interrupted": "red",
    "running": "cyan",
    "blocked": "yellow",
    "paused": "yellow",
    "finishing": "blue",
    "preparing": "blue",
    "waiting": "dim",
    "queued": "dim",
}

# Workers that ended before an agent of theirs was started cost nothing: their money is not unknown.
_NOT_YET_STARTED = frozenset({"queued", "waiting", "preparing"})


class Column(Struct, frozen=True):
    """A column of a table. ``rank`` 0 always shows; the highest rank gives way first.

    A column with ``least`` set may be cut to that many columns before another one gives way.
    """

    name: str
    cells: Sequence[str]
    rank: int = 0
    right: bool = False
    least: int | None = None
    colours: Sequence[str | None] = ()

    @property
    def wide(self) -> int:
        return max(text.columns(cell) for cell in (self.name, *self.cells))

    @property
    def narrow(self) -> int:
        return self.wide if self.least is None else min(self.wide, self.least)


def lay_out(columns: Sequence[Column], *, width: int, colour: bool) -> list[str]:
    """Return a header line and one line a row, none wider than ``width``."""
    shown = _that_fit(columns, width)
    widths = _share_out(shown, width)
    header = GAP.join(
        text.pad(text.clip(column.name, room), room, right=column.right)
        for column, room in zip(shown, widths, strict=True)
    )
    lines = [text.paint(header.rstrip(), "dim", colour)]
    for row in range(len(shown[0].cells)):
        cells = []
        for column, room in zip(shown, widths, strict=True):
            cell = text.pad(text.clip(column.cells[row], room), room, right=column.right)
            cells.append(text.paint(cell, column.colours[row] if column.colours else None, colour))
        lines.append(GAP.join(cells).rstrip())
    return lines


def _that_fit(columns: Sequence[Column], width: int) -> list[Column]:
    shown = list(columns)
    while _total(column.narrow for column in shown) > width and any(column.rank for column in shown):
        shown.remove(max(shown, key=lambda column: column.rank))
    return shown


def _share_out(columns: Sequence[Column], width: int) -> list[int]:
    """Give each column what it wants, then take from the widest that may be cut until the line fits."""
    widths = [column.wide for column in columns]
    excess = _total(widths) - width
    while excess > 0:
        spare = [max(0, room - column.narrow) for room, column in zip(widths, columns, strict=True)]
        if not any(spare):
            # Not even the columns of rank 0 fit: the last ones are cut by the edge of the terminal.
            widest = max(range(len(widths)), key=lambda index: widths[index])
            if widths[widest] <= 1:
                break
            widths[widest] -= 1
        else:
            widest = max((index for index, room in enumerate(spare) if room), key=lambda index: widths[index])
            widths[widest] -= 1
        excess -= 1
    return widths


def _total(widths: Iterable[int]) -> int:
    sizes = list(widths)
    return sum(sizes) + len(GAP) * (len(sizes) - 1)


def state(view: WorkerView) -> str:
    """The state in a word, with what makes it special: ``running(rate limited)``, ``failed/no_changes``."""
    if view.result is not None and view.state == "ended":
        return text.ending(view.result.status, view.result.reason)
    reason = text.fit(view.reason, 40) if view.reason else ""
    if view.state == "ended":
        return reason or "ended"
    if view.state == "running" and view.progress.trouble:
        return f"{view.state}({view.progress.trouble})"
    return f"{view.state}({reason})" if reason and view.state in ("blocked", "waiting") else view.state


def state_colour(view: WorkerView) -> str | None:
    """The colour of a worker's state."""
    return STATE_COLOURS.get(view.result.status if view.result is not None and view.state == "ended" else view.state)


def elapsed(view: WorkerView, now: float) -> float | None:
    """Seconds the worker has worked so far, or worked in all; None when it has not started or nobody knows."""
    if view.result is not None:
        return view.result.duration
    since = text.moment(view.since)
    started = text.moment(view.started)
    if view.state == "interrupted":  # it stopped at an unknown time after it was last seen
        seen = text.moment(view.progress.time)
        return None if seen is None or started is None else seen - started
    if started is None:
        return now - since if since is not None and view.state == "preparing" else None
    return (since - started if since is not None else None) if view.state == "ended" else now - started


def cost(view: WorkerView) -> float | None:
    """US dollars, from the result or as last seen; 0 for a worker that never started an agent."""
    known = view.result.cost if view.result is not None else view.progress.cost
    if known is None and not began(view) and (view.state == "ended" or view.state in _NOT_YET_STARTED):
        return 0.0
    return known


def began(view: WorkerView) -> bool:
    """Whether an agent was ever started for this worker."""
    return view.started is not None or (view.result is not None and view.result.started is not None)


def steps(view: WorkerView) -> int | None:
    """Steps of the agent, from the result or as last seen."""
    return view.result.steps if view.result is not None else view.progress.step


def files(view: WorkerView) -> int | None:
    """How many files the worker changed, so far or in all."""
    return len(view.result.files_modified) if view.result is not None else view.progress.files


def workers(views: Sequence[WorkerView], *, now: float, width: int, colour: bool) -> str:
    """The table of ``status`` and ``watch``: a header and a line for each worker."""
    colours = [state_colour(view) for view in views]
    started = [view.state not in _NOT_YET_STARTED for view in views]
    columns = [
        Column("worker", [str(view.worker) for view in views], right=True),
        Column("state", [state(view) for view in views], colours=colours),
        Column("task", [text.fit(view.title, 60) for view in views], least=16),
        *_optional("model", [view.model for view in views], rank=5, least=10),
        *_optional("step", [_number(steps(view)) for view in views], rank=4, right=True),
        *_optional("last action", [_action(view) for view in views], rank=7, least=12),
        Column("time", [_elapsed(view, now) for view in views], rank=1, right=True),
        Column("cost", [_money(view) for view in views], rank=2, right=True),
        Column("files", [_blank_or(files(view), known) for view, known in zip(views, started, strict=True)], 3, True),
        Column("branch", [text.fit(view.branch, 60) for view in views], rank=6),
    ]
    return "".join(f"{line}\n" for line in lay_out(columns, width=width, colour=colour))


def heading(run: RunView, now: float, *, colour: bool = False) -> str:
    """``run 20261129T165000Z-7f3a: running for 1m04s``."""
    name = text.paint(f"run {text.printable(run.spec.run)}", "bold", colour)
    start = text.moment(run.started)
    if run.state == "running":
        lasted = "" if start is None else f" for {text.duration(now - start)}"
        return f"{name}: running{lasted}"
    if run.state == "interrupted":
        since = f", started {text.age(start, now)}" if start is not None else ""
        return f"{name}: {text.paint('interrupted', 'red', colour)}{since}"
    end = text.moment(run.ended)
    return f"{name}: ended" + (f" {text.age(end, now)}" if end is not None else "")


def results(run: RunView, *, width: int, colour: bool) -> str:
    """The final table of a run, with a line that sums it up."""
    views = run.workers
    colours = [state_colour(view) for view in views]
    columns = [
        Column("worker", [str(view.worker) for view in views], right=True),
        Column("status", [state(view) for view in views], colours=colours),
        Column("task", [text.fit(view.title, 60) for view in views], rank=6, least=12),
        *_optional("model", [view.model for view in views], rank=5, least=10),
        Column("changes", [changes(view) for view in views], rank=2),
        Column("cost", [_money(view) for view in views], rank=3, right=True),
        Column("time", [_elapsed(view, 0.0) for view in views], rank=1, right=True),
        *_optional("check", [check(view.result.check) if view.result else None for view in views], rank=4),
        Column("branch", [text.fit(view.branch, 60) for view in views], least=20),
    ]
    lines = [*lay_out(columns, width=width, colour=colour), "", text.clip(summary(views, lasted(run)), width)]
    return "".join(f"{line}\n" for line in lines)


def lasted(run: RunView) -> float | None:
    """Seconds from the run's start to its end, or to the last thing known of it."""
    start = text.moment(run.started)
    known = [text.moment(run.ended)] if run.ended else [text.moment(view.since) for view in run.workers]
    ends = [end for end in known if end is not None]
    return None if start is None or not ends else max(ends) - start


def summary(views: Sequence[WorkerView], seconds: float | None) -> str:
    """``3 workers: 2 success, 1 failed · 4 files · $0.12 · 1m04s``: what is unknown is ``?``."""
    changed = [files(view) for view in views]
    known = sum(number for number in changed if number is not None)
    parts = [
        f"{text.count(len(views), 'worker')}: {tally(views)}",
        text.count(known, "file"),
        text.total_money([cost(view) for view in views if began(view)]),
    ]
    if seconds is not None:
        parts.append(text.duration(seconds))
    return " · ".join(parts)


def tally(views: Iterable[WorkerView]) -> str:
    """``2 success, 1 failed, 3 queued``, endings first."""
    return tallied(Counter(standing(view) for view in views))


def tallied(counts: Counter[str]) -> str:
    """The same from counts by state or status."""
    order = {name: rank for rank, name in enumerate(STATE_COLOURS)}
    names = sorted(counts, key=lambda name: (order.get(name, len(order)), name))
    return ", ".join(f"{counts[name]} {name}" for name in names if counts[name]) or "none"


def standing(view: WorkerView) -> str:
    """The status of a worker that has ended, the state of one that has not."""
    return view.result.status if view.result is not None and view.state == "ended" else view.state


def changes(view: WorkerView) -> str:
    """``3 files, +10 -2``; ``-`` when nothing changed or the worker has not got that far."""
    return NOTHING if view.result is None or not view.result.files_modified else text.change(view.result)


def check(checks: Sequence[CheckResult] | None) -> str | None:
    """``ok``, or how many of the checks are red; None when there were none."""
    if not checks:
        return None
    red = sum(not one.green for one in checks)
    return "ok" if not red else "red" if len(checks) == 1 else f"{red}/{len(checks)} red"


def _optional(
    name: str, cells: Sequence[str | None], *, rank: int, right: bool = False, least: int | None = None
) -> list[Column]:
    """A column that is there only when some row has something in it."""
    if not any(cells):
        return []
    clean: Callable[[str | None], str] = lambda cell: text.fit(cell, 60) if cell else NOTHING  # noqa: E731
    return [Column(name, [clean(cell) for cell in cells], rank=rank, right=right, least=least)]


def _action(view: WorkerView) -> str | None:
    if view.state == "blocked" and view.progress.waiting:
        return view.progress.waiting
    return view.progress.action if view.state in ("running", "blocked", "paused", "interrupted") else None


def _elapsed(view: WorkerView, now: float) -> str:
    seconds = elapsed(view, now)
    if seconds is None and not began(view):
        return NOTHING
    return text.duration(seconds)


def _money(view: WorkerView) -> str:
    return text.money(cost(view)) if began(view) else NOTHING


def _number(number: int | None) -> str | None:
    return None if number is None else str(number)


def _blank_or(number: int | None, known: bool) -> str:
    return NOTHING if not known else text.UNKNOWN if number is None else str(number)
