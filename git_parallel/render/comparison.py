"""What ``compare`` shows: a line for each worker, a file table, how each two relate, and a ranking. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_lowercase

from git_parallel.integrate.compare import Comparison, Kinship, Version
from git_parallel.integrate.rank import Place
from git_parallel.render import matrix, table, text
from git_parallel.render.table import Column

UNTOUCHED, DELETED = ".", "x"

_FILES_SHOWN = 40


def described(comparison: Comparison, *, ranked: bool, width: int, colour: bool) -> str:
    """All of one comparison, as a person reads it."""
    called = matrix.names(comparison.heads)
    parts = [
        [*_title(comparison, width, colour), *_workers(comparison, called, width, colour)],
        list(_files(comparison, called, width, colour)),
        list(_pairs(comparison, called)),
        list(_ranking(comparison.ranking(), called, width, colour)) if ranked else [],
        [text.clip(line, width) for line in matrix.notes(comparison.heads, comparison.absent, called)],
    ]
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in parts if lines)


def _title(comparison: Comparison, width: int, colour: bool) -> Iterator[str]:
    if comparison.task is not None:
        yield text.paint(text.fit(comparison.task, width), "bold", colour)


def _workers(comparison: Comparison, called: Sequence[str], width: int, colour: bool) -> list[str]:
    candidates = [head.candidate for head in comparison.heads]
    results = [one.result if one.ended else None for one in candidates]
    statuses = [
        text.ending(result.status, result.reason) if result else one.state
        for one, result in zip(candidates, results, strict=True)
    ]
    colours = [
        table.STATE_COLOURS.get(result.status if result else one.state)
        for one, result in zip(candidates, results, strict=True)
    ]
    checks = [table.check(result.check) if result else None for result in results]
    verdicts = [verdict.verdict if verdict else None for verdict in comparison.verdicts]
    models = [text.fit(one.job.model, 40) if one.job.model else None for one in candidates]
    columns = [
        Column("worker", called, right=True),
        Column("status", statuses, colours=colours),
        *_some("model", models, 6),
        *_some("check", checks, 1),
        *_some("review", verdicts, 2),
        Column("files", [str(len(one.versions)) for one in comparison.work], right=True),
        Column("lines", [f"+{one.insertions} -{one.deletions}" for one in comparison.work]),
        Column("commits", [str(one.commits) for one in comparison.work], 5, True),
        *_some("conflicts", [_conflicts(comparison, index) for index in range(len(called))], 3, right=True),
        *_some("steps", [None if not one or one.steps is None else str(one.steps) for one in results], 7, right=True),
        Column("cost", [text.money(result.cost) if result else text.UNKNOWN for result in results], 4, True),
        Column("time", [text.duration(result.duration) if result else text.UNKNOWN for result in results], 2, True),
        Column("task", [text.fit(one.task.title, 60) for one in candidates], 8 if comparison.task else 1, least=12),
    ]
    if comparison.task is not None:
        columns.pop()  # it stands above
    return table.lay_out(columns, width=width, colour=colour)


def _some(name: str, cells: Sequence[str | None], rank: int, *, right: bool = False) -> list[Column]:
    return [Column(name, [cell or table.NOTHING for cell in cells], rank, right)] if any(cells) else []


def _conflicts(comparison: Comparison, index: int) -> str | None:
    """How many paths collide with the target; None when there is no target."""
    if comparison.forecast.targets[index] is None:
        return None
    return str(comparison.forecast.with_target(index).size)


# --- files -----------------------------------------------------------------------------------------


def letters(versions: Sequence[Version | str]) -> list[str]:
    """A letter for each version, the same for the same content: ``a``, ``b`` …; marks are passed through."""
    known: dict[Version | str, str] = {None: DELETED, UNTOUCHED: UNTOUCHED}
    for version in versions:
        known.setdefault(version, _letter(len(known) - 2))
    return [known[version] for version in versions]


def _letter(index: int) -> str:
    return ascii_lowercase[index] if index < len(ascii_lowercase) - 3 else str(index)


def _files(comparison: Comparison, called: Sequence[str], width: int, colour: bool) -> Iterator[str]:
    paths = comparison.paths
    if not paths:
        return
    common, identical = comparison.common, set(comparison.identical)
    yield text.paint(
        f"{text.count(len(paths), 'file')} changed, {len(common)} by all, {len(identical)} of them alike:",
        "bold",
        colour,
    )
    everybody = set(common)
    # What all of them did comes first, what they differ in before what they agree on.
    order = sorted(paths, key=lambda path: (path not in everybody, path in identical, path))
    shown = order[:_FILES_SHOWN]
    cells = [letters([work.versions.get(path, UNTOUCHED) for work in comparison.work]) for path in shown]
    columns = [Column(name, [row[index] for row in cells], right=True) for index, name in enumerate(called)]
    columns.append(Column("file", [text.printable(path) for path in shown], least=20))
    yield from table.lay_out(columns, width=width, colour=colour)
    if len(order) > _FILES_SHOWN:
        yield f"… and {len(order) - _FILES_SHOWN} more"
    yield text.clip(f"(the same letter: the same content; {DELETED}: deleted; {UNTOUCHED}: not touched)", width)


# --- pairs -----------------------------------------------------------------------------------------


def _pairs(comparison: Comparison, called: Sequence[str]) -> Iterator[str]:
    for (one, other), kinship in comparison.pairs.items():
        both = (called[one], called[other])
        yield f"{both[0]} and {both[1]}: {relation(kinship, both)}"


def relation(kinship: Kinship, called: tuple[str, str]) -> str:
    """``2 files alike, 1 different, 1 only in 2; commits: 1 alike``."""
    files = [f"{kinship.alike} alike", f"{kinship.different} different"]
    files += [f"{count} only in {name}" for count, name in zip(kinship.only, called, strict=True) if count]
    words = {"=": "alike", "!": "changed", "<": f"only in {called[0]}", ">": f"only in {called[1]}"}
    commits = [f"{count} {words[mark]}" for mark, count in kinship.commits.items() if count]
    told = f"files: {', '.join(files)}"
    return f"{told}; commits: {', '.join(commits)}" if commits else told


# --- ranking ---------------------------------------------------------------------------------------


def _ranking(places: Sequence[Place], called: Sequence[str], width: int, colour: bool) -> Iterator[str]:
    winners = [one for one in places if one.place is not None]
    yield text.paint("ranking:" if winners else "ranking: none of them can win", "bold", colour)
    wide = max((text.columns(name) for name in called), default=0)
    for one in places:
        number = f"{one.place}." if one.place is not None else "-"
        ahead = f"ahead by {one.ahead}" if one.ahead else ""
        why = f"cannot win: {one.bar}" if one.bar else ahead
        yield text.clip(f"{number:>4} {text.pad(called[one.item], wide)}  {why}".rstrip(), width)
        for line in _wrapped(one.evidence, width - wide - 7):
            yield text.paint(f"{' ' * (wide + 7)}{line}", "dim", colour)


def _wrapped(facts: Sequence[str], width: int) -> Iterator[str]:
    """Facts in as few lines as they fit in."""
    rest = iter(facts)
    line = next(rest, "")
    for fact in rest:
        if text.columns(line) + text.columns(fact) + 2 > width:
            yield text.clip(text.printable(line), max(width, 1))
            line = fact
        else:
            line = f"{line}, {fact}"
    if line:
        yield text.clip(text.printable(line), max(width, 1))
