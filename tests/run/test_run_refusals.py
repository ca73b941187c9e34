"""Bad input gets one clear line, exit 2 or 128, and nothing is created."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def untouched(repo) -> bool:
    """No branch, worktree, record or exclude entry of a run exists."""
    refs = repo.git("for-each-ref", "--format=%(refname)", "refs/heads/architect", "refs/architect", "refs/notes")
    left = [name for name in os.listdir(repo.path) if name.startswith(".architect")]
    runs = repo.path / ".git/architect/runs"
    return not refs and not left and not (runs.exists() and os.listdir(runs))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--workers", "0", "x"], 2, "--workers"),
        (["--workers", "many", "x"], 2, "--workers"),
        (["--budget-per-worker", "0", "x"], 2, "--budget-per-worker"),
        (["--budget-per-worker", "-1", "x"], 2, "--budget-per-worker"),
        (["--budget", "nan", "x"], 2, "--budget"),
        (["--timeout-per-worker", "0", "x"], 2, "--timeout-per-worker"),
        (["--timeout-per-worker", "-5", "x"], 2, "--timeout-per-worker"),
        (["--max-steps", "0", "x"], 2, "--max-steps"),
        (["--halt", "sometimes", "x"], 2, "--halt"),
        (["--models", "a,,b", "x"], 2, "--models"),
        (["--no-such-option", "x"], 2, "no-such-option"),
        ([], 2, "no task"),
        ([""], 2, "empty"),
        (["  \n "], 2, "empty"),
        (["two", "words"], 2, "quote it"),
        (["--target", "nowhere", "x"], 2, "target 'nowhere'"),
        (["--base", "nonsense", "x"], 2, "base 'nonsense'"),
        (["--base", "HEAD^{tree}", "x"], 2, "not a commit"),
        (["--task-file", "/nonexistent", "x"], 2, "/nonexistent"),
        (["--program", "no-such-preset", "x"], 2, "no-such-preset"),
        (["--program", "./no/such/file {task}", "x"], 2, "no/such/file"),
        (["--agent", "claude", "x"], 2, "--program claude"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_wrong_options(repo, arguments, code, says):
    if "--program" not in arguments:
        arguments = ["--program", "shell", *arguments]
    done = repo.parallel("run", *arguments)
    assert done.returncode == code, done.stderr
    first = done.stderr.splitlines()[0]
    assert first.startswith(("error: ", "fatal: "))
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert untouched(repo)


def test_not_a_repository(tmp_path):
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", "x"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 128
    assert done.stderr.startswith("fatal: not a git repository")
    assert list(tmp_path.glob(".git*")) == []


def test_a_repository_without_commits(make_repo):
    repo = make_repo(commit=False)
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 128
    assert "no commits yet" in done.stderr
    assert untouched(repo)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parallel.branch", "bad..name-{n}"),
        ("parallel.branch", "no-number"),
        ("parallel.branch", "x-{n}.lock"),
        ("parallel.worktree", "no-number"),
        ("parallel.worktree", ".git/inside-{n}"),
        ("parallel.worker", "3"),
        ("parallel.workers", "lots"),
    ],
)
def test_wrong_configuration(repo, key, value):
    repo.git("config", key, value)
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 2, done.stderr
    assert untouched(repo)


def test_a_wrong_key_in_the_project_file_names_file_line_and_the_nearest_key(repo):
    repo.write(".git-parallel.yaml", "parallel_runs:\n  workers: 2\n  budget_per_wroker: 1\n")
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 2
    assert ".git-parallel.yaml:3" in done.stderr
    assert "budget_per_worker" in done.stderr
    assert untouched(repo)


def test_a_branch_named_architect_is_in_the_way(repo):
    repo.git("branch", "architect")
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 2
    assert "architect" in done.stderr
    assert "parallel.branch" in done.stderr


def test_a_plain_directory_in_the_way_only_makes_the_number_taken(repo):
    (repo.path / ".architect-parallel-1").mkdir()
    (repo.path / ".architect-parallel-2").write_text("mine\n")
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 0, done.stderr
    assert "architect/parallel-3" in done.stdout
    assert (repo.path / ".architect-parallel-2").read_text() == "mine\n"


def test_a_misspelt_command_is_no_task(repo):
    done = repo.parallel("reveiw")
    assert done.returncode == 2 or "run" in done.stderr
    done = repo.parallel("statsu")
    assert done.returncode == 2
    assert "did you mean 'git parallel status'" in done.stderr
    assert untouched(repo)


def test_dry_run_changes_nothing_and_says_who_does_what(repo):
    before = sorted(str(path) for path in Path(repo.path).rglob("*"))
    done = repo.parallel(
        "run", "-n", "--program", "shell", "fix it", "--models", "a,b", "--budget-per-worker", "1.5", "--check", "make"
    )
    assert done.returncode == 0, done.stderr
    assert "architect/parallel-1" in done.stdout
    assert "architect/parallel-2" in done.stdout
    assert "model b" in done.stdout
    assert "$1.50 each" in done.stdout
    assert repo.git("rev-parse", "HEAD")[:12] in done.stdout
    assert sorted(str(path) for path in Path(repo.path).rglob("*")) == before
