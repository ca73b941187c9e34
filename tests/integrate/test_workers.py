"""Candidates: the workers that a command line means, with the tips their branches have now."""

from __future__ import annotations

import shutil

import pytest
from ended_runs import cleanup, ended_run, ref, refs
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


@pytest.fixture
def reused(repo):
    """A worker that was cleaned up, and one of a later run that got its number, branch and worktree."""
    [old] = ended_run(repo, "echo OLD > old")
    cleanup(repo)
    [new] = ended_run(repo, "echo NEW > new")
    assert (new.number, new.branch, new.path) == (old.number, old.branch, old.path)
    return old, new


def test_a_branch_of_a_number_that_was_given_away_is_the_later_workers_alone(here, reused):
    old, new = reused
    before, after = gather(here, [old.handle, new.handle])
    assert (before.tip, before.successor) == (None, new.handle)
    assert (after.tip, after.successor) == (new.head, None)


def test_a_branch_is_the_earlier_workers_again_once_it_was_restored(repo, here, reused):
    old, new = reused
    cleanup(repo)
    assert [one.tip for one in gather(here, [old.handle, new.handle])] == [None, None]
    assert repo.parallel("restore", old.handle).returncode == 0
    before, after = gather(here, [old.handle, new.handle])
    assert (before.tip, before.successor) == (old.head, None)
    assert (after.tip, after.successor) == (None, old.handle)


def test_a_later_worker_that_never_began_has_taken_no_branch(repo, here):
    _, old = ended_run(repo, "echo 1 > one", "echo OLD > old")
    cleanup(repo)
    _, new = ended_run(repo, "exit 1", "echo never > never", options=("--workers", "1", "--halt", "now,fail=1"))
    assert (new.branch, new.head) == (old.branch, None)
    assert repo.parallel("restore", old.handle).returncode == 0
    assert [one.tip for one in gather(here, [old.handle])] == [old.head]


def test_the_usual_run_asks_git_for_nothing_but_the_tips(repo, here, reused, monkeypatch):
    calls = []
    real = type(here.common).begin
    monkeypatch.setattr(type(here.common), "begin", lambda *a, **o: calls.append(a[1]) or real(*a, **o))
    gather(here, [reused[1].run])
    assert calls == ["for-each-ref"]


def test_no_command_takes_a_later_workers_branch_for_the_work_of_an_earlier_one(repo, reused):
    old, new = reused
    before = refs(repo)
    restore = f"git parallel restore {old.handle} --branch NAME"
    said = f"its number was given away: '{old.branch}' is {new.handle}'s now"
    approved = repo.parallel("review", "--approve", old.handle)
    assert approved.returncode == 2
    assert said in approved.stderr
    assert restore in approved.stderr
    merged = repo.parallel("merge", "--yes", old.handle)
    assert merged.returncode == 5
    assert f"{said}; its work: {restore}" in merged.stderr
    shown = repo.parallel("show", old.handle).stdout
    assert f"{old.branch} (given away: it is {new.handle}'s now; was at {old.head[:12]})" in shown
    assert restore in shown
    assert f"{old.path} (given away: it is {new.handle}'s now)" in shown
    assert new.head[:12] not in shown
    assert new.head not in repo.parallel("show", "--json", old.handle).stdout
    diffed = repo.parallel("diff", old.handle)
    assert f"'{old.branch}' is {new.handle}'s now; this is what the worker left" in diffed.stderr
    assert "OLD" in diffed.stdout
    for command in ("conflicts", "compare"):
        mixed = repo.parallel(command, "--json", old.handle, new.handle)
        assert said in mixed.stdout
        assert mixed.stdout.count(new.head) == 1
    assert {name: oid for name, oid in refs(repo).items() if "merges" not in name} == before
    assert ref(repo, old.kept) == old.head
