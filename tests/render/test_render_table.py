"""Tables of workers at any width."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from git_parallel.plan.model import CheckResult, Limits, Result, RunSpec
from git_parallel.render import table, text
from git_parallel.supervisor.view import Progress, RunView, WorkerView

START = "2026-11-29T16:50:00.000Z"
NOW = text.moment(START) or 0.0


def view(worker: int = 1, **changes: object) -> WorkerView:
    plain = WorkerView(
        worker=worker,
        task=f"t{worker}",
        title=f"task {worker}",
        model=None,
        branch=f"architect/parallel-{worker}",
        worktree=f"/repo/.architect-parallel-{worker}",
        since=START,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def ended(worker: int, status: str, reason: str, **changes: object) -> WorkerView:
    fields: dict[str, object] = {
        "worker_id": worker,
        "branch": f"architect/parallel-{worker}",
        "model": None,
        "status": status,
        "steps": None,
        "cost": None,
        "duration": 12.0,
        "files_modified": [],
        "worktree_path": "/w",
        "run": "r",
        "task": "t1",
        "agent": "shell",
        "role": "build",
        "base": "0" * 40,
        "head": None,
        "reason": reason,
        "started": START,
    }
    result = Result(**{**fields, **changes})  # type: ignore[arg-type]
    return view(worker, state="ended", reason=reason, started=START, result=result)


def run(views: list[WorkerView], end: str | None = "2026-11-29T16:51:04.000Z") -> RunView:
    spec = RunSpec(
        run="r",
        created=START,
        argv=(),
        person="A <a>",
        base="0" * 40,
        base_name="HEAD",
        target=None,
        subdir="",
        top=None,
        program="shell",
        role="build",
        tasks=(),
        jobs=(),
        workers=3,
        limits=Limits(),
    )
    return RunView(spec=spec, state="ended", pid=None, workers=views, started=START, ended=end)


def rows(drawn: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in drawn.splitlines()]


def test_a_worker_at_work_and_one_that_waits() -> None:
    views = [
        view(1, state="running", started=START, model="fast", progress=Progress(step=3, cost=0.5, action="edit a.py")),
        view(2),
    ]
    drawn = rows(table.workers(views, now=NOW + 64, width=200, colour=False))
    assert drawn == [
        ["worker", "state", "task", "model", "step", "last action", "time", "cost", "files", "branch"],
        ["1", "running", "task 1", "fast", "3", "edit a.py", "1m04s", "$0.50", "?", "architect/parallel-1"],
        ["2", "queued", "task 2", "-", "-", "-", "-", "-", "-", "architect/parallel-2"],
    ]


def test_columns_nobody_fills_are_left_out() -> None:
    header = rows(table.workers([view()], now=NOW, width=200, colour=False))[0]
    assert header == ["worker", "state", "task", "time", "cost", "files", "branch"]


@pytest.mark.parametrize(
    ("worker", "said"),
    [
        (view(state="blocked", reason="needs input"), "blocked(needs input)"),
        (view(state="running", progress=Progress(trouble="rate limited")), "running(rate limited)"),
        (view(state="waiting", reason="retry in 2 s"), "waiting(retry in 2 s)"),
        (view(state="running", reason="whatever"), "running"),
        (ended(1, "success", "done"), "success"),
        (ended(1, "failed", "no_changes"), "failed/no_changes"),
        (ended(1, "timeout", "timeout"), "timeout"),
        (ended(1, "failed", "\x1b[2J"), "failed/\\x1b[2J"),
    ],
)
def test_the_state_comes_with_what_is_special_about_it(worker: WorkerView, said: str) -> None:
    assert table.state(worker) == said


def test_time_runs_while_the_worker_does() -> None:
    later = "2026-11-29T16:51:00.000Z"
    assert table.elapsed(view(state="running", started=START), NOW + 5) == 5
    assert table.elapsed(view(state="waiting", started=START), NOW + 5) == 5
    assert table.elapsed(view(state="preparing"), NOW + 2) == 2
    assert table.elapsed(view(state="queued"), NOW + 99) is None
    assert table.elapsed(ended(1, "success", "done"), NOW + 999) == 12
    assert table.elapsed(view(state="ended", started=START, since=later), NOW + 999) == 60


def test_an_interrupted_worker_is_not_timed_beyond_what_was_seen() -> None:
    seen = Progress(time="2026-11-29T16:50:07.000Z")
    assert table.elapsed(view(state="interrupted", started=START, progress=seen), NOW + 9999) == 7
    assert table.elapsed(view(state="interrupted", started=START), NOW + 9999) is None


@pytest.mark.parametrize("width", [8, 14, 20, 40, 60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    title = "修正 " * 40 + "\x1b[31m"
    views = [
        view(n, state="running", started=START, model="m" * 30, title=title, progress=Progress(step=1, action="a" * 99))
        for n in (1, 22, 333)
    ]
    for line in table.workers(views, now=NOW, width=width, colour=False).splitlines():
        assert text.columns(line) <= width
        assert "\x1b" not in line


def test_what_has_no_room_gives_way_by_rank() -> None:
    views = [view(1, state="running", started=START, title="t" * 60, progress=Progress(action="a" * 60))]
    names = {
        width: rows(table.workers(views, now=NOW, width=width, colour=False))[0] for width in (200, 90, 70, 50, 30)
    }
    assert "last action" in names[200]
    assert "branch" in names[90]
    assert "last action" not in names[70]
    assert "branch" not in names[50]
    assert names[30][:2] == ["worker", "state"]


def test_colour_follows_the_state_and_changes_no_width() -> None:
    views = [ended(1, "success", "done"), ended(2, "failed", "no_changes")]
    plain = table.workers(views, now=NOW, width=100, colour=False)
    coloured = table.workers(views, now=NOW, width=100, colour=True)
    assert "\x1b[32msuccess\x1b[m" in coloured
    assert "\x1b[31mfailed/no_changes\x1b[m" in coloured
    for code in (*text.COLOURS.values(), "\x1b[m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_results_end_with_a_line_that_sums_up() -> None:
    views = [
        ended(1, "success", "done", files_modified=["a", "b", "c"], insertions=10, deletions=2, cost=0.1),
        ended(2, "success", "done", files_modified=["a"], insertions=1, deletions=0, cost=0.02),
        ended(3, "failed", "no_changes", cost=0.0),
    ]
    drawn = table.results(run(views), width=200, colour=False).splitlines()
    assert rows(drawn[1])[0] == ["1", "success", "task 1", "3 files, +10 -2", "$0.10", "12s", "architect/parallel-1"]
    assert drawn[-1] == "3 workers: 2 success, 1 failed · 4 files · $0.12 · 1m04s"


def test_unknown_money_is_never_nothing() -> None:
    unknown, known = ended(1, "success", "done"), ended(2, "success", "done", cost=0.25)
    assert "· ? ·" in table.summary([unknown], 1)
    assert "· $0.25 + ? ·" in table.summary([unknown, known], 1)


def test_a_worker_that_never_started_cost_nothing_and_hides_no_sum() -> None:
    skipped = ended(2, "skipped", "dependency", started=None, duration=None)
    views = [ended(1, "success", "done", cost=0.25), replace(skipped, started=None)]
    assert "· $0.25 ·" in table.summary(views, 1)
    assert rows(table.results(run(views), width=200, colour=False))[2][3:6] == ["-", "-", "-"]


def test_checks_are_told_in_a_word() -> None:
    green, red = CheckResult("true", 0, 1.0), CheckResult("false", 1, 1.0)
    assert table.check(None) is None
    assert table.check([green, green]) == "ok"
    assert table.check([red]) == "red"
    assert table.check([green, red]) == "1/2 red"
    assert "check" in table.results(run([ended(1, "success", "done", check=[green])]), width=200, colour=False)


def test_the_tally_names_endings_before_those_at_work() -> None:
    views = [view(1), view(2, state="running"), ended(3, "failed", "x"), ended(4, "success", "done")]
    assert table.tally(views) == "1 success, 1 failed, 1 running, 1 queued"
    assert table.tally([]) == "none"
