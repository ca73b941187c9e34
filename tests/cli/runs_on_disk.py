"""Runs made of their real files, without a supervisor: what a command finds on disk."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from git_parallel.git import Repository
from git_parallel.layout import RunFiles, State
from git_parallel.plan.model import Job, Limits, Result, RunSpec, Task, decode_result, encode
from git_parallel.store import record
from git_parallel.supervisor import files, liveness
from git_parallel.supervisor.journal import Journal, timestamp
from git_parallel.supervisor.liveness import Claim
from git_parallel.supervisor.view import Progress

RUN = "20261129T165000Z-7f3a"
START = 1795971000.0  # 2026-11-29T16:50:00Z


def make_spec(
    repo: Path, base: str, tasks: Sequence[str], run: str = RUN, first: int = 1, **changes: object
) -> RunSpec:
    jobs = tuple(
        Job(number, f"t{index}", None, f"architect/parallel-{number}", str(repo / f".architect-parallel-{number}"))
        for index, number in enumerate(range(first, first + len(tasks)), 1)
    )
    fields: dict[str, object] = {
        "run": run,
        "created": timestamp(START),
        "argv": ("git", "parallel", *tasks),
        "person": "A U Thor <author@example.com>",
        "base": base,
        "base_name": "HEAD",
        "target": "refs/heads/main",
        "subdir": "",
        "top": str(repo),
        "program": "shell",
        "role": "build",
        "tasks": tuple(Task(f"t{number}", prompt) for number, prompt in enumerate(tasks, 1)),
        "jobs": jobs,
        "workers": 3,
        "limits": Limits(),
    }
    return RunSpec(**{**fields, **changes})  # type: ignore[arg-type]


def make_result(spec: RunSpec, worker: int, status: str = "success", reason: str = "done", **changes: object) -> Result:
    job = spec.job(worker)
    fields: dict[str, object] = {
        "worker_id": worker,
        "branch": job.branch,
        "model": job.model,
        "status": status,
        "steps": None,
        "cost": None,
        "duration": 12.0,
        "files_modified": [],
        "worktree_path": job.worktree,
        "run": spec.run,
        "task": job.task,
        "agent": spec.program,
        "role": spec.role,
        "base": spec.base,
        "head": None,
        "reason": reason,
        "started": timestamp(START + 1),
    }
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


@dataclass
class LiveRun:
    """The live files of a run, as a supervisor writes them, one step at a time."""

    repo: Path
    spec: RunSpec
    files: RunFiles
    journal: Journal
    claim: Claim | None = None
    clock: float = field(default=START)

    def state(self, worker: int, state: str, **facts: object) -> LiveRun:
        self._append("state", worker=worker, state=state, **facts)
        return self

    def running(self, worker: int) -> LiveRun:
        self._append("started", worker=worker, source="process", pid=os.getpid(), start=0)
        return self.state(worker, "running", source="process")

    def progress(self, worker: int, **facts: object) -> LiveRun:
        progress = Progress(time=timestamp(self.clock), **facts)  # type: ignore[arg-type]
        files.replace(self.files.worker(worker).progress, msgspec.json.encode(progress))
        return self

    def ended(self, worker: int, status: str = "success", reason: str = "done", **changes: object) -> LiveRun:
        result = make_result(self.spec, worker, status, reason, **changes)
        files.replace(self.files.worker(worker).result, encode(result))
        return self.state(worker, "ended", status=status, reason=reason)

    def finish(self) -> LiveRun:
        """End the run as a supervisor does: the record is complete, the lock is given back."""
        self._append("run-ended")
        if self.claim is not None:
            self.claim.release()
            self.claim = None
        return self

    def crash(self) -> LiveRun:
        """The supervisor dies: its lock is gone, its file stays."""
        assert self.claim is not None
        os.close(self.claim.descriptor)
        self.claim = None
        return self

    def record(self, *, ended: bool = True) -> LiveRun:
        """Write the run's record as it stands, with the results of the workers that have ended."""
        repository = Repository.discover(str(self.repo))
        title = f"run {len(self.spec.jobs)} workers: {self.spec.tasks[0].title}"
        first = {"run.json": encode(self.spec), "events.jsonl": files.read(self.files.journal) or b""}
        record.write(repository, self.spec.run, first, subject=title, trailers=[("Architect-State", "running")])
        for job in self.spec.jobs:
            result = files.read(self.files.worker(job.worker).result)
            if result is not None:
                changes = {f"workers/{job.worker}/result.json": result}
                status = {job.worker: decode_result(result).status}
                record.write(repository, self.spec.run, changes, subject=f"worker {job.worker}", ended=status)
        if ended:
            events = {"events.jsonl": files.read(self.files.journal) or b""}
            record.write(
                repository, self.spec.run, events, subject="run ended", trailers=[("Architect-State", "ended")]
            )
        return self

    def forget(self) -> LiveRun:
        """The live files are gone, as after gc or in another clone."""
        shutil.rmtree(self.files.top)
        return self

    def output(self, worker: int, data: bytes) -> LiveRun:
        """The agent writes to its log."""
        with open(self.files.worker(worker).log, "ab") as log:
            log.write(data)
        return self

    def _append(self, event: str, **facts: object) -> None:
        self.clock += 1
        self.journal.append(event, **facts)  # type: ignore[arg-type]


def start_run(
    repo: Path, *tasks: str, run: str = RUN, first: int = 1, alive: bool = True, **changes: object
) -> LiveRun:
    """Make the branches and files of a run that has just begun. ``alive``: this process holds its supervisor's lock."""
    head = git(repo, "rev-parse", "HEAD")
    spec = make_spec(repo, head, tasks or ("first task",), run, first, **changes)
    live = State(str(repo / ".git")).run(run)
    for job in spec.jobs:
        git(repo, "branch", "-f", job.branch, head)
        os.makedirs(live.worker(job.worker).top)
    claim = liveness.claim(live) if alive else None
    files.replace(live.spec, encode(spec))
    journal = Journal(live.journal)
    journal.append("run-started", source="person")
    return LiveRun(repo, spec, live, journal, claim)


def git(repo: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=repo, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def read_until(descriptor: int, wanted: bytes, seconds: float = 30.0) -> bytes:
    """Read until ``wanted`` has come, or fail; a program that says nothing must not hang the tests."""
    seen, deadline = b"", time.monotonic() + seconds
    while wanted not in seen:
        left = deadline - time.monotonic()
        assert left > 0, f"{wanted!r} not in {seen!r}"
        if select.select([descriptor], [], [], left)[0]:
            data = os.read(descriptor, 65536)
            assert data, f"{wanted!r} not in {seen!r}, and there is no more"
            seen += data
    return seen
