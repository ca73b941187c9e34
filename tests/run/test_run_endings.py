"""Endings that nobody wants: interrupts, lost terminals, kill -9. Nothing is lost and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from git_parallel.supervisor.loop import BOUNCE

DEADLINE = 20.0


def eventually(condition: Callable[[], object], what: str) -> object:
    """Poll until ``condition`` holds; fail after the deadline."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


def alive(marker: str) -> list[psutil.Process]:
    """Processes that carry the marker as their last argument."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and process.cmdline()[-1:] == [marker]:
                found.append(process)
        except psutil.Error:
            continue
    return found


class Running:
    """A run in the background with one worker that has written and now sleeps, and the ways to end it."""

    def __init__(self, repo, *options: str) -> None:
        self.repo = repo
        self.marker = f"{uuid.uuid4().int % 10**15}"
        # A grandchild in a session of its own, then a sleep: both carry the marker in their arguments.
        sleep = f"{sys.executable} -c 'import time; time.sleep(600)' {self.marker}"
        task = f"echo work > work; echo more >> src/a.txt; setsid {sleep} & {sleep}; true"
        argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", *options]
        argv += ["--task", task, "--task", "echo quick > quick"]
        self.process = subprocess.Popen(
            argv, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        eventually(lambda: len(alive(self.marker)) >= 2, "the worker runs")
        eventually(lambda: "architect/parallel-2" in self._ended(), "the quick worker has ended")

    def _ended(self) -> str:
        # Not `git log --all`: while git registers a worktree, its HEAD is for a moment no commit.
        heads = self.repo.git("for-each-ref", "--format=%(refname)", "refs/architect/runs").split()
        branches = [self.repo.git("log", "--format=%(trailers:key=Architect-Branch,valueonly)", head) for head in heads]
        return "".join(branches)

    @property
    def run(self) -> str:
        return next(iter(os.listdir(self.repo.path / ".git/architect/runs")))

    def results(self) -> dict[int, dict]:
        """Results as the record has them."""
        ref = f"refs/architect/runs/{self.run}"
        names = self.repo.git("ls-tree", "-r", "--name-only", ref).splitlines()
        paths = [name for name in names if name.endswith("result.json")]
        loaded = [json.loads(self.repo.git("show", f"{ref}:{path}")) for path in paths]
        return {result["worker_id"]: result for result in loaded}


@pytest.fixture
def running(repo) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(*options: str) -> Running:
        started.append(Running(repo, *options))
        return started[-1]

    yield start
    for run in started:
        if run.process.poll() is None:
            run.process.kill()
        run.process.communicate()
        for process in alive(run.marker):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def work_is_there(repo, branch: str = "architect/parallel-1") -> bool:
    return repo.git("show", f"{branch}:work") == "work" and repo.git("show", f"{branch}:src/a.txt") == "a\nmore"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_interrupt_stops_captures_and_records(repo, running, number):
    run = running()
    run.process.send_signal(number)
    out, err = run.process.communicate(timeout=DEADLINE)

    assert run.process.returncode == 128 + number, err
    assert alive(run.marker) == []
    assert work_is_there(repo)
    results = run.results()
    assert (results[1]["status"], results[1]["reason"]) == ("cancelled", "interrupted")
    assert results[2]["status"] == "success"
    assert "cancelled/interrupted" in out
    assert repo.parallel("status").stdout.startswith(f"run {run.run}: ended")


def test_what_is_queued_ends_without_a_branch(repo, running):
    run = running("--workers", "2", "--task", "echo never > never", "--task", "echo never > never2", "--halt", "never")
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=DEADLINE)
    statuses = {number: (result["status"], result["reason"]) for number, result in run.results().items()}
    assert set(statuses) == {1, 2, 3, 4}
    assert repo.git("fsck", "--no-dangling") == ""


def test_the_second_interrupt_kills_but_still_captures(repo, running):
    run = running()
    for process in alive(run.marker):
        process.suspend()  # a stopped process does not obey SIGTERM by itself
    run.process.send_signal(signal.SIGINT)
    journal = repo.path / ".git/architect/runs" / run.run / "journal.jsonl"
    eventually(lambda: "SIGINT" in journal.read_text(), "the first interrupt arrived")
    time.sleep(BOUNCE + 0.1)  # a person's second one comes later than git's echo of the first
    run.process.send_signal(signal.SIGINT)
    run.process.communicate(timeout=DEADLINE)

    assert run.process.returncode == 130
    assert alive(run.marker) == []
    assert work_is_there(repo)


def test_a_lost_terminal_does_not_end_the_run(repo, running):
    run = running()
    run.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:  # absence is held for a while
        assert run.process.poll() is None
        assert len(alive(run.marker)) >= 2
        time.sleep(0.1)


def test_kill_9_of_the_supervisor_leaves_no_process_and_loses_nothing(repo, running):
    run = running()
    run.process.kill()
    run.process.wait()
    eventually(lambda: not alive(run.marker), "every process of the run is dead")

    said = repo.parallel("status")
    assert "interrupted" in said.stdout
    done = repo.parallel("wait", run.run)
    assert done.returncode == 1, done.stderr
    assert work_is_there(repo)
    results = run.results()
    assert (results[1]["status"], results[1]["reason"]) == ("cancelled", "supervisor_died")
    assert results[2]["status"] == "success"
    assert repo.parallel("status").stdout.startswith(f"run {run.run}: ended")
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def test_kill_9_of_a_guard_leaves_no_process_and_the_run_goes_on(repo, running):
    run = running()
    journal = repo.path / ".git/architect/runs" / run.run / "journal.jsonl"
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    guard = next(event["guard"] for event in events if event["event"] == "started" and event["worker"] == 1)
    os.kill(guard, signal.SIGKILL)
    run.process.communicate(timeout=DEADLINE)

    assert run.process.returncode == 1
    assert alive(run.marker) == []
    assert work_is_there(repo)
    assert (run.results()[1]["status"], run.results()[1]["reason"]) == ("failed", "guard_died")


def test_a_timeout_kills_the_whole_tree_and_keeps_the_work(repo, tmp_path):
    marker = f"{uuid.uuid4().int % 10**15}"
    sleep = f"{sys.executable} -c 'import time; time.sleep(600)' {marker}"
    task = f"echo work > work; trap '' TERM; setsid {sleep} & (setsid {sleep} &); {sleep}"
    repo.git("config", "parallel.grace", "1")
    done = repo.parallel("run", "--json", "--program", "shell", "--timeout-per-worker", "1", task)
    worker = json.loads(done.stdout)["workers"][0]

    assert (worker["status"], worker["reason"]) == ("timeout", "timeout")
    assert alive(marker) == []
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert "Parallel-Status: timeout" in repo.git("log", "-1", "--format=%B", "architect/parallel-1")


def test_nothing_of_a_worker_outlives_its_normal_success(repo):
    marker = f"{uuid.uuid4().int % 10**15}"
    task = f"echo x > x; setsid {sys.executable} -c 'import time; time.sleep(600)' {marker} > /dev/null 2>&1 &"
    done = repo.parallel("run", "--json", "--program", "shell", task)
    assert json.loads(done.stdout)["workers"][0]["status"] == "success"
    assert alive(marker) == []


def test_a_detached_run_is_up_when_its_id_is_printed_and_can_be_waited_for(repo, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    done = repo.parallel("run", "--detach", "--program", "shell", f"read x < {go}; echo $x > x")
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()
    assert repo.git("rev-parse", "--verify", "-q", f"refs/architect/runs/{run}")
    assert f"run {run}: running" in repo.parallel("status").stdout
    Path(go).write_text("hello\n")
    waited = repo.parallel("wait", run)
    assert waited.returncode == 0, waited.stderr
    assert repo.git("show", "architect/parallel-1:x") == "hello"


def test_stop_ends_one_worker_and_leaves_the_others(repo, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    tasks = ["--task", f"read x < {go}; echo $x > x", "--task", "echo part > part; sleep 600"]
    run = repo.parallel("run", "--detach", "--program", "shell", *tasks).stdout.strip()
    eventually((repo.path / ".architect-parallel-2/part").exists, "the second worker has written")
    stopped = repo.parallel("stop", "2")
    assert stopped.returncode == 0, stopped.stderr
    assert repo.git("show", "architect/parallel-2:part") == "part"
    Path(go).write_text("hello\n")
    document = json.loads(repo.parallel("wait", "--json", run).stdout)
    assert [worker["status"] for worker in document["workers"]] == ["success", "cancelled"]


def test_a_read_only_git_directory_says_so_and_starts_nothing(repo):
    if os.geteuid() == 0:  # root writes everywhere: take the right away with a read-only mount of its own
        argv = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && "$@"']
    else:
        argv = [
            "unshare",
            "-rm",
            "sh",
            "-c",
            'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && "$@"',
        ]
    command = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", "echo x > x"]
    done = subprocess.run(
        [*argv, "sh", str(repo.path), *command], cwd=repo.path, capture_output=True, text=True, check=False
    )
    assert done.returncode in (2, 128), done.stderr
    assert "Traceback" not in done.stderr
    assert "ead-only" in done.stderr
    assert repo.git("branch", "--list", "architect/*") == ""


def test_a_full_disk_loses_nothing_and_says_where_the_work_is(tmp_path, make_repo):
    script = """
