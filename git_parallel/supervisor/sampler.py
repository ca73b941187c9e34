"""Looks at living workers from outside: what their process trees use, and files changed so far.

Both cost something, so both are bounded: one pass over the process table a tick, and one worker's changed files
at a time, of one that wrote output or used the processor, within a small share of the time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from git_parallel.errors import GitError
from git_parallel.supervisor import processes
from git_parallel.supervisor.activity import Usage

if TYPE_CHECKING:
    from git_parallel.supervisor.context import Context
    from git_parallel.supervisor.worker import Worker

# Asking for changed files may take at most this share of the time, and never more often than this (s).
_SHARE = 0.05
_EVERY = 0.25


class Sampler:
    """Samples once a tick. Not thread-safe: the main thread's."""

    def __init__(self) -> None:
        self._next_count = 0.0
        self._counted: dict[int, float] = {}

    def usage(self, roots: Mapping[int, int | None]) -> dict[int, Usage]:
        """What each worker's whole process tree uses; ``roots`` maps workers to guards' ids."""
        guards = {worker: pid for worker, pid in roots.items() if pid is not None}
        if not guards:
            return {}
        return (_from_proc if processes.LINUX else _from_psutil)(guards)

    def changed_files(self, context: Context, workers: Collection[Worker]) -> dict[int, int]:
        """How many files a worker has changed so far: of the one that did something and was asked longest ago.

        Empty when it is nobody's turn.
        """
        now = time.monotonic()
        due = [worker for worker in workers if worker.stirred and worker.stirred_at is not None]
        if now < self._next_count or not due:
            return {}
        worker = min(due, key=lambda one: self._counted.get(one.job.worker, 0.0))
        self._counted[worker.job.worker] = now
        worker.stirred = False
        try:
            git = context.repo.at(worker.job.worktree)
            tracked = git.run("diff", "--name-only", "-z", "--no-ext-diff", context.spec.base).fields
            untracked = git.run("ls-files", "-z", "--others", "--exclude-standard").fields
        except GitError:
            return {}
        finally:
            took = time.monotonic() - now
            self._next_count = now + max(_EVERY, took / _SHARE)
        return {worker.job.worker: len(tracked) + len(untracked)}


def _from_proc(guards: Mapping[int, int]) -> dict[int, Usage]:
    """One read a process (10 µs): parent, times and memory stand in the same line."""
    seen: dict[int, list[bytes]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := processes.stat(int(name))) is not None:
            seen[int(name)] = fields
            children.setdefault(int(fields[1]), []).append(int(name))
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found = {}
    for worker, guard in guards.items():
        members: list[int] = []
        parents = [guard]
        while parents:
            below = children.get(parents.pop(), ())
            parents += below
            members += below
        # Children that have ended count where they were waited for: time is lost only with orphans.
        used = sum(sum(map(int, seen[pid][11:15])) for pid in members)
        resident = sum(int(seen[pid][21]) for pid in members)
        found[worker] = Usage(rss=resident * page, cpu=used / ticks, processes=frozenset(members))
    return found


def _from_psutil(guards: Mapping[int, int]) -> dict[int, Usage]:
    """The same for systems without /proc."""
    import psutil  # noqa: PLC0415 (18 ms)

    found = {}
    for worker, guard in guards.items():
        rss, used, members = 0, 0.0, set()
        try:
            for process in psutil.Process(guard).children(recursive=True):
                rss += process.memory_info().rss
                used += sum(process.cpu_times())
                members.add(process.pid)
        except psutil.Error:  # it ended while it was looked at
            continue
        found[worker] = Usage(rss=rss, cpu=used, processes=frozenset(members))
    return found
