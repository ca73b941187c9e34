"""One agent of a worker: what is started, how its output is read, and what that and its exit say together."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import msgspec

from git_parallel.agents import launch
from git_parallel.agents.claim import Claim
from git_parallel.agents.launch import Launch
from git_parallel.agents.readers import Reader, reader_for
from git_parallel.layout import WorkerFiles
from git_parallel.plan.model import Job
from git_parallel.supervisor.activity import Activity
from git_parallel.supervisor.context import Context, first_port
from git_parallel.supervisor.host import Ending, GuardSpec
from git_parallel.supervisor.rounds import Round
from git_parallel.supervisor.watching import Watching, size


def values(
    context: Context, job: Job, of: Round, *, task_file: str, budget: float | None, session: str | None, attempt: int
) -> launch.LaunchValues:
    """What a program is told of its task."""
    return launch.LaunchValues(
        task=of.prompt,
        task_file=task_file,
        model=job.model,
        role=context.spec.role,
        worktree=job.worktree,
        budget=budget,
        timeout=context.spec.limits.timeout_per_worker,
        max_steps=context.spec.limits.max_steps,
        session=session,
        resume=of.session is not None,
        attempt=attempt,
        first_port=first_port(job),
        root=os.geteuid() == 0,
    )


def guard_spec(
    context: Context, job: Job, files: WorkerFiles, command: Launch, environment: Mapping[str, str]
) -> GuardSpec:
    """What the guard is told of the agent."""
    terminal = context.terminal
    return GuardSpec(
        argv=command.argv,
        cwd=context.start_directory(job),
        env=environment if terminal is None else terminal.environment(environment),
        stdin=command.stdin_file,
        stdout=files.log,
        stderr=files.errors if command.separate_errors else None,
        timeout=context.spec.limits.timeout_per_worker,
        grace=context.spec.grace,
        stop=context.preset.stop,
        ending=files.ending,
        terminal=terminal.address(job.worker) if terminal is not None else None,
    )


def watching(context: Context, job: Job, files: WorkerFiles, command: Launch) -> Watching:
    """Be ready for the output of an agent that is about to start."""
    notices = None
    if context.terminal is not None:
        from git_parallel.supervisor.attention import Notices  # noqa: PLC0415 (few agents have a terminal)

        notices = Notices()
    return Watching(
        reader_for(context.preset, files.top, worktree=job.worktree, model=job.model),
        files.log,
        files.errors if command.separate_errors else None,
        size(files.log),
        size(files.errors),
        Activity.begin(time.monotonic()),
        notices,
    )


def said(reader: Reader, ending: Ending, errors: bytes = b"") -> Claim:
    """What an agent's output and exit say together; where there was no agent, or nobody saw it end, that."""
    claim = reader.finish(ending.exit_code, ending.signal, errors)
    if ending.spawn_error is not None:
        return Claim("failed", "spawn", ending.spawn_error)
    if ending.ended_by == "guard-died":
        return msgspec.structs.replace(claim, outcome="failed", reason="guard_died", detail=ending.reason)
    return claim
