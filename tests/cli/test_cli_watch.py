"""`git parallel watch`: follows runs by their files until they have ended."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

from runs_on_disk import RUN, read_until, start_run


def watch(repo, *arguments: str, **options) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "watch", *arguments], cwd=repo.path, bufsize=0, **options
    )


def test_off_a_terminal_each_change_is_a_line_and_the_results_come_last(repo) -> None:
    run = start_run(repo.path, "one", "two").running(1)
    process = watch(repo, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert read_until(process.stdout.fileno(), b"\n") == b"[1] running: one\n"
    run.ended(1, cost=0.25)
    assert read_until(process.stdout.fileno(), b"\n") == b"[1] success: no changes ($0.25, 12s)\n"
    run.running(2)
    assert read_until(process.stdout.fileno(), b"\n") == b"[2] running: two\n"
    run.ended(2, "failed", "no_changes").finish()
    rest = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait(timeout=30) == 0
    assert rest.startswith("[2] failed/no_changes: no changes (12s)\n")
    assert f"run {RUN}: ended" in rest
    assert "2 workers: 1 success, 1 failed" in rest


def test_watching_one_worker_ends_with_that_worker(repo) -> None:
    run = start_run(repo.path, "one", "two").running(1).running(2)
    process = watch(repo, "2", stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert read_until(process.stdout.fileno(), b"\n") == b"[2] running: two\n"
    run.ended(2)
    assert b"[1]" not in process.stdout.read()
    process.stdout.close()
    assert process.wait(timeout=30) == 0


def test_a_supervisor_that_dies_ends_the_watch_with_what_to_type(repo) -> None:
    run = start_run(repo.path, "one").running(1)
    process = watch(repo, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    read_until(process.stdout.fileno(), b"\n")
    run.crash()
    out, complaint = process.communicate(timeout=30)
    assert process.returncode == 0
    assert b"[1] interrupted\n" in out
    assert f"git parallel wait {RUN}".encode() in complaint


def test_on_a_terminal_ctrl_c_leaves_and_the_run_goes_on(repo) -> None:
    start_run(repo.path, "one").running(1)
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    process = watch(repo, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    read_until(master, b"running")
    process.send_signal(2)
    seen = read_until(master, b"git parallel stop")
    assert b"the run goes on" in seen
    assert process.wait(timeout=30) == 130
    os.close(master)


def test_without_a_run_it_says_how_to_start_one(repo) -> None:
    done = repo.parallel("watch")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no run yet" in done.stderr
