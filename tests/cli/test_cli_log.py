"""`git parallel log`: an agent's output, byte for byte, as it grows, and after its file is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest
from runs_on_disk import RUN, read_until, start_run

from git_parallel.git import Repository
from git_parallel.store import logs, refs
from git_parallel.store.objects import Objects

RAW = b"one\r\n\xff\xfe\x00 two\x1b[31m\n no newline at the end"


def log(repo, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "git_parallel", "log", *arguments],
        cwd=repo.path,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )


def test_output_comes_byte_for_byte(repo) -> None:
    start_run(repo.path, "one").running(1).output(1, RAW)
    done = log(repo, "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, RAW, b"")


def test_errors_and_checks_have_files_of_their_own(repo) -> None:
    run = start_run(repo.path, "one").running(1).output(1, b"out")
    with open(run.files.worker(1).errors, "wb") as file:
        file.write(b"err")
    with open(run.files.worker(1).check(2), "wb") as file:
        file.write(b"second check")
    assert log(repo, "1", "--errors").stdout == b"err"
    assert log(repo, "1", "--check", "2").stdout == b"second check"
    done = log(repo, "1", "--check", "3")
    assert (done.returncode, done.stdout) == (128, b"")
    assert b"has no such output" in done.stderr


def test_a_single_worker_need_not_be_named(repo) -> None:
    start_run(repo.path, "one").running(1).output(1, b"out")
    assert log(repo).stdout == b"out"


def test_several_workers_are_asked_about(repo) -> None:
    start_run(repo.path, "one", "two").running(1)
    done = log(repo)
    assert done.returncode == 2
    assert done.stderr == b"error: which worker?\nhint: one of: 1, 2\n"


def test_a_worker_that_has_not_started_has_no_output(repo) -> None:
    start_run(repo.path, "one")
    done = log(repo, "1")
    assert done.returncode == 128
    assert b"has not started yet" in done.stderr


def test_output_whose_file_is_gone_comes_from_git(repo) -> None:
    run = start_run(repo.path, "one").ended(1).output(1, RAW).finish().record()
    where = Repository.discover(str(repo.path))
    with Objects(where) as objects:
        refs.transaction(where, [logs.kept(where, objects, RUN, {1: run.files.worker(1).log})])
    run.forget()
    done = log(repo, "1")
    assert (done.returncode, done.stdout) == (0, RAW)
    assert b"parts that were kept in git" in done.stderr


@pytest.mark.parametrize("ending", ["ended", "crashed"])
def test_following_ends_with_the_worker_and_misses_nothing(repo, ending: str) -> None:
    run = start_run(repo.path, "one").running(1).output(1, b"first\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "log", "-f", "1"], cwd=repo.path, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    assert read_until(process.stdout.fileno(), b"\n") == b"first\n"
    run.output(1, b"second\n")
    assert read_until(process.stdout.fileno(), b"\n") == b"second\n"
    assert process.poll() is None
    run.output(1, b"x" * 300_000 + b"last")
    if ending == "ended":
        run.ended(1)
    else:
        run.crash()
    rest, _ = process.communicate(timeout=30)
    assert rest == b"x" * 300_000 + b"last"
    assert process.returncode == 0


def test_following_waits_for_a_worker_that_has_not_started(repo) -> None:
    run = start_run(repo.path, "one")
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "log", "-f", "1"], cwd=repo.path, stdout=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    run.running(1).output(1, b"here\n")
    assert read_until(process.stdout.fileno(), b"\n") == b"here\n"
    run.ended(1)
    assert process.wait(timeout=30) == 0
    process.stdout.close()


def test_a_reader_that_goes_away_is_no_trouble(repo) -> None:
    start_run(repo.path, "one").running(1).output(1, b"line\n" * 100_000)
    command = f"{sys.executable} -m git_parallel log 1 | head -1"
    done = subprocess.run(["sh", "-c", command], cwd=repo.path, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"line\n", b"")
