"""What every part of a running supervisor shares."""

from __future__ import annotations

import os
from collections.abc import Mapping
from queue import SimpleQueue
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from git_parallel import worktrees
from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Preset
from git_parallel.git import Repository, clean_environment
from git_parallel.layout import RunFiles
from git_parallel.plan.model import Job, Result, RunSpec
from git_parallel.store import snapshots
from git_parallel.store.objects import Objects
from git_parallel.supervisor import files
from git_parallel.supervisor.fence import Fence, fence
from git_parallel.supervisor.host import GuardHost, guard_host
from git_parallel.supervisor.journal import Journal
from git_parallel.supervisor.recorder import Recorder
from git_parallel.supervisor.rounds import Round
from git_parallel.supervisor.surroundings import Surroundings
from git_parallel.worktrees import Features

if TYPE_CHECKING:
    from git_parallel.supervisor.tmux import Session

# Ports given to workers: PORTS_EACH from FIRST_PORT on, below the range from which systems pick their own.
FIRST_PORT = 20000
PORTS_EACH = 10
_PORT_BLOCKS = 1000

Message = tuple[Literal["signal", "changed", "ended"], int]


class Context(Struct, frozen=True):
    """One run's shared parts. ``inbox`` carries messages from signals and worker threads to the main thread.

    ``rounds`` has the workers that are to be run, ``earlier`` the results of those that are left as they are;
    orders in ``control.jsonl`` before ``control_offset`` were for an earlier supervisor. ``filled`` has the stamps of
    indexes as we wrote them, ``trees`` those of commits that workers start from.
    """

    repo: Repository
    spec: RunSpec
    files: RunFiles
    journal: Journal
    recorder: Recorder
    objects: Objects
    host: GuardHost
    preset: Preset
    filler: worktrees.Filler
    fence: Fence
    before: Surroundings
    rounds: Mapping[int, Round]
    earlier: Mapping[int, Result] = field(default_factory=dict)
    control_offset: int = 0
    terminal: Session | None = None
    inbox: SimpleQueue[Message] = field(default_factory=SimpleQueue)
    filled: dict[int, snapshots.Stamp | None] = field(default_factory=dict)
    trees: dict[str, str] = field(default_factory=dict)

    @property
    def going_on(self) -> bool:
        """Whether the run had ended before."""
        return bool(self.earlier) or any(of.attempt > 1 for of in self.rounds.values())

    def start_directory(self, job: Job) -> str:
        """Where an agent starts: the caller's subdirectory in the worker's worktree, or its top when that is absent."""
        inner = os.path.join(job.worktree, self.spec.subdir) if self.spec.subdir else job.worktree
        return inner if os.path.isdir(inner) else job.worktree

    def environment(self, job: Job, temporary: str) -> dict[str, str]:
        """The environment of everything that runs for a worker: the person's own, less what locates a repository."""
        # A hook of the agent must not report to the pane of the herdr that the person sits in: it is none of its own.
        env = {name: value for name, value in clean_environment().items() if not name.startswith("HERDR_")}
        return {**env, **worker_variables(self.spec, job, temporary), **self.fence.variables(job, env)}


def prepare(
    repo: Repository,
    spec: RunSpec,
    run: RunFiles,
    journal: Journal,
    *,
    before: Surroundings,
    rounds: Mapping[int, Round],
    earlier: Mapping[int, Result] | None = None,
    features: Features | None = None,
    control_offset: int = 0,
    host: GuardHost | None = None,
    recorder: Recorder | None = None,
) -> Context:
    """Get everything ready that workers share: the guards' host, the fence, what worktrees need."""
    host = host or guard_host(run)
    terminal = None
    if spec.terminal is not None:
        from git_parallel.supervisor.tmux import Session  # noqa: PLC0415 (few runs have one)

        terminal = Session(host, run, spec.run, repo.common_dir)
    recorder = recorder or recording(repo, run, spec.run)
    return Context(
        repo=repo,
        spec=spec,
        files=run,
        journal=journal,
        recorder=recorder,
        objects=recorder.objects,
        host=host,
        preset=presets.settled(presets.from_data(spec.preset), spec.terminal),
        filler=worktrees.Filler(repo, spec.base, features or worktrees.features(repo, spec.base)),
        fence=fence(repo, run.hooks),
        before=before,
        rounds=rounds,
        earlier=earlier or {},
        control_offset=control_offset,
        terminal=terminal,
    )


def recording(repo: Repository, run: RunFiles, name: str) -> Recorder:
    """Who writes the record of the run of that name."""
    return Recorder(repo, name, lambda: files.read(run.journal) or b"", Objects(repo))


def first_port(job: Job) -> int:
    """The first of a worker's ports."""
    return FIRST_PORT + job.worker % _PORT_BLOCKS * PORTS_EACH


def worker_variables(spec: RunSpec, job: Job, temporary: str) -> Mapping[str, str]:
    """The variables by which an agent or a check knows which worker it serves."""
    return {
        "GIT_PARALLEL_RUN": spec.run,
        "GIT_PARALLEL_WORKER": str(job.worker),
        "GIT_PARALLEL_TASK": job.task,
        "GIT_PARALLEL_BASE": spec.base,
        "GIT_PARALLEL_ROOT": job.worktree,
        "GIT_PARALLEL_PORT": str(first_port(job)),
        "GIT_PARALLEL_PORT_COUNT": str(PORTS_EACH),
        "GIT_TERMINAL_PROMPT": "0",
        "TMPDIR": temporary,
    }
