"""The command lines of the built-in presets, word by word."""

from __future__ import annotations

import pytest

from git_parallel.agents.launch import LaunchValues, build, report_file
from git_parallel.agents.preset import find, load
from git_parallel.errors import UsageError

LOG = "/run/workers/1"
COPILOT = "copilot --output-format json --allow-all-tools --no-ask-user"
CLAUDE = "claude -p --output-format stream-json --verbose"
AIDER = (
    "aider --yes-always --no-auto-commits --no-dirty-commits --no-check-update --no-show-release-notes --no-gitignore "
    f"--no-analytics --analytics-log {LOG}/aider-analytics.jsonl --chat-history-file {LOG}/aider-chat.md "
    f"--input-history-file {LOG}/aider-input --no-stream --no-pretty"
)


def launched(program: str, **values):
    values = {"task": "-x: do it", "role": "build", **values}
    return build(load(program, {}), LaunchValues(task_file=f"{LOG}/prompt.txt", worktree="/w", **values))


def line(program: str, **values) -> str:
    return " ".join(launched(program, **values).argv)


@pytest.mark.parametrize(
    ("program", "values", "expected"),
    [
        ("claude", {}, f"{CLAUDE} --permission-mode acceptEdits"),
        ("claude", {"role": "plan"}, f"{CLAUDE} --permission-mode plan"),
        ("claude", {"role": "tester"}, f"{CLAUDE} --permission-mode acceptEdits --agent tester"),
        (
            "claude",
            {"model": "opus", "max_steps": 50, "budget": 2.5, "session": "u-1"},
            f"{CLAUDE} --permission-mode acceptEdits --model opus --max-turns 50 --max-budget-usd 2.5 --session-id u-1",
        ),
        (
            "claude",
            {"session": "u-1", "resume": True},
            f"{CLAUDE} --permission-mode acceptEdits --resume u-1",
        ),
        ("codex", {"model": "m", "max_steps": 9}, "codex exec --json -s workspace-write -m m -"),
        ("codex", {"read_only": True}, "codex exec --json -s read-only -"),
        ("codex", {"role": "plan"}, "codex exec --json -s read-only -"),
        ("codex", {"session": "t-1", "resume": True}, "codex exec --json -s workspace-write resume t-1 -"),
        ("codex", {"session": "t-1"}, "codex exec --json -s workspace-write -"),
        ("opencode", {"model": "p/m"}, "opencode run --format json -m p/m --agent build"),
        ("opencode", {"role": "plan"}, "opencode run --format json --agent plan"),
        ("opencode", {"read_only": True}, "opencode run --format json --agent plan"),
        ("opencode", {"session": "s", "resume": True}, "opencode run --format json --agent build -s s"),
        ("gemini", {"model": "m"}, "gemini -o stream-json --skip-trust --approval-mode yolo -m m"),
        ("gemini", {"role": "plan"}, "gemini -o stream-json --skip-trust --approval-mode plan"),
        (
            "gemini",
            {"session": "s", "resume": True},
            "gemini -o stream-json --skip-trust --approval-mode yolo --resume s",
        ),
        ("aider", {"model": "m"}, f"{AIDER} --model m --message-file {LOG}/prompt.txt"),
        ("aider", {"role": "plan"}, f"{AIDER} --chat-mode ask --message-file {LOG}/prompt.txt"),
        ("qwen", {"max_steps": 9}, "qwen -o stream-json --approval-mode yolo --max-session-turns 9"),
        (
            "qwen",
            {"session": "u-1", "timeout": 100},
            "qwen -o stream-json --approval-mode yolo --max-wall-time 90 --session-id u-1",
        ),
        ("pi", {"model": "m"}, "pi --mode json -p --model m"),
        ("copilot", {"model": "m", "session": "u-1"}, f"{COPILOT} --model m --session-id u-1"),
        ("copilot", {"role": "plan"}, f"{COPILOT} --deny-tool=write --deny-tool=shell"),
        (
            "mini-swe-agent",
            {"task": "do it", "budget": 1},
            f"mini -y --exit-immediately -o {LOG}/mini-trajectory.json -l 1 -t do it",
        ),
        ("cline", {"task": "do it"}, "cline --json -- do it"),
        (
            "oh-my-opencode",
            {"model": "p/m", "first_port": 20010, "session": "s", "resume": True, "task": "-x"},
            "oh-my-opencode run --json --port 20010 --model p/m --session-id s -- -x",
        ),
        ("cline", {"task": "do it", "role": "plan"}, "cline --json --plan -- do it"),
    ],
)
def test_the_command_line(program, values, expected):
    assert line(program, **values) == expected


@pytest.mark.parametrize("program", ["claude", "codex", "opencode", "gemini", "qwen", "pi", "copilot"])
def test_the_task_goes_to_standard_input_whatever_its_length(program):
    launch = launched(program, task="-x" * 200_000)
    assert launch.stdin_file == f"{LOG}/prompt.txt"
    assert not any("-x-x" in word for word in launch.argv)


def test_only_as_root_claude_is_told_that_it_is_in_a_sandbox():
    assert launched("claude", root=True).env == {"IS_SANDBOX": "1"}
    assert launched("claude").env == {}
    assert launched("gemini").env == {"GEMINI_CLI_NO_RELAUNCH": "true"}


def test_output_that_is_data_is_kept_apart_from_messages():
    apart = {name: launched(name).separate_errors for name in ("claude", "codex", "opencode", "gemini", "aider")}
    assert apart == {"claude": True, "codex": True, "opencode": True, "gemini": True, "aider": False}


def test_what_is_known_of_money_and_sessions():
    facts = {name: (load(name, {}).money, load(name, {}).cumulative) for name in ("claude", "codex", "opencode")}
    assert facts == {"claude": ("reported", ("cost",)), "codex": ("tokens", ("tokens",)), "opencode": ("reported", ())}
    assert load("claude", {}).stop == ("INT", "TERM")
    assert load("aider", {}).leaves == (".aider*",)


def test_a_report_stands_beside_the_log():
    assert report_file(load("aider", {}), LOG) == f"{LOG}/aider-analytics.jsonl"
    assert report_file(load("claude", {}), LOG) is None


def test_a_report_can_name_nothing_but_its_directory():
    with pytest.raises(UsageError) as caught:
        load("x", {"x": {"command": ["x"], "report": "{worktree}/r"}})
    assert "only {log_dir} can stand there, not {worktree}" in caught.value.message


def test_a_command_line_of_ones_own_may_use_the_directory_of_the_log():
    preset = find("prog --log {log_dir}/x {task}", {})
    values = LaunchValues(task="t", task_file=f"{LOG}/prompt.txt", worktree="/w")
    assert build(preset, values).argv == ("prog", "--log", f"{LOG}/x", "t")
