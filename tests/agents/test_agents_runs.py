"""Whole runs with stand-ins for the programs, which print what the real ones did."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

OUTPUTS = Path(__file__).parent / "outputs"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Make a program that prints a recorded output, and put it on PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def make(name: str, output: str, *, exit_code: int = 0, first: str = "cat > hello.txt", last: str = "") -> None:
        program = directory / name
        recorded = shlex.quote(str(OUTPUTS / output))
        program.write_text(
            f'#!/bin/sh\nprintf "%s\\n" "$@" > "{directory}/{name}.args"\n'
            f"{first}\ncat {recorded}\n{last}\nexit {exit_code}\n"
        )
        program.chmod(0o755)

    return make


def args(tmp_path: Path, name: str) -> list[str]:
    return (tmp_path / "bin" / f"{name}.args").read_text().splitlines()


def workers(done) -> list[dict]:
    assert done.stdout, done.stderr
    found: list[dict] = json.loads(done.stdout)["workers"]
    return found


def test_claude_is_driven_and_read(repo, stand_in, tmp_path):
    stand_in("claude", "claude-stream-ok.jsonl")
    done = repo.parallel("run", "--json", "--program", "claude", "--models", "opus", "-p: do it")
    (worker,) = workers(done)
    assert (worker["status"], worker["steps"], worker["cost"]) == ("success", 2, 0.01)
    assert worker["tokens"] == {"input": 2000, "output": 100, "cache_read": 0, "cache_write": 0}
    assert worker["session"] == "d7a4d73b-1744-4555-8a34-d4b0a7e0ee69"
    assert repo.git("show", "architect/parallel-1:hello.txt") == "-p: do it"
    assert worker["files_modified"] == ["hello.txt"]
    given = args(tmp_path, "claude")
    assert given[:7] == [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-mode",
        "acceptEdits",
        "--model",
    ]
    assert "--agent" not in given
    assert given[given.index("--max-turns") + 1] == "50"


@pytest.mark.parametrize(
    ("output", "exit_code", "reason"),
    [
        ("claude-denied.jsonl", 0, "permission"),
        ("claude-maxturns.jsonl", 1, "max_steps"),
        ("codex-readonly.jsonl", 0, "no_changes"),
        ("codex-error401.jsonl", 1, "auth"),
        ("gemini-stream-error401.jsonl", 145, "auth"),
        ("opencode-error401.jsonl", 0, "auth"),
    ],
)
def test_nobody_is_told_of_a_success_that_git_does_not_show(repo, stand_in, output, exit_code, reason):
    program = output.partition("-")[0]
    stand_in(program, output, exit_code=exit_code, first="cat > /dev/null")
    (worker,) = workers(repo.parallel("run", "--json", "--program", program, "do it"))
    assert (worker["status"], worker["reason"]) == ("failed", reason)
    assert worker["files_modified"] == []


def test_a_plugin_that_serves_has_a_port_of_each_worker_and_leaves_nothing(repo, stand_in, tmp_path):
    stand_in(
        "oh-my-opencode",
        "omo-run.json",
        first='mkdir .omo; echo x > .omo/state; echo "$GIT_PARALLEL_PORT $4" > hello.txt',
    )
    done = repo.parallel("run", "--json", "--program", "oh-my-opencode", "--task", "one", "--task", "two")
    first, second = workers(done)
    assert (first["status"], first["files_modified"], second["files_modified"]) == (
        "success",
        ["hello.txt"],
        ["hello.txt"],
    )
    ports = [repo.git("show", f"architect/parallel-{number}:hello.txt").split() for number in (1, 2)]
    assert all(own == told for own, told in ports)
    assert ports[0] != ports[1]


def test_a_cost_that_nobody_knows_is_no_0_and_keeps_no_budget(repo, stand_in):
    stand_in("cline", "cline-ok.jsonl", first="echo x > hello.txt")
    done = repo.parallel("run", "--json", "--program", "cline", "--budget-per-worker", "1", "do it")
    (worker,) = workers(done)
    assert (worker["cost"], worker["tokens"]["input"]) == (None, 2000)
    assert "no cost was reported for its tokens, so no budget was enforced" in worker["warnings"]
    shown = repo.parallel("status").stdout.splitlines()[-1]
    assert " ? " in shown
    assert "$0" not in shown
    (other,) = workers(repo.parallel("run", "--json", "--program", "cline", "do it"))
    assert other["warnings"] == []


def test_edits_that_git_does_not_show_are_named(repo, stand_in):
    """The recorded program says that it wrote hello.txt: here something else is there."""
    stand_in("claude", "claude-stream-ok.jsonl", first="cat > other.txt")
    (worker,) = workers(repo.parallel("run", "--json", "--program", "claude", "do it"))
    assert (worker["status"], worker["files_modified"]) == ("success", ["other.txt"])
    assert "edits that git does not show: hello.txt" in worker["warnings"]
    stand_in("claude", "claude-stream-ok.jsonl")
    (worker,) = workers(repo.parallel("run", "--json", "--program", "claude", "do it"))
    assert worker["warnings"] == []


def test_work_that_was_cut_short_by_a_cap_is_kept(repo, stand_in):
    stand_in("gemini", "gemini-stream-maxturns.jsonl", exit_code=53)
    (worker,) = workers(repo.parallel("run", "--json", "--program", "gemini", "do it"))
    assert (worker["status"], worker["reason"], worker["files_modified"]) == ("partial", "max_steps", ["hello.txt"])


def test_a_program_that_cannot_be_told_of_its_steps_is_stopped_after_them(repo, stand_in, tmp_path):
    step = {"type": "item.completed", "item": {"type": "command_execution", "command": "true", "exit_code": 0}}
    (tmp_path / "steps.jsonl").write_text(f"{json.dumps(step)}\n" * 4)
    stand_in("codex", str(tmp_path / "steps.jsonl"), last="sleep 60")
    (worker,) = workers(repo.parallel("run", "--json", "--program", "codex", "--max-steps", "3", "do it"))
    assert (worker["status"], worker["reason"], worker["steps"]) == ("partial", "max_steps", 4)
    assert worker["files_modified"] == ["hello.txt"]


@pytest.mark.parametrize(
    ("first", "expected"), [("cat > /dev/null", ("success", "done")), ("cat > hello.txt", ("partial", "scope"))]
)
def test_a_plan_is_what_the_program_says_and_no_change(repo, stand_in, first, expected):
    stand_in("codex", "codex-ok.jsonl", first=first)
    (worker,) = workers(repo.parallel("run", "--json", "--program", "codex", "--agent", "plan", "think"))
    assert (worker["status"], worker["reason"]) == expected


def test_aider_reports_beside_its_log_and_not_in_the_worktree(repo, stand_in):
    copy = f'cp {shlex.quote(str(OUTPUTS / "aider-analytics.jsonl"))} "$9"; echo x > hello.txt; touch .aider.tags'
    stand_in("aider", "aider-ok.txt", first=copy)
    (worker,) = workers(repo.parallel("run", "--json", "--program", "aider", "do it"))
    assert (worker["status"], worker["steps"], worker["cost"]) == ("success", 1, 0.003)
    assert worker["files_modified"] == ["hello.txt"]


def test_prices_of_the_project_make_dollars_of_tokens(repo, stand_in):
    repo.commit("prices", {".git-parallel.yaml": "prices:\n  gpt-5: {input: 100, output: 1000}\n"})
    stand_in("codex", "codex-ok.jsonl")
    done = repo.parallel("run", "--json", "--program", "codex", "--models", "gpt-5,o9", "--budget", "9", "do it")
    assert [worker["cost"] for worker in workers(done)] == [pytest.approx(0.3), None]
    assert "codex reports only tokens: without the price of o9" in done.stderr


def test_the_first_program_that_is_installed_and_configured_is_used_and_said(repo, stand_in, monkeypatch, tmp_path):
    stand_in("gemini", "gemini-stream-ok.jsonl")
    stand_in("codex", "codex-ok.jsonl")
    done = repo.parallel("run", "--json", "do it")
    assert workers(done)[0]["agent"] == "codex"
    assert "program: codex (installed; none seems to be configured)" in done.stderr.splitlines()
    named = repo.parallel("run", "--json", "--program", "gemini", "do it")
    assert workers(named)[0]["agent"] == "gemini"
    assert "configured" not in named.stderr

    def used() -> tuple[str, str]:
        done = repo.parallel("run", "--dry-run", "do it")
        told = json.loads(repo.parallel("agents", "--json").stdout)["programs"]
        return done.stderr.splitlines()[0], next(one["name"] for one in told if one["default"])

    monkeypatch.setenv("GEMINI_API_KEY", "none")
    assert used() == ("program: gemini (the first one installed and configured)", "gemini")
    (tmp_path / "home/.codex").mkdir()
    (tmp_path / "home/.codex/auth.json").touch()
    assert used() == ("program: codex (the first one installed and configured)", "codex")


def test_without_any_program_nothing_starts(repo, stand_in):
    done = repo.parallel("run", "do it")
    assert done.returncode == 2
    known = "claude, codex, opencode, gemini, aider, architect"
    assert f"error: none of the known programs is installed: {known}" in done.stderr


def test_a_session_goes_on_and_its_totals_are_not_counted_twice(repo, stand_in, tmp_path):
    stand_in("codex", "codex-ok.jsonl", first="cat >> hello.txt; echo >> hello.txt")
    (first,) = workers(repo.parallel("run", "--json", "--program", "codex", "do it"))
    assert first["tokens"]["input"] == 2000
    session = "01a2283e-aba8-7b30-b036-3506a8ca8207"
    resumed = (OUTPUTS / "codex-resume.jsonl").read_text().replace("01a2283f-60c8-7fc1-9c01-a930eb4f8574", session)
    (tmp_path / "resumed.jsonl").write_text(resumed)
    stand_in("codex", str(tmp_path / "resumed.jsonl"), first="cat >> hello.txt; echo >> hello.txt")
    (again,) = workers(repo.parallel("retry", "1", "-m", "go on", "--json"))
    given = args(tmp_path, "codex")
    assert given[-3:] == ["resume", session, "-"]
    assert (again["session"], again["tokens"]["input"], again["tokens"]["output"]) == (session, 4000, 200)


def test_a_lost_session_is_kept_and_a_new_one_begun_when_asked_for(repo, stand_in, tmp_path):
    stand_in("claude", "claude-stream-ok.jsonl")
    (first,) = workers(repo.parallel("run", "--json", "--program", "claude", "do it"))
    lost = {"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0, "errors": ["gone"]}
    (tmp_path / "lost.jsonl").write_text(json.dumps({**lost, "session_id": "another", "total_cost_usd": 0}) + "\n")
    stand_in("claude", str(tmp_path / "lost.jsonl"), first="", exit_code=1)
    (failed,) = workers(repo.parallel("retry", "1", "-m", "more", "--json"))
    assert args(tmp_path, "claude")[-2:] == ["--resume", first["session"]]
    assert (failed["status"], failed["session"]) == ("failed", first["session"])
    stand_in("claude", "claude-stream-ok.jsonl", first="cat > more.txt")
    (anew,) = workers(repo.parallel("retry", "1", "-m", "more", "--new-session", "--json"))
    option, session = args(tmp_path, "claude")[-2:]
    assert option == "--session-id"
    assert session != first["session"]
    assert (anew["status"], anew["attempts"], anew["cost"]) == ("success", 3, 0.02)
    assert "hello.txt" in repo.git("show", f"{anew['branch']}:more.txt")  # told what is there


INTERRUPTED = (
    f"#!{sys.executable}"
    + """
