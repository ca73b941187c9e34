"""`git parallel status` from the live files of runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from runs_on_disk import RUN, start_run

LATER = "20261129T170000Z-0000"
FIELDS = [
    "run",
    "worker",
    "state",
    "status",
    "reason",
    "steps",
    "cost",
    "seconds",
    "files",
    "model",
    "branch",
    "head",
    "worktree",
]


def status_document(repo, *arguments: str, cwd: Path | None = None) -> dict:
    done = repo.parallel("status", "--json", *arguments, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_repository_without_runs_says_how_to_start_one(repo) -> None:
    done = repo.parallel("status")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no run yet; start one with: git parallel" in done.stderr
    assert status_document(repo) == {"v": 1, "run": None, "status": None, "runs": [], "workers": []}


def test_a_live_run_is_shown_with_every_worker(repo) -> None:
    run = start_run(repo.path, "fix the login", "write the docs", "third")
    run.running(1).progress(1, step=4, cost=0.5, action="edit login.py", files=2)
    run.ended(2, files_modified=["a", "b"], insertions=3, deletions=1, cost=0.25)
    done = repo.parallel("status")
    assert done.returncode == 0
    heading, header, *rows = done.stdout.splitlines()
    assert heading.startswith(f"run {RUN}: running for ")
    assert header.split() == ["worker", "state", "task", "step", "last", "action", "time", "cost", "files", "branch"]
    assert "running  fix the login" in rows[0]
    assert "edit login.py" in rows[0]
    assert "$0.50" in rows[0]
    assert rows[1].split()[:2] == ["2", "success"]
    assert "12s" in rows[1]
    assert rows[2].split()[:2] == ["3", "queued"]
    assert done.stderr == ""


def test_the_document_has_the_results_fields_and_the_states(repo) -> None:
    run = start_run(repo.path, "one", "two")
    run.running(1).progress(1, step=4, cost=0.5, action="edit", files=2, trouble="retrying", waiting="a?")
    run.ended(2, "failed", "no_changes")
    document = status_document(repo)
    assert (document["v"], document["run"], document["status"]) == (1, RUN, "running")
    first, second = document["workers"]
    assert (first["worker_id"], first["status"], first["state"], first["cost"]) == (1, None, "running", 0.5)
    assert (first["trouble"], first["waiting"], first["retries"]) == ("retrying", "a?", 0)
    assert (second["worker_id"], second["status"], second["reason"]) == (2, "failed", "no_changes")


def test_porcelain_lines_are_fields_and_the_worktree_is_last(make_repo) -> None:
    repo = make_repo('odd "name"\t\u2028é')
    run = start_run(repo.path, "one", "two")
    run.ended(1, "partial", "budget", cost=0.125, steps=7, files_modified=["x"], head="ab" * 20)
    lines = repo.parallel("status", "--porcelain").stdout.split("\n")[:-1]
    first = dict(zip(FIELDS, lines[0].split("\t"), strict=True))
    quoted = str(repo.path / ".architect-parallel-1").replace('"', '\\"').replace("\t", "\\t")
    assert first == {
        "run": RUN,
        "worker": "1",
        "state": "ended",
        "status": "partial",
        "reason": "budget",
        "steps": "7",
        "cost": "0.125000",
        "seconds": "12.000",
        "files": "1",
        "model": "-",
        "branch": "architect/parallel-1",
        "head": "ab" * 20,
        "worktree": f'"{quoted}"',
    }
    records = repo.parallel("status", "-z").stdout.split("\0")[:-1]
    assert len(records) == 2
    assert records[1].split("\t", 12)[1:3] == ["2", "queued"]
    assert records[1].split("\t", 12)[12] == str(repo.path / ".architect-parallel-2")


def test_without_a_live_run_the_newest_is_shown(repo) -> None:
    start_run(repo.path, "old").ended(1).finish()
    start_run(repo.path, "new", run=LATER, first=2).ended(2).finish()
    assert status_document(repo)["run"] == LATER
    assert status_document(repo)["status"] == "ended"
    assert "ended" in repo.parallel("status").stdout.splitlines()[0]


def test_a_live_run_comes_before_a_newer_ended_one(repo) -> None:
    start_run(repo.path, "old").running(1)
    start_run(repo.path, "new", run=LATER, first=2).ended(2).finish()
    assert status_document(repo)["run"] == RUN


def test_several_live_runs_are_shown_together(repo) -> None:
    start_run(repo.path, "one").running(1)
    start_run(repo.path, "two", run=LATER, first=2)
    document = status_document(repo)
    assert (document["run"], document["status"]) == (None, "running")
    assert document["runs"] == [{"run": RUN, "status": "running"}, {"run": LATER, "status": "running"}]
    assert [(worker["run"], worker["worker_id"]) for worker in document["workers"]] == [(RUN, 1), (LATER, 2)]
    shown = repo.parallel("status").stdout
    assert shown.index(f"run {RUN}") < shown.index(f"run {LATER}")


def test_all_shows_every_run_with_files_here(repo) -> None:
    start_run(repo.path, "old").ended(1).finish()
    start_run(repo.path, "new", run=LATER, first=2).running(2)
    assert len(status_document(repo, "--all")["runs"]) == 2


def test_a_dead_supervisor_is_called_interrupted_and_its_workers_too(repo) -> None:
    run = start_run(repo.path, "one", "two", "three")
    run.running(1).progress(1, step=2).ended(2).crash()
    done = repo.parallel("status")
    assert f"run {RUN}: interrupted" in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines()[2:]]
    assert rows == [["1", "interrupted"], ["2", "success"], ["3", "queued"]]
    assert "nothing was removed" in done.stderr
    assert f"git parallel wait {RUN}" in done.stderr
    assert status_document(repo)["status"] == "interrupted"


def test_a_hostile_title_cannot_drive_the_terminal(repo) -> None:
    start_run(repo.path, "\x1b[2J\x07fix\u202e").running(1).progress(1, action="\x1b]0;owned\x07")
    done = repo.parallel("status")
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "\\x1b[2J\\x07fix\\u202e" in done.stdout


def test_it_works_from_anywhere_in_the_repository(repo, tmp_path) -> None:
    start_run(repo.path, "one").running(1)
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    (repo.path / "src" / "deep").mkdir()
    for place in (repo.path / "src" / "deep", tmp_path / "other", repo.path / ".git"):
        assert status_document(repo, cwd=place)["run"] == RUN


def test_outside_a_repository_it_is_gits_own_error(repo, tmp_path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = repo.parallel("status", cwd=tmp_path / "elsewhere")
    assert done.returncode == 128
    assert done.stderr.startswith("fatal: not a git repository")


def test_two_formats_at_once_are_refused(repo) -> None:
    done = repo.parallel("status", "--json", "--porcelain")
    assert done.returncode == 2
    assert done.stderr == "error: --json and --porcelain exclude each other\n"


def test_colour_follows_gits_setting(repo) -> None:
    start_run(repo.path, "one").ended(1).finish()
    assert "\x1b" not in repo.parallel("status").stdout
    repo.git("config", "color.parallel", "always")
    assert "\x1b[32msuccess\x1b[m" in repo.parallel("status").stdout


def test_a_torn_journal_line_hides_nothing_else(repo) -> None:
    run = start_run(repo.path, "one", "two").running(1)
    with open(run.files.journal, "ab") as journal:
        journal.write(b'{"event": "state", "worker": 2, "sta')
    assert [worker["state"] for worker in status_document(repo)["workers"]] == ["running", "queued"]


@pytest.mark.parametrize("locale", ["C", "en_US.ISO-8859-1"])
def test_any_locale_will_do(repo, locale: str) -> None:
    start_run(repo.path, "größer 日本 " + "x" * 100).running(1)
    done = repo.parallel("status", env={"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert done.returncode == 0, done.stderr


def test_it_imports_nothing_slow_and_calls_git_a_fixed_number_of_times(repo, tmp_path) -> None:
    start_run(repo.path, *[f"task {number}" for number in range(8)])
    trace = tmp_path / "trace"
    done = repo.parallel("status", env={"PYTHONPROFILEIMPORTTIME": "1", "GIT_TRACE": str(trace)})
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "click" in imported
    assert not imported & {"rich", "yaml", "psutil", "dulwich", "asyncio"}
    assert len([line for line in trace.read_text().splitlines() if "built-in" in line]) == 2
    assert not os.path.exists(repo.path / ".git" / "architect" / "lock")
