"""What each program really printed, and what is made of it; and that the streams may come as they like."""

from __future__ import annotations

import json
import random
import shutil
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_parallel.agents.claim import Claim
from git_parallel.agents.preset import as_data, from_data, load
from git_parallel.agents.readers import Reader, reader_for
from git_parallel.agents.readers.actions import describe, unwrapped
from git_parallel.agents.readers.events import LINE, api_failure

OUTPUTS = Path(__file__).parent / "outputs"
STREAMS = ("claude", "codex", "opencode", "gemini", "qwen", "pi")


def reader(program: str, log_dir: Path | None = None, **known) -> Reader:
    return reader_for(load(program, {}), log_dir and str(log_dir), worktree="/src/repo/wt", **known)


def read(name: str, exit_code: int | None = 0, signal: int | None = None, errors: bytes = b"") -> Claim:
    found = reader("oh-my-opencode" if name.startswith("omo") else name.partition("-")[0])
    found.feed((OUTPUTS / name).read_bytes())
    return found.finish(exit_code, signal, errors)


def lines(*events: dict) -> bytes:
    return b"".join(json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in events)


# What the program's end means: the output, its exit, and then outcome, reason, steps, dollars, tokens in and out.
ENDS = [
    ("claude-ok.jsonl", 0, None, "done", "done", 2, 0.01, (2000, 100)),
    ("claude-stream-ok.jsonl", 0, None, "done", "done", 2, 0.01, (2000, 100)),
    ("claude-budget.jsonl", 1, None, "partial", "budget", 4, 0.02, (3000, 150)),
    ("claude-maxturns.jsonl", 1, None, "partial", "max_steps", 4, 0.015, (3000, 150)),
    ("claude-denied.jsonl", 0, None, "partial", "permission", 2, 0.01, (2000, 100)),
    ("claude-error401.jsonl", 1, None, "failed", "auth", 1, 0.0, (0, 0)),
    ("claude-error500.jsonl", 1, None, "failed", "api_error", 1, 0.0, (0, 0)),
    ("claude-nokey.jsonl", 1, None, "failed", "auth", 1, 0.0, (0, 0)),
    ("claude-sigINT.jsonl", 0, None, "failed", "signal", 2, 0.0, (0, 0)),
    ("claude-stream-429.jsonl", 1, None, "failed", "rate_limit", 1, 0.0, (0, 0)),
    ("claude-stream-sigTERM.jsonl", 143, None, "failed", "agent_error", None, None, None),
    ("claude-stream-sigTERM.jsonl", None, 15, "failed", "signal", None, None, None),
    ("codex-ok.jsonl", 0, None, "done", "done", 3, None, (2000, 100)),
    ("codex-resume.jsonl", 0, None, "done", "done", 3, None, (4000, 200)),
    ("codex-readonly.jsonl", 0, None, "done", "done", 2, None, (2000, 100)),
    ("codex-commit-in-sandbox.jsonl", 0, None, "done", "done", 3, None, (2000, 100)),
    ("codex-error401.jsonl", 1, None, "failed", "auth", None, None, None),
    ("codex-error429.jsonl", 1, None, "failed", "rate_limit", None, None, None),
    ("codex-error500.jsonl", 1, None, "failed", "api_error", None, None, None),
    ("codex-sigTERM.jsonl", None, 15, "failed", "signal", None, None, None),
    ("opencode-ok.jsonl", 0, None, "done", "done", 2, 0.0125, (2000, 100)),
    ("opencode-plan.jsonl", 0, None, "done", "done", 2, 0.0125, (2000, 100)),
    ("opencode-error401.jsonl", 1, None, "failed", "auth", None, None, None),
    ("omo-run.json", 0, None, "done", "done", None, None, None),
    ("gemini-stream-ok.jsonl", 0, None, "done", "done", 1, None, (2000, 100)),
    ("gemini-stream-maxturns.jsonl", 53, None, "partial", "max_steps", 3, None, (3000, 150)),
    ("gemini-stream-error401.jsonl", 145, None, "failed", "auth", 0, None, (0, 0)),
    ("qwen-ok.jsonl", 0, None, "done", "done", 2, None, (2000, 100)),
    ("qwen-resume.jsonl", 0, None, "done", "done", 2, None, (4000, 200)),
    ("qwen-walltime.jsonl", 55, None, "partial", "timeout", None, None, None),
    ("copilot-ok.jsonl", 0, None, "done", "done", 2, None, None),
    ("copilot-denied.jsonl", 0, None, "partial", "permission", 2, None, None),
    ("copilot-error401.jsonl", 1, None, "failed", "auth", None, None, None),
    ("copilot-error500.jsonl", 1, None, "failed", "api_error", None, None, None),
    ("cline-ok.jsonl", 0, None, "done", "done", 2, None, (2000, 100)),
    ("cline-error401.jsonl", 1, None, "failed", "api_error", 1, 0.0, (0, 0)),
    ("pi-ok.jsonl", 0, None, "done", "done", 2, 0.0022, (2000, 100)),
]


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end[0]}-{end[1]}-{end[2]}")
def test_what_a_programs_end_means(end):
    name, exit_code, signal, outcome, reason, steps, cost, tokens = end
    claim = read(name, exit_code, signal)
    assert (claim.outcome, claim.reason, claim.steps) == (outcome, reason, steps)
    assert claim.cost == (None if cost is None else pytest.approx(cost))
    assert (claim.tokens and (claim.tokens["input"], claim.tokens["output"])) == tokens
    assert (claim.detail is None) == (outcome == "done")
    assert claim.session or name.startswith("cline")  # which tells it nowhere