import json, pathlib, signal, sys, time
def interrupted(*_):
    event = {"type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 2,
             "terminal_reason": "aborted_streaming", "total_cost_usd": 0.25, "session_id": "s-1"}
    print(json.dumps(event), flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, interrupted)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s-1"}), flush=True)
pathlib.Path("hello.txt").write_text("half")
time.sleep(60)
"""
)


def test_claude_is_interrupted_so_that_it_says_what_it_spent(repo, stand_in, tmp_path):
    stand_in("claude", "claude-stream-ok.jsonl")
    (tmp_path / "bin" / "claude").write_text(INTERRUPTED)
    done = repo.parallel("run", "--json", "--program", "claude", "--timeout-per-worker", "2", "do it")
    (worker,) = workers(done)
    assert (worker["status"], worker["reason"], worker["cost"], worker["steps"]) == ("timeout", "timeout", 0.25, 2)
    assert worker["files_modified"] == ["hello.txt"]


def test_the_environment_says_as_root_that_it_is_a_sandbox(repo, stand_in):
    stand_in("claude", "claude-stream-ok.jsonl", first='echo "[$IS_SANDBOX]" > hello.txt')
    (worker,) = workers(repo.parallel("run", "--json", "--program", "claude", "do it"))
    assert worker["status"] == "success"
    expected = "[1]" if os.geteuid() == 0 else "[]"
    assert repo.git("show", "architect/parallel-1:hello.txt") == expected
