"""What ``conflicts`` shows: the matrix, which paths collide and how, and a good order with its reasons. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from git_parallel.integrate.conflicts import Finding, Forecast
from git_parallel.integrate.heads import Absent, Head
from git_parallel.integrate.order import Step
from git_parallel.render import text

# A cell: the number of conflicting paths; both changed a path and it merges; no path in common; the worker itself.
MERGES, APART, SELF = "o", ".", "\\"
CASE = "~"

_PATHS_SHOWN = 20
_TITLE = 40


def names(heads: Sequence[Head]) -> list[str]:
    """What people call each worker: its number, or ``<run>/<n>`` where the number is not enough. Pure."""
    numbers = [head.candidate.worker for head in heads]
    return [
        str(head.candidate.worker) if numbers.count(head.candidate.worker) == 1 else head.candidate.handle
        for head in heads
    ]


def described(forecast: Forecast, *, width: int, colour: bool) -> str:
    """All of it, as a person reads it."""
    called = names(forecast.heads)
    parts = [
        grid(forecast, called, width=width, colour=colour),
        list(_collisions(forecast, called, colour)),
        list(_order(forecast, called, width, colour)),
        list(_remarks(forecast, called, width)),
    ]
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in parts if lines)


# --- the matrix ------------------------------------------------------------------------------------


def grid(forecast: Forecast, called: Sequence[str], *, width: int, colour: bool) -> list[str]:
    """The matrix by lines: all workers, or where there is no room only those that collide, or nothing."""
    everyone = list(range(len(forecast.heads)))
    colliding = [one for one in everyone if any(not found.clean for found in _findings(forecast, one))]
    for shown in (everyone, colliding):
        lines = _grid(forecast, called, shown, colour)
        if lines and max(text.columns(line) for line in _grid(forecast, called, shown, False)) <= width:
            left = len(everyone) - len(shown)
            rest = [f"({text.count(left, 'worker')} that collide with nothing left out)"] if left else []
            return _with_titles(lines, forecast, shown, width) + [text.clip(line, width) for line in rest]
    return []


def _findings(forecast: Forecast, head: int) -> Iterator[Finding]:
    yield forecast.with_target(head)
    yield from (found for pair, found in forecast.pairs.items() if head in pair)


def _grid(forecast: Forecast, called: Sequence[str], shown: Sequence[int], colour: bool) -> list[str]:
    if not shown:
        return []
    targets = list(dict.fromkeys(target.name for target in forecast.targets if target is not None))
    first = max(text.columns(name) for name in (*(called[head] for head in shown), "worker"))
    columns = [text.fit(name, 24) for name in targets] + [called[head] for head in shown]
    rooms = [max(text.columns(name), 1) for name in columns]
    header = [text.pad(name, room, right=True) for name, room in zip(columns, rooms, strict=True)]
    lines = [text.paint(" ".join([text.pad("worker", first, right=True), "", *header]), "dim", colour)]
    for head in shown:
        target = forecast.targets[head]
        cells = [
            cell(forecast.with_target(head)) if target is not None and target.name == name else "" for name in targets
        ]
        cells += [SELF if other == head else cell(forecast.between(head, other)) for other in shown]
        padded = [
            text.paint(text.pad(one, room, right=True), "red" if one.isdecimal() else "dim", colour)
            for one, room in zip(cells, rooms, strict=True)
        ]
        lines.append(" ".join([text.pad(called[head], first, right=True), "", *padded]))
    return lines


def cell(found: Finding) -> str:
    """One cell of the matrix."""
    if found.size:
        return str(found.size)
    if found.same_but_case:
        return CASE
    return MERGES if found.shared else APART


def _with_titles(lines: list[str], forecast: Forecast, shown: Sequence[int], width: int) -> list[str]:
    """Put the tasks beside the matrix where there is room for at least a few words."""
    used = max(text.columns(_bare(line)) for line in lines)
    room = min(_TITLE, width - used - 2)
    if room < 12:
        return lines
    titles = ["", *(text.fit(forecast.heads[head].candidate.task.title, room) for head in shown)]
    return [f"{line}  {title}".rstrip() for line, title in zip(lines, titles, strict=True)]


def _bare(line: str) -> str:
    for code in (*text.COLOURS.values(), "\x1b[m"):
        line = line.replace(code, "")
    return line


# --- what collides ---------------------------------------------------------------------------------


def pairs(forecast: Forecast, called: Sequence[str]) -> Iterator[tuple[str, Finding]]:
    """Each pair with something to tell, the ones with the target first: ``2 and main``, ``1 and 2``."""
    for head, found in sorted(forecast.against.items()):
        target = forecast.targets[head]
        assert target is not None
        yield f"{called[head]} and {text.printable(target.name)}", found
    for (one, other), found in sorted(forecast.pairs.items()):
        yield f"{called[one]} and {called[other]}", found


def _collisions(forecast: Forecast, called: Sequence[str], colour: bool) -> Iterator[str]:
    for who, found in pairs(forecast, called):
        if found.clean:
            continue
        if found.failed is not None:
            yield text.paint(f"{who}: cannot be merged: {text.one_line(found.failed)}", "bold", colour)
            continue
        count = text.count(found.size, "path")
        yield text.paint(f"{who}: {count} {'conflicts' if found.size == 1 else 'conflict'}", "bold", colour)
        conflicts = found.conflicts[:_PATHS_SHOWN]
        wide = max((text.columns(conflict.kind) for conflict in conflicts), default=0)
        for conflict in conflicts:
            yield f"    {text.pad(conflict.kind, wide)}  {text.printable(conflict.path)}"
        if len(found.conflicts) > _PATHS_SHOWN:
            yield f"    … and {len(found.conflicts) - _PATHS_SHOWN} more"


# --- the order -------------------------------------------------------------------------------------


def _order(forecast: Forecast, called: Sequence[str], width: int, colour: bool) -> Iterator[str]:
    steps = forecast.order()
    if len(steps) < 2:
        return
    yield text.paint("suggested order, fewest conflicts first:", "bold", colour)
    wide = max(text.columns(called[step.item]) for step in steps)
    for position, step in enumerate(steps, 1):
        line = f"{position:>4}. {text.pad(called[step.item], wide)}  {reason(step, forecast, called)}"
        yield text.paint(text.clip(line, width), "yellow" if step.collides else None, colour)


def reason(step: Step, forecast: Forecast, called: Sequence[str]) -> str:
    """Why a worker has its place in the order."""
    parts = []
    target = forecast.targets[step.item]
    if step.after:
        parts.append(f"depends on {_listed(called[one] for one in step.after)}")
    if step.target and target is not None:
        parts.append(f"conflicts with {text.printable(target.name)} ({text.count(step.target, 'path')})")
    if step.earlier:
        parts.append(f"conflicts with {_counted(step.earlier, called)}, before it")
    if step.later:
        parts.append(f"conflicts with {_counted(step.later, called)}, after it")
    return "; ".join(parts) or "conflicts with nothing"


def _counted(partners: Mapping[int, int], called: Sequence[str]) -> str:
    return _listed(f"{called[one]} ({text.count(count, 'path')})" for one, count in partners.items())


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


# --- what else is to be known ----------------------------------------------------------------------


def _remarks(forecast: Forecast, called: Sequence[str], width: int) -> Iterator[str]:
    for line in remarks(forecast, called):
        yield text.clip(line, width)
    yield text.clip(summary(forecast), width)


def remarks(forecast: Forecast, called: Sequence[str]) -> Iterator[str]:
    """What a reader of the matrix must know beside it."""
    if forecast.idle:
        yield f"nothing to land: {_listed(called[index] for index in sorted(forecast.idle))}"
    yield from notes(forecast.heads, forecast.absent, called)


def notes(heads: Sequence[Head], absent: Sequence[Absent], called: Sequence[str]) -> Iterator[str]:
    """What was looked at, where that is not just the branches of all."""
    open_work = [called[index] for index, head in enumerate(heads) if head.uncommitted]
    if open_work:
        yield f"with what is not committed yet: {_listed(open_work)}"
    for index, head in enumerate(heads):
        if head.note is not None:
            yield f"{called[index]}: only its branch was looked at: {text.one_line(head.note)}"
    for one in absent:
        yield f"{one.candidate.worker}: left out: {text.one_line(one.reason)}"


def warnings(forecast: Forecast, called: Sequence[str]) -> Iterator[str]:
    """Names that only some file systems can hold beside each other."""
    for who, found in pairs(forecast, called):
        if found.same_but_case:
            both = ", ".join(
                f"{text.printable(one)} and {text.printable(other)}" for one, other in found.same_but_case[:3]
            )
            more = f" and {len(found.same_but_case) - 3} more" if len(found.same_but_case) > 3 else ""
            yield f"{who} add names that differ only in case: {both}{more}"


def summary(forecast: Forecast) -> str:
    """``4 workers: 2 of 10 pairs conflict (3 merges made)``."""
    return (
        f"{text.count(len(forecast.heads), 'worker')}: {forecast.collisions} of "
        f"{text.count(forecast.possible, 'pair')} {'conflicts' if forecast.collisions == 1 else 'conflict'}"
    )
