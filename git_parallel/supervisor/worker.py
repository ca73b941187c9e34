"""One worker's life, in order, on a thread of its own: prepare → run the agent → finish.

The thread sleeps in a read from its guard for nearly all of that life. The main thread looks at the
agent's output once a second through :meth:`Worker.watch` and may end the worker through
:meth:`Worker.stop`; everything the two share is behind one lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import msgspec

from git_parallel import worktrees
from git_parallel.agents import launch
from git_parallel.agents.claim import Claim
from git_parallel.errors import ParallelError
from git_parallel.layout import HEADS, WorkerFiles
from git_parallel.plan.model import Job, Result
from git_parallel.signals import uninterrupted
from git_parallel.store import refs, snapshots
from git_parallel.supervisor import agent, files, limits, outcome, rounds
from git_parallel.supervisor.activity import Usage
from git_parallel.supervisor.checkpoints import Checkpoints
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.finish import Attempt, TemporaryDirectory, finish
from git_parallel.supervisor.host import Ending, Guard
from git_parallel.supervisor.journal import timestamp
from git_parallel.supervisor.view import Progress
from git_parallel.supervisor.watching import Watching, size

_FILLING = "filling.index"  # among the worker's files, while its worktree is filled
_BACK_OFF = (2.0, 5.0, 15.0, 30.0, 60.0)


class Worker:
    """A worker from its first step to its result. ``budget`` is the most it may spend (None: no limit)."""

    def __init__(self, context: Context, job: Job, budget: float | None, *, seen: bool = True) -> None:
        self.context = context
        self.job = job
        self.budget = budget
        self.result: Result | None = None
        self.files: WorkerFiles = context.files.worker(job.worker)
        self.progress = Progress()
        self.checkpoints = Checkpoints(context, job)
        self.disk: int | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._guard: Guard | None = None
        self._watching: Watching | None = None
        self._stopped: str | None = None
        self._why: str | None = None
        self._now = False
        self._held: str | None = None  # why no agent may work, whatever state this is in
        self._paused: float | None = None  # since when none does
        self._round = context.rounds[job.worker]
        self._attempt = self._round.attempt
        self._session = self._round.session
        self._reported = self._round.reported
        self._spent_before = 0.0
        self._started: float | None = None
        self._started_wall: str | None = None
        self._peak_rss = 0
        self._seen = seen  # whether somebody sees each change as it happens
        self._shown: dict[str, Any] = {}
        self._admin: str | None = None
        self._registered = False  # by us, now
        self._filled = False  # or found as it was
        self._fault: Exception | None = None
        self.failure: str | None = None
        self.stirred = True
        self.stops_run = False
        self.thread = threading.Thread(target=self._live, name=f"worker-{job.worker}", daemon=True)

    # What the main thread may call.

    def begin(self, others: worktrees.Others) -> None:
        """Register the worktree, before the thread starts. The caller holds the lock; ``others`` are those there.

        What cannot be done is the worker's failure, when its thread has started.
        """
        try:
            self._begin(others, locked=True)
        except Exception as error:
            self._fault = error

    def fill(self) -> None:
        """Fill the worktree, before the thread starts: others get the same files. It fails as :meth:`begin` does."""
        if self._fault is None and self._registered:
            try:
                self._fill()
            except Exception as error:
                self._fault = error

    def stop(self, reason: str, *, detail: str | None = None, now: bool = False) -> None:
        """End the worker: gracefully, or at once with ``now``. The first reason given is the one recorded."""
        with self._lock:
            if self._stopped is None:
                self._stopped, self._why = reason, detail
            self._now = self._now or now
            self._held = None
            guard = self._guard
        self._wake.set()
        if guard is not None:
            if now:
                guard.kill(reason)
            else:
                guard.stop(reason)

    def open_window(self) -> None:
        """Show the agent's terminal in a window, if it has one."""
        terminal, title = self.context.terminal, self.context.spec.task(self.job.task).title
        if terminal is None or self.agent_pid is None:
            return
        try:
            terminal.open(self.job.worker, f"{self.job.worker} {title}")
        except (ParallelError, OSError) as error:
            self.context.journal.append("note", worker=self.job.worker, reason=f"it has no window: {error}")

    def pause(self, reason: str) -> bool:
        """Let the agent stand still, its limits on time too, now or as soon as there is one.

        False when that is so already.
        """
        with self._lock:
            if self._held is not None or self._stopped is not None:
                return False
            self._held = reason
        self._stand_still()
        return True

    def unpause(self) -> None:
        """Let it go on."""
        with self._lock:
            self._held = None
            guard, since, watching = self._guard, self._paused, self._watching
            self._paused = None
            if since is not None and watching is not None:
                watching.activity.shift(time.monotonic() - since)
        if since is not None and self.transition("running", source="person", of=("paused",)) and guard is not None:
            guard.unpause()

    def _stand_still(self) -> None:
        with self._lock:
            guard, reason = self._guard, self._held
        if guard is None or reason is None:
            return
        if self.transition("paused", source="person", reason=reason, of=("running", "blocked")):
            with self._lock:
                self._paused = time.monotonic()
            guard.pause()

    @property
    def agent_pid(self) -> int | None:
        """The guard's process id while an agent runs."""
        with self._lock:
            return self._guard.pid if self._guard is not None else None

    def watch(self, *, files_changed: int | None = None, usage: Usage | None = None) -> None:
        """Read new output, write the progress file and hold the worker to its limits."""
        with self._lock:
            if self._watching is None:
                return
            now = time.monotonic()
            self.stirred = self._watching.look(now, usage) or self.stirred
            seen = self._watching.reader.progress
            sign = self._watching.sign(now) if self._paused is None else None
            rss = usage.rss if usage is not None else None
            self._peak_rss = max(self._peak_rss, rss or 0)
            cost = self._total(rounds.own_cost(self.context.preset, seen.cost, self._reported))
            changed = Progress(
                step=seen.step,
                cost=rounds.total_cost(self._round.before, cost),
                action=seen.action,
                files=self.progress.files if files_changed is None else files_changed,
                rss=rss,
                trouble=seen.trouble,
                waiting=sign.what if sign is not None else seen.waiting,
                retries=seen.retries,
                denials=seen.denials,
            )
            if changed != msgspec.structs.replace(self.progress, time=None):
                self.progress = msgspec.structs.replace(changed, time=timestamp())
                with suppress(OSError):  # a full disk must not end a run that may yet find room
                    files.replace(self.files.progress, msgspec.json.encode(self.progress))
            idle = now - self._watching.activity.busy if self._paused is None else None
            reading = limits.Reading(idle=idle, memory=rss, output=self._watching.written, disk=self.disk)
        if sign is not None:
            self.transition("blocked", source=sign.source, reason="needs input", waiting=sign.what, of=("running",))
        else:
            self.transition("running", source="process", of=("blocked",))
        if self.budget is not None and cost is not None and cost >= self.budget:
            self.stop("budget")
        steps = self.context.spec.limits.max_steps
        if "max_steps" not in self.context.preset.caps and steps and seen.step is not None and seen.step > steps:
            self.stop("max_steps")  # the program itself cannot be told
        if (over := limits.exceeded(self.context.spec.limits, reading)) is not None:
            self.stop(over.reason, detail=over.detail, now=over.now)

    @property
    def stirred_at(self) -> float | None:
        """When the agent was last seen to do something, on the monotonic clock; None while none runs."""
        with self._lock:
            return self._watching.activity.stirred if self._watching is not None else None

    @property
    def started(self) -> float | None:
        """When the agent started, on the monotonic clock."""
        return self._started

    def shown(self) -> dict[str, Any]:
        """The fields of a WorkerView that the last transition set."""
        with self._lock:
            return dict(self._shown)

    def transition(
        self, state: str, *, source: str = "supervisor", of: Sequence[str] | None = None, **facts: Any
    ) -> bool:
        """Write a state change into the journal and let the display know; False when the state is none ``of`` these."""
        with self._lock:
            was = self._shown.get("state")
            if of is not None and was not in of:
                return False
            event = self.context.journal.append("state", worker=self.job.worker, state=state, source=source, **facts)
            shown = {"state": state, "since": event["time"], "source": source, "reason": event.get("reason")}
            self._shown = {**shown, "started": self._started_wall, "attempt": self._attempt}
        # The end is told together with the result. The main thread is not woken for nothing.
        if state != "ended" and (self._seen or "blocked" in (was, state)):
            self.context.inbox.put(("changed", self.job.worker))
        return True

    # The thread.

    def _live(self) -> None:
        try:
            with uninterrupted():
                self.result = self._work()
            self.transition("ended", status=self.result.status, reason=self.result.reason)
        except Exception as error:
            self._fail(error)
        finally:
            self.context.inbox.put(("ended", self.job.worker))

    def _fail(self, error: Exception) -> None:
        """Something of ours broke: the worktree and branch stay as they are, and the record says why."""
        if not isinstance(error, ParallelError | OSError):
            from git_parallel.report import write_report  # noqa: PLC0415 (only on the way to an error)

            write_report(error, self.context.spec.argv, self.context.files.top)
        detail = f"{type(error).__name__}: {error}" if not isinstance(error, ParallelError) else error.message
        self.context.journal.append("note", worker=self.job.worker, reason=f"not recorded: {detail}")
        self.failure = detail

    def _work(self) -> Result:
        try:
            self._prepare()
        except (ParallelError, OSError) as error:
            detail = error.message if isinstance(error, ParallelError) else f"{error.strerror}: {error.filename}"
            return self._end(None, None, error=detail)
        while True:
            ending, claim = self._run_agent()
            if not self._again(ending, claim):
                return self._end(ending, claim)
            pause = _BACK_OFF[min(self._tries, len(_BACK_OFF)) - 1]
            self.transition("waiting", source="timer", reason=f"retry in {pause:g} s", attempt=self._attempt + 1)
            self._wake.wait(pause)
            self._attempt += 1

    @property
    def _tries(self) -> int:
        """The number of the present attempt in this round."""
        return self._attempt - self._round.attempt + 1

    def _begin(self, others: worktrees.Others | None = None, *, locked: bool = False) -> None:
        """Register the worktree under the lock, if it is not; ``locked``: the caller holds that."""
        context, job = self.context, self.job
        self.transition("preparing")
        context.journal.append("intent", worker=job.worker, act="worktree", path=job.worktree)
        self._admin = worktrees.paired(context.repo, job.worktree)
        if self._admin is None:
            place = worktrees.Place(job.worker, job.branch, job.worktree)
            reason = f"git parallel {context.spec.run}/{job.worker}"
            with nullcontext() if locked else refs.locked(context.repo):
                self._admin = worktrees.register(context.repo, place, reason=reason, others=others)
            self._registered = True

    def _prepare(self) -> None:
        """Register the worktree, unless that is done; fill it. One that was filled before stays as it is."""
        if self._fault is not None:
            raise self._fault
        if self._admin is None:
            self._begin()
        assert self._admin is not None
        if not self._filled:
            self._fill()

    def _fill(self) -> None:
        context, job, admin = self.context, self.job, self._admin
        assert admin is not None
        self._filled = True
        index = os.path.join(admin, "index")
        if self._registered:
            worktrees.write_through(admin, job.worktree)
        elif os.path.exists(index):
            return
        scratch = os.path.join(self.files.top, _FILLING)
        for warning in context.filler.fill(job.worktree, job.branch, scratch):
            context.journal.append("note", worker=job.worker, reason=warning)
        context.filled[job.worker] = snapshots.stamp(index)

    def _run_agent(self) -> tuple[Ending | None, Claim | None]:
        """Start the agent under a guard and wait for its end."""
        context, job = self.context, self.job
        if self._stopped is not None:
            return None, None
        temporary = TemporaryDirectory(context, job)
        self._choose_session()
        command = launch.build(
            context.preset,
            agent.values(
                context,
                job,
                self._round,
                task_file=self.files.prompt,
                budget=self.budget,
                session=self._session,
                attempt=self._attempt,
            ),
        )
        environment = {**context.environment(job, temporary.path), **command.env}
        for name in command.unset:
            environment.pop(name, None)
        if command.note:
            context.journal.append("note", worker=job.worker, reason=command.note)
        offset = size(self.files.log)
        context.journal.append(
            "intent",
            worker=job.worker,
            act="spawn",
            argv=command.argv,
            temporary=temporary.path,
            attempt=self._attempt,
            session=self._session,
            offset=offset,
            durable=True,
        )
        watching = agent.watching(context, job, self.files, command)
        with temporary:
            guard = context.host.start(agent.guard_spec(context, job, self.files, command, environment))
            with self._lock:
                self._guard, self._watching = guard, watching
                stopped, now = self._stopped, self._now
            if stopped is not None:
                self.stop(stopped, now=now)
            self._note_start(guard)
            ending = guard.wait()
        with self._lock:
            self._guard, self._watching, self._paused = None, None, None
            watching.read()
            claim = self._account(agent.said(watching.reader, ending, watching.last_errors())) if ending else None
        return ending, claim

    def _choose_session(self) -> None:
        """Begin a conversation under an id of ours where the program takes one, unless an earlier one goes on."""
        if self._round.session is None and "session" in self.context.preset.options:
            import uuid  # noqa: PLC0415 (few programs let us choose)

            self._session = str(uuid.uuid4())

    def _account(self, claim: Claim) -> Claim:
        """Note what the program says that it used; return the claim with what this attempt alone did."""
        ours = rounds.own(self.context.preset, claim, self._reported)
        session = rounds.session_after(claim, self._session)
        self.context.journal.append(
            "reported",
            worker=self.job.worker,
            source="event-stream",
            attempt=self._attempt,
            session=session,
            cost=ours.cost,
            session_cost=claim.cost,
            session_tokens=claim.tokens,
        )
        if self._round.session is not None:
            self._reported = rounds.most(self._reported, rounds.Usage(claim.cost, claim.tokens))
        return msgspec.structs.replace(ours, session=session)

    def _note_start(self, guard: Guard) -> None:
        started = guard.started()
        if started is None:
            return
        now = time.monotonic()
        if self._started is None:
            self._started, self._started_wall = now, timestamp()
        self.context.journal.append(
            "started", worker=self.job.worker, source="process", pid=started.pid, start=started.start, guard=guard.pid
        )
        self.transition("running", source="process", attempt=self._attempt)
        self.open_window()
        self._stand_still()

    def _again(self, ending: Ending | None, claim: Claim | None) -> bool:
        """Say whether another attempt is to be made."""
        if ending is None or self._stopped is not None or self._tries > self.context.spec.retries:
            return False
        status, reason = ("failed", claim.reason or "") if claim and claim.outcome == "failed" else ("success", "")
        if claim is not None and claim.cost is not None:
            self._spent_before += claim.cost
        tip = refs.read(self.context.repo, HEADS + self.job.branch).get(HEADS + self.job.branch)
        clean = not self.context.repo.at(self.job.worktree).run("status", "--porcelain", "-z").stdout
        work = not clean or tip != self._round.start
        return outcome.worth_retrying("failed" if status == "failed" else "success", reason, work)

    def _total(self, cost: float | None) -> float | None:
        return self._spent_before + cost if cost is not None else (self._spent_before or None)

    def _end(self, ending: Ending | None, claim: Claim | None, *, error: str | None = None) -> Result:
        self.transition("finishing")
        self.checkpoints.close()
        self.stops_run = claim is not None and claim.outcome == "stop_run"
        if claim is not None:
            claim = msgspec.structs.replace(claim, cost=self._total(claim.cost))
        stopped = self._stopped
        if ending is not None and ending.ended_by == "timeout":
            stopped = "timeout"
        elif ending is not None and ending.ended_by == "exit" and claim is not None and claim.outcome == "done":
            stopped = None  # it had finished by itself before the stop reached it
        if error is not None:
            claim = Claim(outcome="failed", reason="worktree", detail=error)
        attempt = Attempt(
            number=self._attempt,
            started=self._started_wall,
            duration=round(time.monotonic() - self._started, 3) if self._started is not None else None,
            ending=ending,
            claim=claim,
            stopped=stopped,
            error=error or (self._why if stopped == self._stopped else None),
            peak_rss=self._peak_rss or None,
            checkpointed=self.checkpoints.made,
        )
        return finish(self.context, self.job, attempt, run_checks=stopped not in ("interrupted", "stopped", "halted"))
