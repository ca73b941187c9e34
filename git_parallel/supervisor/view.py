"""What a run looks like now: folded from its live files, without asking git.

``fold`` is pure; ``load`` and ``live_runs`` read the files of :mod:`git_parallel.layout`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from git_parallel.layout import RunFiles, State
from git_parallel.plan.ids import new_id
from git_parallel.plan.model import Result, RunSpec, decode_result, decode_spec
from git_parallel.supervisor import files, journal, liveness
from git_parallel.supervisor.journal import Event

# States in which a process of the run was at work.
_AT_WORK = ("preparing", "running", "blocked", "paused", "finishing")

RunState = Literal["running", "ended", "interrupted"]


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """What changes while a worker works; None means unknown. ``time`` is when it was seen.

    ``trouble``, ``waiting``, ``retries`` and ``denials`` are what the program's reader tells
    (:class:`git_parallel.agents.claim.Progress`).
    """

    time: str | None = None
    step: int | None = None
    cost: float | None = None
    action: str | None = None
    files: int | None = None
    rss: int | None = None
    trouble: str | None = None
    waiting: str | None = None
    retries: int = 0
    denials: int = 0


class WorkerView(Struct, frozen=True):
    """A worker now. ``since`` is when it entered ``state``; ``source`` says where that was seen."""

    worker: int
    task: str
    title: str
    model: str | None
    branch: str
    worktree: str
    state: str = "queued"
    since: str | None = None
    source: str | None = None
    reason: str | None = None
    started: str | None = None
    attempt: int = 1
    progress: Progress = field(default_factory=Progress)
    result: Result | None = None


class RunView(Struct, frozen=True):
    """A run now. ``interrupted``: its supervisor died before the record was complete."""

    spec: RunSpec
    state: RunState
    pid: int | None
    workers: list[WorkerView] = field(default_factory=list)
    started: str | None = None
    ended: str | None = None


def fold(spec: RunSpec, events: Iterable[Event]) -> dict[int, WorkerView]:
    """Return each worker as the journal leaves it."""
    titles = {task.id: task.title for task in spec.tasks}
    facts: dict[int, dict[str, Any]] = {
        job.worker: {
            "worker": job.worker,
            "task": job.task,
            "title": titles.get(job.task, ""),
            "model": job.model,
            "branch": job.branch,
            "worktree": job.worktree,
            "since": spec.created,
        }
        for job in spec.jobs
    }
    for event in events:
        known = facts.get(event.get("worker", 0))
        if known is None:
            continue
        if event.get("event") == "state":
            known.update(
                state=event.get("state", "queued"),
                since=event.get("time"),
                source=event.get("source"),
                reason=event.get("reason"),
            )
            known["attempt"] = event.get("attempt", known.get("attempt", 1))
        elif event.get("event") == "started":
            known["started"] = event.get("time")
    return {worker: WorkerView(**known) for worker, known in facts.items()}


def load(run: RunFiles) -> RunView | None:
    """Read a run's live files; None when there are none (collected, or made in another clone)."""
    data = files.read(run.spec)
    if data is None:
        return None
    spec = decode_spec(data)
    pid = liveness.supervisor_pid(run)
    events = journal.read(run.journal)
    workers = [_with_files(run, view) for view in fold(spec, events).values()]
    ended = journal.ended(events)
    state: RunState = "running" if pid is not None else "ended"
    if state == "ended" and (ended is None or os.path.exists(run.supervisor)):
        state = "interrupted"
    return RunView(spec=spec, state=state, pid=pid, workers=workers, started=spec.created, ended=ended)


def _with_files(run: RunFiles, view: WorkerView) -> WorkerView:
    worker = run.worker(view.worker)
    changes: dict[str, Any] = {}
    # Written before it is in the record: until the journal says that it is, git does not show what it claims.
    result = files.read(worker.result) if view.state == "ended" else None
    if result is not None:
        changes["result"] = decode_result(result)
    with suppress(msgspec.DecodeError):  # empty after a power cut: it is never written through
        if (progress := files.read(worker.progress)) is not None:
            changes["progress"] = msgspec.json.decode(progress, type=Progress)
    return msgspec.structs.replace(view, **changes)


def settled(run: RunView) -> RunView:
    """Say of the workers of an interrupted run that they are interrupted, not at work."""
    if run.state != "interrupted":
        return run
    workers = [
        msgspec.structs.replace(worker, state="interrupted") if worker.state in _AT_WORK else worker
        for worker in run.workers
    ]
    return msgspec.structs.replace(run, workers=workers)


def live_runs(state: State) -> list[str]:
    """Ids of runs whose record is not complete (running or interrupted), oldest first."""
    return [run for run in known_runs(state) if os.path.exists(state.run(run).supervisor)]


def known_runs(state: State) -> list[str]:
    """Ids of all runs with live files in this repository, oldest first."""
    return [run for run in _directories(state) if os.path.exists(state.run(run).spec)]


def fresh_id(state: State) -> str:
    """An id for a new run, behind all others."""
    return new_id(after=max(known_runs(state), default=""))


def half_made(state: State) -> list[str]:
    """Ids of runs whose files are being made, or whose maker died before anything had begun."""
    return [run for run in _directories(state) if not os.path.exists(state.run(run).spec)]


def _directories(state: State) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(state.runs) if not entry.name.startswith("."))
    except FileNotFoundError:
        return []


def document(view: RunView) -> Mapping[str, object]:
    """The JSON that ``run``, ``status``, ``show`` and ``wait`` print: results, and the state of who has none yet."""
    return {
        "v": 1,
        "run": view.spec.run,
        "status": view.state,
        "workers": [worker_document(worker, view.spec) for worker in view.workers],
    }


def worker_document(view: WorkerView, spec: RunSpec) -> Mapping[str, object]:
    """One worker of :func:`document`: section 5's result fields, with ``state`` beside ``status``."""
    if view.result is not None:
        fields: dict[str, object] = msgspec.to_builtins(view.result)
    else:
        fields = dict.fromkeys(Result.__struct_fields__)
        fields.update(
            worker_id=view.worker,
            branch=view.branch,
            model=view.model,
            worktree_path=view.worktree,
            run=spec.run,
            task=view.task,
            agent=spec.program,
            role=spec.role,
            base=spec.base,
            attempts=view.attempt,
            started=view.started,
            steps=view.progress.step,
            cost=view.progress.cost,
            files_modified=[],
            warnings=[],
        )
    seen, over = view.progress, view.state == "ended"
    return {
        **fields,
        "state": view.state,
        "since": view.since,
        "source": view.source,
        "action": seen.action,
        "trouble": None if over else seen.trouble,
        "waiting": None if over else seen.waiting,
        "retries": seen.retries,
        "denials": seen.denials,
    }


def dumps(value: object) -> str:
    """One JSON document, as every ``--json`` prints it."""
    import json  # noqa: PLC0415 (not for tables)

    text = json.dumps(value, ensure_ascii=False, indent=2)
    try:
        text.encode()
    except UnicodeEncodeError:  # a file's name that is not UTF-8: escaped, as in the record
        return json.dumps(value, indent=2)
    return text
