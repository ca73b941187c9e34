"""--until ends a run with its successes; workers that are stopped for it keep their work."""

from __future__ import annotations

import json

import pytest


def workers(repo, *arguments: str, code: int) -> dict[int, dict]:
    done = repo.parallel("run", "--json", "--program", "shell", *arguments)
    assert done.returncode == code, done.stderr
    return {worker["worker_id"]: worker for worker in json.loads(done.stdout)["workers"]}


def test_the_first_success_ends_the_others_and_keeps_their_work(repo):
    ended = workers(
        repo,
        "--until=first-success",
        "--task=exit 1",
        "--task=echo slow > slow; sleep 300",
        # The quick one waits for the slow one's file: both have work when it ends.
        "--task=until [ -e ../.architect-parallel-2/slow ]; do sleep 0.05; done; echo quick > quick",
        code=0,
    )
    assert [ended[number]["status"] for number in (1, 2, 3)] == ["failed", "cancelled", "success"]
    assert ended[2]["reason"] == "halted"
    assert repo.git("show", "architect/parallel-2:slow") == "slow"


def test_a_number_of_successes(repo):
    tasks = ["--task=echo 1 > a", "--task=exit 1", "--task=echo 3 > a", "--task=echo 4 > a"]
    ended = workers(repo, "--until", "2", "--workers", "1", *tasks, code=0)
    assert [ended[number]["status"] for number in (1, 2, 3, 4)] == ["success", "failed", "success", "skipped"]


def test_a_run_without_enough_successes_fails(repo):
    workers(repo, "--until", "2", "--task=echo 1 > a", "--task=exit 1", code=1)


def test_all_takes_back_what_is_configured(repo):
    repo.git("config", "parallel.halt", "now,success=1")
    ended = workers(repo, "--until=all", "--workers=1", "--task=echo 1 > a", "--task=echo 2 > a", code=0)
    assert [worker["status"] for worker in ended.values()] == ["success", "success"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--until", "0"), "--until must be 'first-success', a number of successes from 1 on, or 'all', not '0'"),
        (("--until", "never"), "--until must be"),
        (("--until", "1", "--halt", "never"), "--until and --halt exclude each other"),
    ],
)
def test_what_makes_no_sense_starts_nothing(repo, arguments, says):
    done = repo.parallel("run", "--program", "shell", "--task", "true", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert repo.git("for-each-ref", "refs/architect") == ""
