"""One run or one worker in full, as ``git parallel show`` prints it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from git_parallel.integrate import verdicts
from git_parallel.integrate.merges import Landed
from git_parallel.integrate.verdicts import Verdict
from git_parallel.layout import HEADS, kept_ref, logs_ref, run_ref, wip_ref
from git_parallel.plan.model import CheckResult, IgnoredFiles, Limits, RunSpec
from git_parallel.render import table, text
from git_parallel.supervisor.view import RunView, WorkerView

_LABEL = 10  # columns of the longest label and its colon
_SHORT = 12  # digits of an object id that a person needs
_FILES_SHOWN = 20

# What an event says besides when, what and of whom.
_COMMON_FACTS = frozenset({"time", "mono", "event", "source", "worker", "state", "status", "reason"})


class Places(Struct, frozen=True):
    """Where a run's things lie now.

    ``refs`` are those that exist, with their values; ``worktrees`` the workers whose worktree exists;
    ``files`` the directory of the live files, None when it is gone; ``away`` the branches and worktrees that are
    another run's now (:func:`git_parallel.integrate.owners.given_away`), which are not among the others.
    """

    refs: Mapping[str, str]
    worktrees: frozenset[int]
    files: str | None
    away: Mapping[str, str | None]


def run(shown: RunView, places: Places, *, now: float, colour: bool) -> str:
    """The part of ``show`` about the run as a whole."""
    spec = shown.spec
    start = text.moment(shown.started)
    lasted = table.lasted(shown) if shown.state == "ended" else None
    record = places.refs.get(run_ref(spec.run))
    fields = [
        ("started", f"{spec.created} ({text.age(start, now)})" if start is not None else spec.created),
        ("took", text.duration(lasted) if lasted is not None else None),
        ("by", spec.person),
        ("command", shlex.join(spec.argv) if spec.argv else None),
        ("base", f"{spec.base_name} ({spec.base[:_SHORT]})"),
        ("target", spec.target.removeprefix(HEADS) if spec.target else "none: HEAD was detached"),
        ("program", f"{spec.program}, role {spec.role}"),
        ("limits", limits(spec.limits) or None),
        *(("check", command) for command in spec.checks),
        ("halt", spec.halt if spec.halt != "never" else None),
        ("record", f"{run_ref(spec.run)} ({record[:_SHORT]})" if record else "none yet"),
        ("output", logs_ref(spec.run) if logs_ref(spec.run) in places.refs else None),
        ("files", places.files),
    ]
    heading = table.heading(shown, now, colour=colour)
    return f"{heading}\n{_lines(fields)}\n{table.summary(shown.workers, table.lasted(shown))}\n"


def worker(
    spec: RunSpec,
    view: WorkerView,
    places: Places,
    *,
    now: float,
    colour: bool,
    reviews: Sequence[Verdict] = (),
    landed: Sequence[Landed] = (),
) -> str:
    """The part of ``show`` about one worker; ``reviews`` are all verdicts on it, ``landed`` how it landed: in order."""
    result = view.result
    state = text.paint(table.state(view), table.state_colour(view), colour)
    name = text.paint(f"worker {spec.run}/{view.worker}", "bold", colour)
    prompt = next((task.prompt for task in spec.tasks if task.id == view.task), "")
    seconds = table.elapsed(view, now)
    fields = [
        ("branch", _branch(view, places)),
        ("", _back(spec.run, view, places)),
        ("worktree", _worktree(view, places)),
        ("snapshot", _where(wip_ref(spec.run, view.worker), places)),
        ("kept", _where(kept_ref(spec.run, view.worker), places)),
        ("model", view.model),
        ("time", text.duration(seconds) if seconds is not None else None),
        ("cost", text.money(table.cost(view)) if table.began(view) else None),
        ("steps", _known(table.steps(view))),
        ("tokens", _tokens(result.tokens) if result else None),
        ("session", result.session if result else None),
        ("attempts", str(view.attempt) if view.attempt > 1 else None),
        ("action", view.progress.action if view.state in ("running", "blocked", "paused") else None),
        ("waits for", view.progress.waiting if view.state == "blocked" else None),
        ("detail", result.detail if result else view.reason),
        ("exit code", _known(result.exit_code) if result else None),
        *(("check", check(one)) for one in (result.check or () if result else ())),
        ("changes", text.change(result) if result else None),
        *(("", path) for path in _some(result.files_modified if result else [])),
        *_ignored(result.ignored if result else None),
        *(("warning", warning) for warning in (result.warnings if result else ())),
        *_reviews(reviews, places.refs.get(HEADS + view.branch)),
        *(("landed", _landing(one)) for one in landed),
    ]
    task = "".join(f"    {text.printable(line)}\n" for line in prompt.splitlines())
    return f"{name}: {state}\n{_lines(fields)}\n{task}"


def limits(given: Limits) -> str:
    """``$2.00 and 5m00s each, 30 steps, $10.00 in all``; empty when there are none."""
    each = [text.money(given.budget_per_worker)] if given.budget_per_worker is not None else []
    each += [text.duration(given.timeout_per_worker)] if given.timeout_per_worker is not None else []
    both = [text.money(given.budget)] if given.budget is not None else []
    both += [text.duration(given.timeout)] if given.timeout is not None else []
    parts = [f"{' and '.join(each)} each"] if each else []
    parts += [text.count(given.max_steps, "step") + " each"] if given.max_steps is not None else []
    parts += [f"{' and '.join(both)} in all"] if both else []
    return ", ".join(parts)


def check(one: CheckResult) -> str:
    """``green: pytest -q (3s)``, ``red (exit code 2): make``, ``red (no end in time): make``."""
    if one.green:
        return f"green: {one.command} ({text.duration(one.duration)})"
    if one.exit_code is None:
        why = "no end in time"
    else:
        why = f"signal {-one.exit_code}" if one.exit_code < 0 else f"exit code {one.exit_code}"
    return f"red ({why}): {one.command} ({text.duration(one.duration)})"


def events(found: Iterable[Mapping[str, Any]]) -> str:
    """A line an event: time, worker, what, and its further facts."""
    lines = []
    for event in found:
        who = f"[{event['worker']}]" if event.get("worker") is not None else "run"
        what = [str(event.get("state") or event.get("event", ""))]
        what += [str(event[name]) for name in ("status", "reason") if event.get(name)]
        what += [f"{name}={event[name]}" for name in event if name not in _COMMON_FACTS]
        said = text.one_line(" ".join(what))
        lines.append(f"{text.printable(str(event.get('time', '')))}  {who:<5} {said} ({event.get('source', '?')})\n")
    return "".join(lines)


def _reviews(given: Sequence[Verdict], tip: str | None) -> Iterable[tuple[str, str]]:
    """The verdicts as they were given; where the branch stands says which of them still counts."""
    counts = verdicts.standing(given, tip)
    for one in given:
        later = "" if one is counts else " (a later one counts)"
        if tip is not None and one.head != tip:
            later = f" (void: the branch is at {tip[:_SHORT]})"
        yield "review", f"{verdicts.said(one)}{later}"
        yield from (("", line) for line in verdicts.remarks(one))


def _landing(one: Landed) -> str:
    """``on main as 1a2b3c4d5e6f by landing 20261129T165000Z-7f3a``."""
    said = f"on {one.target} as {one.commit[:_SHORT]} by landing {one.merge}"
    return f"{said} (undone since)" if one.undone else said


def document(spec: RunSpec, places: Places) -> Mapping[str, object]:
    """What ``show --json`` has beyond ``status --json``: the run as it was asked for, and where it lies."""
    asked = msgspec.to_builtins(spec)
    return {
        "spec": {name: value for name, value in asked.items() if name not in ("v", "run", "jobs")},
        "record": places.refs.get(run_ref(spec.run)),
        "refs": dict(places.refs),
        "files": places.files,
    }


def _branch(view: WorkerView, places: Places) -> str:
    head = view.result.head if view.result else None
    now = places.refs.get(HEADS + view.branch)
    if (successor := places.away.get(view.branch)) is not None:
        was = "" if head is None else f"; was at {head[:_SHORT]}"
        return f"{view.branch} (given away: it is {successor}'s now{was})"
    if now is None:
        return f"{view.branch} (not there)" if head is None else f"{view.branch} (gone; was at {head[:_SHORT]})"
    if head is None or head == now:
        return f"{view.branch} at {now[:_SHORT]}"
    return f"{view.branch} at {now[:_SHORT]} (the worker left it at {head[:_SHORT]})"


def _back(run: str, view: WorkerView, places: Places) -> str | None:
    """What brings the work of a worker back whose number was given away."""
    if places.away.get(view.branch) is None or view.result is None or view.result.head is None:
        return None
    return f"its work under another name: git parallel restore {run}/{view.worker} --branch NAME"


def _worktree(view: WorkerView, places: Places) -> str:
    if (successor := places.away.get(view.worktree)) is not None:
        return f"{view.worktree} (given away: it is {successor}'s now)"
    return view.worktree if view.worker in places.worktrees else f"{view.worktree} (not there)"


def _where(ref: str, places: Places) -> str | None:
    return f"{ref} ({places.refs[ref][:_SHORT]})" if ref in places.refs else None


def _ignored(found: IgnoredFiles | None) -> Iterable[tuple[str, str]]:
    """What git ignores in the worktree: all of it, then path by path."""
    if found is None:
        return
    kept = f", some of them kept ({found.kept[:_SHORT]})" if found.kept else ""
    yield "ignored", f"{_measured(found.files, found.size, more=found.more)}{kept}"
    paths = [f"{one.path} ({_measured(one.files, one.size, more=one.more)})" for one in found.paths]
    yield from (("", path) for path in _some(paths))


def _measured(files: int, size: int, *, more: bool) -> str:
    return f"{'more than ' if more else ''}{text.count(files, 'file')}, {text.size(size)}"


def _tokens(tokens: Mapping[str, int] | None) -> str | None:
    return ", ".join(f"{number} {name}" for name, number in tokens.items()) if tokens else None


def _known(number: int | None) -> str | None:
    return None if number is None else str(number)


def _some(paths: Sequence[str]) -> list[str]:
    if len(paths) <= _FILES_SHOWN:
        return list(paths)
    return [*paths[: _FILES_SHOWN - 1], f"… and {len(paths) - _FILES_SHOWN + 1} more"]


def _lines(fields: Iterable[tuple[str, str | None]]) -> str:
    """``label:    value`` lines; a field without a value is left out."""
    lines = []
    for label, value in fields:
        if value is not None:
            head = f"{label}:" if label else ""
            lines.append(f"{head:<{_LABEL}} {text.printable(value)}\n")
    return "".join(lines)
