"""The lookout gives every worker its turn, and takes a small share of the time."""

from __future__ import annotations

import time
from types import SimpleNamespace

from git_parallel.errors import ParallelError
from git_parallel.supervisor.lookout import Lookout

WINDOW = 4.0  # seconds in which turns are counted


class Worker:
    """What the lookout sees of a worker that never rests; a checkpoint of it takes ``seconds``."""

    def __init__(self, number: int, seconds: float = 0.0, error: Exception | None = None) -> None:
        self.job = SimpleNamespace(worker=number, worktree="/nowhere")
        self.started = time.monotonic()
        self.disk: int | None = None
        self.notes: list[str] = []
        journal = SimpleNamespace(append=lambda *_, reason, **__: self.notes.append(reason))
        self.context = SimpleNamespace(journal=journal)
        self.checkpoints = SimpleNamespace(take=self._take)
        self.taken = 0
        self._seconds = seconds
        self._error = error

    @property
    def stirred_at(self) -> float:
        return time.monotonic()

    def _take(self) -> None:
        self.taken += 1
        time.sleep(self._seconds)
        if self._error is not None:
            raise self._error


def watched(*workers: Worker, every: float | None = 0.1, measure: bool = False) -> None:
    lookout = Lookout(lambda: list(workers), every=every, measure=measure)  # type: ignore[arg-type]
    lookout.start()
    time.sleep(WINDOW)
    lookout.close()


def test_a_worktree_that_takes_long_waits_and_the_others_do_not():
    slow, quick = Worker(1, seconds=0.3), Worker(2)
    watched(slow, quick)
    assert slow.taken == 1  # 0.3 s are 5 % of 6 s
    assert quick.taken >= 3


def test_a_checkpoint_that_fails_is_noted_once_and_tried_again():
    failing = Worker(1, error=ParallelError("disk full"))
    watched(failing)
    assert failing.taken >= 3
    assert failing.notes == ["a checkpoint could not be made: disk full"]


def test_sizes_are_measured_without_checkpoints(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    worker = Worker(1)
    worker.job.worktree = str(tmp_path)
    watched(worker, every=None, measure=True)
    assert worker.taken == 0
    assert worker.disk is not None
    assert 100_000 <= worker.disk <= 200_000
