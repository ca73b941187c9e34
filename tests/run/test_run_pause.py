"""Workers that are paused stand still, whoever paused them, and leave nothing when they end so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import at_terminal
import psutil
import pytest

from git_parallel.layout import State
from git_parallel.supervisor import journal, view

# Appends a byte ten times a second, from a process that left its session.
BEAT = "setsid sh -c 'while :; do printf . >> beat; sleep 0.1; done' & echo up; wait"


@pytest.fixture(autouse=True)
def ended(repo):
    """A test that fails leaves no run behind."""
    yield
    repo.parallel("stop", "--now")


def until(true, what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.02)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def beats(repo, number: int = 1) -> int:
    return size(repo.path / f".architect-parallel-{number}" / "beat")


def stands_still(repo, number: int = 1, seconds: float = 0.6) -> bool:
    before = beats(repo, number)
    time.sleep(seconds)
    return beats(repo, number) == before


def start(repo, *arguments: str, workers: int = 1) -> str:
    done = repo.parallel("run", "--program", "shell", "--detach", *arguments)
    assert done.returncode == 0, done.stderr
    until(lambda: all(beats(repo, number) for number in range(1, workers + 1)), "the agents beat")
    return done.stdout.strip()


def states(repo) -> list[str]:
    return [worker["state"] for worker in json.loads(repo.parallel("status", "--json").stdout)["workers"]]


def files(repo, run: str):
    return State(str(repo.path / ".git")).run(run)


def test_a_paused_run_stands_still_until_it_may_go_on(repo):
    run = start(repo, "--task", BEAT, "--task", BEAT, "--task", "true", "--workers", "2", workers=2)
    done = repo.parallel("pause")
    assert (done.returncode, done.stdout) == (0, "[1] paused\n[2] paused\n[3] paused\n"), done.stderr
    assert stands_still(repo, 1)
    assert stands_still(repo, 2)
    assert states(repo) == ["paused"] * 3
    assert "3 paused" in repo.parallel("list").stdout
    assert "paused" in repo.parallel("status").stdout
    assert repo.parallel("pause").stdout == ""
    done = repo.parallel("unpause", "2")
    assert (done.returncode, done.stdout) == (0, "[2] goes on\n")
    until(lambda: not stands_still(repo, 2, 0.3), "it goes on")
    assert states(repo) == ["paused", "running", "paused"]
    assert repo.parallel("unpause", run).stdout == "[1] goes on\n[3] goes on\n"
    until(lambda: not stands_still(repo, 1, 0.3), "it goes on")
    seen = [
        (event["state"], event["source"], event.get("reason"))
        for event in journal.read(files(repo, run).journal)
        if event.get("worker") == 1 and event["event"] == "state"
    ]
    assert seen[-2:] == [("paused", "person", "asked"), ("running", "person", None)]
    repo.parallel("stop", "--now")


def test_limits_on_time_stand_still_too(repo):
    start(repo, "--task", BEAT, "--timeout-per-worker", "3", "--idle-timeout", "2", "--timeout", "4")
    repo.parallel("pause")
    time.sleep(4.5)
    assert states(repo) == ["paused"]
    repo.parallel("unpause")
    began = time.monotonic()
    (worker,) = json.loads(repo.parallel("wait", "--json").stdout)["workers"]
    assert (worker["status"], worker["reason"]) == ("timeout", "timeout")
    assert time.monotonic() - began > 0.8


def test_a_paused_worker_can_be_stopped_and_its_work_is_kept(repo):
    start(repo, "--task", BEAT)
    repo.parallel("pause", "1")
    done = repo.parallel("stop", "1")
    assert done.stdout.startswith("[1] cancelled/stopped")
    assert repo.git("show", "architect/parallel-1:beat").startswith(".")
    assert repo.parallel("pause").returncode == 2


def test_a_paused_run_whose_supervisor_is_killed_leaves_nothing(repo):
    run = start(repo, "--task", BEAT)
    repo.parallel("pause")
    tree = psutil.Process(int(json.loads(Path(files(repo, run).supervisor).read_text())["pid"]))
    everybody = [tree, *tree.children(recursive=True)]
    assert len(everybody) > 4
    tree.kill()
    until(lambda: not any(one.is_running() and one.status() != "zombie" for one in everybody), "all are gone", 15)
    assert "has no supervisor any more; capturing its workers' work" in repo.parallel("wait").stderr
    assert repo.git("show", "architect/parallel-1:beat").startswith(".")


def test_a_worker_that_is_not_there_yet_is_paused_as_it_starts(repo):
    repo.parallel("run", "--program", "shell", "--detach", "--task", "echo > beat; sleep 600", "--workers", "1")
    repo.parallel("pause")
    until(lambda: states(repo) == ["paused"], "it is paused")
    repo.parallel("stop", "--now")


def test_ctrl_z_pauses_and_fg_goes_on(repo):
    repo.git("config", "alias.go", f"!{sys.executable} -m git_parallel")  # git is there between shell and supervisor
    env = {"PS1": "$ ", "TERM": "xterm", "BEAT": BEAT}
    with at_terminal.terminal("bash", "--norc", "-i", cwd=repo.path, env=env) as shell:
        shell.wait(r"\$ ")
        shell.type('git go run --program shell --task "$BEAT"\r')
        until(lambda: beats(repo), "the agent beats")
        (run,) = view.live_runs(State(str(repo.path / ".git")))
        until(lambda: states(repo) == ["running"], "it runs")
        shell.type("\x1a")
        shell.wait("Stopped")  # which the shell says of git; the supervisor may need a moment more
        until(lambda: stands_still(repo), "it stands still")
        assert states(repo) == ["paused"]
        shell.type("fg\r")
        until(lambda: not stands_still(repo, 1, 0.3), "it goes on")
        assert states(repo) == ["running"]
        shell.type("\x1a")
        shell.wait("Stopped")
        until(lambda: states(repo) == ["paused"], "it is paused")
        assert repo.parallel("stop").stdout.startswith("[1] cancelled/stopped")  # which lets the supervisor go on
        shell.type("fg\rexit\r")
        shell.end()
    reasons = [e.get("reason") for e in journal.read(files(repo, run).journal) if e.get("state") == "paused"]
    assert set(reasons) == {"Ctrl-Z"}


def test_a_shell_that_lets_it_go_on_before_it_could_stop_does_not_lose_it(repo):
    repo.git("config", "alias.go", f"!{sys.executable} -m git_parallel")
    env = {"PS1": "$ ", "TERM": "dumb", "BEAT": BEAT}
    with at_terminal.terminal("bash", "--norc", "-i", cwd=repo.path, env=env) as shell:
        shell.wait(r"\$ ")
        shell.type('git go run --program shell --task "$BEAT"\r')
        until(lambda: beats(repo), "the agent beats")
        (run,) = view.live_runs(State(str(repo.path / ".git")))
        group = os.getpgid(json.loads(Path(files(repo, run).supervisor).read_text())["pid"])
        for pause in (0.001, 0.004):
            os.killpg(group, signal.SIGTSTP)
            time.sleep(pause)
            os.killpg(group, signal.SIGCONT)
            until(lambda: not stands_still(repo, 1, 0.3), "it goes on", 10)
        assert repo.parallel("stop").returncode == 0
        shell.type("\rfg\rexit\r")
        shell.end()


def test_ctrl_z_where_no_shell_could_let_it_go_on_does_nothing(repo):
    with at_terminal.parallel("run", "--program", "shell", "--task", BEAT, cwd=repo.path) as terminal:
        until(lambda: beats(repo), "the agent beats")
        terminal.type("\x1a")
        assert not stands_still(repo, 1, 1.0)
        terminal.signal(signal.SIGINT)
        assert terminal.end() == 130


# Says on each line of input whether its job is stopped; its parent, in the same group, is what git is to us.
ASKED = "import sys; from git_parallel.supervisor import job\nfor _ in sys.stdin: print(job.is_stopped(), flush=True)"
PARENT = f"""import os, subprocess, sys
if os.getpid() != os.getsid(0): os.setpgid(0, 0)
subprocess.run([sys.executable, '-c', {ASKED!r}])"""


@pytest.mark.parametrize("session", ["the shell's", "another"])
def test_a_job_is_stopped_when_what_is_above_us_in_it_is(session):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=session == "another",
    )

    def asked() -> str:
        parent.stdin.write("?\n")
        parent.stdin.flush()
        return parent.stdout.readline().strip()

    try:
        assert asked() == "False"
        parent.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(parent.pid).status() == psutil.STATUS_STOPPED, "it is stopped")
        assert asked() == str(session == "the shell's")
        parent.send_signal(signal.SIGCONT)
        until(lambda: psutil.Process(parent.pid).status() != psutil.STATUS_STOPPED, "it goes on")
        assert asked() == "False"
    finally:
        parent.send_signal(signal.SIGCONT)
        parent.stdin.close()
        parent.wait(20)
        parent.stdout.close()
