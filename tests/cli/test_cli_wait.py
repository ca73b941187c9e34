"""`git parallel wait`: a run's end, its results, and the exit code `run` would have had."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from runs_on_disk import RUN, make_result, start_run

from git_parallel.supervisor.exit import run_exit_code

LATER = "20261129T170000Z-0000"


def test_it_returns_when_the_run_has_ended(repo) -> None:
    run = start_run(repo.path, "one").running(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "wait"], cwd=repo.path, stdout=subprocess.PIPE, text=True
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    run.ended(1, files_modified=["a"], insertions=1, deletions=0).finish().record()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "1 worker: 1 success · 1 file" in out


def test_a_failed_worker_makes_it_1(repo) -> None:
    start_run(repo.path, "one", "two").ended(1).ended(2, "failed", "no_changes").finish().record()
    done = repo.parallel("wait")
    assert done.returncode == 1
    assert "2 workers: 1 success, 1 failed" in done.stdout
    done = repo.parallel("wait", RUN, "--json")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["run"], document["status"]) == (RUN, "ended")
    assert [worker["status"] for worker in document["workers"]] == ["success", "failed"]


def test_fewer_successes_do_when_that_was_asked_for(repo) -> None:
    run = start_run(repo.path, "one", "two", halt="now,success=1")
    run.ended(1).ended(2, "cancelled", "halted").finish().record()
    assert repo.parallel("wait").returncode == 0


def test_it_waits_no_longer_than_told(repo) -> None:
    start_run(repo.path, "one").running(1)
    done = repo.parallel("wait", "--timeout", "0.3")
    assert (done.returncode, done.stdout) == (124, "")
    assert f"run {RUN} goes on after 0.3 s" in done.stderr


def test_it_asks_which_run(repo) -> None:
    assert repo.parallel("wait").returncode == 2
    start_run(repo.path, "one")
    start_run(repo.path, "two", run=LATER, first=2)
    done = repo.parallel("wait")
    assert done.returncode == 2
    assert done.stderr == f"error: 2 runs go on\nhint: name one of: {RUN}, {LATER}\n"
    done = repo.parallel("wait", "1")
    assert done.returncode == 2
    assert done.stderr == f"error: '1' is a worker; a run is waited for\nhint: name its run: {RUN}\n"


def test_a_real_run_ends_with_the_same_code_and_results(repo) -> None:
    tasks = ("--task", "echo a > a.txt", "--task", "exit 3")
    ran = repo.parallel("run", "--program", "shell", "--json", *tasks)
    waited = repo.parallel("wait", "--json")
    assert waited.returncode == ran.returncode == 1
    assert json.loads(waited.stdout) == json.loads(ran.stdout)


def test_a_run_whose_files_are_elsewhere_is_not_waited_for(repo) -> None:
    start_run(repo.path, "one", "two").ended(1).record(ended=False).forget()
    for command, code in (("wait", 128), ("stop", 128), ("status", 0)):
        done = repo.parallel(command, RUN)
        assert done.returncode == code, done.stderr
        assert f"hint: the record of {RUN} has no end, and the run's files are not here" in done.stderr
        assert f"git parallel cleanup {RUN}" in done.stderr


def test_the_exit_code_counts_a_missing_result_as_no_success(repo) -> None:
    spec = start_run(repo.path, "one", "two").spec
    first, second = make_result(spec, 1), make_result(spec, 2)
    assert run_exit_code(spec, [first, second]) == 0
    assert run_exit_code(spec, {1: first, 2: second}) == 0
    assert run_exit_code(spec, [first]) == 1