set -e
mount -t tmpfs -o size=6m none "$1"
cd "$1"
git init -q . && git commit -q --allow-empty -m first
head -c 200000 /dev/urandom > "$2/payload"
fill="dd if=/dev/urandom of=fill bs=64k 2>/dev/null; true"
"$3" -m git_parallel run --json --program shell "cp $2/payload kept; $fill" || echo "code $?"
cmp .architect-parallel-1/kept "$2/payload" && echo "work is there"
git fsck --no-dangling
"""
    place = tmp_path / "small"
    place.mkdir()
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    done = subprocess.run(
        [*unshare, "sh", "-c", script, "sh", str(place), str(tmp_path), sys.executable],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "work is there" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
    assert "code 1" in done.stdout or "code 128" in done.stdout
    said = done.stdout + done.stderr
    assert "architect-parallel-1" in said


def test_what_was_staged_and_then_changed_is_kept(repo):
    task = "echo first > a; git add a; echo second > a; echo plain > b; git add b"
    (worker,) = json.loads(repo.parallel("run", "--json", "--program", "shell", task).stdout)["workers"]
    assert worker["files_modified"] == ["a", "b"]
    assert repo.git("show", f"{worker['head']}:a") == "second"
    ref = f"refs/architect/wip/{worker['run']}/1"
    assert [warning for warning in worker["warnings"] if ref in warning]
    index = repo.git("log", "-1", "--format=%(trailers:key=Architect-Index,valueonly)", ref)
    assert repo.git("show", f"{index}:a") == "first"
    # What was only staged in part, or staged empty, needs nothing beside the branch.
    repo.parallel("run", "--program", "shell", "echo one > a; git add a; echo two > b; : > c; git add c; echo 3 > c")
    assert repo.git("show", "architect/parallel-2:c") == "3"
    assert len(repo.git("for-each-ref", "refs/architect/wip").splitlines()) == 1


@pytest.mark.parametrize(
    ("commit", "ending", "files"),
    [("", ("failed", "not_captured"), []), ("git commit -qm mine;", ("partial", "not_captured"), ["mine"])],
)
def test_a_worktree_that_cannot_be_read_has_not_changed_nothing(repo, commit, ending, files):
    task = f'echo mine > mine; git add mine; {commit} echo more > more; echo no > "$(git rev-parse --git-dir)/index"'
    done = repo.parallel("run", "--json", "--allow-empty", "--check", "false", "--program", "shell", "--task", task)
    assert done.returncode == 1, done.stderr
    (worker,) = json.loads(done.stdout)["workers"]
    assert ((worker["status"], worker["reason"]), worker["files_modified"], worker["check"]) == (ending, files, None)
    assert worker["head"] == repo.git("rev-parse", "architect/parallel-1")
    assert "nothing was captured" in worker["warnings"][0]
    assert (repo.path / ".architect-parallel-1/more").read_text() == "more\n"
    assert "no changes" not in repo.parallel("show", "1").stdout
