"""Names, texts and moments that nobody expects."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid

import psutil
import pytest


def test_a_file_name_that_is_not_utf8_is_captured_recorded_and_shown(repo):
    done = repo.parallel("run", "--json", "--program", "shell", "printf x > \"$(printf 'inv\\377lid')\"")
    assert done.returncode == 0, done.stderr
    worker = json.loads(done.stdout)["workers"][0]
    assert worker["files_modified"] == ["inv\udcfflid"]
    listed = repo.git("ls-tree", "-z", "--name-only", "architect/parallel-1")
    assert "inv\udcfflid" in listed
    for command in (["status", "--json"], ["show", "--json"], ["show"], ["diff", "1"], ["review", "--list"], ["list"]):
        again = repo.parallel(*command)
        assert again.returncode == 0, (command, again.stderr)
    assert repo.parallel("review", "--approve", "1").returncode == 0
    assert repo.parallel("merge", "--yes").returncode == 0
    assert repo.parallel("cleanup").returncode == 0
    assert repo.parallel("run", "--program", "shell", "echo x > x").returncode == 0


def test_a_task_that_is_not_utf8_arrives_unchanged(repo):
    task = b"printf '\xff\xfe' > bytes\n"
    done = repo.parallel("run", "--json", "--program", "shell", "--task", "-", stdin=task)
    assert done.returncode == 0, done.stderr
    assert (repo.path / ".architect-parallel-1/bytes").read_bytes() == b"\xff\xfe"
    run = json.loads(done.stdout)["run"]
    kept = subprocess.run(
        ["git", "show", f"refs/architect/runs/{run}:workers/1/prompt.txt"],
        cwd=repo.path,
        capture_output=True,
        check=True,
    )
    assert kept.stdout == task


def test_an_identity_that_is_not_utf8_stops_nothing(repo):
    env = {"GIT_AUTHOR_NAME": "J\udcfcrgen", "GIT_COMMITTER_NAME": "J\udcfcrgen"}
    done = repo.parallel("run", "--program", "shell", "echo x > x", env=env)
    assert done.returncode == 0, done.stderr


def test_two_interrupts_within_a_moment_are_one(repo, tmp_path):
    # Below `git parallel` a Ctrl-C comes twice: from the terminal, and from git that passes it on.
    task = f"trap 'sleep 1; echo graceful > g; exit 0' INT TERM; touch {tmp_path}/up; while :; do sleep 0.1; done"
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", task]
    process = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not (tmp_path / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "killing" not in err
    assert repo.git("show", "architect/parallel-1:g") == "graceful"


def test_a_start_that_fails_leaves_no_run_behind(repo):
    lock = repo.path / ".git/refs/heads/architect/parallel-1.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    done = repo.parallel("run", "--program", "shell", "echo x > x")
    assert done.returncode == 128
    assert not done.stdout
    lock.unlink()
    assert os.listdir(repo.path / ".git/architect/runs") == []
    assert repo.git("for-each-ref", "refs/architect", "refs/heads/architect") == ""


def test_unmerged_files_are_not_taken_in_as_changes(repo):
    repo.git("checkout", "-qb", "other")
    repo.commit("theirs", {"src/a.txt": "theirs\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("ours", {"src/a.txt": "ours\n"})
    repo.git("merge", "other", check=False)
    done = repo.parallel("run", "--program", "shell", "--with-changes", "echo x > x")
    assert done.returncode == 2
    assert "unmerged" in done.stderr


def test_work_inside_a_submodule_is_named_as_not_captured(repo, make_repo):
    sub = make_repo("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(sub.path), "sub")
    repo.commit("with a submodule")
    task = "cd sub && echo dirty > dirty && cd .. && echo x > x"
    done = repo.parallel("run", "--json", "--program", "shell", task)
    warnings = " ".join(json.loads(done.stdout)["workers"][0]["warnings"])
    assert "not captured: sub: untracked files in a submodule" in warnings


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes through /proc")
def test_supervisor_zygote_and_guard_killed_together_leave_nothing_alive(repo):
    marker = f"{uuid.uuid4().int % 10**12}"
    loose = f"(setsid env -i {sys.executable} -c 'import time; time.sleep(600)' {marker} &)"
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", f"echo work > work; {loose}; sleep 600"]
    process = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def marked() -> list[psutil.Process]:
        found = []
        for one in psutil.process_iter():
            try:
                if one.cmdline()[-1:] == [marker] and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
            except psutil.Error:
                continue
        return found

    end = time.monotonic() + 20
    while not (marked() and (repo.path / ".architect-parallel-1/work").exists()):
        assert time.monotonic() < end
        time.sleep(0.02)
    ours = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    guards = [pid for pid in ours if "zygote.py" in " ".join(psutil.Process(pid).cmdline())]
    try:
        process.kill()
        for pid in guards:
            with contextlib.suppress(ProcessLookupError):  # it saw the end of its lifeline first
                os.kill(pid, signal.SIGKILL)
        process.wait()
        assert repo.parallel("wait").returncode == 1
        assert marked() == []
        assert repo.git("show", "architect/parallel-1:work") == "work"
    finally:
        for one in marked():
            one.kill()


def test_work_is_seen_where_git_is_told_to_believe_what_it_wrote(repo):
    repo.git("config", "core.ignoreStat", "true")
    done = repo.parallel("run", "--json", "--program", "shell", "echo more >> README")
    assert done.returncode == 0, done.stdout
    assert repo.git("show", "architect/parallel-1:README") == "hello\nmore"
    assert repo.parallel("review", "--approve", "1").returncode == 0
    assert repo.parallel("merge", "--yes").returncode == 0
    assert (repo.path / "README").read_text() == "hello\nmore\n"


def test_a_task_that_is_no_text_is_planned_too(repo):
    task = os.fsdecode(b"echo \xff \xc3\xa9")
    done = repo.parallel("run", "--program", "shell", "--dry-run", "--json", "--task", task)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["tasks"][0]["prompt"] == task
    assert document["dry_run"] is True
