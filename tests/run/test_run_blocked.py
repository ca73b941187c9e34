"""An agent that waits for a person is shown as blocked, and it is told where that was seen."""

from __future__ import annotations

import itertools
import json
import os
import pty
import sys
import time
from pathlib import Path

import at_terminal
import pytest
from test_run_terminal import files, start, tmux, until, wait

from git_parallel.supervisor import attention, journal
from git_parallel.supervisor.attention import Notices, Sign, Waits, sign


@pytest.fixture(autouse=True)
def ended(repo):
    """A test that fails leaves no run behind."""
    yield
    if os.path.exists(repo.path / ".git/architect/runs"):
        repo.parallel("stop", "--now")


def shown(repo, number: int = 1) -> dict:
    return json.loads(repo.parallel("status", "--json").stdout)["workers"][number - 1]


def states(repo, number: int = 1) -> list[tuple]:
    return [
        (event["state"], event["source"], event.get("reason"), event.get("waiting"))
        for event in journal.read(files(repo).journal)
        if event["event"] == "state" and event.get("worker") == number
    ]


NOTIFIES = "printf '\\033]9;pick a colour\\033\\\\'; exec sleep 300"


def test_an_agent_that_waits_for_a_person_is_blocked_until_it_has_its_answer(repo, tmp_path):
    repo.git("config", "parallel.notify", f"cat > {tmp_path}/new.$$ && mv {tmp_path}/new.$$ {tmp_path}/told.$$")
    start(repo, "echo question; read x; echo $x | tee a; sleep 300", NOTIFIES, "sleep 300")
    until(lambda: shown(repo)["state"] == "blocked", "it is blocked")
    (blocked,) = [state for state in states(repo) if state[0] == "blocked"]
    assert blocked[1:3] == ("process", "needs input")
    assert blocked[3].startswith("sh (")
    assert blocked[3].endswith(") reads its terminal")
    assert (shown(repo)["source"], shown(repo)["waiting"]) == ("process", blocked[3])
    line = repo.parallel("status").stdout.splitlines()[2]
    assert "blocked(needs input)" in line
    assert "reads its terminal" in line
    until(lambda: shown(repo, 2)["state"] == "blocked", "so is the one that sent a notification")
    assert (shown(repo, 2)["source"], shown(repo, 2)["waiting"]) == ("terminal", "pick a colour")
    assert shown(repo, 3)["state"] == "running"
    until(lambda: len(list(tmp_path.glob("told.*"))) == 2, "the command was told of each")
    calls = {call["worker"]: call for call in (json.loads(told.read_text()) for told in tmp_path.glob("told.*"))}
    told = calls[1]
    assert (told["event"], told["status"], calls[2]["event"]) == ("blocked", "running", "blocked")
    assert told["workers"][0]["waiting"] == blocked[3]
    assert repo.parallel("pause", "1").stdout == "[1] paused\n"
    assert repo.parallel("unpause", "1").stdout == "[1] goes on\n"
    tmux(repo, "send-keys", "-t", ":1", "yes", "Enter")
    until(lambda: shown(repo)["state"] == "running", "it goes on")
    repo.parallel("stop")
    wait(repo)
    passed = [name for name, _ in itertools.groupby(state[0] for state in states(repo))]
    assert passed == ["preparing", "running", "blocked", "paused", "running", "finishing", "ended"]
    assert repo.git("show", "architect/parallel-1:a") == "yes"


def test_a_question_in_a_stream_of_events_says_so_too(repo):
    question = {"name": "AskUserQuestion", "input": {"questions": [{"question": "which colour?"}]}}
    event = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", **question}]}}
    (repo.path / "asks").write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps(event)}\nE\nexec sleep 300\n")
    (repo.path / "asks").chmod(0o755)
    config = "agents: {asks: {command: [./asks], output: claude}}\n"
    repo.commit("an agent", {".git-parallel.yaml": config})
    done = repo.parallel("run", "--trust", "--program", "asks", "--detach", "--task", "paint")
    assert done.returncode == 0, done.stderr
    until(lambda: shown(repo)["state"] == "blocked", "it is blocked")
    assert shown(repo)["source"] == "event-stream"
    assert "which colour?" in shown(repo)["waiting"]


def test_a_quiet_run_tells_of_it_too_and_where_the_others_are(repo, tmp_path):
    question = {"name": "AskUserQuestion", "input": {"questions": [{"question": "which colour?"}]}}
    asked = {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "1", **question}]}}
    (repo.path / "asks").write_text(f"#!/bin/sh\n[ $1 != paint ] || echo '{json.dumps(asked)}'\nexec sleep 300\n")
    (repo.path / "asks").chmod(0o755)
    repo.commit("an agent", {".git-parallel.yaml": "agents: {asks: {command: [./asks, '{task}'], output: claude}}\n"})
    repo.git("config", "parallel.notify", f"cat > {tmp_path}/new.$$ && mv {tmp_path}/new.$$ {tmp_path}/told.$$")
    argv = ("run", "--quiet", "--trust", "--program", "asks", "--task", "paint", "--task", "rest")
    with at_terminal.parallel(*argv, cwd=repo.path) as person:
        until(lambda: list(tmp_path.glob("told.*")), "it is told")
        (first,) = tmp_path.glob("told.*")
        told = json.loads(first.read_text())
        assert [(one["worker_id"], one["state"]) for one in told["workers"]] == [(1, "blocked"), (2, "running")]
        repo.parallel("stop", "--now")
        person.end()


