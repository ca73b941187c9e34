"""The worktrees of workers that start together are registered together, or each by itself where the lock is held."""

from __future__ import annotations

import json
import threading

import pytest

from git_parallel.cli import git_parallel
from git_parallel.errors import RaceError
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


def names(monkeypatch) -> list[str]:
    """The threads in which worktrees are registered, as it happens."""
    seen: list[str] = []
    begin = Worker._begin

    def noted(self, *arguments, **options):
        seen.append(threading.current_thread().name)
        begin(self, *arguments, **options)

    monkeypatch.setattr(Worker, "_begin", noted)
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
