"""What cleanup leaves alone, and says so: somebody is at work there, or it may be somebody's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ended_runs import cleanup, ended_run, only, ref, refs, trashed


@pytest.fixture
def worker(repo):
    """A worker that has committed one file."""
    return ended_run(repo)[0]


def untouched(worker) -> bool:
    """Whether worktree, entry and branch of a worker are as they were, and nothing is in the trash."""
    return (
        worker.git("rev-parse", "--show-toplevel") == str(worker.path)
        and worker.git("status", "--porcelain", "work.txt") == ""
        and ref(worker.repo, worker.branch) is not None
        and ref(worker.repo, worker.kept) is None
        and trashed(worker.repo) == []
    )


def refused(repo, reason: str, *arguments: str, cwd: Path | None = None) -> dict[str, object]:
    """Hold a cleanup to refusing its one worker for this reason, with a hint; return what it said."""
    outcome = only(cleanup(repo, *arguments, code=5, cwd=cwd))
    assert (outcome["action"], outcome["reason"]) == ("refused", reason)
    assert outcome["hint"]
    return outcome


@pytest.fixture
def running(repo):
    """Two workers of which the second goes on until the test ends; yields the run's id and the first's number."""
    go = repo.path.parent / "go"
    command = [sys.executable, "-m", "git_parallel", "run", "--quiet", "--json", "--program", "shell"]
    tasks = ["echo 1 > a", f"echo 2 > b; while [ ! -e '{go}' ]; do sleep 0.02; done"]
    process = subprocess.Popen(
        [*command, *(word for task in tasks for word in ("--task", task))],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield wait_until_first_has_ended(repo)
    finally:
        go.write_text("")
        assert process.wait(timeout=30) == 0


def wait_until_first_has_ended(repo) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done = repo.parallel("status", "--json")
        states = {one["worker_id"]: one["state"] for one in json.loads(done.stdout).get("workers", [])}
        if states == {1: "ended", 2: "running"} and (repo.path / ".architect-parallel-2/b").exists():
            return json.loads(done.stdout)["run"]
        time.sleep(0.02)
    raise AssertionError(f"the run did not get going: {done.stdout} {done.stderr}")


def test_a_run_that_goes_on_is_passed_over(repo, running) -> None:
    document = cleanup(repo)
    assert [(one["action"], one["reason"]) for one in document["workers"]] == [("kept", "running")] * 2
    assert (repo.path / ".architect-parallel-1/a").exists()
    assert (repo.path / ".architect-parallel-2/b").exists()


def test_a_run_that_goes_on_is_refused_when_it_is_asked_for(repo, running) -> None:
    document = cleanup(repo, running, code=5)
    assert [(one["action"], one["reason"]) for one in document["workers"]] == [("refused", "running")] * 2
    assert "git parallel stop" in document["workers"][0]["hint"]
    assert (repo.path / ".architect-parallel-1/a").exists()


@pytest.mark.parametrize("reason", ["on a stick", ""])
def test_a_worktree_that_the_person_locked(repo, worker, reason) -> None:
    repo.git("worktree", "unlock", str(worker.path))
    repo.git("worktree", "lock", "--reason", reason, str(worker.path))
    said = refused(repo, "locked")
    assert reason in said["message"]
    assert untouched(worker)


def test_a_worktree_that_nobody_locks_any_more_may_go(repo, worker) -> None:
    repo.git("worktree", "unlock", str(worker.path))
    assert only(cleanup(repo))["action"] == "removed"


@pytest.mark.parametrize("place", [".", "src"])
def test_the_worktree_that_the_person_stands_in(repo, worker, place) -> None:
    said = refused(repo, "standing", cwd=worker.path / place)
    assert said["hint"] == f"cd '{repo.path}'"
    assert untouched(worker)


def start_merge(worker) -> None:
    worker.git("merge", "-q", "--no-commit", "--no-ff", "side")


def start_rebase(worker) -> None:
    worker.git("-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "HEAD^")


def start_cherry_pick(worker) -> None:
    worker.git("cherry-pick", "side", check=False)


def start_bisect(worker) -> None:
    worker.git("bisect", "start")


@pytest.mark.parametrize("start", [start_merge, start_rebase, start_cherry_pick, start_bisect])
def test_an_operation_in_progress(repo, worker, start) -> None:
    tree = repo.git("rev-parse", "main^{tree}")
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"theirs\n")
    tree = repo.git("mktree", stdin=(repo.git("ls-tree", tree) + f"\n100644 blob {blob}\twork.txt\n").encode())
    if start is start_merge:
        tree = repo.git("rev-parse", "main^{tree}")
    repo.git("branch", "side", repo.git("commit-tree", "-m", "side", "-p", "main", tree))
    start(worker)
    before = worker.git("status")
    said = refused(repo, "operation")
    assert "is in progress" in said["message"]
    assert worker.git("status") == before
    assert ref(repo, worker.kept) is None


def test_unresolved_conflicts_without_an_operation(repo, worker) -> None:
    blobs = [worker.git("hash-object", "-w", "--stdin", stdin=f"{side}\n".encode()) for side in range(3)]
    lines = "".join(f"100644 {blob} {stage}\twork.txt\n" for stage, blob in enumerate(blobs, 1))
    worker.git("update-index", "--index-info", stdin=f"0 {'0' * 40}\twork.txt\n{lines}".encode())
    assert worker.git("ls-files", "-u").count("\n") == 2
    said = refused(repo, "unreadable")
    assert "unresolved conflicts" in said["message"]
    assert worker.git("ls-files", "-u").count("\n") == 2


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_an_index_that_is_locked(repo, worker, options) -> None:
    lock = Path(worker.git("rev-parse", "--absolute-git-dir")) / "index.lock"
    lock.touch()
    said = refused(repo, "index_locked", *options)
    assert said["message"] == f"the index of its worktree is locked by '{lock}'"
    assert "remove that file" in said["hint"]
    assert untouched(worker)
    lock.unlink()
    assert only(cleanup(repo))["action"] == "removed"


@pytest.mark.parametrize("entry", ["kept", "pruned"])
def test_a_directory_that_is_something_else_now(repo, worker, entry) -> None:
    os.rename(worker.path, repo.path.parent / "moved")
    if entry == "pruned":
        (admin,) = (repo.path / ".git/worktrees").iterdir()
        shutil.rmtree(admin)
    worker.path.mkdir()
    (worker.path / "mine.txt").write_text("mine\n")
    said = refused(repo, "replaced")
    assert str(worker.path) in said["message"]
    assert (worker.path / "mine.txt").read_text() == "mine\n"
    assert ref(repo, worker.branch) == worker.head


def test_a_worktree_that_was_moved_by_hand(repo, worker) -> None:
    # Its entry still names the old place, and there is nothing there: but the branch is checked out in it.
    moved = repo.path.parent / "moved"
    os.rename(worker.path, moved)
    worker.path.symlink_to(moved)
    refused(repo, "replaced")
    assert (moved / "work.txt").exists()
    assert worker.path.is_symlink()


def test_a_worktree_that_was_moved_with_git_goes_from_its_new_place(repo, worker) -> None:
    moved = repo.path.parent / "moved"
    repo.git("worktree", "unlock", str(worker.path))
    repo.git("worktree", "move", str(worker.path), str(moved))
    repo.git("worktree", "lock", "--reason", f"git parallel {worker.handle}", str(moved))
    (moved / "loose.txt").write_text("loose\n")
    assert only(cleanup(repo))["worktree"] == str(moved)
    assert not moved.exists()
    assert worker.snapshot()["loose.txt"] == "loose"


def test_a_directory_on_a_volume_that_is_not_there(make_repo, tmp_path) -> None:
    repo = make_repo()
    repo.git("config", "parallel.worktree", str(tmp_path / "volume/parallel-{n}"))
    worker = ended_run(repo)[0]
    os.rename(tmp_path / "volume", tmp_path / "unmounted")
    refused(repo, "absent")
    os.rename(tmp_path / "unmounted", tmp_path / "volume")
    assert untouched(worker)
    assert only(cleanup(repo))["action"] == "removed"


def test_another_worktree_inside(repo, worker) -> None:
    inner = worker.path / "inner"
    repo.git("worktree", "add", "-q", "--detach", str(inner))
    said = refused(repo, "unreadable")
    assert str(inner) in said["message"]
    assert (worker.path / "work.txt").exists()
    assert repo.git("status", "--porcelain", cwd=inner) == ""


def test_the_others_go_on_when_one_is_refused(repo) -> None:
    one, two = ended_run(repo, "echo 1 > work.txt", "echo 2 > work.txt")
    one.git("bisect", "start")
    document = cleanup(repo, code=5)
    assert [worker["action"] for worker in document["workers"]] == ["refused", "removed"]
    assert not two.path.exists()
    assert one.path.exists()


def test_says_what_to_type_next(repo, worker) -> None:
    worker.git("bisect", "start")
    done = repo.parallel("cleanup")
    assert done.returncode == 5
    assert done.stdout.splitlines() == [
        f"refused  {worker.handle}: a bisect is in progress in its worktree",
        f"         finish it, or: git -C '{worker.path}' bisect reset",
        "0 workers removed, 1 refused",
    ]


def test_a_record_of_a_newer_version(repo, worker) -> None:
    record = f"refs/architect/runs/{worker.run}"
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"999\n")
    tree = repo.git("ls-tree", record).splitlines()
    lines = [line if not line.endswith("\tversion") else f"100644 blob {blob}\tversion" for line in tree]
    newer = repo.git("mktree", stdin=("\n".join(lines) + "\n").encode())
    repo.git("update-ref", record, repo.git("commit-tree", "-p", record, "-m", "newer", newer))
    refused(repo, "newer")
    assert untouched(worker)


def test_another_clones_record_gives_no_right_to_a_branch_of_the_same_name(repo, worker, make_repo, tmp_path) -> None:
    clone = tmp_path / "clone"
    repo.git("clone", "-q", str(repo.path), str(clone))
    other = type(repo)(clone)
    other.git("fetch", "-q", "origin", "refs/architect/*:refs/architect/*")
    other.git("branch", worker.branch)
    assert cleanup(other)["workers"] == []
    assert only(cleanup(other, worker.handle))["action"] == "nothing"
    assert ref(other, worker.branch) == worker.base
    before = refs(other)
    assert before[f"refs/architect/runs/{worker.run}"] == ref(repo, f"refs/architect/runs/{worker.run}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--all", "1"), "--all goes without"),
        (("--json", "-z"), "exclude each other"),
        (("7",), "there is no worker 7"),
        (("--force",), "No such option"),
    ],
)
def test_wrong_words_change_nothing(repo, worker, arguments, says) -> None:
    done = repo.parallel("cleanup", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert untouched(worker)


def test_outside_a_repository(repo, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    done = repo.parallel("cleanup", cwd=outside)
    assert done.returncode == 128
    assert done.stderr.startswith("fatal: not a git repository")
