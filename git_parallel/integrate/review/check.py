"""Runs a run's checks again in a worker's worktree, under a guard, while a person waits and watches."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from git_parallel import worktrees
from git_parallel.errors import UsageError
from git_parallel.git import Repository, clean_environment
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import State
from git_parallel.plan.model import CheckResult
from git_parallel.supervisor import outcome
from git_parallel.supervisor.context import worker_variables
from git_parallel.supervisor.host import GuardHost, GuardSpec

_PAUSE = 0.1  # seconds between two looks at the output
_CHUNK = 1 << 16


def commands(candidate: Candidate) -> tuple[str, ...]:
    """The checks of a worker's run."""
    return candidate.spec.checks


def run(
    repo: Repository, candidate: Candidate, checks: Sequence[str], show: Callable[[bytes], None]
) -> Iterator[CheckResult]:
    """Run the checks one after another, as the worktree is now; ``show`` gets their output as it comes.

    A check that is interrupted (KeyboardInterrupt in ``show`` or here) is ended with all that it started.
    Raises UsageError when the worktree is not there.
    """
    if worktrees.paired(repo, candidate.worktree) is None:
        raise UsageError(
            f"the worktree of worker {candidate.worker} is not there: {candidate.worktree}",
            f"get it back with: git parallel restore {candidate.handle}",
        )
    with _scratch(repo) as scratch, tempfile.TemporaryDirectory(prefix="gp-check-") as temporary:
        host = GuardHost(os.path.join(scratch, "guard.log"))
        try:
            for number, command in enumerate(checks, 1):
                spec = GuardSpec(
                    argv=("/bin/sh", "-c", command),
                    cwd=_start_directory(candidate),
                    env={**clean_environment(), **worker_variables(candidate.spec, candidate.job, temporary)},
                    stdout=os.path.join(scratch, f"check-{number}.log"),
                    ending=os.path.join(scratch, f"check-{number}.exit.json"),
                    timeout=candidate.spec.limits.timeout_per_worker,
                    grace=candidate.spec.grace,
                )
                yield _one(host, command, spec, show)
        finally:
            host.close()


def _one(host: GuardHost, command: str, spec: GuardSpec, show: Callable[[bytes], None]) -> CheckResult:
    guard = host.start(spec)
    position = 0
    try:
        while (ending := guard.wait(_PAUSE)) is None:
            position += _copy(spec.stdout, position, show)
    except BaseException:
        guard.stop("interrupted")
        guard.wait()
        raise
    _copy(spec.stdout, position, show)
    if ending.spawn_error is not None:
        show(f"cannot start the check: {ending.spawn_error}\n".encode())
    return outcome.check_result(command, ending)


def _copy(path: str, position: int, show: Callable[[bytes], None]) -> int:
    """Show what a file holds beyond ``position``; return how much that was."""
    copied = 0
    try:
        with open(path, "rb") as file:
            file.seek(position)
            while data := file.read(_CHUNK):
                show(data)
                copied += len(data)
    except FileNotFoundError:
        pass
    return copied


def _start_directory(candidate: Candidate) -> str:
    inner = os.path.join(candidate.worktree, candidate.spec.subdir)
    return inner if os.path.isdir(inner) else candidate.worktree


@contextmanager
def _scratch(repo: Repository) -> Iterator[str]:
    top = State(repo.common_dir).top
    os.makedirs(top, exist_ok=True)
    path = tempfile.mkdtemp(prefix="review-", dir=top)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
