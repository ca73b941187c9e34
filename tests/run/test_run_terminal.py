"""Agents in windows of tmux: attached to, resized, cut off, and recorded all the same. With real tmux."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import at_terminal
import psutil
import pytest

from git_parallel.layout import State
from git_parallel.supervisor import journal

# Draws the whole screen, and ends with the first key: what a program made with curses does.
CURSES = f"""exec {sys.executable} -c '
import curses
def main(screen):
    key = "KEY_RESIZE"
    while key == "KEY_RESIZE":
        screen.addstr(3, 5, "press a key")
        screen.refresh()
        key = screen.getkey()
    open("key", "w").write(key)
curses.wrapper(main)'
"""


def until(true, what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.02)


def files(repo):
    state = State(str(repo.path / ".git"))
    (run,) = os.listdir(state.runs)
    return state.run(run)


def log(repo, number: int = 1) -> str:
    path = Path(files(repo).worker(number).log)
    return path.read_text() if path.exists() else ""


def start(repo, *tasks: str, options: tuple[str, ...] = ()) -> None:
    words = [word for task in tasks for word in ("--task", task)]
    done = repo.parallel("run", "--program", "shell", "--terminal", "tmux", "--detach", *options, *words)
    assert done.returncode == 0, done.stderr


def tmux(repo, *words: str) -> str:
    command = ["tmux", "-N", "-S", "tmux", *words]
    if not os.path.isdir(files(repo).terminal):
        return ""
    return subprocess.run(command, cwd=files(repo).terminal, capture_output=True, text=True, check=False).stdout


def windows(repo) -> dict[int, str]:
    """The windows of the run: what is on them, by number."""
    numbers = tmux(repo, "list-windows", "-F", "#{window_index}").split()
    return {int(number): tmux(repo, "capture-pane", "-p", "-t", f":{number}") for number in numbers}


def wait(repo) -> list[tuple[str, str, int | None]]:
    workers = json.loads(repo.parallel("wait", "--json").stdout)["workers"]
    assert left(repo) == []
    assert not os.path.exists(files(repo).terminal)
    return [(worker["status"], worker["reason"], worker["exit_code"]) for worker in workers]


def left(repo) -> list[str]:
    """Processes that belong to the run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("GIT_PARALLEL_COMMON") == str(repo.path / ".git"):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def attach(repo, *words: str, **options):
    return at_terminal.parallel("attach", *words, cwd=repo.path, env={"TERM": "xterm"}, **options)


@pytest.fixture(autouse=True)
def ended(repo):
    """A test that fails leaves no run behind."""
    yield
    if os.path.exists(repo.path / ".git/architect/runs"):
        repo.parallel("stop", "--now")


LEAVE = "\x02d"


def test_every_agent_has_a_window_and_is_recorded_as_ever(repo):
    start(repo, "echo one; tty; echo 1 > a; sleep 300", "echo two; tty; read x; exit 3")
    until(lambda: "one" in windows(repo).get(1, "") and "two" in windows(repo).get(2, ""), "both windows")
    tmux(repo, "send-keys", "-t", ":2", "Enter")
    until(
        lambda: "the agent has ended; all its output: git parallel log 2" in windows(repo)[2],
        "the window stays, and says so",
    )
    repo.parallel("stop", "1")
    assert wait(repo) == [("cancelled", "stopped", None), ("failed", "agent_error", 3)]
    assert log(repo, 1).startswith("one\n/dev/")
    assert log(repo, 2).startswith("two\n/dev/")
    assert log(repo, 1).split()[1] != log(repo, 2).split()[1]
    assert repo.git("show", "architect/parallel-1:a") == "1"


def test_a_person_gets_in_presses_a_key_and_leaves(repo):
    start(repo, CURSES, "sleep 300")
    until(lambda: "press a key" in windows(repo).get(1, ""), "the screen is drawn")
    with attach(repo, "2") as other, attach(repo, "1") as terminal:
        terminal.wait("press a key")
        other.wait("d: leave")
        assert "press" not in other.everything  # each looks at another window
        terminal.type(LEAVE)
        assert terminal.end() == 0
        other.type(LEAVE)
        assert other.end() == 0
    assert json.loads(repo.parallel("status", "--json").stdout)["status"] == "running"
    with attach(repo, "1") as terminal:
        terminal.wait("press a key")
        terminal.type("q")
        until((repo.path / ".architect-parallel-1/key").exists, "the key arrived")
        terminal.type(LEAVE)
        terminal.end()
    done = repo.parallel("stop", "2")
    assert done.returncode == 0, done.stderr
    assert wait(repo)[0] == ("success", "done", 0)
    assert repo.git("show", "architect/parallel-1:key") == "q"


