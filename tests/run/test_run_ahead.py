"""The guards' host starts before the command line is read: nothing is left of it where there is no run after all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest

from git_parallel.__main__ import _starts_workers
from git_parallel.git import Repository
from git_parallel.supervisor import ahead


def hosts(top) -> list[int]:
    """The processes that are guards, or their host, for runs in this repository.

    The environment of one that has just been started can be read a moment later: see :func:`begun`.
    """
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("GIT_PARALLEL_GUARDS", "").startswith(f"{top}{os.sep}"):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def begun(top, count: int) -> list[int]:
    """The same, when there are so many."""
    deadline = time.monotonic() + 30
    while len(found := hosts(top)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["run", "--task", "x"], True),
        (["fix the login test", "--models", "a,b"], True),
        (["run", "--task", "x", "-n"], False),
        (["run", "--dry-run", "fix it"], False),
        (["run", "--detach", "fix it"], False),
        (["status"], False),
        (["staus"], False),
    ],
)
def test_a_run_is_known_by_its_words(words, expected):
    assert _starts_workers(words) is expected


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("run", "--no-such-option"), 2, "No such option"),
        (("run", "--workers", "0", "--task", "x"), 2, "workers"),
        (("a task", "--program", "no-such-program"), 2, "no-such-program"),
        (("run",), 2, "no task was given"),
        (("run", "-qn", "--program", "shell", "--task", "x"), 0, ""),
    ],
)
def test_nothing_is_left_where_no_worker_starts(repo, words, code, said):
    done = repo.parallel(*words)
    assert done.returncode == code
    assert said in done.stderr
    assert hosts(repo.path) == []
    assert not (repo.path / ".git/architect").exists()


def test_outside_of_a_repository_the_error_is_the_usual_one(repo, tmp_path):
    done = repo.parallel("run", "--task", "x", cwd=tmp_path)
    assert done.returncode == 128
    assert done.stderr.startswith("fatal: not a git repository")


def test_a_ctrl_c_while_git_looks_where_we_are_ends_it_without_a_word(repo, tmp_path):
    (tmp_path / "git").write_text(f"#!/bin/sh\n: > {tmp_path}/asked\nexec sleep 300\n")
    (tmp_path / "git").chmod(0o755)
    argv = [sys.executable, "-m", "git_parallel", "run", "--task", "x"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(argv, cwd=repo.path, env=env, stderr=subprocess.PIPE, process_group=0) as person:
        try:
            deadline = time.monotonic() + 30
            while not (tmp_path / "asked").exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            os.killpg(person.pid, signal.SIGINT)
            assert (person.wait(30), person.stderr.read()) == (130, b"")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(person.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("tasks", "workers", "expected"),
    [(1, None, 1), (5, None, 3), (5, "4", 4), (2, "4", 2), (40, "40", 16), (2, "0", 0), (2, "many", 0)],
)
def test_as_many_guards_are_ready_as_there_most_likely_will_be_workers(repo, monkeypatch, tasks, workers, expected):
    monkeypatch.chdir(repo.path)
    with ahead.Ahead(Repository.discover()) as early:
        early.expect(tasks, workers)
        assert len(begun(repo.path, 1 + expected)) == 1 + expected
    assert hosts(repo.path) == []
    assert not (repo.path / ".git/architect").exists()


def test_what_was_begun_is_taken_once_or_dropped(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    ahead.begin()
    (host,) = begun(repo.path, 1)
    taken = ahead.take()
    assert (taken.host.pid, taken.repo, ahead.take()) == (host, Repository.discover(), None)
    ahead.drop()  # nobody's any more
    assert hosts(repo.path) == [host]
    with taken:
        pass
    assert hosts(repo.path) == []
    ahead.begin()
    assert len(begun(repo.path, 1)) == 1
    ahead.drop()
    assert hosts(repo.path) == []
