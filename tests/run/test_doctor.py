"""`git parallel doctor` finds what a crash left, tells without touching, and repairs without losing anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest


def findings(repo, *options: str) -> dict[str, dict]:
    done = repo.parallel("doctor", "--json", *options)
    assert done.returncode in (0, 1), done.stderr
    return {finding["kind"]: finding for finding in json.loads(done.stdout)["findings"]}


@pytest.fixture
def ran(repo):
    """A repository with a run that has ended."""
    document = json.loads(repo.parallel("run", "--json", "--program", "shell", "echo x > x").stdout)
    return repo, document


def test_everything_in_order(ran):
    repo, _ = ran
    done = repo.parallel("doctor")
    assert (done.returncode, done.stdout) == (0, "")
    assert "everything is in order" in done.stderr


def test_an_interrupted_run_is_told_and_finished(repo, tmp_path):
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", "echo work > work; sleep 600"]
    process = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not (repo.path / ".architect-parallel-1/work").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.wait()
    found = findings(repo)
    assert found["interrupted-run"]["outcome"] == "found"
    assert repo.git("rev-parse", "architect/parallel-1") == repo.git("rev-parse", "HEAD")
    assert findings(repo, "--repair")["interrupted-run"]["outcome"] == "repaired"
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert findings(repo) == {}


def test_processes_of_a_run_that_is_over_are_found_and_killed(ran):
    repo, document = ran
    env = {**os.environ, "GIT_PARALLEL_COMMON": str(repo.path / ".git"), "GIT_PARALLEL_RUN": document["run"]}
    left = subprocess.Popen(["sleep", "600"], env=env)
    try:
        assert str(left.pid) in findings(repo)["left-processes"]["what"]
        assert psutil.pid_exists(left.pid)
        assert findings(repo, "--repair")["left-processes"]["outcome"] == "repaired"
        assert left.wait(timeout=10) < 0
    finally:
        left.kill()
        left.wait()


def test_a_repository_that_was_made_bare_is_put_right(ran):
    repo, _ = ran
    env = {**os.environ, "GIT_DIR": str(next((repo.path / ".git/worktrees").iterdir()))}
    subprocess.run(["git", "init", "-q"], cwd=repo.path, env=env, check=True)
    assert repo.git("config", "core.bare") == "true"
    found = findings(repo, "--repair")
    assert found["configuration"]["outcome"] == "repaired"
    assert repo.git("config", "core.bare") == "false"
    assert repo.git("status", "--porcelain") == ""


def test_a_worktree_that_no_record_knows_is_kept_under_refs_and_moved_to_the_trash(repo):
    run = "20260101T000000Z-dead"
    repo.git("worktree", "add", "-q", "--lock", "--reason", f"git parallel {run}/1", "-b", "lost", ".lost")
    (repo.path / ".lost/only").write_text("copy\n")
    assert "orphan-worktree" in findings(repo)
    assert (repo.path / ".lost/only").exists()
    assert findings(repo, "--repair")["orphan-worktree"]["outcome"] == "repaired"
    assert not (repo.path / ".lost").exists()
    assert repo.git("show", f"refs/architect/wip/{run}/1:only") == "copy"
    assert repo.git("rev-parse", f"refs/architect/kept/{run}/1") == repo.git("rev-parse", "lost")


def test_a_worktree_removed_by_hand_is_forgotten_by_name(ran):
    repo, _ = ran
    subprocess.run(["rm", "-rf", str(repo.path / ".architect-parallel-1")], check=True)
    repo.git("worktree", "add", "-q", "-b", "mine", "../elsewhere")
    os.rename(repo.path.parent / "elsewhere", repo.path.parent / "unplugged")  # another one, away for a while
    assert findings(repo, "--repair")["missing-worktree"]["outcome"] == "repaired"
    listed = repo.git("worktree", "list", "--porcelain")
    assert ".architect-parallel-1" not in listed
    assert "elsewhere" in listed


def test_an_old_lock_is_removed_and_a_fresh_one_left(ran):
    repo, _ = ran
    lock = next((repo.path / ".git/worktrees").iterdir()) / "index.lock"
    lock.touch()
    assert findings(repo) == {}
    os.utime(lock, (time.time() - 3600, time.time() - 3600))
    assert findings(repo, "--repair")["stale-lock"]["outcome"] == "repaired"
    assert not lock.exists()


def test_a_ref_without_a_record_is_named_and_kept(ran):
    repo, _ = ran
    repo.git("update-ref", "refs/architect/kept/20260101T000000Z-dead/1", "HEAD")
    found = findings(repo, "--repair")
    assert found["ref-without-record"]["outcome"] == "found"
    assert repo.git("rev-parse", "refs/architect/kept/20260101T000000Z-dead/1")
