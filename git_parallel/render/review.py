"""What a person reads in a review: the header of a worker, the list of all, hunks, verdicts. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from git_parallel.integrate import verdicts
from git_parallel.integrate.review.facts import Clash, Facts
from git_parallel.integrate.review.session import KEYS
from git_parallel.integrate.workers import Candidate
from git_parallel.render import details, table, text
from git_parallel.render.table import Column

VERDICT_COLOURS = {"approved": "green", "rejected": "red", "changes": "yellow"}

_LABEL = 11  # columns of the longest label and its colon
_SHORT = 12  # digits of an object id that a person needs
_PATHS_SHOWN = 8
_NONE_YET = "none yet"

Fields = Iterable[tuple[str, str | None, str | None]]
"""Label, value (None: leave it out) and colour."""


def header(facts: Facts, *, at: int, count: int, colour: bool) -> str:
    """All that is said of a worker before its diff. ``at`` is its place among ``count``, from 1."""
    one = facts.candidate
    result = one.result
    status = text.ending(result.status, result.reason) if result is not None else one.state
    painted = text.paint(status, table.STATE_COLOURS.get(result.status if result else one.state), colour)
    name = text.paint(f"worker {one.worker}", "bold", colour)
    lines = [f"{name} of run {text.printable(one.run)}: {painted} ({at} of {count})\n"]
    lines += _lines(_fields(facts), colour)
    return "".join(lines)


def _fields(facts: Facts) -> Iterator[tuple[str, str | None, str | None]]:
    one, result = facts.candidate, facts.candidate.result
    yield "task", text.one_line(one.task.title), None
    yield "agent", _agent(one), None
    if result is not None:
        yield "detail", result.detail, None
        yield "spent", _spent(one), None
        before = "" if facts.later == 0 else f", of {str(result.head)[:_SHORT]} and not of this head"
        for check in result.check or ():
            yield "check", f"{details.check(check)}{before}", _tone(check.green, not before)
        if not result.check:
            yield "check", "none", None
    yield "base", _base(facts), None
    yield "head", _head(facts), None
    yield from _conflicts(facts)
    for line in _some(facts.outside):
        yield "outside", line, "yellow"
    if facts.outside:
        yield "", f"the task is limited to {' '.join(one.task.paths)}", None
    if result is not None and result.snapshot:
        yield "snapshot", f"{result.snapshot[:_SHORT]} has work that is not on the branch", "yellow"
    for warning in result.warnings if result is not None else ():
        yield "warning", warning, "yellow"
    yield from _verdict(facts)


def _tone(green: bool, here: bool) -> str:
    return "red" if not green else "green" if here else "yellow"


def _agent(one: Candidate) -> str:
    model = (one.result.model if one.result is not None else None) or one.job.model
    parts = [one.spec.program, f"role {one.spec.role}", *([f"model {model}"] if model else [])]
    return ", ".join(parts)


def _spent(one: Candidate) -> str:
    result = one.result
    assert result is not None
    steps = text.count(result.steps, "step") if result.steps is not None else f"{text.UNKNOWN} steps"
    attempts = [f"attempt {result.attempts}"] if result.attempts > 1 else []
    return ", ".join([text.money(result.cost), steps, text.duration(result.duration), *attempts])


def _base(facts: Facts) -> str:
    name = facts.candidate.base[:_SHORT]
    if facts.fork != facts.candidate.base and facts.candidate.tip is not None:
        name = f"{name}, the change is from {facts.fork[:_SHORT]} on"
    if facts.target is None:
        return f"{name}; the run has no target"
    if facts.age is None:
        return f"{name}; the target {facts.target} is not there"
    moved = f"has moved {text.count(facts.age, 'commit')} since" if facts.age else "has not moved since"
    return f"{name}; {facts.target} {moved}"


def _head(facts: Facts) -> str:
    one = facts.candidate
    if one.tip is None:
        return f"{one.name} is not there"
    commits = text.count(facts.commits, "commit") if facts.commits else "no commit of its own"
    said = f"{one.tip[:_SHORT]} on {one.name}, {commits}"
    if facts.later is None:
        return f"{said}; rewritten since the worker ended"
    return f"{said}; {text.count(facts.later, 'commit')} since the worker ended" if facts.later else said


def _conflicts(facts: Facts) -> Iterator[tuple[str, str | None, str | None]]:
    label = "conflicts"
    if facts.target_paths:
        yield label, f"with {facts.target}: {_listed(facts.target_paths)}", "red"
        label = ""
    for clash in facts.clashes:
        yield label, f"with {_clashing(clash, facts.candidate)}: {_listed(clash.paths)}", "yellow"
        label = ""
    if label and facts.candidate.tip is not None and not facts.empty:
        known = f"with {facts.target} or " if facts.target_paths is not None else "with "
        yield label, f"none foreseen {known}other workers' branches", None


def _clashing(clash: Clash, here: Candidate) -> str:
    one = clash.worker
    name = f"worker {one.worker}" if one.run == here.run else f"worker {one.handle}"
    return f"{name} (same task)" if clash.same_task else name


def _listed(paths: Sequence[str]) -> str:
    shown = [text.one_line(path) for path in paths[:_PATHS_SHOWN]]
    more = f" and {len(paths) - _PATHS_SHOWN} more" if len(paths) > _PATHS_SHOWN else ""
    return ", ".join(shown) + more


def _some(paths: Sequence[str]) -> list[str]:
    if len(paths) <= _PATHS_SHOWN:
        return list(paths)
    return [*paths[: _PATHS_SHOWN - 1], f"… and {len(paths) - _PATHS_SHOWN + 1} more"]


def _verdict(facts: Facts) -> Iterator[tuple[str, str | None, str | None]]:
    given = facts.verdict or facts.void
    if given is None:
        yield "verdict", _NONE_YET, None
        return
    if facts.verdict is not None:
        yield "verdict", verdicts.said(given), VERDICT_COLOURS.get(given.verdict)
    else:
        yield "verdict", f"void: {verdicts.said(given)}, and the branch has moved since", "yellow"
    for line in verdicts.remarks(given):
        yield "", line, None


# --- verdicts --------------------------------------------------------------------------------------


def tally(given: Iterable[str]) -> str:
    """``2 approved, 1 rejected``."""
    words = list(given)
    counts = {word: words.count(word) for word in VERDICT_COLOURS}
    named = {"changes": "to be changed"}
    return ", ".join(f"{number} {named.get(word, word)}" for word, number in counts.items() if number) or "none decided"


def help_lines(keys: Sequence[str]) -> str:
    """What each key does."""
    return "".join(f"{key} - {KEYS[key][1]}\n" for key in keys)


# --- hunks -----------------------------------------------------------------------------------------


class DiffColours(Struct, frozen=True):
    """The person's colours for the lines of a diff: escape sequences, empty for none."""

    meta: str = ""
    frag: str = ""
    old: str = ""
    new: str = ""

    def of(self, line: bytes) -> str:
        """The colour of a line of a hunk or of what stands above it."""
        signs = {b"@": self.frag, b"-": self.old, b"+": self.new, b" ": "", b"\\": ""}
        return signs.get(line[:1], self.meta)


