"""``git parallel __complete``: the words that only the repository knows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


def words(repo, kind: str, **where: Path) -> list[list[str]]:
    """The words of one kind, each with its description where it has one. Nothing may be said besides."""
    done = repo.parallel("__complete", kind, **where)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.fixture
def run(repo) -> str:
    """A run of two workers that has ended, and its id."""
    done = repo.parallel(
        "-q", "--program", "shell", "--models", "m1,m2", "--task", "echo a > a", "--task", "echo b > b"
    )
    assert done.returncode == 0, done.stderr
    (listed,) = repo.parallel("list", "--porcelain").stdout.splitlines()
    return listed.split("\t")[0]


def test_workers_are_those_whose_branch_exists(repo, run):
    assert words(repo, "workers") == [["1", "m1: echo a > a"], ["2", "m2: echo b > b"]]
    repo.git("worktree", "remove", "--force", "--force", ".architect-parallel-1")
    repo.git("branch", "-D", "architect/parallel-1")
    assert words(repo, "workers") == [["2", "m2: echo b > b"]]
    repo.parallel("-q", "--program", "shell", "echo new > new")  # gets the number again
    assert words(repo, "workers") == [["1", "echo new > new"], ["2", "m2: echo b > b"]]


def test_runs_come_from_the_live_files_and_from_the_record(repo, run):
    assert words(repo, "runs") == [["last", "the newest run"], [run, "echo a > a and 1 more"]]
    shutil.rmtree(repo.path / ".git/architect/runs")
    assert [word for word, _ in words(repo, "runs")] == ["last", run]


def test_handles_are_workers_and_runs(repo, run):
    assert [word for word, _ in words(repo, "handles")] == ["1", "2", "last", run]


def test_models_are_those_of_the_configuration_and_of_earlier_runs(repo, run):
    repo.git("config", "parallel.models", "new,m2")
    assert words(repo, "models") == [
        ["new", "configured"],
        ["m2", "configured"],
        ["m1", "used before"],
    ]


def test_programs_are_the_presets_and_those_of_the_project(repo):
    repo.write(".git-parallel.yaml", "agents:\n  mine:\n    command: [mine]\n    about: our own\n")
    found = dict((word, *about) if about else (word, "") for word, *about in words(repo, "programs"))
    assert found["mine"] == "our own"
    assert "sh -c" in found["shell"]


def test_remotes(repo):
    repo.git("remote", "add", "upstream", "/nowhere")
    assert words(repo, "remotes") == [["upstream"]]


def test_branches_and_commits(repo):
    repo.git("branch", "topic")
    repo.git("tag", "v1")
    assert words(repo, "branches") == [["main"], ["topic"]]
    assert words(repo, "commits") == [["HEAD"], ["main"], ["topic"], ["v1"]]


def test_settings(repo):
    assert ["workers", "how many workers run at once"] in words(repo, "settings")


def test_what_can_be_restored(repo, run):
    assert words(repo, "removed") == []
    assert repo.parallel("cleanup", f"{run}/2").returncode == 0
    assert words(repo, "removed") == [[f"{run}/2", "architect/parallel-2"]]


def test_words_of_another_repository(repo, make_repo):
    other = make_repo("other")
    other.git("branch", "elsewhere")
    assert ["elsewhere"] in words(repo, "branches", cwd=other.path)


@pytest.mark.parametrize("kind", ["workers", "runs", "models", "programs", "branches", "removed", "nonsense"])
def test_nothing_is_said_where_there_is_no_repository(repo, tmp_path, kind):
    assert words(repo, kind, cwd=tmp_path) == []


def test_nothing_is_said_when_the_configuration_is_wrong(repo):
    repo.git("config", "parallel.workers", "none at all")
    assert words(repo, "models") == []


def test_a_title_cannot_move_the_cursor(repo):
    repo.parallel("-q", "--program", "shell", "echo x > x #\x1b[2J\tand\x07 more")
    (word,) = words(repo, "workers")
    assert word[0] == "1"
    assert word[1].isprintable()


def test_it_is_not_shown_to_people(repo):
    assert "__complete" not in repo.parallel("-h").stdout
