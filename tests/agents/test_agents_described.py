"""Programs without a reader of their own: what their events mean stands in a configuration file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from git_parallel.agents.preset import as_data, from_data, load
from git_parallel.agents.readers import reader_for
from git_parallel.errors import UsageError

OUTPUTS = Path(__file__).parent / "outputs"

# Claude Code and opencode, as a person could describe them who does not have our readers.
CLAUDE = [
    {"session": "session_id"},
    {"when": {"type": "system", "subtype": "init"}, "model": "model"},
    {"when": {"type": "assistant", "message.content.0.type": "text"}, "text": "message.content.0.text"},
    {
        "when": {"type": "result"},
        "steps": "num_turns",
        "cost": "total_cost_usd",
        "tokens": {"input": "usage.input_tokens", "output": "usage.output_tokens"},
        "text": "result",
        "success": {"is_error": False, "terminal_reason": "completed"},
        "error": "result",
        "status": "api_error_status",
    },
]
OPENCODE = [
    {"session": "sessionID"},
    {"when": {"type": "tool_use"}, "tool": "part.tool", "arguments": "part.state.input"},
    {"when": {"type": "text"}, "text": "part.text"},
    {
        "when": {"type": "step_finish"},
        "step": True,
        "add": True,
        "cost": "part.cost",
        "tokens": {"input": "part.tokens.input", "output": "part.tokens.output"},
    },
    {"when": {"type": "step_finish", "part.reason": "stop"}, "success": {}},
    {"when": {"type": "error"}, "fatal": {}, "error": "error.data.message", "status": "error.data.statusCode"},
]


def described(events):
    return load("mine", {"mine": {"command": ["mine"], "output": "events", "events": events}})


def read(preset, *events, exit_code=0):
    reader = reader_for(preset)
    reader.feed(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    return reader, reader.finish(exit_code)


@pytest.mark.parametrize(
    ("program", "events", "name", "exit_code"),
    [
        ("claude", CLAUDE, "claude-ok.jsonl", 0),
        ("claude", CLAUDE, "claude-error401.jsonl", 1),
        ("claude", CLAUDE, "claude-error500.jsonl", 1),
        ("claude", CLAUDE, "claude-stream-429.jsonl", 1),
        ("opencode", OPENCODE, "opencode-ok.jsonl", 0),
        ("opencode", OPENCODE, "opencode-error401.jsonl", 1),
    ],
)
def test_a_description_reads_what_our_own_reader_reads(program, events, name, exit_code):
    claims = []
    for preset in (load(program, {}), from_data(as_data(described(events)))):
        reader = reader_for(preset)
        reader.feed(b"noise \xff\n" + (OUTPUTS / name).read_bytes() + b"more of it")
        claims.append(reader.finish(exit_code))
    ours, theirs = claims
    assert (theirs.outcome, theirs.reason, theirs.detail) == (ours.outcome, ours.reason, ours.detail)
    assert (theirs.steps, theirs.cost, theirs.session) == (ours.steps, ours.cost, ours.session)
    assert theirs.text == ours.text
    counted = [{name: count for name, count in (one.tokens or {}).items() if count} for one in claims]
    assert counted[0] == counted[1]


def test_the_last_word_counts_and_an_error_before_it_may_pass():
    preset = described(
        [
            {"when": {"t": "retry"}, "error": "why"},
            {"when": {"t": "end"}, "success": {"ok": True}, "error": "why"},
            {"when": {"t": "no"}, "tool": "tool", "arguments": "with", "denied": True},
            {"when": {"t": "ask"}, "asks": "question"},
        ]
    )
    reader, claim = read(preset, {"t": "retry", "why": "429 slow down"}, {"t": "end", "ok": True})
    assert (claim.outcome, claim.reason, reader.progress.retries) == ("done", "done", 1)
    _, claim = read(preset, {"t": "end", "ok": True}, {"t": "end", "ok": 1, "why": "no room"})
    assert (claim.outcome, claim.reason, claim.detail) == ("failed", "api_error", "no room")
    _, claim = read(preset, {"t": "retry", "why": "401 who are you"})
    assert (claim.outcome, claim.reason) == ("failed", "auth")
    _, claim = read(preset, {"t": "no", "tool": "edit", "with": {"path": "a"}}, {"t": "end", "ok": True})
    assert (claim.outcome, claim.reason, claim.denials) == ("partial", "permission", 1)
    reader, _ = read(preset, {"t": "ask", "question": "may I?"})
    assert reader.progress.waiting == "may I?"
    _, claim = read(preset, {"t": "end", "ok": True}, exit_code=3)
    assert (claim.outcome, claim.detail) == ("partial", "says success, but exited with 3")


@pytest.mark.parametrize("value", [None, 3, True, "x", [], {}, [[]], {"a": {"b": []}}])
def test_nothing_that_stands_at_a_path_upsets_it(value):
    names = ("session", "model", "text", "steps", "cost", "tool", "arguments", "asks", "error", "status")
    paths = dict.fromkeys(names, "a.b.0")
    preset = described([{**paths, "tokens": {"input": "a"}, "success": {"a.c": 1}, "fatal": {"a": "x"}}])
    for event in ({"a": value}, {"a": {"b": value}}, {"a": {"b": [value]}}):
        _, claim = read(preset, event)
        assert claim.outcome == "failed"


def test_a_program_of_ones_own_is_a_few_lines_of_a_file(repo, tmp_path, monkeypatch):
    program = tmp_path / "bin/mine"
    program.parent.mkdir()
    end = {"kind": "end", "state": "ok", "usd": 0.25, "turns": 3, "id": "s1"}
    program.write_text(f"#!/bin/sh\ncat > task\necho '{json.dumps(end)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    config = tmp_path / "home/.config/git-parallel/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "agents:\n  mine:\n    command: [mine]\n    money: reported\n    output: events\n    events:\n"
        "      - when: {kind: end}\n        success: {state: ok}\n        cost: usd\n        steps: turns\n"
        "        session: id\n"
    )
    done = repo.parallel("run", "--json", "--program", "mine", "do it")
    (worker,) = json.loads(done.stdout)["workers"]
    assert (worker["status"], worker["steps"], worker["cost"], worker["session"]) == ("success", 3, 0.25, "s1")

    config.write_text(config.read_text().replace("steps: turns", "stpes: turns"))
    refused = repo.parallel("run", "--program", "mine", "do it")
    assert "~/.config/git-parallel/config.yaml:10: agents.mine.events.0.stpes: unknown key 'stpes'" in refused.stderr
    assert "did you mean 'steps'?" in refused.stderr


def test_events_have_to_be_described():
    with pytest.raises(UsageError, match="no 'events' list says what the events mean"):
        described([])
