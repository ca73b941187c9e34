"""A git command that is killed with its agent leaves locks; they stop neither the record nor the next attempt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

LOCKED = """
echo work > work; git add work; echo more > more
own=$(git rev-parse --absolute-git-dir) all=$(git rev-parse --path-format=absolute --git-common-dir)
touch "$own/index.lock" "$own/HEAD.lock" "$all/refs/heads/architect/parallel-1.lock"
"""


def locks(repo) -> list[str]:
    return [str(path) for path in (repo.path / ".git").rglob("*.lock")]


def test_a_worker_is_recorded_and_its_locks_go(repo):
    done = repo.parallel("run", "--json", "--program", "shell", LOCKED)
    assert done.returncode == 0, done.stderr
    (worker,) = json.loads(done.stdout)["workers"]
    assert worker["files_modified"] == ["more", "work"]
    assert repo.git("rev-parse", "architect/parallel-1") == worker["head"]
    assert locks(repo) == []
    assert repo.git("status", "--porcelain", cwd=repo.path / ".architect-parallel-1") == ""


def test_a_lock_in_a_worktree_where_somebody_works_stays(repo):
    go = repo.path.parent / "go"
    task = f"echo work > work; until test -e {go}; do sleep 0.02; done; touch $(git rev-parse --git-dir)/index.lock"
    run = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "run", "-q", "--program", "shell", task],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
    )
    worktree = repo.path / ".architect-parallel-1"
    end = time.monotonic() + 30
    while not (worktree / "work").exists() and time.monotonic() < end:
        time.sleep(0.02)
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=worktree, stdin=subprocess.PIPE) as person:
        go.touch()
        assert run.wait(60) == 0
        assert len(locks(repo)) == 1
        person.stdin.close()


def test_doctor_finds_old_locks_wherever_they_are_and_leaves_those_of_living_commands(repo):
    repo.parallel("run", "--program", "shell", "echo work > work")
    made = [repo.path / ".git" / name for name in ("packed-refs.lock", "refs/heads/main.lock", "config.lock")]
    for path in made:
        path.touch()
    assert json.loads(repo.parallel("doctor", "--json").stdout)["findings"] == []
    for path in made:
        os.utime(path, (time.time() - 3600,) * 2)
    with subprocess.Popen(["git", "cat-file", "--batch"], cwd=repo.path, stdin=subprocess.PIPE) as person:
        assert json.loads(repo.parallel("doctor", "--json").stdout)["findings"] == []
        person.stdin.close()
    found = json.loads(repo.parallel("doctor", "--repair", "--json").stdout)["findings"]
    assert [(one["kind"], one["outcome"]) for one in found] == [("stale-lock", "repaired")] * 3
    assert locks(repo) == []


def test_whoever_takes_over_removes_the_locks_of_a_power_cut(repo):
    argv = [sys.executable, "-m", "git_parallel", "run", "-q", "--program", "shell", "echo work > work; sleep 600"]
    run = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while not (repo.path / ".architect-parallel-1/work").exists() and time.monotonic() < end:
        time.sleep(0.02)
    run.kill()
    run.wait()
    name = repo.git("for-each-ref", "--format=%(refname)", "refs/architect/runs")
    for locked in (name, "refs/notes/architect", "packed-refs", "refs/heads/architect/parallel-1"):
        path = repo.path / ".git" / f"{locked}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    done = repo.parallel("wait")
    assert done.returncode == 1, done.stderr
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert locks(repo) == []
