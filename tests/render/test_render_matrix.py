"""The matrix of conflicts as text: what fits, what gives way, and what foreign names cannot do."""

from __future__ import annotations

from git_parallel.integrate.conflicts import Finding, Forecast, Target
from git_parallel.integrate.heads import Absent, Head
from git_parallel.integrate.mergetree import Conflict, MergeOutcome
from git_parallel.integrate.workers import Candidate
from git_parallel.plan.model import Job, Limits, RunSpec, Task
from git_parallel.render import matrix, text

RUN = "20261129T165000Z-7f3a"
MAIN = Target("main", "0" * 40)


def candidate(number: int, title: str = "do it", run: str = RUN) -> Candidate:
    spec = RunSpec(
        run=run,
        created="2026-11-29T16:50:00Z",
        argv=(),
        person="A U Thor <author@example.com>",
        base="b" * 40,
        base_name="HEAD",
        target="refs/heads/main",
        subdir="",
        top=None,
        program="shell",
        role="build",
        tasks=(Task("t1", title),),
        jobs=(Job(number, "t1", None, f"architect/parallel-{number}", f"/tree/{number}"),),
        workers=1,
        limits=Limits(),
    )
    branch = f"refs/heads/architect/parallel-{number}"
    return Candidate(run, number, spec, None, branch, "c" * 40, "b" * 40, f"/tree/{number}", "ended")


def collision(*paths: str, kind: str = "content") -> Finding:
    conflicts = tuple(Conflict(path, kind, {}) for path in paths)
    return Finding(len(paths), MergeOutcome("a", "b", "t", False, conflicts))


MERGES = Finding(2, MergeOutcome("a", "b", "t", True))


def forecast(count: int, pairs=None, against=None, *, title: str = "do it", **changes) -> Forecast:
    heads = changes.pop("heads", None) or [Head(candidate(number, title), "c" * 40) for number in range(1, count + 1)]
    fields = {
        "heads": heads,
        "absent": [],
        "targets": [MAIN] * count,
        "pairs": pairs or {},
        "against": against or {},
        "files": [1] * count,
        "idle": frozenset(),
        "merged": 0,
        "possible": count * (count - 1) // 2 + count,
    }
    return Forecast(**{**fields, **changes})


def shown(found: Forecast, width: int = 100) -> list[str]:
    return matrix.described(found, width=width, colour=False).splitlines()


def test_a_cell_says_how_two_meet():
    found = forecast(
        4,
        {(0, 1): collision("a", "b"), (0, 2): MERGES, (1, 2): Finding(same_but_case=(("A", "a"),))},
        {3: collision("c")},
    )
    assert shown(found)[:5] == [
        "worker  main 1 2 3 4",
        "     1     . \\ 2 o .  do it",
        "     2     . 2 \\ ~ .  do it",
        "     3     . o ~ \\ .  do it",
        "     4     1 . . . \\  do it",
    ]


def test_what_does_not_fit_gives_way_from_titles_to_workers_that_collide_with_nothing():
    found = forecast(30, {(3, 17): collision("a")}, title="a long title that says much of what is to be done")
    wide, narrow = shown(found, 140), shown(found, 60)
    assert all("a long title" in line for line in wide[1:31])
    assert narrow[:4] == [
        "worker  main 4 18",
        "     4     . \\  1  a long title that says much of what is…",
        "    18     . 1  \\  a long title that says much of what is…",
        "(28 workers that collide with nothing left out)",
    ]
    assert max(text.columns(line) for line in narrow) <= 60


def test_where_not_even_those_fit_only_the_list_is_left():
    pairs = {(one, one + 1): collision("a") for one in range(39)}
    lines = shown(forecast(40, pairs), 60)
    assert lines[0] == "1 and 2: 1 path conflicts"
    assert max(text.columns(line) for line in lines) <= 60


def test_of_many_paths_a_pair_shows_the_first_and_how_many_there_are():
    lines = shown(forecast(2, {(0, 1): collision(*(f"f{number:02}" for number in range(30)))}))
    assert "1 and 2: 30 paths conflict" in lines
    assert "    … and 10 more" in lines
    assert "    content  f19" in lines
    assert "    content  f20" not in lines


def test_a_pair_that_git_would_not_merge_has_gits_reason():
    refused = Finding(0, MergeOutcome("a", "b", None, False, failed="refusing to merge unrelated histories"))
    assert "1 and main: cannot be merged: refusing to merge unrelated histories" in shown(forecast(2, {}, {0: refused}))


def test_foreign_names_cannot_drive_the_terminal():
    found = forecast(2, {(0, 1): collision("a\x1b[2Jb\nc")}, title="\x1b]0;title\x07\u202e")
    assert not any("\x1b" in line or "\u202e" in line for line in shown(found))
    assert "    content  a\\x1b[2Jb\\nc" in shown(found)


def test_workers_of_one_number_are_called_by_their_run():
    heads = [Head(candidate(1, run=run), "c" * 40) for run in (RUN, "20261130T000000Z-0001")]
    assert matrix.names([*heads, Head(candidate(2), "c" * 40)]) == [
        f"{RUN}/1",
        "20261130T000000Z-0001/1",
        "2",
    ]


def test_what_was_looked_at_is_told_where_it_is_not_the_branch():
    heads = [
        Head(candidate(1), "c" * 40, uncommitted=True),
        Head(candidate(2), "c" * 40, note="its worktree is gone"),
        Head(candidate(3), "c" * 40),
    ]
    absent = [Absent(candidate(4), "its branch is gone")]
    lines = shown(forecast(3, heads=heads, absent=absent, idle=frozenset({2})))
    assert lines[-5:] == [
        "nothing to land: 3",
        "with what is not committed yet: 1",
        "2: only its branch was looked at: its worktree is gone",
        "4: left out: its branch is gone",
        "3 workers: 0 of 6 pairs conflict",
    ]


def test_colours_change_no_column():
    found = forecast(3, {(0, 1): collision("a")}, {2: collision("b")})
    plain, coloured = shown(found), matrix.described(found, width=100, colour=True)
    for code in (*text.COLOURS.values(), "\x1b[m"):
        coloured = coloured.replace(code, "")
    assert coloured.splitlines() == plain
    assert "\x1b[31m" in matrix.described(found, width=100, colour=True)


def test_the_order_tells_its_reasons():
    found = forecast(3, {(0, 1): collision("a", "b")}, {2: collision("c")})
    start = shown(found).index("suggested order, fewest conflicts first:")
    assert shown(found)[start + 1 : start + 4] == [
        "   1. 1  conflicts with 2 (2 paths), after it",
        "   2. 3  conflicts with main (1 path)",
        "   3. 2  conflicts with 1 (2 paths), before it",
    ]


def test_a_single_worker_needs_no_order():
    assert not any("order" in line for line in shown(forecast(1)))