def hunk(lines: Iterable[bytes], colours: DiffColours) -> str:
    """The lines of a hunk; whatever a file holds, it cannot drive the terminal."""
    shown = []
    for line in lines:
        safe = "\t".join(text.printable(part) for part in os.fsdecode(line).split("\t"))
        colour = colours.of(line)
        shown.append(f"{colour}{safe}\x1b[m\n" if colour else f"{safe}\n")
    return "".join(shown)


def _lines(fields: Fields, colour: bool) -> list[str]:
    lines = []
    last = ""
    for label, value, tone in fields:
        if value is None:
            continue
        shown = f"{label}:" if label and label != last else ""
        last = label or last
        lines.append(f"  {shown:<{_LABEL}}{text.paint(text.printable(value), tone, colour)}\n")
    return lines


# --- the list --------------------------------------------------------------------------------------


def standing(facts: Facts) -> str:
    """The verdict in a word: ``approved``, ``void``, ``-``."""
    if facts.verdict is not None:
        return facts.verdict.verdict
    return "void" if facts.void is not None else table.NOTHING


def listing(found: Sequence[Facts], *, width: int, colour: bool) -> str:
    """The table of ``--list``."""
    several = len({one.candidate.run for one in found}) > 1
    results = [one.candidate.result for one in found]
    states = [result.status if result else one.candidate.state for one, result in zip(found, results, strict=True)]
    shown = [
        text.ending(result.status, result.reason) if result else one.candidate.state
        for one, result in zip(found, results, strict=True)
    ]
    words = [standing(one) for one in found]
    checks = [table.check(result.check) if result else None for result in results]
    columns = [
        Column("worker", [one.candidate.handle if several else str(one.candidate.worker) for one in found], right=True),
        Column("status", shown, colours=[table.STATE_COLOURS.get(state) for state in states]),
        Column("verdict", words, colours=[VERDICT_COLOURS.get(word) for word in words]),
        Column("changes", [_changes(one) for one in found], rank=2),
        Column("check", [one or table.NOTHING for one in checks], rank=3),
        Column("behind", [_age(one) for one in found], rank=4, right=True),
        Column("task", [text.fit(one.candidate.task.title, 60) for one in found], rank=5, least=12),
        Column("branch", [_branch(one.candidate) for one in found], rank=6, least=20),
    ]
    return "".join(f"{line}\n" for line in table.lay_out(columns, width=width, colour=colour))