def test_every_recorded_output_is_looked_at():
    seen = {end[0] for end in ENDS} | {"claude-plan.jsonl", "aider-ok.txt", "aider-analytics.jsonl"}
    seen |= {"mini-ok.json", "mini-error401.json"}
    assert {path.name for path in OUTPUTS.iterdir()} == seen


@pytest.mark.parametrize("name", [end[0] for end in ENDS if end[3] == "done"])
def test_exit_code_and_last_event_must_agree(name):
    assert (read(name, 1).outcome, read(name, 1).reason) == ("partial", "agent_error")
    killed = read(name, None, 9)
    assert (killed.outcome, killed.reason) == ("partial", "signal")
    assert read(name, None, None).reason == "no_exit"
    assert read(name).text == "Done: wrote hello.txt."


@pytest.mark.parametrize("name", [end[0] for end in ENDS if end[3] == "done"])
def test_a_preset_promises_what_its_program_tells(name):
    preset, claim = load("oh-my-opencode" if name.startswith("omo") else name.partition("-")[0], {}), read(name)
    assert claim.session is not None or "resume" not in preset.options
    assert claim.tokens is not None or preset.money != "tokens"


@pytest.mark.parametrize("name", ["claude-stream-sigTERM.jsonl", "codex-sigTERM.jsonl"])
def test_an_exit_of_0_without_a_result_is_no_success(name):
    claim = read(name, 0)
    assert (claim.outcome, claim.reason) == ("unknown", "no_result")


def test_details_are_for_people():
    assert read("claude-budget.jsonl", 1).detail == "Reached maximum budget ($0.02)"


def test_the_end_of_an_object_on_standard_error_is_no_detail():
    claim = reader("gemini").finish(0, None, b"ApiError: too much {\n  status: 429\n}\n\n")
    assert claim.detail == "exited with 0 and printed no result: status: 429"


def test_tokens_that_a_program_forgets_at_its_end_are_still_known():
    usage = {"input_tokens": 1000, "output_tokens": 50}
    spent = {"type": "assistant", "message": {"id": "1", "usage": usage, "content": []}}
    ended = {"type": "result", "subtype": "error_max_budget_usd", "is_error": True, "total_cost_usd": 3.5}
    found = reader("claude")
    found.feed(lines(spent, {**ended, "usage": dict.fromkeys(usage, 0)}))
    claim = found.finish(1)
    assert (claim.reason, claim.cost, claim.tokens) == ("budget", 3.5, {"input": 1000, "output": 50})
    assert read("claude-denied.jsonl").detail == "permission denied: editing hello.txt"
    assert read("claude-denied.jsonl").denials == 1
    assert read("codex-error429.jsonl", 1).detail == "exceeded retry limit, last status: 429 Too Many Requests"
    assert read("opencode-error401.jsonl", 1).detail == "mock error401"
    last = read("codex-sigTERM.jsonl", 2, None, b"warning: x\nerror: the disk is full\n")
    assert last.detail == "exited with 2: error: the disk is full"


