"""handles: what a person types finds the run or worker they mean, or an error that says what comes near."""

from __future__ import annotations

import shutil

import pytest

from git_parallel.errors import UsageError
from git_parallel.layout import State
from git_parallel.plan.model import Job, Limits, RunSpec, Task, encode
from git_parallel.store import handles
from git_parallel.store.handles import Handle, resolve
from git_parallel.store.record import write

OLD, MIDDLE, NEW = "20251231T235959Z-0001", "20261129T165000Z-7f3a", "20261129T170000Z-11aa"


def spec(run, workers, branch="architect/parallel-{n}"):
    jobs = tuple(Job(n, "t1", None, branch.format(n=n), f"/w{n}") for n in workers)
    return RunSpec(
        run=run,
        created="2026-11-29T16:50:00Z",
        argv=(),
        person="A <a@example.com>",
        base="1" * 40,
        base_name="HEAD",
        target=None,
        subdir="",
        top=None,
        program="shell",
        role="build",
        tasks=(Task("t1", "do it"),),
        jobs=jobs,
        workers=1,
        limits=Limits(),
    )


@pytest.fixture
def where(repo, opened):
    return opened(repo.path)


@pytest.fixture
def ran(repo, where):
    """Return a function that leaves a run behind: its record, its live files and its branches."""

    def make(run, workers, *, live=True, recorded=True, branches=True, **options):
        data = encode(spec(run, workers, **options))
        if recorded:
            write(where, run, {"run.json": data}, subject="start")
        if live:
            path = repo.path / ".git/architect/runs" / run / "run.json"
            path.parent.mkdir(parents=True)
            path.write_bytes(data)
        if branches:
            for job in spec(run, workers, **options).jobs:
                repo.git("update-ref", f"refs/heads/{job.branch}", "HEAD")

    return make


@pytest.fixture
def runs(ran):
    """The old run is known only by its record, the newest only by its live files."""
    ran(OLD, [1, 2], live=False)
    ran(MIDDLE, [3, 4])
    ran(NEW, [5], recorded=False)


def test_a_number_is_the_worker_whose_branch_exists(where, runs):
    assert resolve(where, ["5", "3", "2"]) == [Handle(NEW, 5), Handle(MIDDLE, 3), Handle(OLD, 2)]


def test_a_number_that_was_used_again_is_the_newest_runs(where, ran):
    ran(OLD, [1])
    ran(NEW, [1])
    assert resolve(where, ["1"]) == [Handle(NEW, 1)]


def test_a_number_whose_branch_is_gone_names_those_that_are_not(repo, where, runs):
    repo.git("update-ref", "-d", "refs/heads/architect/parallel-4")
    with pytest.raises(UsageError, match="there is no worker 4") as caught:
        resolve(where, ["4"])
    assert caught.value.hints == (
        "workers whose branch exists: 1, 2, 3, 5",
        f"the newest run that had one: git parallel show {MIDDLE}/4",
    )
    with pytest.raises(UsageError, match="there is no worker 9") as caught:
        resolve(where, ["9"])
    assert "<run>/<n>" in caught.value.hints[1]
    assert resolve(where, [f"{MIDDLE}/4", "architect/parallel-4"]) == [Handle(MIDDLE, 4)]


def test_a_number_that_several_had_names_the_newest_of_them(where, ran):
    for run in (OLD, MIDDLE):
        ran(run, [1, 2], branches=False)
    ran(NEW, [1], live=False, branches=False)
    for number, run in (("1", NEW), ("2", MIDDLE)):
        with pytest.raises(UsageError, match=f"there is no worker {number}") as caught:
            resolve(where, [number])
        assert caught.value.hints[0] == "no worker's branch exists"
        assert caught.value.hints[1].endswith(f": git parallel show {run}/{number}")


def test_a_short_number_is_never_the_beginning_of_a_run(where, ran):
    ran(NEW, [1])
    for word in ("2", "20", "202"):
        with pytest.raises(UsageError, match=f"there is no worker {word}"):
            resolve(where, [word])
    assert resolve(where, ["2026"]) == [Handle(NEW)]


def test_a_run_is_its_id_or_a_beginning_that_no_other_run_has(where, runs):
    assert resolve(where, [OLD, "2025", "20261129T17"]) == [Handle(OLD), Handle(NEW)]
    with pytest.raises(UsageError, match="'20261129' is ambiguous: 2 runs begin with it") as caught:
        resolve(where, ["20261129"])
    assert caught.value.hints == (NEW, MIDDLE)


def test_an_id_that_begins_another_is_not_ambiguous(where, ran):
    ran(OLD, [1])
    ran(f"{OLD}-2", [2])
    assert resolve(where, [OLD]) == [Handle(OLD)]