def test_the_size_of_the_persons_terminal_is_the_agents(repo):
    start(repo, "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done")
    with attach(repo, columns=91, rows=33) as terminal:
        until(lambda: "32 91" in log(repo), "the size, less the status line")
        fcntl.ioctl(terminal.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 70, 0, 0))
        terminal.signal(signal.SIGWINCH)
        until(lambda: "24 70" in log(repo), "the new size")
        terminal.type(LEAVE)
        terminal.end()
    repo.parallel("stop", "--now")
    wait(repo)


def test_a_killed_tmux_takes_nothing_with_it_and_comes_back_when_asked_for(repo):
    start(repo, "echo before; read x; echo got $x; read y; echo and $y | tee b", "sleep 300")
    until(lambda: "before" in windows(repo).get(1, ""), "the window")
    tmux(repo, "send-keys", "-t", ":1", "one", "Enter")
    until(lambda: "got one" in log(repo), "it reads")
    tmux(repo, "kill-server")
    until(lambda: not windows(repo), "tmux is gone")
    with attach(repo, "1") as terminal:
        terminal.wait("got one")  # what was on it before
        terminal.type("two\r")
        until(lambda: "and two" in log(repo), "it still reads")
        terminal.type(LEAVE)
        terminal.end()
    tmux(repo, "kill-window", "-t", ":2")
    with attach(repo, "2") as terminal:
        until(lambda: 2 in windows(repo), "a window that was closed")
        terminal.type(LEAVE)
        terminal.end()
    repo.parallel("stop", "2")
    assert wait(repo)[0] == ("success", "done", 0)
    assert log(repo).splitlines() == ["before", "one", "got one", "two", "and two"]