@pytest.mark.parametrize("bell", ["true", "false"])
def test_the_persons_terminal_rings_unless_they_do_not_want_that(repo, bell):
    repo.git("config", "parallel.bell", bell)
    argv = ("run", "--program", "shell", "--terminal", "tmux", "--task", "read x")
    with at_terminal.parallel(*argv, cwd=repo.path, env={"TERM": "xterm"}) as terminal:
        terminal.wait(r"blocked\(needs input\)")
        rung = "\x1b]9;git parallel: worker 1 blocked(needs input): sh ("
        if bell == "true":
            terminal.wait("\a")
        else:
            terminal.silent(1.0)
        assert (rung in terminal.everything) == (bell == "true")
        repo.parallel("stop", "--now")
        terminal.end()


# --- what is looked at --------------------------------------------------------------------------------


def looked_at(script: str, expected) -> Waits | None:
    """What a Python program on a terminal is seen to wait for, once that is as expected."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", script])
    try:
        end = time.monotonic() + 20
        while not expected(seen := attention.waiting([pid])) and time.monotonic() < end:
            time.sleep(0.02)
        return seen
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(descriptor)


RAW = "import select, tty; tty.setcbreak(0); select.{}"

# Its keys are waited for beside the first thread, if they are.
THREAD = RAW.format("epoll; e = select.epoll(); {}; import threading; threading.Thread(target=e.poll).start(); ") + (
    "threading.Event().wait()"
)


@pytest.mark.parametrize(
    ("script", "reads"),
    [
        ("input()", True),
        ("open('/dev/tty').readline()", True),
        ("import threading; threading.Thread(target=input).start(); threading.Event().wait()", True),
        (RAW.format("select([0], [], [])"), False),
        (RAW.format("epoll().poll()"), False),
        (THREAD.format("e.register(0, select.EPOLLIN)"), False),
        (
            "import select; p = select.poll(); p.register(0)\nimport tty; tty.setcbreak(0)\nwhile p.poll(): input()",
            True,
        ),
    ],
)
def test_a_program_at_its_terminal_is_seen(script, reads):
    seen = looked_at(script, lambda seen: seen is not None and seen.reads == reads)
    assert seen is not None
    assert seen.reads == reads


def test_a_program_of_nodes_has_a_name_that_people_know():
    seen = looked_at("open('/proc/self/comm', 'w').write('MainThread'); input()", lambda seen: seen is not None)
    assert seen is not None
    assert seen.name == Path(sys.executable).resolve().name


@pytest.mark.parametrize(
    "script",
    [
        "import time; time.sleep(60)",
        THREAD.format("pass"),
        "import os; r, w = os.pipe(); os.read(r, 1)",
        "import select; select.select([0], [], [])",  # it may wait for anything
        "import os, signal\nif os.fork(): signal.pause()\nos.setpgid(0, 0); os.read(0, 1)",  # in the background
    ],
)
def test_a_program_that_waits_for_something_else_is_not(script):
    end = time.monotonic() + 0.6
    seen = looked_at(script, lambda seen: seen is not None or time.monotonic() > end)
    assert seen is None


def test_signs_count_only_when_it_is_quiet():
    reads, keys = Waits(7, "cat", True), Waits(8, "tui", False)
    assert sign(2.9, asked="what?", notice="ding", waits=reads) is None
    assert sign(3.0, asked="what?", notice="ding", waits=reads) == Sign("event-stream", "what?")
    assert sign(3.0, asked=None, notice="ding", waits=reads) == Sign("terminal", "ding")
    assert sign(3.0, asked=None, notice=None, waits=reads) == Sign("process", "cat (7) reads its terminal")
    assert sign(4.9, asked=None, notice=None, waits=keys) is None
    assert sign(5.0, asked=None, notice=None, waits=keys) == Sign("process", "tui (8) waits for keys")
    assert sign(99.0, asked=None, notice=None, waits=None) is None


@pytest.mark.parametrize(
    ("pieces", "last"),
    [
        ((b"text\a",), "it rang the bell"),
        ((b"\x1b]0;title\x07",), None),
        ((b"\x1b]9;look\x07",), "look"),
        ((b"\x1b]777;notify;agent;done\x1b\\",), "agent: done"),
        ((b"\x1b]9;4;1;50\x07",), None),  # a progress bar
        ((b"\x1b", b"]9;lo", b"ok\x1b", b"\\"), "look"),
        ((b"\x1b]0;ti", b"tle\x07"), None),
        ((b"\x1b]9;look\x07", b"and on it goes"), None),
    ],
)
def test_notifications_are_found_in_whatever_pieces_they_come(pieces, last):
    found = Notices()
    for piece in pieces:
        found.feed(piece)
    assert found.last == last