def test_last_is_the_newest_run_and_the_default(where, runs):
    assert resolve(where, ["last"]) == resolve(where, []) == [Handle(NEW)]
    assert resolve(where, ["last/5"]) == [Handle(NEW, 5)]
    assert resolve(where, [], default=()) == []


def test_a_worker_of_a_run(where, runs):
    assert resolve(where, [f"{OLD}/1", "2025/2", f"{MIDDLE}/3"]) == [Handle(OLD, 1), Handle(OLD, 2), Handle(MIDDLE, 3)]
    with pytest.raises(UsageError, match=f"run {OLD} has no worker 7") as caught:
        resolve(where, ["2025/7"])
    assert caught.value.hints == ("it has 1, 2",)


def test_a_branch_is_the_worker_that_has_it(where, runs, ran):
    assert resolve(where, ["architect/parallel-2", "refs/heads/architect/parallel-5"]) == [
        Handle(OLD, 2),
        Handle(NEW, 5),
    ]
    ran("20270101T000000Z-0000", [9], branch="ünï/{n}")
    assert resolve(where, ["ünï/9"]) == [Handle("20270101T000000Z-0000", 9)]


def test_each_thing_comes_once_in_the_order_named(where, runs):
    assert resolve(where, ["3", NEW, f"{MIDDLE}/3", "last", "5"]) == [Handle(MIDDLE, 3), Handle(NEW), Handle(NEW, 5)]
    assert [str(handle) for handle in resolve(where, ["3", NEW])] == [f"{MIDDLE}/3", NEW]


@pytest.mark.parametrize(
    "word", ["lst", "architect/paralel-5", "0", "-1", "", "3/3", "x\ny", "*", "2026*", "main", "../x"]
)
def test_anything_else_is_a_usage_error(where, runs, word):
    with pytest.raises(UsageError, match="is no run, worker or branch of a worker here") as caught:
        resolve(where, [word])
    assert caught.value.exit_code == 2
    near = {"lst": "did you mean 'last'?", "architect/paralel-5": "did you mean 'architect/parallel-5'"}
    assert near.get(word, "list the runs") in " ".join(caught.value.hints)


def test_a_repository_without_runs_says_so(where):
    with pytest.raises(UsageError, match="there are no runs"):
        resolve(where, [])
    with pytest.raises(UsageError, match="there is no worker 1"):
        resolve(where, ["1"])


def test_live_files_that_cannot_be_read_do_not_hide_the_rest(repo, where, runs):
    top = State(where.common_dir).runs
    (repo.path / ".git/architect/runs/stray").mkdir()
    (repo.path / f".git/architect/runs/{NEW}/run.json").write_text("{")
    assert resolve(where, ["3", "last", f"{NEW}/5"]) == [Handle(MIDDLE, 3), Handle(NEW), Handle(NEW, 5)]
    (repo.path / f".git/architect/runs/{MIDDLE}/run.json").write_text("")
    assert resolve(where, ["3", f"{MIDDLE}/4"]) == [Handle(MIDDLE, 3), Handle(MIDDLE, 4)]  # from the record
    shutil.rmtree(top)
    assert resolve(where, ["last"]) == [Handle(MIDDLE)]


def test_the_number_of_git_calls_does_not_grow(repo, where, ran, monkeypatch):
    words = []
    for n in range(1, 31):
        run = f"202601{n:02}T000000Z-0000"
        ran(run, [n], live=n % 2 == 0)
        words += [str(n), run, run[:8], f"{run}/{n}", f"architect/parallel-{n}"]
    calls = []
    real = type(where.common).begin
    monkeypatch.setattr(type(where.common), "begin", lambda *a, **o: calls.append(a[1]) or real(*a, **o))
    resolve(where, ["2"])
    assert calls == ["for-each-ref"]  # the live files name the branch; git says whether it exists
    calls.clear()
    assert len(resolve(where, words)) == 60
    assert len(calls) <= 4


def test_old_records_are_still_found_by_name(where, ran, monkeypatch):
    monkeypatch.setattr(handles, "_RECORDS_READ", 1)
    ran(OLD, [1], live=False)
    ran(NEW, [2], live=False)
    real = handles.batch
    asked = []
    monkeypatch.setattr(handles, "batch", lambda repo, names: asked.append(len(names)) or real(repo, names))
    assert resolve(where, ["2", "2025/1"]) == [Handle(NEW, 2), Handle(OLD, 1)]
    assert asked == [1, 1]
    with pytest.raises(UsageError, match=f"run {OLD} has no worker 2"):
        resolve(where, ["2025/2"])
