"""Looks at living workers from outside: what their process trees use, and files changed so far.

Both cost something, so both are bounded: one pass over the process table a tick, and one `git status`
at a time, for a worker that wrote output or used the processor, within a small share of the time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from git_parallel.errors import GitError
from git_parallel.supervisor.activity import Usage

if TYPE_CHECKING:
    from git_parallel.supervisor.context import Context
    from git_parallel.supervisor.worker import Worker

# Asking for changed files may take at most this share of the time, and never more often than this (s).
_SHARE = 0.05
_EVERY = 2.0


class Sampler:
    """Samples once a tick. Not thread-safe: the main thread's."""

    def __init__(self) -> None:
        self._next_count = 0.0
        self._order: list[int] = []

    def usage(self, roots: Mapping[int, int | None]) -> dict[int, Usage]:
        """What each worker's whole process tree uses; ``roots`` maps workers to guards' ids."""
        import psutil  # noqa: PLC0415 (18 ms that a short run never pays)

        wanted = {pid: worker for worker, pid in roots.items() if pid is not None}
        if not wanted:
            return {}
        parents: dict[int, int] = psutil._ppid_map() if hasattr(psutil, "_ppid_map") else {}
        if not parents:
            parents = {process.pid: process.ppid() for process in psutil.process_iter()}
        found: dict[int, list[tuple[int, int, float]]] = {worker: [] for worker in wanted.values()}
        for pid in parents:
            worker = _owner(pid, parents, wanted)
            if worker is not None and pid not in wanted:
                try:
                    process = psutil.Process(pid)
                    # Children that have ended count where they were waited for: time is lost only with orphans.
                    found[worker].append((pid, process.memory_info().rss, sum(process.cpu_times())))
                except psutil.Error:
                    continue
        return {worker: _added(processes) for worker, processes in found.items()}

    def changed_files(self, context: Context, worker: Worker) -> int | None:
        """How many files a worker has changed so far, when it is its turn; None when it is not."""
        now = time.monotonic()
        if now < self._next_count or not worker.stirred:
            return None
        worker.stirred = False
        try:
            git = context.repo.at(worker.job.worktree)
            tracked = git.run("diff", "--name-only", "-z", "--no-ext-diff", context.spec.base).fields
            untracked = git.run("ls-files", "-z", "--others", "--exclude-standard").fields
        except GitError:
            return None
        finally:
            took = time.monotonic() - now
            self._next_count = now + max(_EVERY / 8, took / _SHARE)
        return len(tracked) + len(untracked)


def _added(processes: Sequence[tuple[int, int, float]]) -> Usage:
    return Usage(
        rss=sum(rss for _, rss, _ in processes),
        cpu=sum(cpu for _, _, cpu in processes),
        processes=frozenset(pid for pid, _, _ in processes),
    )


def _owner(pid: int, parents: Mapping[int, int], wanted: Mapping[int, int]) -> int | None:
    """Follow the parents of a process up to one of the wanted ones."""
    seen = 0
    while pid > 1 and seen < 1000:
        if pid in wanted:
            return wanted[pid]
        pid = parents.get(pid, 0)
        seen += 1
    return None
