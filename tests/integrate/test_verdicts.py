"""Verdicts: bound to a head, kept in the record, told by the note."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from git_parallel.git import Repository
from git_parallel.integrate import verdicts


def started(repo, *tasks: str) -> dict:
    arguments = [argument for task in tasks for argument in ("--task", task)]
    return json.loads(repo.parallel("run", "--json", "--program", "shell", *arguments).stdout)


def test_a_verdict_is_in_the_record_and_in_the_note_of_the_head(repo):
    document = started(repo, "echo x > x")
    run, head = document["run"], document["workers"][0]["head"]
    here = Repository.discover(str(repo.path))

    comment = verdicts.Comment("why so?", path="x", line=1, side="new")
    verdicts.give(here, run, 1, "changes", head, message="not yet", comments=[comment], explicit=True)
    given = verdicts.give(here, run, 1, "approved", head)

    found = verdicts.of_run(here, run)[1]
    assert [verdict.verdict for verdict in found] == ["changes", "approved"]
    assert found[0].comments == (comment,)
    assert verdicts.current(found, head) == given
    assert given.by == "C O Mitter <committer@example.com>"
    note = repo.git("log", "-1", "--format=%N", "--notes=architect", head)
    assert f"Review: approved by C O Mitter <committer@example.com> on {given.at[:10]}" in note
    assert "Review: changes by C O Mitter <committer@example.com>" in note
    assert "Parallel-Worker:" in note
    trace = repo.git("log", "-1", "--format=%s%n%(trailers)", f"refs/architect/runs/{run}")
    assert "worker 1: approved by C O Mitter" in trace
    assert f"Architect-Head: {head}" in trace


def test_the_note_tells_which_of_several_counts(repo):
    document = started(repo, "echo x > x")
    run, head = document["run"], document["workers"][0]["head"]
    here = Repository.discover(str(repo.path))
    first = verdicts.give(here, run, 1, "approved", head)
    verdicts.give(here, run, 1, "changes", head, message="not yet")
    while f"{datetime.now(UTC):%H:%M:%S}" in verdicts.when(first.at):
        time.sleep(0.02)
    last = verdicts.give(here, run, 1, "approved", head)

    note = repo.git("log", "-1", "--format=%N", "--notes=architect", head)
    said = [line.split(" ")[1] for line in note.splitlines() if line.startswith("Review: ")]
    assert said == ["approved", "changes", "approved"]
    assert verdicts.when(last.at) in note.rstrip().splitlines()[-1]
    assert verdicts.when(last.at) in repo.parallel("show", "1").stdout


def test_a_later_commit_voids_it(repo):
    document = started(repo, "echo x > x")
    run, head = document["run"], document["workers"][0]["head"]
    here = Repository.discover(str(repo.path))
    verdicts.give(here, run, 1, "approved", head)
    worktree = repo.path / ".architect-parallel-1"
    repo.git("commit", "-q", "--allow-empty", "-m", "more", cwd=worktree)
    tip = repo.git("rev-parse", "architect/parallel-1")

    found = verdicts.of_run(here, run)[1]
    assert verdicts.current(found, tip) is None
    assert verdicts.standing(found, None) == found[-1]
    assert verdicts.current(found, head) == found[-1]


def test_many_verdicts_at_once_are_all_kept(repo):
    document = started(repo, "echo a > a", "echo b > b", "echo c > c")
    script = (
        "import sys; from git_parallel.git import Repository; from git_parallel.integrate import verdicts; "
        "[verdicts.give(Repository.discover(), sys.argv[1], int(sys.argv[2]), 'approved', sys.argv[3]) for _ in '123']"
    )

    def give(worker: dict) -> int:
        argv = [sys.executable, "-c", script, document["run"], str(worker["worker_id"]), worker["head"]]
        return subprocess.run(argv, cwd=repo.path, check=False).returncode

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(give, document["workers"])) == [0, 0, 0]
    found = verdicts.of_run(Repository.discover(str(repo.path)), document["run"])
    assert {worker: len(given) for worker, given in found.items()} == {1: 3, 2: 3, 3: 3}
    for worker in document["workers"]:
        assert "Review: approved" in repo.git("log", "-1", "--format=%N", "--notes=architect", worker["head"])
