"""Finishes the record of a run whose supervisor died: what it had begun is captured and said truthfully.

The guards have killed everything by then (their lifeline ended with the supervisor); whatever they
wrote into ``exit.json`` is evidence, and what lies in the worktrees is captured as at any other end.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

import msgspec

from git_parallel import system
from git_parallel.agents.claim import Claim
from git_parallel.agents.readers import reader_for
from git_parallel.git import Repository
from git_parallel.layout import RunFiles, State
from git_parallel.plan.model import Job, Result, RunSpec, decode_result, decode_spec
from git_parallel.store import record
from git_parallel.supervisor import capture, files, journal, leftovers, liveness, rebuild, rounds, view
from git_parallel.supervisor.agent import said
from git_parallel.supervisor.closing import close_record
from git_parallel.supervisor.context import Context, prepare
from git_parallel.supervisor.finish import Attempt, finish, unstarted
from git_parallel.supervisor.host import Ending, guard_log, read_ending
from git_parallel.supervisor.journal import Event, Journal
from git_parallel.supervisor.processes import GUARDS, kill_all, marked
from git_parallel.supervisor.surroundings import Surroundings

REASON = "supervisor_died"

# Guards need their kill deadline at most; without a word from one after that, its processes are ours to end.
_GUARD_LIMIT = 12.0
_KILL_LIMIT = 5.0
_CHUNK = 1 << 18


def recover(repo: Repository, run: str) -> dict[int, Result] | None:
    """Finish one run; return its results, or None when somebody supervises it (or recovers it just now)."""
    run_files = State(repo.common_dir).run(run)
    held = liveness.claim(run_files)
    if held is None:
        return None
    try:
        results = _recover(repo, run, run_files)
    except BaseException:
        os.close(held.descriptor)  # the file stays: the run is still interrupted, and nobody supervises it
        raise
    if results is None:
        os.close(held.descriptor)
        return {}
    held.release()
    return results


def _recover(repo: Repository, run: str, run_files: RunFiles) -> dict[int, Result] | None:
    """Finish the record; None when nothing of the run had begun, and its files are gone now."""
    data = files.read(run_files.spec)
    spec = decode_spec(data) if data is not None else None
    every = journal.read(run_files.journal)
    if spec is None or (record.read(repo, run) is None and not rebuild.begun(spec, every)):
        # It died before its branches were made, in the same transaction as its first record: nothing was begun.
        if spec is not None:
            leftovers.unlock_run(repo, spec)
        import shutil  # noqa: PLC0415 (rare)

        shutil.rmtree(run_files.top)
        return None
    events = rounds.current(every)
    _end_processes(run_files, spec, events)
    leftovers.unlock_run(repo, spec)
    trouble = rebuild.trouble(repo, run)
    if trouble is not None:
        rebuild.rebuild(repo, run_files, spec)
    context = _context(repo, run_files, spec, every)
    try:
        context.journal.append("note", source="supervisor", reason="the supervisor died; finishing its record")
        if trouble is not None:
            context.journal.append("note", source="supervisor", reason=f"{trouble}; it was written anew")
        results = _finish_workers(context, spec, events)
        leftovers.tidy(run_files, [job.worker for job in spec.jobs])
        context.journal.append("run-ended", source="supervisor", reason=REASON, durable=True)
        close_record(context, results)
        _notify(context)
    finally:
        context.host.close()
        context.recorder.close()
        context.journal.close()
    return results


def _notify(context: Context) -> None:
    """Tell of the end that nobody has told of: the supervisor died before it could."""
    if context.spec.notify is None:
        return
    from git_parallel.supervisor import notify  # noqa: PLC0415 (few want to be told)

    shown = view.load(context.files)
    if shown is not None and (warning := notify.run_command(context, msgspec.structs.replace(shown, state="ended"))):
        context.journal.append("note", source="supervisor", reason=warning)


def _context(repo: Repository, run_files: RunFiles, spec: RunSpec, events: list[Event]) -> Context:
    recorded = record.read(repo, spec.run)
    assert recorded is not None
    return prepare(
        repo,
        spec,
        run_files,
        Journal(run_files.journal),
        before=Surroundings(spec.base, spec.target, None, files.read(run_files.config_before) or b""),
        rounds=rounds.begun(spec, events, rounds.archived(recorded)),
    )


def _end_processes(run_files: RunFiles, spec: RunSpec, events: list[Event]) -> None:
    """Wait for the last word of the guards that live, then end whatever is left."""
    guards, agents = {GUARDS: guard_log(run_files)}, {"GIT_PARALLEL_RUN": spec.run}
    deadline = time.monotonic() + _GUARD_LIMIT
    while marked(guards) and time.monotonic() < deadline:
        time.sleep(0.02)
    kill_all(lambda: [*marked(guards), *marked(agents)], _KILL_LIMIT)
    running = [
        job.worktree
        for job in spec.jobs
        if job.worker in _spawned(events) and not os.path.exists(run_files.worker(job.worker).result)
    ]
    if running:  # if guard and zygote were killed, too, what the agent had cut loose is known by its place alone
        from git_parallel.supervisor import strays  # noqa: PLC0415 (psutil takes 10 ms)

        strays.end(running, _KILL_LIMIT)
    for event in events:
        if event.get("temporary"):
            system.remove(event["temporary"])


def _spawned(events: list[Event]) -> set[int]:
    """The workers of which an agent was about to be started: it may have worked before anybody noted that it did."""
    return {event["worker"] for event in events if event.get("act") == "spawn"}


def _finish_workers(context: Context, spec: RunSpec, events: list[Event]) -> dict[int, Result]:
    recorded = record.read(context.repo, spec.run)
    results = recorded.results() if recorded is not None else {}
    spawned = _spawned(events)
    begun = {event["worker"] for event in events if event.get("act") == "worktree"}
    # In a power cut the journal may lose the intent of what is there. A further round finds its worktree.
    again = {event["worker"] for event in events if event.get("event") == "round"}
    begun |= {job.worker for job in spec.jobs if job.worker not in again and os.path.lexists(job.worktree)}
    ended = {event["worker"] for event in events if event.get("state") == "ended"}
    never = [job.worker for job in spec.jobs if job.worker not in results and job.worker not in begun]
    if never:
        results.update(unstarted(context, never, "cancelled", REASON))
    for job in spec.jobs:
        if job.worker in results:
            capture.settle_after_death(context, job)
            if job.worker not in ended and job.worker not in never:
                _note_end(context, results[job.worker])
            continue
        attempt = _attempt(context, job, events, job.worker in spawned)
        results[job.worker] = finish(context, job, attempt, run_checks=attempt.stopped is None)
        _note_end(context, results[job.worker])
    return results


def _note_end(context: Context, result: Result) -> None:
    context.journal.append("state", worker=result.worker_id, state="ended", status=result.status, reason=result.reason)


def _attempt(context: Context, job: Job, events: list[Event], spawned: bool) -> Attempt:
    """What the files tell of a worker whose supervisor died."""
    worker = context.files.worker(job.worker)
    ending = read_ending(worker.ending) if spawned else None
    if spawned and ending is None:
        ending = Ending(None, None, "guard-died", REASON, 0.0)
    before = files.read(worker.result)
    if before is not None:  # it had ended, and only the record was still missing
        ended = decode_result(before)
        stopped = None if ended.status in ("success", "failed", "partial", "skipped") else ended.reason
    else:
        stopped = None if ending is not None and ending.ended_by == "exit" else REASON
    own = [event for event in events if event.get("worker") == job.worker]
    started = [event for event in own if event.get("event") == "started"]
    tries = sum(event.get("act") == "spawn" for event in own)
    before_it = context.rounds[job.worker].attempt - 1
    claim = _claim(context, job, own, ending) if ending is not None else None
    return Attempt(
        number=before_it + tries,
        started=started[0].get("time") if started else None,
        duration=ending.duration if ending is not None and ending.duration else None,
        ending=ending,
        claim=claim,
        stopped=stopped,
    )


def _claim(context: Context, job: Job, own: list[Event], ending: Ending) -> Claim:
    """What the last attempt's output says; its cost is that of the whole round."""
    spawn = next((event for event in reversed(own) if event.get("act") == "spawn"), {})
    worker = context.files.worker(job.worker)
    reader = reader_for(context.preset, worker.top, worktree=job.worktree, model=job.model, fresh=False)
    with suppress(FileNotFoundError), open(worker.log, "rb") as file:
        file.seek(spawn.get("offset", 0))
        while data := file.read(_CHUNK):
            reader.feed(data)
    claim = said(reader, ending)
    told = {event.get("attempt"): event.get("cost") for event in own if event.get("event") == "reported"}
    ours = rounds.own(context.preset, claim, context.rounds[job.worker].reported)
    told.setdefault(spawn.get("attempt"), ours.cost)
    costs = [cost for cost in told.values() if cost is not None]
    session = rounds.session_after(claim, spawn.get("session"))
    if not any(event.get("event") == "reported" and event.get("attempt") == spawn.get("attempt") for event in own):
        context.journal.append(
            "reported",
            worker=job.worker,
            source="event-stream",
            attempt=spawn.get("attempt"),
            session=session,
            cost=ours.cost,
            session_cost=claim.cost,
            session_tokens=claim.tokens,
        )
    return msgspec.structs.replace(ours, cost=sum(costs) if costs else None, session=session)
