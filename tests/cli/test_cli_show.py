"""`git parallel show`: a run or a worker in full."""

from __future__ import annotations

import json
import re

from runs_on_disk import RUN, start_run

from git_parallel.plan.model import CheckResult, Limits
from git_parallel.render import details


def finished(repo):
    """A run of two workers: one success with a check, one failure with a warning."""
    run = start_run(
        repo.path,
        "fix the login\n\nall of it \x1b[2J",
        "write docs",
        checks=("make test",),
        limits=Limits(budget_per_worker=2.0, timeout_per_worker=300.0, max_steps=30, budget=10.0),
    )
    head = repo.commit("work", {"login.py": "x\n"})
    repo.git("branch", "-f", "architect/parallel-1", head)
    run.running(1).ended(
        1,
        head=head,
        files_modified=["login.py"],
        insertions=1,
        deletions=0,
        cost=0.12,
        check=[CheckResult("make test", 0, 3.0)],
    )
    run.running(2).ended(2, "failed", "agent_error", detail="exited with 3", exit_code=3, warnings=["not captured: x"])
    return run.finish().record()


def test_a_run_is_shown_with_its_workers(repo) -> None:
    finished(repo)
    done = repo.parallel("show")
    assert done.returncode == 0, done.stderr
    out = done.stdout
    assert out.startswith(f"run {RUN}: ended")
    assert "by:        A U Thor <author@example.com>" in out
    assert "target:    main\n" in out
    assert "limits:    $2.00 and 5m00s each, 30 steps each, $10.00 in all\n" in out
    assert f"record:    refs/architect/runs/{RUN} (" in out
    assert f"worker {RUN}/1: success\n" in out
    assert "check:     green: make test (3s)\n" in out
    assert "changes:   1 file, +1 -0\n           login.py\n" in out
    assert f"worker {RUN}/2: failed/agent_error\n" in out
    assert "detail:    exited with 3\n" in out
    assert "warning:   not captured: x\n" in out
    assert "    all of it \\x1b[2J\n" in out
    assert "\x1b" not in out


def test_the_record_alone_shows_the_same(repo) -> None:
    run = finished(repo)
    before = repo.parallel("show").stdout
    run.forget()
    after = repo.parallel("show", RUN).stdout
    assert timeless(after) == timeless(before)


def timeless(shown: str) -> list[str]:
    """What ``show`` printed without how long ago things were, and without where the live files are."""
    return [re.sub(r"\d+ \w+ ago", "AGO", line) for line in shown.splitlines() if not line.startswith("files:")]


def test_one_worker_by_any_of_its_names(repo) -> None:
    finished(repo)
    shown = {repo.parallel("show", name).stdout for name in ("2", f"{RUN}/2", "last/2", "architect/parallel-2")}
    assert len(shown) == 1
    assert shown.pop().startswith(f"worker {RUN}/2: failed/agent_error")


def test_a_branch_that_moved_or_went_is_told(repo) -> None:
    finished(repo)
    repo.git("branch", "-f", "architect/parallel-1", "HEAD~1")
    assert "(the worker left it at " in repo.parallel("show", "1").stdout
    repo.git("branch", "-D", "architect/parallel-1")
    assert "branch:    architect/parallel-1 (gone; was at " in repo.parallel("show", f"{RUN}/1").stdout


def test_the_document_has_results_spec_and_places(repo) -> None:
    finished(repo)
    document = json.loads(repo.parallel("show", "--json").stdout)
    assert (document["v"], document["run"], document["status"]) == (1, RUN, "ended")
    assert [worker["status"] for worker in document["workers"]] == ["success", "failed"]
    assert document["spec"]["tasks"][0]["prompt"].startswith("fix the login\n")
    assert document["record"] == repo.git("rev-parse", f"refs/architect/runs/{RUN}")
    assert document["refs"]["refs/heads/architect/parallel-2"]
    assert "events" not in document
    document = json.loads(repo.parallel("show", "2", "--json", "--events").stdout)
    assert [worker["worker_id"] for worker in document["workers"]] == [2]
    assert [event["event"] for event in document["events"]] == ["started", "state", "state"]


def test_events_are_lines_with_their_source(repo) -> None:
    finished(repo)
    out = repo.parallel("show", "2", "--events").stdout
    assert "[2]   running (process)\n" in out
    assert "[2]   ended failed agent_error (supervisor)\n" in out
    assert "[1]" not in out


def test_the_trace_is_the_records_own_log(repo) -> None:
    finished(repo)
    out = repo.parallel("show", "--trace").stdout
    subjects = [
        line.strip() for line in out.splitlines() if line.startswith("    ") and not line.startswith("    Arch")
    ]
    assert [subject for subject in subjects if subject][::-1] == [
        "run 2 workers: fix the login",
        "worker 1",
        "worker 2",
        "run ended",
    ]


def test_a_run_that_goes_on_is_shown_from_its_live_files(repo) -> None:
    start_run(repo.path, "one").running(1).progress(1, step=7, action="edit").record(ended=False)
    out = repo.parallel("show").stdout
    assert f"run {RUN}: running" in out
    assert f"worker {RUN}/1: running" in out
    assert "steps:     7\naction:    edit\n" in out


def test_an_interrupted_run_says_what_to_type(repo) -> None:
    start_run(repo.path, "one").running(1).crash()
    done = repo.parallel("show")
    assert f"worker {RUN}/1: interrupted" in done.stdout
    assert f"git parallel wait {RUN}" in done.stderr


def test_what_nobody_knows_is_a_usage_error(repo) -> None:
    finished(repo)
    done = repo.parallel("show", "nothing")
    assert done.returncode == 2
    assert done.stderr.startswith("error: 'nothing' is no run")
    assert repo.parallel("show", f"{RUN}/9").returncode == 2
    assert repo.parallel("show", "--json", "--trace").returncode == 2


def test_checks_say_how_they_ended() -> None:
    assert details.check(CheckResult("make", 2, 1.0)) == "red (exit code 2): make (1s)"
    assert details.check(CheckResult("make", -9, 1.0)) == "red (signal 9): make (1s)"
    assert details.check(CheckResult("make", None, 1.0)) == "red (no end in time): make (1s)"
    assert details.limits(Limits()) == ""