def command_line(process):
    """The words of a process; none when it ends just now, as a call of tmux does."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@pytest.mark.parametrize("killed", ["supervisor", "supervisor, zygote and guards"])
def test_nothing_is_left_of_a_run_whose_supervisor_is_killed(repo, killed):
    start(repo, "echo kept > a; echo up; trap '' HUP TERM; while :; do sleep 0.1; done")
    until(lambda: "up" in windows(repo).get(1, ""), "the window")
    supervisor = psutil.Process(json.loads(Path(files(repo).supervisor).read_text())["pid"])
    ours = [one for one in supervisor.children(recursive=True) if "zygote" in command_line(one)]
    assert len(ours) == 3  # the agent's guard, and that of tmux
    for process in [supervisor, *(ours if killed != "supervisor" else ())]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it saw the end of its lifeline first
            process.kill()
    until(lambda: left(repo) == [], "all are gone", 20)
    assert wait(repo)[0][0] == "cancelled"
    assert repo.git("show", "architect/parallel-1:a") == "kept"


def test_when_the_run_ends_a_person_who_is_inside_is_let_go(repo):
    start(repo, "echo up; read x; echo done > a")
    with attach(repo) as terminal:
        terminal.wait("up")
        terminal.type("\r")
        assert terminal.end() in (0, 1)
    assert wait(repo) == [("success", "done", 0)]


def test_further_attempts_take_the_window_over(repo):
    start(repo, "echo attempt; kill -9 $$", options=("--retries", "1"))
    assert wait(repo) == [("failed", "signal", None)]
    assert log(repo).splitlines() == ["attempt", "attempt"]
    done = repo.parallel("retry", "1", "--detach", "-m", "test -t 0 && echo again; read x; echo 1 > a")
    assert done.returncode == 0, done.stderr
    until(lambda: "again" in windows(repo).get(1, ""), "the same kind of terminal")
    tmux(repo, "send-keys", "-t", ":1", "Enter")
    assert wait(repo) == [("success", "done", 0)]
    done = repo.parallel("retry", "1", "--terminal", "none", "-m", "test -t 0 || echo 2 > a")
    assert done.returncode == 0, done.stderr
    assert repo.git("show", "architect/parallel-1:a") == "2"


def test_inside_another_tmux_it_is_told_how_to_leave(repo):
    start(repo, "echo up; sleep 300")
    env = {"TERM": "screen", "TMUX": "/nowhere,1,0"}
    with at_terminal.parallel("attach", "1", cwd=repo.path, env=env) as terminal:
        terminal.wait("C-b C-b d: leave")  # as long as one is in it: of lines before tmux starts it may forget some
        terminal.type(LEAVE)
        terminal.end()
    repo.parallel("stop", "--now")
    wait(repo)


def test_without_tmux_nothing_is_started(repo, tmp_path):
    only = tmp_path / "bin"
    only.mkdir()
    for program in ("git", "sh"):
        (only / program).symlink_to(shutil.which(program))
    for command in (("run", "--program", "shell", "--terminal", "tmux", "--task", "true"),):
        done = repo.parallel(*command, env={"PATH": str(only)})
        assert done.returncode == 2
        assert done.stderr.splitlines()[0] == "error: --terminal tmux: tmux is not installed"
    assert repo.git("for-each-ref", "refs/architect") == ""
    (only / "tmux").write_text("#!/bin/sh\necho tmux 3.1c\n")
    (only / "tmux").chmod(0o755)
    done = repo.parallel(*command, env={"PATH": str(only)})
    assert done.stderr.splitlines()[0] == "error: --terminal tmux: tmux 3.1c is too old"
    assert repo.git("for-each-ref", "refs/architect") == ""


def test_a_program_whose_output_is_data_is_read_as_without(repo):
    """It has a terminal for what it prints; the task comes on standard input, and errors stay apart."""
    stream = Path(__file__).parents[1] / "agents/outputs/claude-stream-ok.jsonl"
    (repo.path / "fake").write_text(f"#!/bin/sh\ncat > hello\ntest -t 1 && cat {stream}\necho apart >&2\n")
    (repo.path / "fake").chmod(0o755)
    agent = "{command: [./fake], prompt: {stdin: []}, output: claude, stderr: separate, money: reported}"
    repo.commit("an agent", {".git-parallel.yaml": f"agents: {{fake: {agent}}}\n"})
    done = repo.parallel("run", "--trust", "--program", "fake", "--terminal", "tmux", "--json", "--task", "say hello")
    (worker,) = json.loads(done.stdout)["workers"]
    assert (worker["status"], worker["steps"], worker["cost"]) == ("success", 2, 0.01), done.stderr
    assert repo.git("show", "architect/parallel-1:hello") == "say hello"
    assert log(repo).splitlines() == stream.read_text().splitlines()
    assert Path(files(repo).worker(1).errors).read_text() == "apart\n"


def test_a_run_without_a_terminal_pays_nothing_for_it(repo):
    done = repo.parallel("run", "--program", "shell", "--task", "echo 1 > a", env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    assert "git_parallel.supervisor.loop" in done.stderr
    for module in ("tmux", "attention", "relay", "window"):
        assert f"git_parallel.supervisor.{module}" not in done.stderr


@pytest.mark.parametrize("terminal", ["none", "tmux"])
def test_who_cannot_be_attached_to_is_told_what_to_do(repo, terminal):
    repo.git("config", "parallel.terminal", terminal)
    tasks = ("--workers", "1", "--task", "sleep 300", "--task", "true")
    repo.parallel("run", "--program", "shell", "--detach", *tasks)
    until(lambda: any(event.get("state") == "running" for event in journal.read(files(repo).journal)), "it runs")
    done = repo.parallel("attach", "1")
    said = {
        "none": "error: worker 1 has no terminal; follow its output with: git parallel log -f 1\n",
        "tmux": "error: attach needs a terminal\n",
    }
    assert (done.returncode, done.stderr) == (2, said[terminal])
    waits = "error: worker 2 has no agent yet, it is queued; follow its output with: git parallel log -f 2\n"
    assert repo.parallel("attach", "2").stderr == waits
    repo.parallel("stop", "--now")
    done = repo.parallel("attach", "1")
    assert (done.returncode, done.stderr) == (2, "error: worker 1 has ended; its output: git parallel log 1\n")
