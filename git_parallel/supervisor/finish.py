"""The end of a worker, whatever the ending: capture → checks → result → one ref transaction (DESIGN section 5).

The same code finishes a worker of a living run and one whose supervisor died.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from git_parallel import system
from git_parallel.agents.claim import Claim
from git_parallel.errors import MissingError, RaceError
from git_parallel.layout import wip_ref
from git_parallel.plan.model import CheckResult, Job, Result, Status, encode
from git_parallel.render import text
from git_parallel.store.record import Entry
from git_parallel.supervisor import capture, checkpoints, files, outcome, rounds
from git_parallel.supervisor.capture import Work
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.host import Ending, GuardSpec
from git_parallel.supervisor.journal import timestamp
from git_parallel.supervisor.outcome import Evidence

CAPTURE_TRIES = 3


class Attempt(Struct, frozen=True):
    """What is known of a worker's last attempt when it ends. ``ending`` is None when no agent was started."""

    number: int
    started: str | None
    duration: float | None
    ending: Ending | None
    claim: Claim | None
    stopped: str | None
    error: str | None = None
    peak_rss: int | None = None
    checkpointed: bool = True  # as far as is known


def finish(context: Context, job: Job, attempt: Attempt, *, run_checks: bool) -> Result:
    """Capture, check, decide and record one worker's end; return its result.

    When the branch moves while the capture is being recorded, or what was captured is taken by `git gc --prune=now`,
    everything is looked at again.
    """
    for tries_left in reversed(range(CAPTURE_TRIES)):
        try:
            return _finish_once(context, job, attempt, run_checks)
        except (RaceError, MissingError) as error:
            if not tries_left:
                raise
            context.journal.append("note", worker=job.worker, reason=f"{error.message}; looking again")
    raise AssertionError("unreachable")


def _finish_once(context: Context, job: Job, attempt: Attempt, run_checks: bool) -> Result:
    work = capture.look(context, job, ran=attempt.ending is not None)
    if work.seen is not None and attempt.claim is not None:
        work.warnings += outcome.unseen(attempt.claim.edited, work.change.paths, context.spec.subdir)
    work.past = context.rounds[job.worker].wip
    if work.seen is not None and attempt.checkpointed:
        work.past = checkpoints.past(context, job, work.seen.tree)
    limits = context.spec.limits
    if attempt.claim is not None and (limits.budget_per_worker is not None or limits.budget is not None):
        work.warnings += outcome.unpriced(attempt.claim, context.preset.money)
    if run_checks and work.captured and work.change.paths and context.spec.checks:
        capture.keep_during_checks(context, job, work)
        work.checks = [_check(context, job, number, command) for number, command in enumerate(context.spec.checks, 1)]
    status, reason = outcome.decide(_evidence(context, attempt, work))
    if work.seen is not None:
        capture.commit(context, job, work, _capture_message(context, job, status, reason))
        kept = any(update.ref == wip_ref(context.spec.run, job.worker) for update in work.updates)
        if attempt.checkpointed and not kept:
            work.updates += checkpoints.dropped(context, job)
    result = _result(context, job, attempt, work, (status, reason))
    worker = context.files.worker(job.worker)
    files.replace(worker.result, encode(result), durable=True)
    _record(context, job, attempt, work, result)
    capture.settle(context, job, work)
    return result


def _check(context: Context, job: Job, number: int, command: str) -> CheckResult:
    """Run one check in the worker's worktree, under a guard of its own."""
    worker = context.files.worker(job.worker)
    temporary = TemporaryDirectory(context, job)
    context.journal.append(
        "intent", worker=job.worker, act="check", command=command, temporary=temporary.path, durable=True
    )
    with temporary:
        guard = context.host.start(
            GuardSpec(
                argv=("/bin/sh", "-c", command),
                cwd=context.start_directory(job),
                env=context.environment(job, temporary.path),
                stdin=None,
                stdout=worker.check(number),
                stderr=None,
                timeout=context.spec.limits.timeout_per_worker,
                grace=context.spec.grace,
                ending=os.path.join(worker.top, f"check-{number}.exit.json"),
            )
        )
        ending = guard.wait()
    result = outcome.check_result(command, ending)
    context.journal.append("check", worker=job.worker, source="process", command=command, exit_code=result.exit_code)
    return result


def _evidence(context: Context, attempt: Attempt, work: Work) -> Evidence:
    claim = attempt.claim
    # The role that may change nothing, in every program: what it leaves is its report.
    read_only = context.spec.role == "plan"
    return Evidence(
        stopped=attempt.stopped,
        said=claim.outcome if claim else "failed",
        reason=claim.reason if claim else "agent_error",
        work=work.done,
        captured=work.captured,
        allow_empty=context.spec.allow_empty or (read_only and claim is not None and bool(claim.text)),
        checks=work.checks,
        outside=read_only and work.done,
    )


def _capture_message(context: Context, job: Job, status: Status, reason: str) -> str:
    task = context.spec.task(job.task)
    trailers = [
        ("Parallel-Run", context.spec.run),
        ("Parallel-Worker", str(job.worker)),
        ("Parallel-Status", status if status == "success" else f"{status} ({reason})"),
        ("Agent", context.spec.program),
    ]
    if job.model:
        trailers.append(("Model", text.one_line(job.model)))
    return text.subject(task.title) + "\n\n" + "".join(f"{name}: {value}\n" for name, value in trailers)


