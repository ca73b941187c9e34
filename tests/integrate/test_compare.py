"""Workers of one task side by side, on real runs."""

from __future__ import annotations

import json

import pytest
from ended_runs import ended_run
from going_runs import going_run, until

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import compare, workers
from git_parallel.integrate.compare import Comparison

# Four attempts at one task: two alike but for one file, one idle, one whose check is red.
TASK = """case $GIT_PARALLEL_WORKER in
1) echo new > s/new; echo one >> s/a;;
2) echo new > s/new; echo two >> s/a; git add -A; git commit -qm edits; rm s/c;;
3) true;;
4) echo one >> s/a;;
esac"""
CHECK = "test -f s/new || test ! -s s/a"


@pytest.fixture
def here(repo) -> Repository:
    repo.commit("files", {f"s/{name}": "".join(f"{number}\n" for number in range(20)) for name in "abc"})
    return Repository.discover(str(repo.path))


@pytest.fixture
def attempts(repo, here):
    return ended_run(repo, TASK, options=("--workers", "4", "--check", CHECK))


def compared(here: Repository, *words: str) -> Comparison:
    [group] = compare.groups(here, words, default=workers.going_on(here))
    return compare.compare(here, group)


def test_each_workers_change_is_what_git_shows(repo, here, attempts):
    found = compared(here)
    for worker, work in zip(attempts, found.work, strict=True):
        shown = repo.git("diff", "--numstat", worker.base, worker.head).splitlines()
        rows = [row.split("\t") for row in shown]
        assert sorted(work.versions) == sorted(row[2] for row in rows)
        assert (work.insertions, work.deletions) == (sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows))
        assert work.commits == int(repo.git("rev-list", "--count", f"{worker.base}..{worker.head}"))
        for path, version in work.versions.items():
            there = repo.git("rev-parse", "-q", "--verify", f"{worker.head}:{path}", check=False)
            assert (version[1] if version else "") == there


def test_what_all_changed_and_who_came_to_the_same(here, attempts):
    found = compared(here)
    assert found.paths == ["s/a", "s/c", "s/new"]
    assert found.common == ["s/a"], "a worker that did nothing does not keep the others from having much in common"
    assert found.identical == []
    both = compared(here, "1", "2")
    assert (both.common, both.identical) == (["s/a", "s/new"], ["s/new"])


def test_pairs_are_compared_file_by_file_and_commit_by_commit(repo, here, attempts):
    found = compared(here)
    first = found.pairs[0, 1]
    assert (first.alike, first.different, first.only) == (1, 1, (0, 1))
    marks = [
        line.split()[2]
        for line in repo.git(
            "range-diff", "-s", *(f"{worker.base}..{worker.head}" for worker in attempts[:2])
        ).splitlines()
    ]
    assert dict(first.commits) == {mark: marks.count(mark) for mark in "=!<>"}
    assert dict(found.pairs[0, 2].commits) == {"=": 0, "!": 0, "<": 1, ">": 0}


def test_ranking_has_proof_first_and_bars_the_idle_and_the_red(here, attempts):
    places = compared(here).ranking()
    assert [(place.item, place.place) for place in places] == [(0, 1), (1, 2), (2, None), (3, None)]
    assert places[0].ahead == "a smaller change"
    assert places[2].bar == "it ended as failed/no_changes"
    assert places[3].bar == "1 of 1 check red"


def test_an_attempt_that_collides_with_the_target_falls_behind(repo, here):
    ended_run(
        repo,
        "echo $GIT_PARALLEL_WORKER > s/$(test $GIT_PARALLEL_WORKER = 1 && echo a || echo b)",
        options=("--workers", "2"),
    )
    repo.commit("meanwhile", {"s/a": "main\n"})
    first, second = compared(here).ranking()
    assert (first.item, first.ahead, second.item) == (1, "fewer conflicts with the target", 0)


def test_a_persons_verdict_counts_for_the_head_it_was_given_for(repo, here):
    one, two = ended_run(repo, "seq $GIT_PARALLEL_WORKER > n", options=("--workers", "2"))
    assert repo.parallel("review", "--approve", str(two.number)).returncode == 0
    assert [verdict and verdict.verdict for verdict in compared(here).verdicts] == [None, "approved"]
    assert compared(here).ranking()[0].item == 1
    two.commit("more", "n", "moved\n")
    assert compared(here).verdicts == [None, None]
    assert repo.parallel("review", "--reject", str(one.number)).returncode == 0
    assert [(place.item, place.bar) for place in compared(here).ranking()] == [(1, None), (0, "a person rejected it")]


# --- who is compared -------------------------------------------------------------------------------


def handles(found: list[list[workers.Candidate]]) -> list[list[str]]:
    return [[one.handle for one in group] for group in found]