def test_the_action_follows_the_stream():
    found = {}
    for name in (
        "claude-stream-ok.jsonl",
        "codex-ok.jsonl",
        "opencode-ok.jsonl",
        "gemini-stream-ok.jsonl",
        "copilot-ok.jsonl",
        "cline-ok.jsonl",
        "pi-ok.jsonl",
    ):
        follower = reader(name.partition("-")[0])
        actions = []
        for line in (OUTPUTS / name).read_bytes().splitlines(keepends=True):
            follower.feed(line)
            if (action := follower.progress.action) not in actions[-1:]:
                actions.append(action)
        found[name] = [action for action in actions if action is not None]
    said, done = "I will write the file.", "Done: wrote hello.txt."
    assert found == {
        "claude-stream-ok.jsonl": [said, "editing hello.txt", done],
        "codex-ok.jsonl": ["thinking", said, "running printf %s 'hello from the mock", done],
        "opencode-ok.jsonl": [said, "editing hello.txt", done],
        "copilot-ok.jsonl": [said, "editing hello.txt", done],
        "cline-ok.jsonl": ["thinking", said, "editing hello.txt", "thinking", done],
        "pi-ok.jsonl": [said, "editing hello.txt", done],
        "gemini-stream-ok.jsonl": [said, "editing hello.txt", done],
    }


