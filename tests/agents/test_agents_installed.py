"""``git parallel agents``: what is installed, in which version, and what it can do."""

from __future__ import annotations

import json
import os
import time

import pytest

from git_parallel.agents.installed import look, older, probe


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put programs on PATH that say something when they are asked for their version."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")

    def put(name: str, script: str) -> str:
        program = directory / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return str(program)

    return put


def listed(repo) -> dict[str, dict]:
    done = repo.parallel("agents", "--json")
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)["programs"]}


def test_what_is_installed_is_asked_for_its_version(repo, install):
    path = install("claude", '[ "$*" = --version ] && echo "2.1.332 (Claude Code)"')
    install("codex", "echo codex-cli 0.99.1")
    install("aider", "echo no number here")
    found = listed(repo)
    assert found["claude"] == {
        "name": "claude",
        "about": "Claude Code, driven with -p",
        "install": "npm install -g @anthropic-ai/claude-code@latest",
        "path": path,
        "version": "2.1.332",
        "minimum": "2.1.332",
        "outdated": False,
        "configured": False,
        "default": True,
        "supports": {"max_steps": True, "budget": True, "resume": True, "read_only": True},
        "cost": "reported",
        "sandbox": found["claude"]["sandbox"],
    }
    assert "IS_SANDBOX" in found["claude"]["sandbox"]
    assert found["aider"]["sandbox"] is None
    assert (found["codex"]["version"], found["codex"]["outdated"], found["codex"]["default"]) == ("0.99.1", True, False)
    assert (found["aider"]["version"], found["aider"]["outdated"]) == (None, False)
    assert found["gemini"]["path"] is None
    assert "command" not in found


def test_the_table_and_what_is_said_beside_it(repo, install):
    install("codex", "echo codex-cli 0.99.1")
    done = repo.parallel("agents", env={"COLUMNS": "120"})
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["program"] == [
        "version",
        "configured",
        "minimum",
        "steps",
        "budget",
        "resume",
        "read-only",
        "cost",
        "about",
    ]
    assert rows["codex"][:8] == ["0.99.1", "no", "0.171.0", "-", "-", "yes", "yes", "tokens"]
    assert rows["gemini"][:2] == ["not", "installed"]
    assert done.stderr.splitlines() == [
        "warning: codex 0.99.1 is older than 0.171.0, the oldest known to work",
        "hint: without --program, codex does the work (installed; none seems to be configured)",
    ]


def test_programs_of_the_project_are_listed_and_not_started(repo, install, tmp_path):
    install("claude", f'touch "{tmp_path}/started"; echo 9.9.9')
    mine = install("mine", f'touch "{tmp_path}/started"; echo 9.9.9')
    version = "version: {probe: [--version]}"
    repo.commit("config", {".git-parallel.yaml": f"agents:\n  claude: {{}}\n  mine: {{command: [mine], {version}}}\n"})
    found = listed(repo)
    assert (found["mine"]["path"], found["mine"]["version"], found["claude"]["version"]) == (mine, None, None)
    assert not (tmp_path / "started").exists()


def test_it_works_outside_a_repository(repo, install, tmp_path):
    done = repo.parallel("agents", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert not any(one["default"] for one in json.loads(done.stdout)["programs"])


def test_a_program_that_hangs_is_given_up_with_all_that_it_started(install):
    hanging = install("claude", "sleep 600 & sleep 600")
    start = time.monotonic()
    assert probe([hanging, "--version"], 0.3) is None
    assert time.monotonic() - start < 10


def test_what_a_version_may_look_like(install):
    assert probe([install("a", "echo v1.2")], 20) == "1.2"
    assert probe([install("b", "echo tool/3.4.5-beta >&2; exit 1")], 20) == "3.4.5"
    assert probe([install("c", "head -c 100000 /dev/zero; echo 1.2.3")], 20) is None
    assert probe(["/nonexistent/program"], 20) is None


def test_versions_are_compared_by_their_numbers():
    assert older("0.99.1", "0.171.0")
    assert not older("2.1.332", "2.1.332")
    assert not older("10.0", "9.9.9")
    assert older("1.2", "1.2.1")


def test_every_built_in_program_is_looked_for(install):
    assert {"claude", "codex", "opencode", "gemini", "aider", "architect", "qwen", "copilot", "pi"} <= {
        program.name for program in look({})
    }
