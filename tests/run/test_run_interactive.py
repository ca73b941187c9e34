"""A program that a person talks to at a terminal: its preset's ``interactive`` section, with real tmux."""

from __future__ import annotations

import json
import sys
import time

import at_terminal
import pytest

# Draws the screen, writes the task to a file, and stays until it is told to go.
TUI = f"""#!{sys.executable}
import curses, sys
def main(screen):
    screen.addstr(2, 2, "at work on: " + sys.argv[1])
    screen.refresh()
    open("done", "w").write(sys.argv[1])
    while screen.getkey() != "q":
        pass
if sys.argv[1] == "--batch":
    open("done", "w").write("unattended: " + sys.stdin.read())
else:
    curses.wrapper(main)
"""
PRESET = """\
agents:
  talker:
    command: [./talker, --batch]
    interactive:
      command: [./talker]
      prompt: {argv: ["{task}"]}
"""


def status(repo):
    (worker,) = json.loads(repo.parallel("status", "--json").stdout)["workers"]
    return worker


def until_blocked(repo):
    end = time.monotonic() + 40
    while (worker := status(repo))["waiting"] is None:
        assert time.monotonic() < end, worker
        time.sleep(0.2)
    return worker


@pytest.fixture
def talker(repo):
    """The program, installed; a test that fails leaves no run behind."""
    (repo.path / "talker").write_text(TUI)
    (repo.path / "talker").chmod(0o755)
    repo.commit("an agent", {".git-parallel.yaml": PRESET})
    yield repo
    repo.parallel("stop", "--now")


def test_a_person_talks_to_the_program_and_leaves_it_and_without_terminal_it_works_alone(talker):
    run = ("--trust", "--program", "talker", "--terminal", "tmux", "--detach", "--task", "say hello")
    done = talker.parallel("run", *run)
    assert done.returncode == 0, done.stderr
    worker = until_blocked(talker)
    assert "waits for keys" in worker["waiting"] or "reads its terminal" in worker["waiting"]
    with at_terminal.parallel("attach", "1", cwd=talker.path, env={"TERM": "xterm"}) as terminal:
        terminal.wait("at work on: say hello")
        terminal.type("xq")  # it ends by the second key
        terminal.end()
    (worker,) = json.loads(talker.parallel("wait", "--json").stdout)["workers"]
    assert (worker["status"], worker["reason"], worker["exit_code"]) == ("success", "done", 0)
    assert talker.git("show", "architect/parallel-1:done") == "say hello"

    # Going on without a terminal, it is the unattended program again.
    done = talker.parallel("retry", "1", "--terminal", "none", "-m", "more")
    assert done.returncode == 0, done.stderr
    assert talker.git("show", "architect/parallel-1:done").startswith("unattended: There is more to do")


def test_without_a_terminal_the_program_is_unattended(talker):
    done = talker.parallel("run", "--trust", "--program", "talker", "--task", "say hello")
    assert done.returncode == 0, done.stderr
    assert talker.git("show", "architect/parallel-1:done") == "unattended: say hello"
