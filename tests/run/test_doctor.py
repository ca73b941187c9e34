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


def kill_at_work(repo, task: str) -> None:
    """Start a run, and kill its supervisor once the worker has written the file ``work``."""
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", task]
    process = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not (repo.path / ".architect-parallel-1/work").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.wait()


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


def test_an_interrupted_run_is_told_and_finished(repo):
    kill_at_work(repo, "echo work > work; sleep 600")
    found = findings(repo)
    assert found["interrupted-run"]["outcome"] == "found"
    assert repo.git("rev-parse", "architect/parallel-1") == repo.git("rev-parse", "HEAD")
    assert findings(repo, "--repair")["interrupted-run"]["outcome"] == "repaired"
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert findings(repo) == {}


@pytest.fixture
def interrupted(repo):
    """A repository with a run whose supervisor was killed; the worker had committed and written."""
    task = "echo mine > mine; git add mine; git commit -qm mine; echo said; echo work > work; sleep 600"
    kill_at_work(repo, task)
    return repo


def lose(repo, oid: str) -> None:
    """Take an object away, as `git gc --prune=now` does with one that is written at that moment."""
    (repo.path / ".git/objects" / oid[:2] / oid[2:]).unlink()


@pytest.mark.parametrize("how", ["ref", "commit", "tree", "blob"])
def test_a_run_whose_record_was_lost_meanwhile_is_finished_all_the_same(interrupted, how):
    repo = interrupted
    ref = repo.git("for-each-ref", "--format=%(refname)", "refs/architect/runs")
    if how == "ref":
        repo.git("update-ref", "-d", ref)
    else:
        lose(repo, repo.git("rev-parse", {"commit": ref, "tree": f"{ref}^{{tree}}", "blob": f"{ref}:run.json"}[how]))
    done = repo.parallel("wait")
    assert done.returncode == 1, done.stderr
    assert "cancelled/supervisor_died" in done.stdout
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert repo.parallel("log", "1").stdout == "said\n"
    assert "its record" in repo.git("show", f"{ref}:events.jsonl")
    assert repo.git("fsck", "--no-dangling") == ""
    assert findings(repo) == {}


def test_a_record_that_is_lost_hides_no_other_and_is_written_anew(ran):
    repo, document = ran
    run, ref = document["run"], f"refs/architect/runs/{document['run']}"
    repo.parallel("run", "--program", "shell", "echo y > y")
    result = repo.git("show", f"{ref}:workers/1/result.json")
    lose(repo, repo.git("rev-parse", ref))
    listed = repo.parallel("list")
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[4:6] for line in listed.stdout.splitlines() if run in line] == [["unreadable", "?"]]
    assert len(listed.stdout.splitlines()) == 3
    shown = repo.parallel("show", f"{run}/1")
    assert (shown.returncode, "git parallel doctor" in shown.stderr) == (128, True)
    assert list(findings(repo)) == ["lost-record"]
    assert findings(repo, "--repair")["lost-record"]["outcome"] == "repaired"
    assert repo.git("show", f"{ref}:workers/1/result.json") == result
    assert "1 success" in repo.parallel("list").stdout.splitlines()[2]
    assert "success" in repo.parallel("show", f"{run}/1").stdout
    assert repo.parallel("cleanup").returncode == 0
    assert findings(repo) == {}


def test_the_loss_of_an_agents_own_commit_is_said_and_its_files_are_kept(interrupted):
    repo = interrupted
    lost = repo.git("rev-parse", "architect/parallel-1")
    lose(repo, lost)
    assert lost in findings(repo)["broken-ref"]["what"]
    done = repo.parallel("wait")
    assert "cancelled/supervisor_died" in done.stdout, done.stderr
    shown = repo.parallel("show", "1").stdout
    assert f"names commit {lost[:12]}, which is missing" in shown
    wip = repo.git("for-each-ref", "--format=%(refname)", "refs/architect/wip")
    assert (repo.git("show", f"{wip}:mine"), repo.git("show", f"{wip}:work")) == ("mine", "work")
    refused = repo.parallel("cleanup")
    assert refused.returncode == 5
    assert (repo.path / ".architect-parallel-1/work").exists()


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
    # By its own name it is no git at work there.
    program = os.path.join(os.path.dirname(sys.executable), "git-parallel")
    done = subprocess.run([program, "doctor"], cwd=repo.path, capture_output=True, text=True, check=False)
    assert "index.lock" in done.stdout, done.stdout + done.stderr
    assert findings(repo, "--repair")["stale-lock"]["outcome"] == "repaired"
    assert not lock.exists()


def test_a_ref_without_a_record_is_named_and_kept(ran):
    repo, _ = ran
    repo.git("update-ref", "refs/architect/kept/20260101T000000Z-dead/1", "HEAD")
    found = findings(repo, "--repair")
    assert found["ref-without-record"]["outcome"] == "found"
    assert repo.git("rev-parse", "refs/architect/kept/20260101T000000Z-dead/1")


def test_hooks_that_changed_under_a_run_are_told_and_put_back(repo):
    hooks = repo.path / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-commit", "pre-push"):
        (hooks / name).write_text(f"#!/bin/sh\n: {name}\n")
        (hooks / name).chmod(0o755)
    task = "cd ../.git/hooks; echo evil > pre-commit; chmod +x pre-commit; echo evil > post-commit; rm pre-push"
    document = json.loads(repo.parallel("run", "--json", "--program", "shell", f"echo x > x; {task}").stdout)
    said = [one for one in document["workers"][0]["warnings"] if "hook" in one]
    assert [one.split(" since")[0] for one in said] == [
        "the repository's hook post-commit is changed",
        "the repository's hook pre-commit is new",
        "the repository's hook pre-push is gone",
    ]
    done = repo.parallel("doctor")
    assert (done.returncode, done.stdout.count("hooks: the hook ")) == (1, 3)
    assert (hooks / "pre-commit").exists()
    assert repo.parallel("doctor", "--repair").returncode == 0
    assert not (hooks / "pre-commit").exists()
    for name in ("post-commit", "pre-push"):
        assert (hooks / name).read_text() == f"#!/bin/sh\n: {name}\n"
        assert os.access(hooks / name, os.X_OK)
    aside = repo.path / ".git/architect/runs" / document["run"] / "hooks.aside"
    assert sorted(path.name.partition(".")[0] for path in aside.iterdir()) == ["post-commit", "pre-commit"]
    assert {path.read_text() for path in aside.iterdir()} == {"evil\n"}
    assert findings(repo) == {}