def test_retries_and_rate_limits_show_while_they_last():
    claude = reader("claude")
    *before, _, _ = (OUTPUTS / "claude-stream-429.jsonl").read_bytes().splitlines(keepends=True)
    claude.feed(b"".join(before))
    now = claude.progress
    assert (now.retries, now.trouble, now.action) == (2, "rate limited", "rate limited: retry 2 of 2")
    claude.feed(lines({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "on"}]}}))
    assert (claude.progress.trouble, claude.progress.action) == (None, "on")
    killed = reader("claude")
    killed.feed(b"".join(before))
    assert killed.finish(1).reason == "rate_limit"

    copilot = reader("copilot")
    *before, _, _, _, _, _ = (OUTPUTS / "copilot-error500.jsonl").read_bytes().splitlines(keepends=True)
    copilot.feed(b"".join(before))
    assert (copilot.progress.retries, copilot.progress.trouble) == (5, "retrying")
    copilot.feed(lines({"type": "model.call_failure", "data": {"statusCode": 429}}, {"type": "assistant.turn_retry"}))
    assert copilot.progress.trouble == "rate limited"

    codex = reader("codex")
    codex.feed((OUTPUTS / "codex-error500.jsonl").read_bytes())
    assert (codex.progress.retries, codex.progress.trouble) == (1, "retrying")
    codex.feed(lines({"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}}))
    assert codex.progress.trouble is None


def test_a_question_to_the_person_is_waited_for_until_anything_else_comes():
    claude = reader("claude")
    question = {"questions": [{"question": "Which database?", "header": "DB", "options": []}]}
    asks = {"type": "tool_use", "name": "AskUserQuestion", "input": question}
    claude.feed(lines({"type": "assistant", "message": {"id": "m", "content": [asks]}}))
    assert claude.progress.waiting == claude.progress.action == "asking Which database?"
    claude.feed(b'{"type":"user","mess')
    assert claude.progress.waiting is not None
    claude.feed(b'age":{"content":[{"type":"tool_result","content":"sqlite"}]}}\n')
    assert claude.progress.waiting is None

    gemini = reader("gemini")
    gemini.feed(lines({"type": "tool_use", "tool_name": "ask_user", "parameters": {"questions": []}}))
    assert gemini.progress.waiting == "asking a question"
    gemini.feed(lines({"type": "message", "role": "assistant", "content": "ok", "delta": True}))
    assert gemini.progress.waiting is None


def test_no_dollar_for_tokens_is_a_price_that_nobody_knows():
    cline = read("cline-ok.jsonl")
    assert (cline.cost, cline.tokens["input"]) == (None, 2000)
    opencode = reader("opencode")
    step = {"type": "step-finish", "cost": 0, "tokens": {"input": 5, "output": 1}, "reason": "stop"}
    opencode.feed(lines({"type": "step_finish", "sessionID": "s", "part": step}))
    assert (opencode.progress.cost, opencode.finish(0).cost) == (None, None)


@pytest.mark.parametrize(
    ("name", "exit_code", "outcome", "reason"),
    [("mini-ok.json", 0, "done", "done"), ("mini-error401.json", 1, "failed", "auth")],
)
def test_minis_trajectory_tells_whether_it_submitted(tmp_path, name, exit_code, outcome, reason):
    mini = reader("mini-swe-agent", tmp_path)
    (tmp_path / "mini-trajectory.json").write_bytes((OUTPUTS / name).read_bytes())
    claim = mini.finish(exit_code)
    assert (claim.outcome, claim.reason, claim.cost, claim.model) == (outcome, reason, None, "openai/mock-model")


# Claude Code


def test_a_read_only_run_is_not_failed_by_what_it_was_kept_from():
    claude = reader("claude")
    claude.feed(lines({"type": "system", "subtype": "init", "permissionMode": "plan"}))
    claude.feed((OUTPUTS / "claude-plan.jsonl").read_bytes())
    claim = claude.finish(0)
    assert (claim.outcome, claim.denials) == ("done", 0)


def test_a_denied_command_is_told_and_a_denied_change_counts():
    result = json.loads((OUTPUTS / "claude-denied.jsonl").read_bytes())
    denied = [{"tool_name": "Bash", "tool_input": {"command": "make"}}]
    told = reader("claude")
    told.feed(lines({**result, "permission_denials": denied}))
    claim = told.finish(0)
    assert (claim.outcome, claim.detail, claim.denials) == ("done", "permission denied: running make", 1)
    both = reader("claude")
    both.feed(lines({**result, "permission_denials": [*denied, *result["permission_denials"]]}))
    claim = both.finish(0)
    assert (claim.outcome, claim.reason, claim.denials) == ("partial", "permission", 2)
    assert claim.detail == "permission denied: editing hello.txt"


def test_claude_counts_messages_and_their_tokens_as_they_come():
    def answer(identity, parent=None, **usage):
        message = {"id": identity, "content": [{"type": "thinking"}], "usage": usage}
        return {"type": "assistant", "message": message, "parent_tool_use_id": parent}

    claude = reader("claude")
    claude.feed(lines(answer("a", input_tokens=10, output_tokens=1), answer("a", input_tokens=10, output_tokens=5)))
    claude.feed(lines(answer("b", input_tokens=20, output_tokens=2), answer("c", "toolu_1", input_tokens=7)))
    assert (claude.progress.step, claude.progress.tokens) == (2, {"input": 30, "output": 7})
    assert claude.progress.action == "thinking"


def test_the_last_of_several_results_counts():
    claude = reader("claude")
    claude.feed((OUTPUTS / "claude-error500.jsonl").read_bytes() + (OUTPUTS / "claude-ok.jsonl").read_bytes())
    assert claude.finish(0).outcome == "done"


# Codex, opencode, gemini


def test_codex_counts_finished_commands_without_reading_what_they_printed():
    item = {"id": "item_9", "type": "command_execution", "command": "x", "aggregated_output": "y" * 99, "exit_code": 1}
    codex = reader("codex")
    codex.feed(lines(*[{"type": "item.completed", "item": {**item, "status": "failed"}}] * 3))
    assert (codex.progress.step, codex.progress.denials) == (3, 0)
    codex.feed(lines({"type": "item.completed", "item": {**item, "status": "declined"}}))
    assert (codex.progress.step, codex.progress.denials) == (4, 1)


def test_codex_tokens_from_the_cache_are_counted_once():
    usage = {"input_tokens": 1000, "cached_input_tokens": 900, "output_tokens": 5, "reasoning_output_tokens": 2}
    codex = reader("codex")
    codex.feed(lines({"type": "turn.completed", "usage": usage}))
    assert codex.finish(0).tokens == {"input": 100, "output": 5, "cache_read": 900, "reasoning": 2}


def test_codex_names_the_files_it_changes():
    changes = [{"path": "/src/repo/wt/a.py", "kind": "update"}, {"path": "/src/repo/wt/b.py", "kind": "add"}]
    codex = reader("codex")
    codex.feed(lines({"type": "item.started", "item": {"id": "i", "type": "file_change", "changes": changes}}))
    assert codex.progress.action == "editing a.py, b.py"


def test_opencode_that_was_refused_a_change_is_not_done():
    state = {"status": "error", "input": {"filePath": "/src/repo/wt/a"}, "error": "The user rejected permission to use"}
    opencode = reader("opencode")
    opencode.feed(lines({"type": "tool_use", "sessionID": "s", "part": {"tool": "edit", "state": state}}))
    stopped = opencode.finish(0)
    assert (stopped.outcome, stopped.reason, stopped.detail) == (
        "failed",
        "permission",
        "exited with 0 and printed no result: permission denied: editing a",
    )
    opencode.feed(lines({"type": "step_finish", "part": {"reason": "stop"}}))
    claim = opencode.finish(0)
    assert (claim.outcome, claim.reason, claim.denials) == ("partial", "permission", 1)


def test_an_error_of_opencode_is_not_forgotten_by_a_later_step():
    opencode = reader("opencode")
    opencode.feed(lines({"type": "error", "error": {"name": "APIError", "data": {"statusCode": 529, "message": "m"}}}))
    opencode.feed(lines({"type": "step_finish", "part": {"reason": "stop"}}))
    assert opencode.finish(0).reason == "api_error"


def test_gemini_puts_the_pieces_of_an_answer_together():
    def piece(text):
        return {"type": "message", "role": "assistant", "content": text, "delta": True}

    gemini = reader("gemini")
    gemini.feed(lines(piece("old"), {"type": "tool_use", "tool_name": "run_shell_command", "parameters": {}}))
    assert gemini.progress.action == "running"
    gemini.feed(lines(piece("first line\nsec"), piece("ond"), {"type": "result", "status": "success"}))
    assert gemini.progress.action == "second"
    assert gemini.finish(0).text == "first line\nsecond"


def test_gemini_and_qwen_say_with_53_that_their_turns_are_used_up():
    for program in ("gemini", "qwen"):
        claim = reader(program).finish(53)
        assert (claim.outcome, claim.reason) == ("partial", "max_steps")


# aider


def aider(tmp_path: Path, **known) -> Reader:
    return reader("aider", tmp_path, **known)


def test_aider_is_read_from_its_analytics(tmp_path):
    found = aider(tmp_path)
    found.feed((OUTPUTS / "aider-ok.txt").read_bytes())
    assert (found.progress.step, found.progress.action) == (None, "Applied edit to hello.txt")
    shutil.copy(OUTPUTS / "aider-analytics.jsonl", tmp_path)
    assert (found.progress.step, found.progress.cost, found.progress.tokens) == (
        1,
        0.003,
        {"input": 1000, "output": 50},
    )
    claim = found.finish(0)
    assert (claim.outcome, claim.steps, claim.cost, claim.model) == ("done", 1, 0.003, "openai/REDACTED")
    assert claim.text is not None
    assert claim.text.endswith("Applied edit to hello.txt")
    assert aider(tmp_path, fresh=False).finish(0).steps == 1


def test_an_earlier_attempt_of_aider_is_not_counted_again(tmp_path):
    log = tmp_path / "aider-analytics.jsonl"
    shutil.copy(OUTPUTS / "aider-analytics.jsonl", tmp_path)
    found = aider(tmp_path)
    assert (found.progress.cost, found.finish(0).reason) == (None, "no_result")
    log.write_bytes(log.read_bytes() * 2)
    again = aider(tmp_path, fresh=False)
    assert (again.progress.cost, again.progress.step) == (0.003, 1)
    assert (found.progress.cost, found.progress.step) == (0.003, 1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (b"litellm.AuthenticationError: no such key\n", "auth"),
        (b"litellm.RateLimitError: slow down\n", "rate_limit"),
        (b"litellm.InternalServerError: 500\nRetrying in 0.2 seconds...\n", "api_error"),
        (b"", "api_error"),
    ],
)
def test_a_request_of_aider_without_an_answer_is_a_failure_although_it_exits_with_0(tmp_path, words, reason):
    whole = (OUTPUTS / "aider-analytics.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "aider-analytics.jsonl").write_bytes(b"".join(line for line in whole if b'"message_send"' not in line))
    found = aider(tmp_path, fresh=False)
    found.feed(b"Aider v0.86.2\n" + words)
    claim = found.finish(0)
    assert (claim.outcome, claim.reason) == ("failed", reason)


# pi and mini-swe-agent, after their documents


def test_pi_adds_up_its_answers():
    def answer(stop, **more):
        usage = {"input": 10, "output": 5, "cacheRead": 1, "cacheWrite": 0, "cost": {"total": 0.25}}
        content = [{"type": "text", "text": f"said {stop}"}]
        message = {"role": "assistant", "model": "m", "content": content, "usage": usage, "stopReason": stop, **more}
        return {"type": "message_end", "message": message}

    pi = reader("pi")
    pi.feed(lines({"type": "session", "id": "s-1"}, answer("toolUse")))
    pi.feed(lines({"type": "tool_execution_start", "toolName": "bash", "args": {"command": "make test"}}))
    assert pi.progress.action == "running make test"
    assert pi.finish(0).reason == "no_result"
    pi.feed(lines(answer("stop")))
    claim = pi.finish(0)
    assert (claim.outcome, claim.steps, claim.cost, claim.text, claim.session) == ("done", 2, 0.5, "said stop", "s-1")
    assert claim.tokens == {"input": 20, "output": 10, "cache_read": 2, "cache_write": 0}
    pi.feed(lines(answer("error", errorMessage="401 no such key")))
    assert (pi.finish(0).outcome, pi.finish(0).reason) == ("failed", "auth")


@pytest.mark.parametrize(
    ("status", "outcome", "reason"),
    [
        ("Submitted", "done", "done"),
        ("LimitsExceeded", "partial", "budget"),
        ("AuthenticationError", "failed", "auth"),
        ("RateLimitError", "failed", "rate_limit"),
    ],
)
def test_mini_is_done_only_when_it_submitted(tmp_path, status, outcome, reason):
    found = reader("mini-swe-agent", tmp_path)
    found.feed(b"step 1\n")
    info = {"exit_status": status, "model_stats": {"instance_cost": 0.5, "api_calls": 3}}
    (tmp_path / "mini-trajectory.json").write_text(json.dumps({"info": info, "messages": []}))
    claim = found.finish(0)
    assert (claim.outcome, claim.reason, claim.steps, claim.cost) == (outcome, reason, 3, 0.5)
    assert reader("mini-swe-agent", tmp_path).finish(0).reason == "no_result", "a file of an earlier attempt"


# All streams


@pytest.mark.parametrize("name", [end[0] for end in ENDS])
def test_a_stream_may_be_cut_anywhere(name):
    data = (OUTPUTS / name).read_bytes()
    whole = read(name, 1)
    chance = random.Random(name)
    for _ in range(20):
        cuts = sorted(chance.randrange(len(data)) for _ in range(8))
        found = reader("opencode" if name.startswith("omo") else name.partition("-")[0])
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            found.feed(data[start:end])
        assert found.finish(1) == whole


@pytest.mark.parametrize("name", [end[0] for end in ENDS if end[3] == "done"])
def test_noise_between_the_lines_changes_nothing(name):
    noise = b'\xff\xfe not UTF-8\n{"half": \n{"type":"new_event","x":[1]}\n{}\n[]\n\n{"type":7,"item":[],"part":3}\n'
    found = reader("opencode" if name.startswith("omo") else name.partition("-")[0])
    for line in (OUTPUTS / name).read_bytes().splitlines(keepends=True):
        found.feed(noise + b"loading\r" + line.rstrip(b"\n") + b"\r\n")
    found.feed(noise)
    claim = found.finish(0)
    expected = read(name)
    assert (claim.outcome, claim.reason, claim.tokens, claim.session) == (
        expected.outcome,
        expected.reason,
        expected.tokens,
        expected.session,
    )


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WORDS = sorted(
    {
        word
        for path in OUTPUTS.glob("*.jsonl")
        for word in path.read_text().replace("{", '"').replace(",", '"').split('"')
        if word.isidentifier() and len(word) < 30
    }
)


@settings(max_examples=60, deadline=None)
@given(
    program=st.sampled_from(STREAMS),
    events=st.lists(
        st.dictionaries(
            st.sampled_from(["type", "subtype", "part", "item", "message", "error", "usage", "stats", "result"]),
            st.sampled_from(WORDS) | ANYTHING | st.dictionaries(st.sampled_from(WORDS), ANYTHING, max_size=4),
            max_size=6,
        ),
        max_size=6,
    ),
)
def test_no_event_upsets_a_reader(program, events):
    found = reader(program)
    for event in events:
        found.feed(json.dumps(event).encode() + b"\n")
        assert found.progress.retries >= 0
    assert found.finish(0).outcome in ("done", "failed", "partial", "unknown")


@pytest.mark.parametrize("program", STREAMS)
def test_much_output_costs_no_memory(program):
    found = reader(program)
    chatter = lines({"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "x" * 5000}]}})
    chatter += lines({"type": "message", "role": "assistant", "content": "y" * 5000, "delta": True})
    chatter += lines({"type": "user", "message": "z" * 20000}) + b"n" * 9000 + b"\n"
    tracemalloc.start()
    for _ in range(200):
        found.feed(chatter)
    found.feed(b'{"type":"user","x":"' + b"a" * LINE)
    for _ in range(20):
        found.feed(b"a" * (LINE // 4))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < LINE * 1.5
    assert peak < LINE * 4
    found.feed(b"\n")
    assert found.finish(1).outcome == "failed"


@pytest.mark.parametrize("program", STREAMS)
def test_lines_that_tell_nothing_are_hardly_looked_at(program):
    dull = {
        "claude": {"type": "stream_event", "event": {"delta": {"type": "text_delta", "text": "some words"}}},
        "codex": {"type": "item.updated", "item": {"id": "item_1", "type": "todo_list", "items": ["x" * 200]}},
        "opencode": {"type": "step_start", "sessionID": "ses_1", "part": {"type": "step-start", "snapshot": "0" * 40}},
        "gemini": {"type": "tool_result", "tool_id": "t", "status": "success", "output": "x" * 200},
        "qwen": {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x" * 200}]}},
        "pi": {"type": "message_update", "message": {"content": "x" * 200}},
    }
    data = lines(dull[program]) * 2000
    found = reader(program)
    start = time.process_time()
    for _ in range(20):
        found.feed(data)
    assert len(data) * 20 / (time.process_time() - start) > 100e6
    assert found.progress.action is None


# Small things


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("whatever", 401, "auth"),
        ("whatever", 403, "auth"),
        ("whatever", 429, "rate_limit"),
        ("whatever", 529, "api_error"),
        ("the prompt is too long", 400, "agent_error"),
        ("You exceeded your current quota", 402, "rate_limit"),
        ("unexpected status 503 Service Unavailable", None, "api_error"),
        ("Invalid API key", None, "auth"),
        ("Too Many Requests", None, "rate_limit"),
        ("version 1.401 of port 14290", None, "api_error"),
        ("", None, "api_error"),
    ],
)
def test_what_a_failed_request_means(text, status, reason):
    assert api_failure(text, status).reason == reason


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("Edit", {"file_path": "/w/src/a.py"}, "editing src/a.py"),
        ("write_file", {"file_path": "b\n.txt"}, "editing b"),
        ("Read", {"file_path": "/elsewhere/x"}, "reading /elsewhere/x"),
        ("Bash", {"command": "/bin/bash -lc 'make test'"}, "running make test"),
        ("Grep", {"pattern": "TODO"}, "searching TODO"),
        ("WebFetch", {"url": "https://example.com"}, "looking up https://example.com"),
        ("Task", {"prompt": "…"}, "using Task"),
        ("Edit", None, "editing files"),
        ("Bash", {"command": 7}, "running"),
        ("\x1b[31mevil", {}, "using evil"),
    ],
)
def test_an_action_is_said_in_a_few_words(tool, arguments, expected):
    assert describe(tool, arguments, "/w") == expected


def test_only_a_shells_own_quotes_are_taken_off():
    assert unwrapped("bash -lc 'a b'") == "a b"
    assert unwrapped("bash -lc 'a b' c") == "bash -lc 'a b' c"
    assert unwrapped("bash -lc 'open") == "bash -lc 'open"
    assert unwrapped("make test") == "make test"


@pytest.mark.parametrize("program", [*STREAMS, "aider", "copilot", "cline", "mini-swe-agent"])
def test_a_preset_survives_the_record(program):
    preset = load(program, {})
    assert from_data(json.loads(json.dumps(as_data(preset)))) == preset
