"""`git parallel merge` at a real terminal: what it shows, and what each key does."""

from __future__ import annotations

import re
import signal

import pytest
from at_terminal import parallel
from landings import landable, tree_on_disk

QUESTION = "land it on main"


def merging(repo, *arguments: str, env: dict[str, str] | None = None):
    """``git parallel merge`` at a terminal."""
    return parallel("merge", *arguments, cwd=repo.path, env={"NO_COLOR": "1", **(env or {})})


@pytest.fixture
def run(repo):
    return landable(repo, {"one": "1\n"}, {"two": "2\n"}, {"three": "3\n"}, cost=0.5, model="opus")


def test_each_branch_is_shown_and_lands_when_the_person_says_so(repo, run):
    with merging(repo, "--check", "true") as terminal:
        shown = terminal.answer(QUESTION, "y")
        assert "worker 1 (1 of 3): Do t1" in shown
        assert "claude, opus · success · approved by C O Mitter <committer@example.com>" in shown
        assert "merge: Merge worker 1: Do t1" in shown
        assert re.search(r"one \| +1 \+", shown)
        assert "check: true: green" in shown
        shown = terminal.answer(QUESTION, "n")
        assert "landed    worker 1" in shown
        assert "worker 2 (2 of 3): Do t2" in shown
        terminal.answer(QUESTION, "y")
        assert terminal.end() == 0
        assert "2 landed on main, 1 skipped" in terminal.everything
        assert set(tree_on_disk(repo.path)) == {"README", "src/a.txt", "one", "three"}


def test_quitting_keeps_what_has_landed(repo, run):
    with merging(repo) as terminal:
        terminal.answer(QUESTION, "y")
        terminal.answer(QUESTION, "q")
        assert terminal.end() == 0
        assert "skipped   worker 2: left for later" in terminal.everything
        assert set(tree_on_disk(repo.path)) == {"README", "src/a.txt", "one"}
    with merging(repo) as again:
        shown = again.answer(QUESTION, "y")
        assert "skipped   worker 1: already contained in the target" in shown
        again.answer(QUESTION, "y")
        assert again.end() == 0


def test_the_end_of_the_input_quits(repo, run):
    with merging(repo) as terminal:
        terminal.wait(QUESTION)
        terminal.type("\x04")
        assert terminal.end() == 0
        assert repo.git("rev-parse", "main") == run.base


def test_ctrl_c_ends_it_and_what_has_landed_stays(repo, run):
    with merging(repo) as terminal:
        terminal.answer(QUESTION, "y")
        terminal.wait(QUESTION)
        terminal.signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "\nskipped   worker 2: interrupted\n" in terminal.everything
        assert set(tree_on_disk(repo.path)) == {"README", "src/a.txt", "one"}
        assert repo.git("status", "--porcelain") == ""


def test_the_message_can_be_edited_first(repo, run):
    editor = repo.write(".git/editor", '#!/bin/sh\nprintf "my own subject\\n\\nmy own words\\n" > "$1"\n')
    editor.chmod(0o755)
    with merging(repo, "1", env={"GIT_EDITOR": str(editor)}) as terminal:
        terminal.answer(QUESTION, "e")
        shown = terminal.answer(QUESTION, "y")
        assert "merge: my own subject" in shown
        assert terminal.end() == 0
        message = repo.git("log", "-1", "--format=%B", "main")
        assert message.startswith("my own subject\n\nmy own words\n\nParallel-Run: ")
        assert "Reviewed-by: C O Mitter" in message


def test_an_empty_message_or_a_failing_editor_changes_nothing(repo, run):
    with merging(repo, "1", env={"GIT_EDITOR": "false"}) as terminal:
        terminal.answer(QUESTION, "e")
        terminal.wait("the message is as it was")
        terminal.answer(QUESTION, "y")
        assert terminal.end() == 0
        assert repo.git("log", "-1", "--format=%s", "main") == "Merge worker 1: Do t1"


def test_help_and_the_whole_change_are_a_key_away(repo, run):
    with merging(repo, "1") as terminal:
        terminal.answer(QUESTION, "?")
        assert "leave it for later" in terminal.wait("print this help")
        terminal.answer(QUESTION, "d")
        shown = terminal.answer(QUESTION, "s")
        assert "+++ b/one" in shown
        assert terminal.end() == 0


def test_a_batch_is_asked_about_once(repo, run):
    with merging(repo, "--batch") as terminal:
        terminal.answer("land these 3 branches on main", "y")
        assert terminal.end() == 0
        assert set(tree_on_disk(repo.path)) >= {"one", "two", "three"}


def test_a_red_check_is_not_asked_about(repo, run):
    with merging(repo, "--check", "! test -f two") as terminal:
        terminal.answer(QUESTION, "y")
        shown = terminal.answer(QUESTION, "y")
        assert "red       worker 2: ! test -f two: exit code 1" in shown
        assert "worker 3 (3 of 3)" in shown
        assert terminal.end() == 4


def test_commands_of_the_repository_are_shown_and_asked_about(repo):
    repo.commit("project", {".git-parallel.yaml": "parallel_runs:\n  check: ['true']\n"})
    landable(repo, {"one": "1\n"})
    with merging(repo) as terminal:
        terminal.wait(r"run them\? \[y/N\]:")
        terminal.type("n\r")
        assert terminal.end() == 2
    with merging(repo) as terminal:
        terminal.wait(r"run them\? \[y/N\]:")
        terminal.type("y\r")
        terminal.answer(QUESTION, "y")
        assert terminal.end() == 0
