"""Somebody works on while cleanup does: the racing write is put exactly between two of its steps."""

from __future__ import annotations

import os

import pytest
from ended_runs import ended_run, kept_commits, kept_contents, ref

from git_parallel.git import Repository
from git_parallel.integrate import capture, cleanup
from git_parallel.integrate.cleanup import Options
from git_parallel.store import record


@pytest.fixture
def worker(repo):
    """A worker that has committed one file."""
    return ended_run(repo)[0]


def clean(worker) -> cleanup.Outcome:
    (outcome,) = cleanup.clean(Repository.discover(str(worker.repo.path)), None, Options())
    return outcome


def once_after(monkeypatch: pytest.MonkeyPatch, module: object, name: str, act) -> list[str]:
    """Do ``act`` after the first call of a function; return a list that then is not empty."""
    function, done = getattr(module, name), []

    def called(*arguments, **options):
        result = function(*arguments, **options)
        if not done:
            done.append(name)
            act()
        return result

    monkeypatch.setattr(module, name, called)
    return done


def once_before(monkeypatch: pytest.MonkeyPatch, module: object, name: str, act) -> list[str]:
    """Do ``act`` before the first call of a function; return a list that then is not empty."""
    function, done = getattr(module, name), []

    def called(*arguments, **options):
        if not done:
            done.append(name)
            act()
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, called)
    return done


def test_a_commit_on_the_branch_after_the_look_is_kept(worker, monkeypatch) -> None:
    raced = once_after(monkeypatch, capture, "capture", lambda: worker.commit("late", "late.txt", "late\n"))
    outcome = clean(worker)
    assert raced
    assert (outcome.action, outcome.obstacle) == ("removed", None)
    assert b"late\n" in kept_contents(worker.repo)
    assert outcome.captured.head == ref(worker.repo, worker.kept) != worker.head


def test_a_commit_on_a_detached_head_after_the_look_is_kept(worker, monkeypatch) -> None:
    worker.git("checkout", "-q", "--detach")
    late: list[str] = []
    raced = once_after(
        monkeypatch, capture, "capture", lambda: late.append(worker.commit("late", "late.txt", "late\n"))
    )
    assert clean(worker).action == "removed"
    assert raced
    assert set(late) <= kept_commits(worker.repo)


def test_a_rebase_that_starts_after_the_look_stops_it(worker, monkeypatch) -> None:
    raced = once_after(monkeypatch, capture, "capture", lambda: worker.git("bisect", "start"))
    outcome = clean(worker)
    assert raced
    assert (outcome.action, outcome.obstacle.reason) == ("refused", "operation")
    assert worker.path.exists()


def test_a_commit_that_comes_every_time_is_given_up_on(worker, monkeypatch) -> None:
    function = capture.capture

    def called(*arguments, **options):
        result = function(*arguments, **options)
        worker.commit("late", f"late{os.urandom(4).hex()}.txt", "late\n")
        return result

    monkeypatch.setattr(capture, "capture", called)
    outcome = clean(worker)
    assert (outcome.action, outcome.obstacle.reason) == ("refused", "moved")
    assert worker.git("status", "--porcelain") == ""


def test_a_branch_that_moves_at_the_very_end_stays(repo, monkeypatch) -> None:
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    later = repo.git("commit-tree", "-m", "later", "-p", one.head, f"{one.head}^{{tree}}")
    move = lambda: repo.git("update-ref", f"refs/heads/{one.branch}", later)  # noqa: E731
    raced = once_before(monkeypatch, record, "write_many", move)
    outcomes = cleanup.clean(Repository.discover(str(repo.path)), None, Options())
    assert raced
    assert [(one.action, one.branch_removed) for one in outcomes] == [("removed", False), ("removed", True)]
    assert [one.refused for one in outcomes] == [True, False]
    assert (ref(repo, one.branch), ref(repo, two.branch)) == (later, None)
    (outcome,) = cleanup.clean(Repository.discover(str(repo.path)), None, Options())
    assert outcome.branch_removed
    assert ref(repo, one.kept) == later


def test_a_branch_that_somebody_switches_to_meanwhile_stays(worker, monkeypatch) -> None:
    repo = worker.repo
    raced = once_after(monkeypatch, cleanup, "_keep_and_retire", lambda: repo.git("switch", "-q", worker.branch))
    outcome = clean(worker)
    assert raced
    assert (outcome.worktree_removed, outcome.branch_removed) == (True, False)
    assert outcome.obstacle.reason == "checked_out"
    assert repo.git("rev-parse", "HEAD") == worker.head
