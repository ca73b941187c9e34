"""cleanup --merged: only what the target has already, by the refs as they are now."""

from __future__ import annotations

import pytest
from ended_runs import cleanup, ended_run, only, ref


@pytest.fixture
def worker(repo):
    """A worker with two commits of its own, on a target that has gone on since."""
    task = "echo 1 > one.txt; git add .; git commit -q -m one; echo 2 > two.txt"
    worker = ended_run(repo, task)[0]
    repo.commit("main goes on", {"main.txt": "main\n"})
    return worker


def merge(repo, worker) -> None:
    repo.git("merge", "-q", "--no-edit", worker.branch)


def fast_forward(repo, worker) -> None:
    repo.git("reset", "-q", "--hard", worker.branch)


def squash(repo, worker) -> None:
    repo.git("merge", "-q", "--squash", worker.branch)
    repo.git("commit", "-q", "-m", "squashed")


def squash_and_go_on(repo, worker) -> None:
    squash(repo, worker)
    repo.commit("changed again", {"one.txt": "changed since\n"})


def cherry_pick(repo, worker) -> None:
    repo.git("cherry-pick", f"{worker.base}..{worker.branch}")


def cherry_pick_and_go_on(repo, worker) -> None:
    cherry_pick(repo, worker)
    repo.commit("changed again", {"one.txt": "changed since\n"})


@pytest.mark.parametrize("land", [merge, fast_forward, squash, squash_and_go_on, cherry_pick, cherry_pick_and_go_on])
def test_what_has_landed_goes(repo, worker, land) -> None:
    assert only(cleanup(repo, "--merged"))["reason"] == "unmerged"
    land(repo, worker)
    assert only(cleanup(repo, "--merged"))["action"] == "removed"
    assert ref(repo, worker.branch) is None
    assert ref(repo, worker.kept) == worker.head


def half(repo, worker) -> None:
    repo.git("cherry-pick", f"{worker.branch}^")


def landed_elsewhere(repo, worker) -> None:
    repo.git("switch", "-q", "-c", "elsewhere")
    merge(repo, worker)


def landed_then_gone_on(repo, worker) -> None:
    merge(repo, worker)
    worker.commit("after the landing", "after.txt", "after\n")


def landed_with_uncommitted_work_left(repo, worker) -> None:
    merge(repo, worker)
    worker.write("loose.txt", "loose\n")


def target_deleted(repo, worker) -> None:
    repo.git("switch", "-q", "-c", "other")
    repo.git("branch", "-q", "-D", "main")


@pytest.mark.parametrize(
    "land",
    [half, landed_elsewhere, landed_then_gone_on, landed_with_uncommitted_work_left, target_deleted],
)
def test_what_has_not_landed_whole_stays(repo, worker, land) -> None:
    land(repo, worker)
    outcome = only(cleanup(repo, "--merged"))
    assert (outcome["action"], outcome["reason"]) == ("kept", "unmerged")
    assert (worker.path / "two.txt").exists()
    assert ref(repo, worker.branch) is not None


def test_a_worker_that_changed_nothing_is_merged_by_nature(repo) -> None:
    ended_run(repo, "true", options=("--allow-empty",))
    assert only(cleanup(repo, "--merged"))["action"] == "removed"
