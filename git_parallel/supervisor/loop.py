"""The supervisor's main thread: starts workers, listens to signals, enforces the run's limits, ends the run.

Everything arrives in one inbox; what to do is decided by pure functions (scheduler, halt). The loop
wakes for a message or once a second.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty
from typing import TYPE_CHECKING

from msgspec.structs import replace

from git_parallel import worktrees
from git_parallel.errors import ParallelError
from git_parallel.layout import herdr_socket
from git_parallel.plan import halt
from git_parallel.plan.model import Result, Status
from git_parallel.render import text
from git_parallel.render.live import Display
from git_parallel.signals import uninterrupted
from git_parallel.store import refs
from git_parallel.supervisor import control, job, liveness, notify, scheduler
from git_parallel.supervisor.closing import close_record
from git_parallel.supervisor.context import Context
from git_parallel.supervisor.finish import unstarted
from git_parallel.supervisor.lookout import Lookout
from git_parallel.supervisor.sampler import Sampler
from git_parallel.supervisor.scheduler import Purse
from git_parallel.supervisor.view import RunView, WorkerView
from git_parallel.supervisor.worker import Worker

if TYPE_CHECKING:
    from git_parallel.supervisor.herdr import Herdr

TICK = 1.0
# Signals that come closer than this (s) are one: `git parallel` runs below a git that passes signals on.
BOUNCE = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGTSTP)


class Supervisor:
    """Runs a run to its end. :meth:`run` returns the results by worker number."""

    def __init__(self, context: Context, held: liveness.Claim, display: Display) -> None:
        self.context = context
        self.held = held
        self.display = display
        self._herdr = _herdr(context)
        self._calls = notify.Calls(context)
        self.queue = [job.worker for job in context.spec.jobs if job.worker in context.rounds]
        self.workers: dict[int, Worker] = {}
        self.results: dict[int, Result] = dict(context.earlier)
        self.failures: dict[int, str] = {}
        self.interrupted: int | None = None
        self._called = False  # by a signal, which waits in the inbox
        self._interrupts = 0
        self._last_interrupt = float("-inf")
        self._halt = halt.parse(context.spec.halt)
        self._draining: str | None = None
        self.active: dict[int, Worker] = {}  # that have not ended
        self._views = {
            job.worker: WorkerView(
                worker=job.worker,
                task=job.task,
                title=context.spec.task(job.task).title,
                model=job.model,
                branch=job.branch,
                worktree=job.worktree,
                since=context.spec.created,
            )
            for job in context.spec.jobs
            if job.worker in context.rounds
        }
        self._sampler = Sampler()
        self._lookout = Lookout(
            lambda: list(self.workers.values()),
            every=context.spec.checkpoint,
            measure=context.spec.limits.max_disk is not None,
        )
        self._control_offset = context.control_offset
        limit = context.spec.limits.timeout
        self._deadline = time.monotonic() + limit if limit is not None else None
        self._next_start = float("-inf")
        self._blocked: set[int] = set()  # workers that are known to wait for a person
        self._held: set[int] = set()  # workers in the queue that are not to start
        self._paused: float | None = None  # since when nothing of the run works

    @property
    def _over(self) -> set[int]:
        return self.results.keys() | self.failures.keys()

    def run(self) -> dict[int, Result]:
        """Start, watch and finish every worker, then write the last record."""
        with self._signals():
            self._lookout.start()
            self._control()  # what was asked for before anybody listened
            while self.queue or self.active:
                self._start_workers()
                self._wait()
            self._lookout.close()
            with uninterrupted():
                self._end_run()
        self.display.close()
        if self._herdr is not None:
            self._herdr.close()
        return self.results

    # Starting.

    def _start_workers(self) -> None:
        queue = [number for number in self.queue if number not in self._held]
        limits = self.context.spec.limits
        started: list[Worker] = []
        for number in scheduler.startable(queue, len(self.active), self.context.spec.workers):
            if limits.memfree is not None and not self._memory_for(number, limits.memfree):
                continue
            purse = self._purse() if limits.budget is not None else Purse(None)
            budget = scheduler.reservation(purse, limits.budget_per_worker)
            if budget == 0.0:
                self._drain("run_budget")
                break
            self.queue.remove(number)
            seen = not self.display.quiet or self._herdr is not None
            worker = Worker(self.context, self.context.spec.job(number), budget, seen=seen)
            self.workers[number] = self.active[number] = worker
            started.append(worker)
        if len(started) > 1:
            self._begin(started)
        for worker in started:
            worker.thread.start()

    def _begin(self, workers: Sequence[Worker]) -> None:
        """Register worktrees at once, if the lock is free; else each worker waits for it on a thread of its own."""
        with suppress(ParallelError), uninterrupted(), refs.locked(self.context.repo, timeout=0):
            others = worktrees.Others(self.context.repo)
            for worker in workers:
                worker.begin(others)
        for worker in workers:  # no thread is in the way yet
            if not self.context.filler.expects_few or self._called:
                break
            with uninterrupted():
                worker.fill()

    def _memory_for(self, number: int, wanted: int) -> bool:
        """Say whether a worker may start: one a tick, so that each has taken its memory before the next one does."""
        from git_parallel.supervisor import memory  # noqa: PLC0415 (only with this limit)

        now = time.monotonic()
        free = memory.available()
        if now >= self._next_start and (free is None or free >= wanted):
            self._next_start = now + TICK
            return True
        if free is not None and free < wanted and self._views[number].state != "waiting":
            self._queued(number, "waiting", f"{text.size(wanted)} of free memory", source="timer")
        return False

    def _purse(self) -> Purse:
        spent = sum(result.cost or 0.0 for result in self.results.values())
        going_on = (of.before for number, of in self.context.rounds.items() if number not in self._over)
        spent += sum(before.cost or 0.0 for before in going_on if before is not None)
        reserved = sum(worker.budget or 0.0 for worker in self.active.values())
        return Purse(self.context.spec.limits.budget, spent, reserved)

    def _drain(self, reason: str) -> None:
        """Start nothing more: what is queued ends here, without a process ever having run."""
        self._draining = self._draining or reason
        if not self.queue:
            return
        skipped, self.queue = self.queue, []
        status: Status = "cancelled" if reason in ("interrupted", "stopped") else "skipped"
        with uninterrupted():
            results = unstarted(self.context, skipped, status, reason)
        for number, result in results.items():
            self.results[number] = result
            self._show(number, state="ended", reason=reason, result=result)

    # Waiting.

    def _wait(self) -> None:
        """Take what is in the inbox; look at everybody once a second."""
        try:
            kind, value = self.context.inbox.get(timeout=TICK)
        except Empty:
            self._tick()
            return
        if kind == "signal":
            self._signal(value)
        elif kind == "changed":
            self._changed(value)
        else:
            self._ended(value)

    def _changed(self, number: int) -> None:
        self._show(number, **self.workers[number].shown())
        if self._views[number].state != "blocked":
            self._blocked.discard(number)
        elif number not in self._blocked:
            self._blocked.add(number)
            if self._calls.due(number, time.monotonic()):
                self._tell_blocked(number)

    def _tell_blocked(self, number: int) -> None:
        """A worker waits for a person: let them know."""
        spec = self.context.spec
        self._refresh()
        if spec.bell:
            self.display.sound(notify.words_of_one(self._views[number]))
        self._calls.blocked(RunView(spec, "running", os.getpid(), list(self._views.values()), spec.created), number)

    def _ended(self, number: int) -> None:
        worker = self.workers[number]
        del self.active[number]
        if worker.result is None:
            self.failures[number] = worker.failure or "unknown"
            self.display.message(f"[{number}] not recorded: {self.failures[number]}; its worktree is kept", always=True)
            return
        self.results[number] = worker.result
        self._show(number, **worker.shown(), result=worker.result)
        if worker.stops_run:
            code, reason = worker.result.exit_code, worker.result.reason
            self._halted(f"[{number}] exit code {code} ({reason}) ends the run")
        rounds = self.context.rounds
        ended = (result.status for number, result in self.results.items() if number in rounds)
        counts = halt.Counts.of(len(rounds), ended)
        decision = self._halt.decide(counts)
        if decision != "continue":
            self._halted(f"--halt {self.context.spec.halt} is reached")
        if decision == "now":
            self._stop_all("halted")

    def _halted(self, why: str) -> None:
        if self.queue:
            self.display.message(f"{why}: {text.count(len(self.queue), 'worker')} not started")
        self._drain("halted")

    def _tick(self) -> None:
        active = self.active
        usage = self._sampler.usage({number: worker.agent_pid for number, worker in active.items()})
        changed = self._sampler.changed_files(self.context, active.values())
        for number, worker in active.items():
            worker.watch(files_changed=changed.get(number), usage=usage.get(number))
        self._refresh()
        self.display.update(list(self._views.values()), time.time())
        for warning in self._calls.faults():
            self.display.message(f"warning: {warning}")
        if self._deadline is not None and self._paused is None and time.monotonic() >= self._deadline:
            self._drain("run_timeout")
            self._stop_all("run_timeout")

    def _refresh(self) -> None:
        """Look at all that are at work: of some changes nobody has told."""
        for number, worker in self.active.items():
            self._views[number] = replace(self._views[number], **worker.shown(), progress=worker.progress)

    def _show(self, number: int, **changes: object) -> None:
        self._views[number] = replace(self._views[number], **changes)
        self.display.update(list(self._views.values()), time.time())
        if self._herdr is not None:
            self._herdr.show(self._views[number])

    def _stop_all(self, reason: str, *, now: bool = False) -> None:
        for worker in self.active.values():
            worker.stop(reason, now=now)

    # Signals and control.

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn signals into messages while the run lasts; SIGHUP (a closed terminal) does not end it."""

        def arrive(number: int, _frame: object) -> None:
            self._called = True
            self.context.inbox.put(("signal", number))

        before = {number: signal.signal(number, arrive) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, number: int) -> None:
        self._called = False
        if number == signal.SIGUSR1:
            self._control()
            return
        if number == signal.SIGTSTP:
            self._suspend()
            return
        if number == signal.SIGHUP:
            return
        now = time.monotonic()
        if now - self._last_interrupt < BOUNCE:  # git hands on a Ctrl-C that the terminal has given us already
            return
        self._last_interrupt = now
        self._interrupts += 1
        self.interrupted = self.interrupted or number
        self.context.journal.append(
            "run-stopping", source="person", reason=signal.Signals(number).name, count=self._interrupts
        )
        if self._interrupts == 1:
            self.display.message(
                "stopping: workers get time to end and their work is captured (again to kill them now)"
            )
            self._drain("interrupted")
            self._stop_all("interrupted")
        elif self._interrupts == 2:
            self.display.message("killing: work is still captured (again to leave everything as it is)")
            self._stop_all("interrupted", now=True)
        else:
            # The guards see the end of their lifeline and kill everything; the journal has the rest.
            self.display.message("left as it is: the next git parallel command finishes the record")
            self.display.close()
            os._exit(128 + number)

    def _control(self) -> None:
        """Read what was asked for since the last time."""
        with suppress(FileNotFoundError), open(self.context.files.control, "rb") as file:
            file.seek(self._control_offset)
            data = file.read()
            self._control_offset += len(data)
            for order in control.parse(data):
                self._obey(order)

    def _obey(self, order: control.Order) -> None:
        number = order.get("worker")
        whole = number is None
        numbers = [*self.active, *self.queue] if whole else [number] if isinstance(number, int) else []
        match order.get("do"):
            case "pause":
                self._pause(numbers, "asked", whole=whole)
            case "unpause":
                self._unpause(numbers)
            case "window":
                for number in numbers:
                    if number in self.active:
                        self.active[number].open_window()
            case "stop" | "kill" as do:
                self.context.journal.append("run-stopping", source="person", reason="stop", asked=number)
                self._end(numbers, now=do == "kill", whole=whole)

    def _end(self, numbers: Iterable[int], *, now: bool, whole: bool) -> None:
        if whole:
            self._drain("stopped")
            self._stop_all("stopped", now=now)
            return
        for number in numbers:
            if number in self.active:
                self.active[number].stop("stopped", now=now)
            elif number in self.queue:
                self.queue.remove(number)
                with uninterrupted():
                    result = unstarted(self.context, [number], "cancelled", "stopped")[number]
                self.results[number] = result
                self._show(number, state="ended", reason="stopped", result=result)

    def _pause(self, numbers: Iterable[int], reason: str, *, whole: bool) -> list[int]:
        """Let workers stand still, or not begin; return those that did not before."""
        if whole and self._paused is None:
            self._paused = time.monotonic()
        paused = []
        for number in numbers:
            if number in self.active:
                if self.active[number].pause(reason):
                    paused.append(number)
            elif number in self.queue and number not in self._held:
                self._held.add(number)
                self._queued(number, "paused", reason)
                paused.append(number)
        return paused

    def _unpause(self, numbers: Iterable[int]) -> None:
        if self._paused is not None:
            if self._deadline is not None:
                self._deadline += time.monotonic() - self._paused
            self._paused = None
        for number in numbers:
            if number in self.active:
                self.active[number].unpause()
            elif number in self._held:
                self._held.remove(number)
                if number in self.queue:
                    self._queued(number, "queued", None)

    def _queued(self, number: int, state: str, reason: str | None, source: str = "person") -> None:
        event = self.context.journal.append("state", worker=number, state=state, source=source, reason=reason)
        self._show(number, state=state, since=event["time"], source=source, reason=reason)

    def _suspend(self) -> None:
        """Ctrl-Z: stop with all workers, until the shell lets us go on."""
        if not job.stops():
            return
        paused = self._pause([*self.active, *self.queue], "Ctrl-Z", whole=True)
        with self.display.aside():
            if job.is_stopped():  # else the shell, which may see git alone, has let it go on already
                job.stop()
        self._unpause(paused)

    # The end.

    def _end_run(self) -> None:
        """Write the last record and give the run up; a run with an unrecorded worker stays 'interrupted'."""
        context = self.context
        self._calls.close()
        if context.terminal is not None:
            context.terminal.close()
        context.host.let_go()
        try:
            if self.failures:
                context.journal.append("note", reason="some workers could not be recorded")
                return
            context.journal.append("run-ended", durable=True)
            close_record(context, self.results)
        except (ParallelError, OSError) as error:
            self.display.message(
                f"the run's last record could not be written: {error}; it is completed later", always=True
            )
            return
        finally:
            context.host.close()
            context.recorder.close()
        context.journal.close()
        self.held.release()


def _herdr(context: Context) -> Herdr | None:
    """The herdr that the workers are shown in; None where nobody wants that, or none runs."""
    path = herdr_socket(os.environ)
    if not context.spec.herdr or not os.path.exists(path):
        return None
    from git_parallel.supervisor.herdr import Herdr  # noqa: PLC0415 (few have one)

    repo = context.repo
    return Herdr(path, cwd=repo.top or repo.main_top or repo.common_dir, agent=context.preset.name)
