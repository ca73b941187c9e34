"""`git parallel stop`: real runs, ended by a person."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from runs_on_disk import RUN, start_run

from git_parallel.cli._runs import Chosen
from git_parallel.cli.stop import orders
from git_parallel.layout import State
from git_parallel.supervisor import view
from git_parallel.supervisor.control import listens


def detached(repo, *tasks: str, workers: int | None = None) -> str:
    """Start a real run in the background and return its id once every task that can has written ``up``."""
    words = [word for task in tasks for word in ("--task", task)]
    if workers is not None:
        words += ["--workers", str(workers)]
    done = repo.parallel("run", "--program", "shell", "--detach", *words)
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()
    files = State(str(repo.path / ".git")).run(run)
    for number in range(1, min(workers or 3, len(tasks)) + 1):
        until(lambda number=number: b"up" in Path(files.worker(number).log).read_bytes(), f"worker {number} is up")
    return run


def until(true, what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if true():
                return
        except (FileNotFoundError, AttributeError):
            pass
        time.sleep(0.02)
    raise AssertionError(f"not in {seconds} s: {what}")


def statuses(repo, run: str) -> dict[int, tuple[str, str]]:
    document = json.loads(repo.parallel("show", run, "--json").stdout)
    return {worker["worker_id"]: (worker["status"], worker["reason"]) for worker in document["workers"]}


def alive(mark: str) -> bool:
    return any(mark in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


SLEEP = "echo up; exec sleep 600.{}"


def test_a_run_is_ended_and_its_work_is_kept(repo) -> None:
    run = detached(repo, "echo made > made.txt; " + SLEEP.format(1), SLEEP.format(2), SLEEP.format(3), workers=2)
    done = repo.parallel("stop")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "[1] cancelled/stopped",
        "[2] cancelled/stopped",
        "[3] cancelled/stopped",
    ]
    assert statuses(repo, run) == dict.fromkeys((1, 2, 3), ("cancelled", "stopped"))
    assert repo.git("show", "architect/parallel-1:made.txt") == "made"
    assert not alive("sleep 600.1")
    assert view.live_runs(State(str(repo.path / ".git"))) == []


def test_one_worker_is_ended_and_the_others_go_on(repo) -> None:
    run = detached(repo, SLEEP.format(4), SLEEP.format(5))
    done = repo.parallel("stop", "2")
    assert done.stdout.startswith("[2] cancelled/stopped")
    now = json.loads(repo.parallel("status", "--json").stdout)
    assert (now["status"], [worker["state"] for worker in now["workers"]]) == ("running", ["running", "ended"])
    done = repo.parallel("stop", "2")
    assert (done.returncode, done.stdout) == (0, "")
    assert "worker 2 had ended already: cancelled/stopped" in done.stderr
    assert repo.parallel("stop", run).stdout.startswith("[1] cancelled/stopped")


def test_a_queued_worker_is_taken_off_the_queue(repo) -> None:
    detached(repo, SLEEP.format(6), "echo never > never.txt", workers=1)
    assert repo.parallel("stop", "2").stdout.startswith("[2] cancelled/stopped")
    assert repo.parallel("stop", "--now").stdout.startswith("[1] cancelled/stopped")


@pytest.mark.parametrize("stubborn", ["trap '' TERM INT HUP; echo up; while :; do sleep 0.1; done"])
def test_now_ends_what_does_not_listen(repo, stubborn: str) -> None:
    detached(repo, "echo kept > kept.txt; " + stubborn)
    began = time.monotonic()
    assert repo.parallel("stop", "--now").stdout.startswith("[1] cancelled/stopped")
    assert time.monotonic() - began < 8  # the grace is 10 s
    assert repo.git("show", "architect/parallel-1:kept.txt") == "kept"


def test_stopping_at_once_does_not_kill_a_supervisor_that_is_just_starting(repo) -> None:
    done = repo.parallel("run", "--program", "shell", "--detach", "--task", SLEEP.format(7))
    assert repo.parallel("stop").returncode == 0
    assert statuses(repo, done.stdout.strip()) == {1: ("cancelled", "stopped")}


def test_without_a_run_there_is_nothing_to_do(repo) -> None:
    done = repo.parallel("stop")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "note: no run goes on\n")
    start_run(repo.path, "one").ended(1).finish()
    done = repo.parallel("stop", RUN)
    assert (done.returncode, done.stderr) == (0, f"note: run {RUN} has ended already\n")


def test_several_runs_are_asked_about(repo) -> None:
    start_run(repo.path, "one")
    start_run(repo.path, "two", run="20261129T170000Z-0000", first=2)
    done = repo.parallel("stop")
    assert done.returncode == 2
    assert done.stderr.startswith("error: 2 runs go on\nhint: name those to stop: ")


def test_the_record_of_a_killed_supervisor_is_finished(repo) -> None:
    run = detached(repo, "echo made > made.txt; " + SLEEP.format(8))
    files = State(str(repo.path / ".git")).run(run)
    pid = json.loads(Path(files.supervisor).read_text())["pid"]
    psutil.Process(pid).kill()
    until(lambda: not psutil.pid_exists(pid), "the supervisor is dead")
    done = repo.parallel("stop")
    assert done.returncode == 0, done.stderr
    assert "has no supervisor any more; capturing its workers' work" in done.stderr
    assert statuses(repo, run)[1][0] == "cancelled"
    assert repo.git("show", "architect/parallel-1:made.txt") == "made"
    assert not alive("sleep 600.8")


def test_orders_name_the_workers_or_the_whole_run(repo) -> None:
    live = start_run(repo.path, "one", "two").running(1).ended(2)
    run = view.load(live.files)
    assert run is not None
    whole, part = Chosen(run, run.workers, True), Chosen(run, run.workers, False)
    assert [(order["do"], order["worker"]) for order in orders(whole, False)] == [("stop", None)]
    assert [(order["do"], order["worker"]) for order in orders(part, True)] == [("kill", 1)]


def test_ctrl_c_leaves_while_the_run_goes_on_ending(repo) -> None:
    run = detached(repo, "trap '' TERM; echo up; while :; do sleep 0.1; done")
    process = subprocess.Popen([sys.executable, "-m", "git_parallel", "stop"], cwd=repo.path, stderr=subprocess.PIPE)
    files = State(str(repo.path / ".git")).run(run)
    until(lambda: b"run-stopping" in Path(files.journal).read_bytes(), "the supervisor was asked")
    process.send_signal(2)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in complaint
    assert repo.parallel("stop", "--now").stdout.startswith("[1] cancelled/stopped")


def test_a_supervisor_is_signalled_once_it_has_come_as_far_as_its_workers(repo) -> None:
    live = start_run(repo.path, "one")
    assert not listens(live.files)
    live.state(1, "preparing")
    assert listens(live.files)
    gone = start_run(repo.path, "two", run="20261129T170000Z-0000", first=2)
    gone.crash()
    assert listens(gone.files)