def _result(context: Context, job: Job, attempt: Attempt, work: Work, verdict: tuple[Status, str]) -> Result:
    spec, claim, ending = context.spec, attempt.claim, attempt.ending
    status, reason = verdict
    detail = attempt.error or (claim.detail if claim else None) or (ending.spawn_error if ending else None)
    if ending is not None and ending.survivors:
        work.warnings.append(f"processes that could not be killed: {', '.join(map(str, ending.survivors))}")
    result = Result(
        worker_id=job.worker,
        branch=job.branch,
        model=(claim.model if claim else None) or job.model,
        status=status,
        steps=claim.steps if claim else None,
        cost=claim.cost if claim else None,
        duration=attempt.duration,
        files_modified=work.change.paths,
        worktree_path=job.worktree,
        run=spec.run,
        task=job.task,
        agent=spec.program,
        role=spec.role,
        base=spec.base,
        head=work.head,
        snapshot=work.snapshot,
        reason=reason,
        detail=detail,
        exit_code=ending.exit_code if ending else None,
        tokens=claim.tokens if claim else None,
        session=claim.session if claim else None,
        attempts=attempt.number,
        check=work.checks or None,
        insertions=work.change.insertions,
        deletions=work.change.deletions,
        started=attempt.started,
        ended=timestamp(),
        peak_rss=max(attempt.peak_rss or 0, (ending.peak_rss or 0) if ending else 0) or None,
        lost=work.lost or None,
        ignored=work.ignored,
        warnings=work.warnings,
    )
    return rounds.added(context.rounds[job.worker].before, result)


def _record(context: Context, job: Job, attempt: Attempt, work: Work, result: Result) -> None:
    """One transaction: the branch, the snapshot, the record and the note."""
    context.journal.append(
        "state", worker=job.worker, state="finishing", status=result.status, reason=result.reason, head=result.head
    )
    changes: dict[str, bytes | None] = {f"workers/{job.worker}/result.json": encode(result)}
    if attempt.claim and attempt.claim.text:
        changes[f"workers/{job.worker}/report.md"] = attempt.claim.text.encode("utf-8", "surrogateescape")
    moved = result.head if result.head and result.head != context.spec.base else None
    trailers = [
        ("Architect-Event", "worker-ended"),
        ("Architect-Worker", str(job.worker)),
        ("Architect-Status", result.status),
        ("Architect-Reason", result.reason),
        ("Architect-Branch", result.branch),
        *([("Architect-Head", result.head)] if result.head else []),
    ]
    context.recorder.submit(
        Entry(
            changes=changes,
            subject=f"worker {job.worker}: {text.outcome_line(result)}",
            trailers=trailers,
            parents=[moved] if moved else [],
            updates=work.updates,
            notes={moved: note(context, job, result)} if moved else {},
            ended={job.worker: result.status},
        )
    )


def note(context: Context, job: Job, result: Result) -> str:
    """The lines that `git log` shows on a worker's head."""
    lines = [
        f"Parallel-Worker: {result.run}/{result.worker_id}",
        f"Task: {text.one_line(context.spec.task(job.task).title)}",
        f"Status: {result.status} ({result.reason})",
        f"Agent: {result.agent}" + (f", model {text.one_line(result.model)}" if result.model else ""),
        f"Changes: {text.change(result)}",
        f"Cost: {text.money(result.cost)}, time: {text.duration(result.duration)}",
    ]
    lines += [
        f"Check: {'green' if check.green else 'red'}: {text.one_line(check.command)}" for check in result.check or ()
    ]
    return "\n".join(lines) + "\n"


def unstarted(context: Context, numbers: Sequence[int], status: Status, reason: str) -> dict[int, Result]:
    """End workers that never started: their results in one record, their empty branches gone again.

    In a later round a worker stays as it was, but for the status.
    """
    results: dict[int, Result] = {}
    changes: dict[str, bytes | None] = {}
    spec = context.spec
    for number in numbers:
        result = _unstarted(context, spec.job(number), status, reason)
        results[number] = result
        changes[f"workers/{number}/result.json"] = encode(result)
        files.replace(context.files.worker(number).result, encode(result))
    context.recorder.submit(
        Entry(
            changes=changes,
            subject=f"{text.count(len(numbers), 'worker')} not started: {reason}",
            trailers=[("Architect-Event", "workers-not-started"), ("Architect-Reason", reason)],
            updates=capture.empty_branches(context, numbers),
            ended=dict.fromkeys(numbers, status),
        )
    )
    for number in numbers:
        context.journal.append("state", worker=number, state="ended", status=status, reason=reason)
    return results


def _unstarted(context: Context, job: Job, status: Status, reason: str) -> Result:
    before = context.rounds[job.worker].before
    if before is not None:
        return msgspec.structs.replace(before, status=status, reason=reason, ended=timestamp(), detail=None)
    attempt = Attempt(number=0, started=None, duration=None, ending=None, claim=None, stopped=reason)
    return _result(context, job, attempt, Work(head=None), (status, reason))


class TemporaryDirectory:
    """A TMPDIR for one worker: outside the repository (socket paths are short), removed at the end.

    Its path is settled before it is made, so that the journal can name it first.
    """

    def __init__(self, context: Context, job: Job) -> None:
        name = f"gp-{context.spec.run[-4:]}-{job.worker}-{os.urandom(4).hex()}"
        self.path = os.path.join(system.temporary(), name)

    def __enter__(self) -> str:
        os.mkdir(self.path, 0o700)
        return self.path

    def __exit__(self, *exception: object) -> None:
        system.remove(self.path)
