"""`git parallel list`: runs from their records, and those that have only begun."""

from __future__ import annotations

import json

from runs_on_disk import RUN, start_run

LATER = "20261129T170000Z-0000"


def listed(repo, *arguments: str) -> list[dict]:
    done = repo.parallel("list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["v"] == 1
    return document["runs"]


def test_a_repository_without_runs_lists_nothing(repo) -> None:
    done = repo.parallel("list")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert listed(repo) == []


def test_runs_come_from_their_records_newest_first(repo) -> None:
    start_run(repo.path, "fix the login", "docs").ended(1).ended(2, "failed", "no_changes").finish().record().forget()
    start_run(repo.path, "second", run=LATER, first=3).ended(3).finish().record()
    later, earlier = listed(repo)
    assert (later["run"], later["status"], later["counts"]) == (LATER, "ended", {"success": 1})
    assert earlier == {
        "run": RUN,
        "status": "ended",
        "started": 1795971000.0,
        "counts": {"success": 1, "failed": 1},
        "title": "fix the login",
        "record": repo.git("rev-parse", f"refs/architect/runs/{RUN}"),
    }
    rows = repo.parallel("list").stdout.splitlines()
    assert rows[0].split() == ["run", "started", "state", "workers", "first", "task"]
    assert rows[1].split()[0] == LATER
    assert "1 success, 1 failed  fix the login" in rows[2]


def test_a_run_that_goes_on_is_counted_as_it_is_now(repo) -> None:
    start_run(repo.path, "one", "two", "three").running(1).ended(2).record(ended=False)
    (row,) = listed(repo)
    assert (row["status"], row["counts"], row["title"]) == (
        "running",
        {"running": 1, "success": 1, "queued": 1},
        "one and 2 more tasks",
    )


def test_a_run_that_died_before_its_first_record_is_listed_too(repo) -> None:
    start_run(repo.path, "one").running(1).crash()
    (row,) = listed(repo)
    assert (row["status"], row["record"], row["counts"]) == ("interrupted", None, {"interrupted": 1})


def test_a_record_that_ends_in_the_middle_without_files_here_is_unfinished(repo) -> None:
    start_run(repo.path, "one").ended(1).record(ended=False).crash().forget()
    assert listed(repo)[0]["status"] == "unfinished"


def test_n_limits_the_list(repo) -> None:
    start_run(repo.path, "one").ended(1).finish().record()
    start_run(repo.path, "two", run=LATER, first=2).running(2)
    assert [row["run"] for row in listed(repo, "-n", "1")] == [LATER]
    assert repo.parallel("list", "-n", "0").returncode == 2


def test_porcelain_has_the_title_last(repo) -> None:
    start_run(repo.path, 'say "hi"\tnow').ended(1, "partial", "budget").finish().record()
    tip = repo.git("rev-parse", f"refs/architect/runs/{RUN}")
    assert repo.parallel("list", "--porcelain").stdout.split("\t") == [
        RUN,
        "ended",
        "1795971000",
        "partial=1",
        tip,
        '"say \\"hi\\" now"\n',
    ]
    assert repo.parallel("list", "-z").stdout.endswith('\tsay "hi" now\0')


def test_it_takes_a_fixed_number_of_git_calls(repo, tmp_path) -> None:
    for number in range(5):
        start_run(repo.path, "t", run=f"2026112{number}T165000Z-0000", first=1 + number).ended(
            1 + number
        ).finish().record()
    trace = tmp_path / "trace"
    assert len(repo.parallel("list", env={"GIT_TRACE": str(trace)}).stdout.splitlines()) == 6
    assert len([line for line in trace.read_text().splitlines() if "built-in" in line]) == 3