def test_of_a_run_each_task_with_several_workers_is_a_comparison(repo, here):
    one, two, three, four = ended_run(repo, "echo 1 > a", "echo 2 > b", options=("--matrix", "--models", "x,y"))
    by_task = {}
    for worker in (one, two, three, four):
        by_task.setdefault(repo.git("log", "-1", "--format=%s", worker.branch), []).append(worker.handle)
    assert handles(compare.groups(here, [])) == list(by_task.values())
    assert handles(compare.groups(here, [one.run])) == list(by_task.values())


def test_one_worker_is_compared_with_the_others_of_its_task(here, attempts):
    assert handles(compare.groups(here, ["3"])) == [[worker.handle for worker in attempts]]


def test_several_workers_are_compared_whatever_their_tasks(repo, here):
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    [later] = ended_run(repo, "echo 3 > c")
    assert handles(compare.groups(here, [later.handle, one.handle])) == [[later.handle, one.handle]]
    found = compare.compare(here, compare.groups(here, [one.handle, two.handle])[0])
    assert found.task is None


def test_without_a_second_worker_there_is_nothing_to_compare(repo, here):
    one, _ = ended_run(repo, "echo 1 > a", "echo 2 > b")
    with pytest.raises(UsageError, match=r"no task of run .* has two workers"):
        compare.groups(here, [])
    with pytest.raises(UsageError, match="the task of worker 1 has only one worker"):
        compare.groups(here, [str(one.number)])


# --- the command -----------------------------------------------------------------------------------


def test_a_person_sees_the_workers_the_files_and_the_pairs(repo, attempts):
    done = repo.parallel("compare", "1", "2", "--rank")
    assert done.returncode == 0
    text = done.stdout
    assert "3 files changed, 2 by all, 1 of them alike:" in text
    assert "a  b  s/a" in text
    assert "a  a  s/new" in text
    assert ".  x  s/c" in text
    assert "1 and 2: files: 1 alike, 1 different, 1 only in 2; commits: " in text
    assert "  1. 1  ahead by a smaller change" in text
    assert "1 of 1 check green, success, no conflict with the target" in text


def test_without_rank_nobody_is_ranked(repo, attempts):
    assert "ranking" not in repo.parallel("compare").stdout


def test_the_json_has_versions_pairs_and_ranking(repo, attempts):
    done = repo.parallel("compare", "--json")
    [task] = json.loads(done.stdout)["tasks"]
    one, two, three, four = attempts
    assert (task["run"], task["task"]) == (one.run, "t1")
    assert [worker["handle"] for worker in task["workers"]] == [one.handle, two.handle, three.handle, four.handle]
    assert [worker["status"] for worker in task["workers"]][:3] == ["success", "success", "failed"]
    files = {entry["path"]: entry["versions"] for entry in task["files"]}
    assert files["s/c"] == {two.handle: None}
    assert files["s/new"][one.handle] == files["s/new"][two.handle]
    assert task["ranking"][0]["worker"] == one.handle
    assert [entry["place"] for entry in task["ranking"]] == [1, 2, None, None]
    assert len(task["pairs"]) == 6


def test_a_branch_that_is_gone_is_left_out_and_told(repo, attempts):
    repo.git("update-ref", "-d", f"refs/heads/{attempts[1].branch}")
    done = repo.parallel("compare")
    assert done.returncode == 0
    assert "2: left out: its branch is gone" in done.stdout


def test_range_diff_is_gits_own(repo, attempts):
    one, two = attempts[:2]
    done = repo.parallel("compare", "--range-diff", "1", "2")
    expected = repo.git("range-diff", *(f"{worker.base}..{worker.head}" for worker in (one, two)))
    assert (done.returncode, done.stdout.rstrip("\n")) == (0, expected)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--range-diff", "1", "3"), 128, "worker 3 has no commit of its own"),
        (("--range-diff", "1", "1"), 2, "--range-diff takes two workers"),
        (("--range-diff", "1", "2", "--json"), 2, "--range-diff takes two workers and nothing else"),
    ],
)
def test_range_diff_of_anything_but_two_series_is_refused(repo, attempts, words, code, message):
    done = repo.parallel("compare", *words)
    assert done.returncode == code
    assert message in done.stderr


def test_live_workers_count_with_what_they_have_not_committed(repo, here):
    task = "echo $GIT_PARALLEL_WORKER > s/a; echo same > n; touch ready; sleep 600"
    with going_run(repo, task, task, states={1: "running", 2: "running"}):
        ready = [repo.path / f".architect-parallel-{number}/ready" for number in (1, 2)]
        until(lambda: all(one.exists() for one in ready), "the edits")
        found = compared(here, "1", "2")
    assert [head.uncommitted for head in found.heads] == [True, True]
    assert [work.commits for work in found.work] == [0, 0]
    assert found.identical == ["n", "ready"]
    assert [place.bar for place in found.ranking()] == ["it is running", "it is running"]


def test_without_a_run_it_says_how_to_start_one(repo):
    done = repo.parallel("compare")
    assert (done.returncode, done.stdout) == (0, "")
    assert "hint: no run yet" in done.stderr
