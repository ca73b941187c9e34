"""Limits on what a worker does and uses: each ends it with a reason of its own, and its work is kept."""

from __future__ import annotations

import json
import sys
import time

import pytest

from git_parallel.plan.model import Limits
from git_parallel.supervisor import memory
from git_parallel.supervisor.activity import Activity, Usage
from git_parallel.supervisor.limits import Reading, exceeded
from git_parallel.supervisor.scheduler import Purse, reservation

PYTHON = f"exec {sys.executable} -c"


def run(repo, task: str, *options: str) -> dict:
    done = repo.parallel("run", "--json", "--program", "shell", "--task", task, *options)
    assert done.returncode == 1, done.stderr
    (worker,) = json.loads(done.stdout)["workers"]
    return worker


@pytest.mark.parametrize(
    ("limit", "task", "ending", "detail"),
    [
        ("--idle-timeout=2s", "sleep 300", ("timeout", "idle"), "no output and no use of the processor for"),
        (
            "--memory-per-worker=100m",
            f"{PYTHON} 'import time; x = bytearray(300 << 20); time.sleep(300)'",
            ("partial", "memory"),
            "and the limit is 100 MiB",
        ),
        ("--max-output=64k", "head -c 200000 /dev/zero; sleep 300", ("partial", "output"), "output: 195 KiB"),
        (
            "--max-disk=5m",
            "head -c 9000000 /dev/urandom > big; sleep 300",
            ("partial", "disk"),
            "the worktree's size: ",
        ),
    ],
)
def test_a_worker_over_a_limit_is_stopped_and_its_work_is_kept(repo, limit, task, ending, detail):
    worker = run(repo, f"echo work > work; {task}", limit)
    assert (worker["status"], worker["reason"]) == ending
    assert detail in worker["detail"]
    assert repo.git("show", "architect/parallel-1:work") == "work"


def test_memory_is_that_of_all_processes_of_the_worker(repo):
    half = f"{sys.executable} -c 'import time; x = bytearray(70 << 20); time.sleep(300)'"
    worker = run(repo, f"setsid {half} & {half}", "--memory-per-worker=120m")
    assert (worker["status"], worker["reason"]) == ("failed", "memory")


@pytest.mark.parametrize(
    "task",
    [
        "i=0; while [ $i -lt 25 ]; do echo $i; sleep 0.2; i=$((i+1)); done",
        f"{sys.executable} -c 'import time\nend = time.time() + 5\nwhile time.time() < end: pass'",
    ],
    ids=["output", "processor"],
)
def test_a_worker_that_does_something_is_not_idle(repo, task):
    done = repo.parallel("run", "--program", "shell", "--task", f"echo work > work; {task}", "--idle-timeout=3s")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flag", ["--idle-timeout", "--memory-per-worker", "--max-output", "--max-disk"])
@pytest.mark.parametrize("value", ["0", "-5", "many"])
def test_a_limit_that_is_none_is_an_error(repo, flag, value):
    done = repo.parallel("run", "--program", "shell", "--task", "true", f"{flag}={value}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{flag} must be a" in done.stderr
    assert repo.git("for-each-ref", "refs/architect") == ""


def test_a_dry_run_shows_the_limits(repo):
    done = repo.parallel(
        "run", "-n", "--program", "shell", "--task", "true", "--max-disk=2g", "--max-output=1536k",
        "--memory-per-worker=4g", "--idle-timeout=5m",
    )  # fmt: skip
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("limits")]
    assert line.endswith("idle for 5m00s, 4.0 GiB of memory each, 1.5 MiB of output each, 2.0 GiB on disk each")


def test_no_worker_starts_while_too_little_memory_is_free(repo):
    done = repo.parallel("run", "--program", "shell", "--detach", "--memfree=512t", "--task", "echo 1 > a")
    assert done.returncode == 0, done.stderr
    end = time.monotonic() + 20
    while (shown := json.loads(repo.parallel("status", "--json").stdout)["workers"][0])["state"] != "waiting":
        assert time.monotonic() < end, shown
    assert "waiting(512 TiB of free memory)" in repo.parallel("status").stdout
    assert repo.parallel("stop").stdout.startswith("[1] cancelled/stopped")
    done = repo.parallel("resume", "--memfree=none", "--json")
    assert (done.returncode, json.loads(done.stdout)["workers"][0]["status"]) == (0, "success")


def test_with_enough_memory_they_start(repo):
    done = repo.parallel("run", "--program", "shell", "--memfree=1m", "--task", "echo 1 > a", "--task", "echo 2 > a")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("option", "task", "reason"),
    [("--idle-timeout=1s", "sleep 300", "idle"), ("--max-output=9k", "head -c 20000 /dev/zero; sleep 300", "output")],
)
def test_another_round_may_have_limits_of_its_own(repo, option, task, reason):
    repo.parallel("run", "--program", "shell", "--task", "exit 1")
    done = repo.parallel("retry", "1", "--json", "-m", task, option)
    assert json.loads(done.stdout)["workers"][0]["reason"] == reason, done.stderr


# --- pure ------------------------------------------------------------------------------------------


def test_memory_comes_before_all_other_limits():
    limits = Limits(idle_timeout=1.0, memory_per_worker=10, max_output=10, max_disk=10)
    over = exceeded(limits, Reading(idle=2.0, memory=11, output=11, disk=11))
    assert over is not None
    assert (over.reason, over.now) == ("memory", True)
    assert exceeded(limits, Reading(idle=0.5, memory=10, output=10, disk=10)) is None
    assert exceeded(Limits(), Reading(idle=9e9, memory=1 << 60, output=1 << 60, disk=1 << 60)) is None


def test_a_program_that_only_waits_is_idle_though_it_wakes_up():
    activity = Activity.begin(0.0)
    for second in range(1, 11):
        activity.note(float(second), output=False, usage=Usage(rss=1, cpu=second * 0.025, processes=frozenset({1})))
    assert activity.busy == 0.0
    assert activity.stirred == 10.0


def test_output_and_work_are_activity():
    activity = Activity.begin(0.0)
    activity.note(1.0, output=True, usage=None)
    assert activity.busy == 1.0
    activity.note(2.0, output=False, usage=Usage(cpu=0.5))
    assert activity.busy == 2.0
    activity.note(3.0, output=False, usage=Usage(cpu=0.5))
    assert (activity.busy, activity.stirred) == (2.0, 2.0)


def test_the_memory_of_a_control_group_is_what_it_and_those_above_it_leave(tmp_path):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    for directory, limit, used in ((tmp_path, "max", "900"), (tmp_path / "a", "1000", "900"), (inner, "500", "100")):
        (directory / "memory.max").write_text(f"{limit}\n")
        (directory / "memory.current").write_text(f"{used}\n")
        (directory / "memory.stat").write_text("anon 5\ninactive_file 50\n")
    assert memory.group_rooms(str(tmp_path), "/a/b") == [450, 150]
    assert memory.group_rooms(str(tmp_path), "/") == []
    free = memory.available()
    assert free is not None
    assert free > 1 << 20


def test_what_a_worker_may_spend_is_what_people_would_reckon():
    assert reservation(Purse(0.008, spent=0.0075), None) == 0.0005
    assert reservation(Purse(0.3, spent=0.1, reserved=0.2), None) == 0.0
