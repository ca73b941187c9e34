"""``agents test``: a program is tried end to end, what worked is said, and nothing stays."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

OUTPUTS = Path(__file__).parent / "outputs"
WRITES = "cat > /dev/null; echo hello > hello.txt"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Make a program that does something and prints a recorded output."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def make(name: str, output: str | None, does: str = WRITES, exit_code: int = 0) -> None:
        program = directory / name
        says = "" if output is None else f"cat {shlex.quote(str(OUTPUTS / output))}"
        version = '[ "$*" = --version ] && echo 99.1 && exit'
        program.write_text(f"#!/bin/sh\n{version}\n{does}\n{says}\nexit {exit_code}\n")
        program.chmod(0o755)

    return make


def tried(repo, *words: str, **options) -> tuple[dict, dict[str, bool | None]]:
    done = repo.parallel("agents", "test", "--json", *words, **options)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["ok"] else 1)
    assert os.listdir(os.environ["TMPDIR"]) == []
    return document, {one["what"]: one["ok"] for one in document["findings"]}


def test_a_program_that_works_is_told_thing_by_thing(repo, stand_in, tmp_path):
    stand_in("claude", "claude-stream-ok.jsonl")
    document, found = tried(repo, "claude", cwd=tmp_path)  # there is no repository
    assert document["ok"]
    assert set(found.values()) == {True}
    assert len(found) == 12
    told = {one["what"]: one["detail"] for one in document["findings"]}
    assert told["found"] == f"{tmp_path}/bin/claude 99.1"
    assert (told["steps"], told["cost"], told["commit made"]) == ("2", "$0.0100", "by git parallel")
    assert repo.git("for-each-ref", "refs/architect", "refs/heads/architect") == ""
    table = repo.parallel("agents", "test", "claude").stdout.splitlines()
    assert table[-1] == "claude: works"
    assert next(line for line in table if line.startswith("file changed")).split() == [
        "file",
        "changed",
        "ok",
        "hello.txt",
    ]


@pytest.mark.parametrize(
    ("output", "does", "code", "failed"),
    [
        ("claude-stream-ok.jsonl", "cat > /dev/null", 0, {"file changed", "commit made", "ended well"}),
        ("claude-stream-ok.jsonl", f"{WRITES}; touch other", 0, {"nothing else changed"}),
        (None, WRITES, 0, {"output read", "steps", "cost", "ended well"}),
        ("claude-error401.jsonl", "cat > /dev/null", 1, {"file changed", "commit made", "ended well"}),
        ("claude-stream-ok.jsonl", WRITES, 3, {"ended well"}),
    ],
)
def test_what_did_not_work_is_named(repo, stand_in, output, does, code, failed):  # noqa: PLR0917
    stand_in("claude", output, does, code)
    document, found = tried(repo, "claude")
    assert {what for what, ok in found.items() if ok is False} == failed
    assert not document["ok"]


def test_what_a_program_is_not_known_to_tell_is_no_fault(repo, stand_in):
    stand_in("codex", "codex-ok.jsonl")
    document, found = tried(repo, "codex", "--model", "m")
    assert (document["ok"], found["cost"], found["tokens"]) == (True, None, True)
    assert document["result"]["model"] == "m"
    document, found = tried(repo, "shell")
    assert (document["ok"], found["session"], found["steps"]) == (True, None, None)


def test_a_model_without_a_price_is_no_fault(repo, stand_in):
    stand_in("cline", "cline-ok.jsonl", "echo hello > hello.txt")
    document, found = tried(repo, "cline")
    assert (document["ok"], found["cost"], found["tokens"]) == (True, None, True)


def test_a_commit_of_the_programs_own_is_told_as_such(repo, stand_in):
    stand_in("claude", "claude-stream-ok.jsonl", f"{WRITES}; git add -A; git commit -qm mine")
    document, _ = tried(repo, "claude")
    assert next(one for one in document["findings"] if one["what"] == "commit made")["detail"] == "by claude"


def test_settings_of_the_person_do_not_get_in_the_way(repo, stand_in):
    stand_in("claude", "claude-stream-ok.jsonl")
    for key, value in {
        "parallel.check": "false",
        "parallel.notify": "touch notified",
        "parallel.branch": "odd/{n}",
        "commit.gpgSign": "true",
        "gpg.program": "false",
    }.items():
        repo.git("config", "--global", key, value)
    document, _ = tried(repo, "claude")
    assert document["ok"]


def test_a_program_of_the_project_is_tried_once_it_was_approved(repo, tmp_path):
    command = ["sh", "-c", "cat > /dev/null; echo hello > hello.txt"]
    repo.commit("config", {".git-parallel.yaml": json.dumps({"agents": {"mine": {"command": command}}})})
    done = repo.parallel("agents", "test", "mine")
    assert done.returncode == 2
    assert "agents: mine:" in done.stderr
    assert "--trust" in done.stderr
    document, _ = tried(repo, "mine", "--trust")
    assert document["ok"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tset", "claude"], "unknown word 'tset'"),
        (["test"], "test takes one program"),
        (["test", "cluade"], "unknown program 'cluade'"),
        (["test", "claude"], "program 'claude' not found on PATH"),
    ],
)
def test_what_cannot_be_tried_is_refused(repo, stand_in, words, message):
    done = repo.parallel("agents", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_an_interrupted_trial_leaves_nothing(repo, stand_in, tmp_path):
    stand_in("claude", None, f"touch {tmp_path}/up; sleep 60")
    with subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "agents", "test", "claude"], cwd=repo.path, stdout=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 30
        while not (tmp_path / "up").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert os.listdir(os.environ["TMPDIR"]) == []


def test_a_trial_has_a_time_limit(repo, stand_in):
    stand_in("claude", None, "sleep 60")
    document, found = tried(repo, "claude", "--timeout", "0.5")
    assert (found["started"], found["ended well"], document["result"]["status"]) == (True, False, "timeout")
