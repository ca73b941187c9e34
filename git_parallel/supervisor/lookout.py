"""A thread that looks into the worktrees of living workers: makes their checkpoints and measures their size.

Both may take long on a big tree, so they have a thread of their own, in which nothing waits for anything
else, and both are bounded to a small share of the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from git_parallel.errors import ParallelError
from git_parallel.signals import uninterrupted
from git_parallel.supervisor import checkpoints, disk
from git_parallel.supervisor.worker import Worker

_TICK = 0.5
# Looking may take at most these shares of the time: at one worker, so that a big worktree does not keep the
# others waiting, and at all of them together.
_SHARE_EACH = 0.05
_SHARE = 0.25
# A worktree's size is measured at most so often (s).
_MEASURE_EVERY = 5.0


class Lookout:
    """Looks at the workers that ``workers`` returns, which are asked for in the lookout's own thread.

    ``every``: seconds between two checkpoints of a worker, None for none. ``measure``: sizes are wanted.
    """

    def __init__(self, workers: Callable[[], Sequence[Worker]], *, every: float | None, measure: bool) -> None:
        self._workers = workers
        self._every = every
        self._measure = measure
        self._over = threading.Event()
        self._looked: dict[int, float] = {}
        self._measured: dict[int, float] = {}
        self._next: dict[int, float] = {}
        self._said: set[tuple[int, str]] = set()
        self._thread = threading.Thread(target=self._live, name="lookout", daemon=True)

    def start(self) -> None:
        if self._every is not None or self._measure:
            self._thread.start()

    def close(self) -> None:
        """End at the next chance; nobody waits for it."""
        self._over.set()

    def _live(self) -> None:
        while not self._over.wait(_TICK):
            for worker in self._workers():
                begun = time.monotonic()
                if self._over.is_set() or not self._visit(worker, begun):
                    continue
                took = time.monotonic() - begun
                self._next[worker.job.worker] = begun + took / _SHARE_EACH
                self._over.wait(took / _SHARE - took)

    def _visit(self, worker: Worker, now: float) -> bool:
        """Do what is due; say whether anything was."""
        number, stirred = worker.job.worker, worker.stirred_at
        if stirred is None or now < self._next.get(number, now):  # no agent runs, or it is not its turn
            return False
        visited = False
        if self._measure and now - self._measured.get(number, 0.0) >= _MEASURE_EVERY:
            self._measured[number] = now
            worker.disk = disk.usage(worker.job.worktree)
            visited = True
        looked = self._looked.setdefault(number, worker.started or now)
        if self._every is not None and checkpoints.due(now, every=self._every, looked=looked, stirred=stirred):
            self._looked[number] = now
            self._take(worker)
            visited = True
        return visited

    def _take(self, worker: Worker) -> None:
        try:
            with uninterrupted():
                worker.checkpoints.take()
        except (ParallelError, OSError) as error:  # the next one may go well: a file may just have gone
            said = (worker.job.worker, str(error))
            if said not in self._said:
                self._said.add(said)
                worker.context.journal.append(
                    "note", worker=worker.job.worker, reason=f"a checkpoint could not be made: {error}"
                )
