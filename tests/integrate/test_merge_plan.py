"""The pure parts of a landing: who may land, in which order, with which message, and what it ends with."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from landings import landable

from git_parallel.integrate.message import compose, trailers, with_trailers
from git_parallel.integrate.plan import Branch, Checked, Merge, decode, document, encode, exit_code, ordered
from git_parallel.plan.settings import BY_NAME

RUN = "20261129T165000Z-7f3a"


def branch(worker: int, task: str | None = None, run: str = RUN, **changes) -> Branch:
    fields = {
        "run": run,
        "worker": worker,
        "branch": f"refs/heads/architect/parallel-{worker}",
        "head": "a" * 40,
        "base": "b" * 40,
        "task": task or f"t{worker}",
        "title": f"Do {worker}",
        "agent": "claude",
    }
    return Branch(**{**fields, **changes})


def merge(*branches: Branch, **changes) -> Merge:
    fields = {
        "merge": RUN,
        "created": "2026-11-29T16:50:00Z",
        "person": "A <a@example.com>",
        "argv": (),
        "target": "refs/heads/main",
        "start": "c" * 40,
        "strategy": "merge",
        "branches": list(branches),
    }
    return Merge(**{**fields, **changes})


# --- order -------------------------------------------------------------------------------------------


def test_the_order_is_the_persons_unless_a_dependency_says_otherwise():
    given_order = [branch(3), branch(1, depends=("t2",)), branch(2), branch(4)]
    assert [one.worker for one in ordered(given_order)] == [3, 2, 1, 4]


def test_a_dependency_of_another_run_is_none():
    other = "20261129T170000Z-0000"
    assert [one.worker for one in ordered([branch(1, depends=("t2",)), branch(2, run=other)])] == [1, 2]


def test_all_workers_of_a_task_come_before_those_that_need_it():
    given_order = [branch(5, "t2", depends=("t1",)), branch(1, "t1"), branch(2, "t1")]
    assert [one.worker for one in ordered(given_order)] == [1, 2, 5]


@given(st.permutations(range(1, 7)), st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), max_size=8))
def test_every_branch_comes_once_and_after_what_it_needs(order, edges):
    needs = {number: tuple(f"t{low}" for low, high in edges if high == number and low < high) for number in order}
    result = [one.worker for one in ordered([branch(number, depends=needs[number]) for number in order])]
    assert sorted(result) == sorted(order)
    for low, high in edges:
        if low < high:
            assert result.index(low) < result.index(high)


def test_a_cycle_does_not_hang():
    assert [one.worker for one in ordered([branch(1, depends=("t2",)), branch(2, depends=("t1",))])] == [1, 2]


# --- messages ----------------------------------------------------------------------------------------


def test_the_default_messages():
    one = branch(2, title="Fix it", body="because", model="opus", cost=1.5, by="A <a@example.com>")
    tail = (
        f"Parallel-Run: {RUN}\nParallel-Worker: 2\nAgent: claude\nModel: opus\nCost: $1.50\n"
        "Reviewed-by: A <a@example.com>\n"
    )
    assert compose(one, "merge") == f"Merge worker 2: Fix it\n\nbecause\n\n{tail}"
    assert compose(one, "squash") == f"Fix it\n\nbecause\n\n{tail}"


def test_what_is_unknown_is_left_out():
    assert trailers(branch(1)) == [("Parallel-Run", RUN), ("Parallel-Worker", "1"), ("Agent", "claude")]


def test_a_template_sets_the_message_and_keeps_the_trailers():
    said = compose(branch(1), "merge", "{agent}/{n}: {title}\n\nsee {branch} of {run}")
    assert said.startswith(f"claude/1: Do 1\n\nsee architect/parallel-1 of {RUN}\n\nParallel-Run: ")


def test_braces_in_a_task_are_only_text():
    assert compose(branch(1, title="use {n} and {x}", body="{run}"), "squash").startswith(
        "use {n} and {x}\n\n{run}\n\n"
    )


def test_a_task_that_tries_to_drive_a_terminal_cannot():
    said = compose(branch(1, title="a\x1b[31m", body="b\x1b]0;x\x07\nc"), "merge")
    assert "\x1b" not in said
    assert "\x07" not in said


def test_trailers_join_a_block_and_are_not_repeated():
    assert with_trailers("subject", [("A", "1")]) == "subject\n\nA: 1\n"
    assert with_trailers("subject\n\nSigned-off-by: X <x>\n", [("A", "1")]) == "subject\n\nSigned-off-by: X <x>\nA: 1\n"
    assert with_trailers("subject\n\nA: 1\n", [("A", "1")]) == "subject\n\nA: 1\n"
    assert with_trailers("subject\n\nA: 0\n", [("A", "1")]) == "subject\n\nA: 0\n"
    reviewed = with_trailers("subject\n\nReviewed-by: A <a>\n", [("Reviewed-by", "B <b>")])
    assert reviewed == "subject\n\nReviewed-by: A <a>\nReviewed-by: B <b>\n"
    assert with_trailers("fix: the thing", [("A", "1")]) == "fix: the thing\n\nA: 1\n", "a subject is no trailer"


@given(st.text(string.printable, max_size=200))
def test_any_message_keeps_its_words_and_ends_with_the_trailers(said):
    result = with_trailers(said, [("Parallel-Run", RUN)])
    assert result.startswith(said.rstrip())
    assert result.endswith("\n")
    assert f"Parallel-Run: {RUN}" in result


@pytest.mark.parametrize("template", ["{nosuch}", "{n!r}", "{n:>3}", "{", "  "])
def test_a_template_with_other_fields_is_refused(template):
    with pytest.raises(ValueError, match=r"must (be|not)"):
        BY_NAME["message"].parse([template])


# --- what it ends with -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "code"),
    [
        (["landed", "landed"], 0),
        (["landed", "skipped"], 0),
        (["landed", "parked"], 3),
        (["parked", "red"], 4),
        (["red", "refused", "parked"], 5),
    ],
)
def test_the_exit_code_is_the_gravest(states, code):
    branches = [branch(number, state=state) for number, state in enumerate(states, 1)]
    assert exit_code(merge(*branches)) == code
    assert exit_code(merge(branch(1), state="stopped")) == 3


def test_a_landing_survives_being_written():
    red = Checked("make test", 2, 1.0, "/log")
    before = merge(branch(1, state="landed", commit="d" * 40), branch(2, state="red", checks=[red]), batch=True)
    assert decode(encode(before)) == before
    shown = document(before)
    assert (shown["v"], shown["merge"]) == (1, RUN)
    assert [one["state"] for one in shown["branches"]] == ["landed", "red"]
    assert (shown["branches"][1]["check"], shown["branches"][1]["log"]) == ("make test", "/log")
    assert shown["branches"][0]["commit"] == "d" * 40


def test_the_record_says_that_nobody_sat_at_a_terminal(repo):
    _, document, _ = landable(repo, {"one": "1\n"}).merge()
    recorded = json.loads(repo.git("show", f"refs/architect/merges/{document['merge']}:merge.json"))
    assert (recorded["yes"], recorded["terminal"]) == (True, False)


def test_what_a_fetched_branch_depends_on_is_looked_for_among_the_fetched_heads(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"}, depends={2: ("t1",)}, live=False)
    for number in (1, 2):
        repo.git("update-ref", f"refs/architect/heads/{run.run}/architect/parallel-{number}", run.heads[number - 1])
        repo.git("update-ref", "-d", f"refs/heads/architect/parallel-{number}")
    repo.git("branch", "architect/parallel-1", repo.commit("mine", {"mine": "m\n"}))  # on main already, and not theirs
    code, document, _ = run.merge(f"{run.run}/2")
    assert (code, run.states(document)) == (5, {2: "refused"})
    assert document["branches"][0]["why"] == "it depends on task t1, which has not landed"
