"""Writes the record of a run anew, from the run's own files, where it is gone or cannot be read any more.

Somebody may delete the ref. And `git gc --prune=now` removes objects that a run writes at that very moment, the
record's among them: git warns of that, and nothing keeps it from doing so.
"""

from __future__ import annotations

import os

from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import RunFiles, run_ref
from git_parallel.plan.model import Result, RunSpec, Status, decode_result
from git_parallel.store import objects, reading, record, refs
from git_parallel.store.record import Entry
from git_parallel.store.refs import Update
from git_parallel.supervisor import files, journal, rounds
from git_parallel.supervisor.journal import Event


def trouble(repo: Repository, run: str) -> str | None:
    """Why the record of a run cannot be read: it is not there, or not all of it. None where it is whole."""
    kept = reading.read(repo, run)
    if kept is None:
        return "its record is gone"
    return "objects of its record are missing from the repository" if kept.torn() else None


def begun(spec: RunSpec, events: list[Event]) -> bool:
    """Say whether a run has got so far that it must have had a record: that comes with its branches, before workers."""
    acts = {event.get("act") for event in events}
    return not acts.isdisjoint({"worktree", "spawn"}) or any(os.path.lexists(job.worktree) for job in spec.jobs)


def rebuild(repo: Repository, run_files: RunFiles, spec: RunSpec) -> None:
    """Write the record anew, with the results of the workers that had ended.

    Verdicts and results of earlier rounds were nowhere else. Raises ParallelError when it cannot be written.
    """
    from git_parallel.supervisor import start  # noqa: PLC0415 (20 ms; every command after a crash imports this module)

    ref = run_ref(spec.run)
    with refs.locked(repo):
        torn = refs.read(repo, ref).get(ref)
        if torn is not None:
            refs.transaction(repo, [Update(ref, None, torn)])
        record.write_many(repo, spec.run, [start.first_record(spec), _ended(repo, run_files, spec)])


def _ended(repo: Repository, run_files: RunFiles, spec: RunSpec) -> Entry:
    events = journal.read(run_files.journal)
    told = {event.get("worker") for event in rounds.current(events) if event.get("state") == "ended"}
    results = {job.worker: _result(run_files, job.worker) for job in spec.jobs if job.worker in told}
    known = {number: result for number, result in results.items() if result is not None}
    whole = journal.ended(events) is not None and not os.path.exists(run_files.supervisor)
    heads = list(dict.fromkeys(one.head for one in known.values() if one.head and one.head != spec.base))
    found = objects.batch(repo, heads)
    ended: dict[int, Status] = {number: result.status for number, result in known.items()}
    return Entry(
        changes={f"workers/{number}/result.json": _data(run_files, number) for number in known},
        subject="record written anew from the files of the run",
        trailers=[("Architect-Event", "rebuilt"), *([("Architect-State", "ended")] if whole else [])],
        parents=[one.oid for one in found if one is not None and one.kind == "commit"],
        ended=ended,
    )


def _data(run_files: RunFiles, number: int) -> bytes | None:
    return files.read(run_files.worker(number).result)


def _result(run_files: RunFiles, number: int) -> Result | None:
    import msgspec  # noqa: PLC0415 (rare)

    data = _data(run_files, number)
    try:
        return decode_result(data) if data is not None else None
    except msgspec.MsgspecError as error:
        raise ParallelError(f"cannot read {run_files.worker(number).result}: {error}") from error
