"""Ranking attempts: proof before taste, and nobody wins by doing nothing. No git here."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from git_parallel.integrate.rank import Attempt, rank

GOOD = Attempt(
    status="success", reason="done", files=2, lines=10, checks=1, green=1, conflicts=0, cost=0.10, duration=60.0
)


def order(*attempts: Attempt) -> list[int]:
    return [place.item for place in rank(attempts)]


@pytest.mark.parametrize(
    ("worse", "ahead"),
    [
        (replace(GOOD, checks=0, green=0), "its checks are green"),
        (replace(GOOD, status="partial", reason="budget"), "it was finished"),
        (replace(GOOD, conflicts=2), "fewer conflicts with the target"),
        (replace(GOOD, warnings=1), "fewer warnings"),
        (replace(GOOD, lines=11), "a smaller change"),
        (replace(GOOD, cost=0.11), "cheaper"),
        (replace(GOOD, duration=61.0), "faster"),
    ],
)
def test_each_criterion_decides_when_all_before_it_are_equal(worse, ahead):
    first, second = rank([worse, GOOD])
    assert (first.item, first.place, first.ahead) == (1, 1, ahead)
    assert (second.item, second.place, second.ahead) == (0, 2, None)


def test_an_earlier_criterion_outweighs_all_later_ones():
    unchecked = replace(GOOD, checks=0, green=0, lines=1, cost=0.0, duration=1.0)
    costly = replace(GOOD, lines=1000, cost=50.0, duration=9999.0)
    assert order(unchecked, costly) == [1, 0]


def test_what_a_person_approved_comes_first():
    approved = replace(GOOD, lines=1000, conflicts=3, verdict="approved")
    first, _ = rank([GOOD, approved])
    assert (first.item, first.ahead) == (1, "a person approved it")


@pytest.mark.parametrize(
    ("barred", "why"),
    [
        (replace(GOOD, files=0, lines=0), "it changed nothing"),
        (replace(GOOD, status="failed", reason="no_changes", files=0), "it ended as failed/no_changes"),
        (replace(GOOD, status="failed", reason="agent_error"), "it ended as failed/agent_error"),
        (replace(GOOD, status="timeout", reason="timeout"), "it ended as timeout"),
        (replace(GOOD, status="cancelled", reason="signal"), "it ended as cancelled/signal"),
        (replace(GOOD, status="running", reason="running", going_on=True), "it is running"),
        (replace(GOOD, checks=3, green=1), "2 of 3 checks red"),
        (replace(GOOD, verdict="rejected"), "a person rejected it"),
    ],
)
def test_such_a_worker_cannot_win_even_alone(barred, why):
    [alone] = rank([barred])
    assert (alone.place, alone.bar, alone.ahead) == (None, why, None)
    first, second = rank([replace(barred, cost=0.0, duration=0.0, lines=0), replace(GOOD, lines=10**6, cost=99.0)])
    assert (first.item, first.place, second.bar) == (1, 1, why)


def test_equals_share_a_place():
    assert [(place.item, place.place) for place in rank([GOOD, replace(GOOD, lines=50), GOOD])] == [
        (0, 1),
        (2, 1),
        (1, 3),
    ]


def test_what_is_not_known_of_all_decides_nothing():
    """One attempt's cost is unknown: that the other's is 0.10 must not put it ahead, nor behind."""
    first, second = rank([replace(GOOD, cost=None, duration=10.0), replace(GOOD, duration=20.0)])
    assert (first.item, first.ahead, second.item) == (0, "faster", 1)
    first, second = rank([replace(GOOD, cost=None, duration=20.0), replace(GOOD, duration=10.0)])
    assert (first.item, first.ahead, second.item) == (1, "faster", 0)


def test_what_is_unknown_of_one_that_cannot_win_does_not_matter():
    first, _, _ = rank([replace(GOOD, cost=0.2), GOOD, replace(GOOD, files=0, cost=None)])
    assert (first.item, first.ahead) == (1, "cheaper")


def test_the_evidence_has_every_fact_in_the_order_in_which_it_counts():
    [place] = rank([replace(GOOD, verdict="approved", warnings=2, conflicts=1)])
    assert place.evidence == (
        "approved",
        "1 of 1 check green",
        "success",
        "1 conflict with the target",
        "2 warnings",
        "10 lines in 2 files",
        "$0.10",
        "1m00s",
    )


def test_nobody_is_ranked_among_nobody():
    assert rank([]) == []


ATTEMPTS = st.builds(
    Attempt,
    status=st.sampled_from(["success", "partial", "failed", "timeout"]),
    reason=st.just("done"),
    files=st.integers(0, 2),
    lines=st.integers(0, 3),
    checks=st.just(2),
    green=st.integers(0, 2),
    conflicts=st.none() | st.integers(0, 1),
    cost=st.none() | st.sampled_from([0.0, 0.5]),
    duration=st.none() | st.sampled_from([1.0, 2.0]),
)


@given(st.lists(ATTEMPTS, max_size=6))
def test_everyone_has_a_place_or_a_reason_and_winners_earned_it(attempts):
    places = rank(attempts)
    assert sorted(place.item for place in places) == list(range(len(attempts)))
    for place in places:
        assert (place.place is None) == (place.bar is not None)
        if place.place is not None:
            attempt = attempts[place.item]
            assert attempt.status in ("success", "partial")
            assert attempt.files
            assert attempt.green == attempt.checks
    numbers = [place.place for place in places if place.place is not None]
    assert numbers == sorted(numbers)
    assert numbers[:1] in ([], [1])


@given(st.lists(ATTEMPTS, max_size=5), st.randoms(use_true_random=False))
def test_the_order_in_which_they_are_given_changes_no_place(attempts, rng):
    shuffled = list(range(len(attempts)))
    rng.shuffle(shuffled)
    before = {place.item: place.place for place in rank(attempts)}
    after = {shuffled[place.item]: place.place for place in rank([attempts[item] for item in shuffled])}
    assert before == after
