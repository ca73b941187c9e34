"""The walk of a review: where each key leads. Pure."""

from __future__ import annotations

import pytest

from git_parallel.integrate.review import session
from git_parallel.integrate.review.session import KEYS, begin, decided, joined, reopened, stands, step

ONE, TWO, THREE = ("run", 1), ("run", 2), ("run", 3)
ALL = (ONE, TWO, THREE)


def test_it_begins_with_the_first_worker_that_has_no_verdict():
    assert begin(ALL, {}, every=False).worker == ONE
    assert begin(ALL, {ONE: "approved"}, every=False).worker == TWO
    assert begin(ALL, dict.fromkeys(ALL, "rejected"), every=False).worker is None
    assert begin([], {}, every=False).worker is None


def test_named_workers_are_visited_though_they_have_a_verdict():
    start = begin(ALL, dict.fromkeys(ALL, "approved"), every=True)
    assert start.worker == ONE
    assert decided(start, "rejected").worker == TWO


def test_a_verdict_leads_to_the_next_worker_without_one():
    start = begin(ALL, {TWO: "approved"}, every=False)
    after = decided(start, "rejected")
    assert after.worker == THREE
    assert after.given == {ONE: "rejected", TWO: "approved"}
    over = decided(after, "changes")
    assert over.worker is None
    assert over.left == []


def test_skipping_leaves_a_worker_without_a_verdict():
    skipped, action = step(begin(ALL, {}, every=False), "s")
    assert (skipped.worker, action) == (TWO, "arrive")
    assert skipped.left == [TWO, THREE]
    assert skipped.given == {}


def test_going_back_and_deciding_leads_on_again():
    at_two = decided(begin(ALL, {}, every=False), "approved")
    back, action = step(at_two, "b")
    assert (back.worker, action) == (ONE, "arrive")
    assert step(back, "b") == (back, "first")
    again = decided(back, "rejected")
    assert again.worker == TWO
    assert again.given[ONE] == "rejected"


def test_going_back_from_the_end():
    end = begin((ONE,), {ONE: "approved"}, every=False)
    assert step(end, "b")[0].worker == ONE
    assert step(end, "q")[1] == "leave"
    assert step(end, "y") == (end, "unknown")


@pytest.mark.parametrize("key", [key for key in KEYS if key not in "sb"])
def test_every_other_key_only_says_what_is_to_be_done(key):
    start = begin(ALL, {}, every=False)
    after, action = step(start, key)
    assert after == start
    assert action == KEYS[key][0]


def test_an_unknown_key_does_nothing():
    start = begin(ALL, {}, every=False)
    assert step(start, "Y") == (start, "unknown")
    assert step(start, "") == (start, "unknown")


def test_workers_that_end_later_come_behind_the_others():
    start = begin((ONE,), {}, every=False)
    more = joined(start, [ONE, TWO, THREE], {TWO: "approved"})
    assert more.workers == ALL
    assert more.worker == ONE
    at_end = decided(start, "approved")
    assert at_end.worker is None
    assert joined(at_end, [ONE, TWO, THREE], {TWO: "approved"}).worker == THREE
    assert joined(at_end, [ONE], {}) == at_end


def test_a_verdict_that_became_void_brings_the_worker_up_again():
    end = begin(ALL, {}, every=False)
    for word in ("approved", "changes", "rejected"):
        end = decided(end, word)
    again = reopened(end, TWO)
    assert again.worker == TWO
    assert again.given == {ONE: "approved", THREE: "rejected"}
    assert decided(again, "approved").worker is None


def test_a_verdict_of_somebody_else_counts():
    start = begin(ALL, {}, every=False)
    assert decided(stands(start, TWO, "approved"), "approved").worker == THREE
    assert stands(stands(start, TWO, "approved"), TWO, None).given == {}


def test_the_issue_names_these_keys():
    assert set(KEYS) == set("yncehdDiltxsbq?")
    assert {action for action, _ in KEYS.values()} | {"first", "unknown"} == set(session.Action.__args__)