def _branch(one: Candidate) -> str:
    gone = " (given away)" if one.successor is not None else " (gone)" if one.tip is None and one.ended else ""
    return f"{text.fit(one.name, 60)}{gone}"


def _changes(facts: Facts) -> str:
    change = facts.change
    if not change.paths:
        return table.NOTHING
    return f"{text.count(len(change.paths), 'file')}, +{change.insertions} -{change.deletions}"


def _age(facts: Facts) -> str:
    return text.UNKNOWN if facts.age is None else str(facts.age)


def rows(found: Iterable[Facts]) -> Iterator[Sequence[object]]:
    """The fields of ``--porcelain``, one row a worker."""
    for facts in found:
        one, given = facts.candidate, facts.verdict or facts.void
        result = one.result
        yield (
            one.run,
            one.worker,
            one.state,
            result.status if result else None,
            result.reason if result else None,
            standing(facts) if given else None,
            one.tip,
            given.head if given else None,
            given.at if given else None,
            facts.age,
            len(facts.change.paths),
            one.name,
            given.by if given else None,
        )


def document(found: Sequence[Facts]) -> Mapping[str, object]:
    """The JSON of ``--list`` and of verdicts that were just given."""
    return {"v": 1, "workers": [_worker(facts) for facts in found]}


def _worker(facts: Facts) -> Mapping[str, object]:
    one, result = facts.candidate, facts.candidate.result
    return {
        "run": one.run,
        "worker": one.worker,
        "task": one.job.task,
        "title": one.task.title,
        "branch": one.name,
        "base": one.base,
        "head": one.tip,
        "worktree": one.worktree,
        "state": one.state,
        "status": result.status if result else None,
        "reason": result.reason if result else None,
        "target": facts.target,
        "behind": facts.age,
        "commits": facts.commits if one.tip else None,
        "files": list(facts.change.paths),
        "insertions": facts.change.insertions,
        "deletions": facts.change.deletions,
        "outside": list(facts.outside),
        "check": msgspec.to_builtins(result.check) if result and result.check else None,
        "verdict": facts.verdict.verdict if facts.verdict else None,
        "void": facts.void.verdict if facts.void else None,
        "verdicts": msgspec.to_builtins(list(facts.history)),
    }
