"""The suggested order: dependencies first, then who spoils least for the others, and why."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from git_parallel.integrate.order import Step, suggest


def ordered(items, pairs=None, target=None, depends=None) -> list[int]:
    return [step.item for step in suggest(items, pairs or {}, target or {}, depends or {})]


def test_without_conflicts_the_given_order_stays():
    assert ordered([3, 1, 2]) == [3, 1, 2]


def test_one_that_collides_with_many_comes_after_them():
    assert ordered([0, 1, 2, 3], {(0, 1): 1, (0, 2): 1, (0, 3): 1}) == [1, 2, 3, 0]


def test_what_collides_with_the_target_comes_last():
    assert ordered([0, 1, 2], target={0: 1}) == [1, 2, 0]


def test_dependencies_come_first_whatever_they_collide_with():
    steps = suggest([0, 1, 2], {(1, 2): 5, (0, 2): 1}, {2: 3}, {0: [2]})
    assert [step.item for step in steps] == [1, 2, 0]
    assert steps[2] == Step(item=0, target=0, earlier={2: 1}, later={}, after=(2,))


def test_a_branch_that_is_spoilt_anyway_spoils_nobody():
    """0 collides with the target, so that 1's conflict with it is no reason to hold 1 back behind 2 and 3."""
    assert ordered([1, 2, 3, 0], {(0, 1): 1, (2, 3): 1}, {0: 1})[0] == 1


def test_a_circle_of_dependencies_ends():
    assert sorted(ordered([0, 1, 2], depends={0: [1], 1: [0], 2: [0]})) == [0, 1, 2]


def test_each_place_tells_what_it_meets():
    first, second, third = suggest([0, 1, 2], {(0, 1): 2, (1, 2): 4}, {}, {})
    assert (first.item, first.earlier, first.later, first.collides) == (0, {}, {1: 2}, False)
    assert (second.item, second.earlier, second.later) == (2, {}, {1: 4})
    assert (third.item, third.earlier, third.later, third.collides) == (1, {0: 2, 2: 4}, {}, True)


GRAPHS = st.integers(1, 7).flatmap(
    lambda count: st.tuples(
        st.permutations(range(count)),
        st.dictionaries(
            st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] < pair[1]), st.integers(0, 3)
        ),
        st.dictionaries(st.integers(0, 6), st.integers(0, 2)),
        st.dictionaries(st.integers(0, 6), st.sets(st.integers(0, 6))),
    )
)


@given(GRAPHS)
def test_everyone_has_one_place_behind_what_it_depends_on(graph):
    items, pairs, target, depends = graph
    earlier_only = {item: {one for one in needed if one < item} for item, needed in depends.items()}
    order = ordered(items, pairs, target, earlier_only)
    assert sorted(order) == sorted(items)
    for item in items:
        for needed in earlier_only.get(item, set()) & set(items):
            assert order.index(needed) < order.index(item)


@given(GRAPHS)
def test_the_first_meets_no_conflict_if_anyone_does_not(graph):
    items, pairs, target, _ = graph
    first = suggest(items, pairs, target, {})[0]
    assert not first.collides or all(target.get(item) for item in items)
