"""A real program in a terminal of its own: a person answers its questions, sees it work and leaves it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable

from real_programs import PROGRAMS, workers
from scripted_model import FINAL

from git_parallel.layout import State

# What a person has behind them who has used it before, but not in this repository.
KNOWN = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["none"]}}


def until(true: Callable[[], object], what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.2)


def test_claude_asks_for_trust_works_on_the_task_and_is_left(make_world):
    program, world = PROGRAMS["claude"], make_world("claude")
    (world.path / "home/.claude.json").write_text(json.dumps(KNOWN))
    words = ("run", "--program", "claude", "--models", program.model, "--terminal", "tmux", "--detach")
    run = world.parallel(*words, "--task", "<<write a.txt>>").stdout.strip()
    place = State(str(world.repo / ".git")).run(run).terminal

    def tmux(*argv: str) -> str:
        # By its short name: the socket's path may be longer than one can be.
        argv = ("tmux", "-N", "-S", "tmux", *argv)
        return subprocess.run(argv, cwd=place, capture_output=True, text=True, check=True).stdout

    def screen() -> str:
        return tmux("capture-pane", "-p", "-t", ":1")

    try:
        until(lambda: workers(world.parallel("status", "--json").stdout)[0]["state"] == "blocked", "it is blocked")
        assert "trust this folder" in screen()
        tmux("send-keys", "-t", ":1", "Down")
        until(lambda: "❯ Yes" in screen(), "the answer is chosen")
        tmux("send-keys", "-t", ":1", "Enter")
        until(lambda: FINAL in screen(), "it has done its task")
        tmux("send-keys", "-t", ":1", "/exit")
        until(lambda: "❯ /exit " in screen(), "it offers to end")
        tmux("send-keys", "-t", ":1", "Enter")
        (worker,) = workers(world.parallel("wait", "--json", timeout=60).stdout)
    finally:
        if os.path.exists(place):
            world.parallel("stop", "--now")
    assert (worker["status"], worker["reason"], worker["exit_code"]) == ("success", "done", 0), worker["detail"]
    assert worker["cost"] is None
    assert world.git("show", f"{worker['branch']}:a.txt") == "a.txt, as the script says"
