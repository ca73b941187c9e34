"""The worktrees of workers that start together are registered together, or each by itself where the lock is held.

Small ones are filled together, too.
"""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

from git_parallel.cli import git_parallel
from git_parallel.errors import ParallelError, RaceError
from git_parallel.store import refs
from git_parallel.supervisor.worker import Worker

TASKS = [word for number in (1, 2, 3) for word in ("--task", f"echo {number} > new-{number}")]


@pytest.fixture
def supervised(repo, monkeypatch):
    """Return a function that runs a run in this process, and gives its workers."""
    monkeypatch.chdir(repo.path)

    def supervise(capfd) -> list[dict]:
        capfd.readouterr()
        git_parallel.main(args=["run", "--json", "--program", "shell", *TASKS], standalone_mode=False)
        return json.loads(capfd.readouterr().out)["workers"]

    return supervise


def names(monkeypatch, act: str = "_begin") -> list[str]:
    """The threads in which worktrees are registered (or filled, with ``_fill``), as it happens."""
    seen: list[str] = []
    do = getattr(Worker, act)

    def noted(self, *arguments, **options):
        seen.append(threading.current_thread().name)
        do(self, *arguments, **options)

    monkeypatch.setattr(Worker, act, noted)
    return seen


def test_together(supervised, monkeypatch, capfd):
    seen = names(monkeypatch)
    assert [worker["status"] for worker in supervised(capfd)] == ["success"] * 3
    assert seen == [threading.main_thread().name] * 3


def test_each_by_itself_while_somebody_holds_the_lock(supervised, monkeypatch, capfd):
    seen = names(monkeypatch)
    locked = refs.locked

    def held(where, timeout=60.0):
        if timeout == 0:
            raise refs._timed_out("lock")
        return locked(where, timeout)

    monkeypatch.setattr(refs, "locked", held)
    assert [worker["status"] for worker in supervised(capfd)] == ["success"] * 3
    assert sorted(seen) == ["worker-1", "worker-2", "worker-3"]


def test_what_keeps_one_from_it_is_that_ones_failure(supervised, monkeypatch, capfd):
    begin = Worker._begin

    def refused(self, *arguments, **options):
        if self.job.worker == 2:
            raise RaceError("somebody was there first")
        begin(self, *arguments, **options)

    monkeypatch.setattr(Worker, "_begin", refused)
    workers = supervised(capfd)
    assert [worker["status"] for worker in workers] == ["success", "failed", "success"]
    assert "somebody was there first" in workers[1]["detail"]


def test_small_ones_are_filled_before_any_thread_starts(supervised, monkeypatch, capfd):
    seen = names(monkeypatch, "_fill")
    assert [worker["status"] for worker in supervised(capfd)] == ["success"] * 3
    assert seen == [threading.main_thread().name] * 3


def test_others_are_filled_side_by_side(supervised, repo, monkeypatch, capfd):
    repo.commit("many", {f"many/{number}": "x\n" for number in range(70)})
    seen = names(monkeypatch, "_fill")
    assert [worker["status"] for worker in supervised(capfd)] == ["success"] * 3
    assert sorted(seen) == ["worker-1", "worker-2", "worker-3"]


def test_a_signal_is_heard_between_two_of_them(supervised, monkeypatch, capfd):
    seen = names(monkeypatch, "_fill")
    fill = Worker._fill

    def called(self):
        fill(self)
        if self.job.worker == 1:
            os.kill(os.getpid(), signal.SIGUSR1)

    monkeypatch.setattr(Worker, "_fill", called)
    assert [worker["status"] for worker in supervised(capfd)] == ["success"] * 3
    assert (seen[0], sorted(seen[1:])) == (threading.main_thread().name, ["worker-2", "worker-3"])


def test_what_keeps_one_from_being_filled_is_that_ones_failure(supervised, monkeypatch, capfd):
    fill = Worker._fill

    def refused(self):
        if self.job.worker == 1:
            raise ParallelError("the disk is full")
        fill(self)

    monkeypatch.setattr(Worker, "_fill", refused)
    workers = supervised(capfd)
    assert [worker["status"] for worker in workers] == ["failed", "success", "success"]
    assert "the disk is full" in workers[0]["detail"]
