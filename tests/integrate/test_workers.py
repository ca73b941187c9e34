"""Candidates: the workers that a command line means, with the tips their branches have now."""

from __future__ import annotations

import shutil

import pytest
from ended_runs import ended_run
from going_runs import going_run

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate.workers import gather, going_on
from git_parallel.layout import HEADS, State


@pytest.fixture
def here(repo) -> Repository:
    return Repository.discover(str(repo.path))


def test_a_run_stands_for_its_workers_in_order(repo, here):
    workers = ended_run(repo, "echo 1 > a", "echo 2 > b", "true")
    found = gather(here, [])
    assert [one.handle for one in found] == [worker.handle for worker in workers]
    assert [one.tip for one in found] == [repo.git("rev-parse", worker.branch) for worker in workers]
    assert [one.base for one in found] == [worker.base for worker in workers]
    assert [one.branch for one in found] == [HEADS + worker.branch for worker in workers]
    assert [one.result and one.result.status for one in found] == ["success", "success", "failed"]
    assert [one.task.prompt for one in found] == ["echo 1 > a", "echo 2 > b", "true"]
    assert all(one.ended for one in found)


def test_each_worker_is_named_once_in_the_order_of_the_words(repo, here):
    one, two, three = ended_run(repo, "echo 1 > a", "echo 2 > b", "echo 3 > c")
    [later] = ended_run(repo, "echo 4 > d")
    found = gather(here, [str(three.number), one.run, later.branch, two.handle])
    assert [candidate.handle for candidate in found] == [three.handle, one.handle, two.handle, later.handle]


def test_a_tip_is_the_branchs_as_it_is_now_and_none_once_the_branch_is_gone(repo, here):
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    moved = one.commit("by hand", "more", "more\n")
    repo.git("update-ref", "-d", f"refs/heads/{two.branch}")
    assert [candidate.tip for candidate in gather(here, [one.run])] == [moved, None]


def test_without_its_live_files_a_run_is_read_from_its_record(repo, here):
    ended_run(repo, "echo 1 > a", "true")
    before = gather(here, [])
    shutil.rmtree(State(here.common_dir).runs)
    assert gather(here, []) == before
    assert gather(here, [], default=going_on(here)) == before


def test_workers_that_have_not_ended_can_be_left_out(repo, here):
    tasks = ("echo 1 > a", "echo 2 > b; sleep 600")
    with going_run(repo, *tasks, states={1: "ended", 2: "running"}) as run:
        assert [(one.worker, one.state) for one in gather(here, [run])] == [(1, "ended"), (2, "running")]
        assert [one.worker for one in gather(here, [run], ended_only=True)] == [1]
        assert going_on(here) == [run]


def test_a_word_that_names_nothing_is_refused(repo, here):
    [worker] = ended_run(repo)
    with pytest.raises(UsageError, match="has no worker 7"):
        gather(here, [f"{worker.run}/7"])
    with pytest.raises(UsageError, match="no run, worker or branch"):
        gather(here, ["nonsense"])


def test_without_any_run_there_is_nothing_to_gather(here):
    assert going_on(here) == []
    assert gather(here, [], default=going_on(here)) == []
