"""Ids of runs and landings: they sort by time, so that `last` is the last one."""

from __future__ import annotations

import re

from git_parallel.plan.ids import new_id

NOON = 1795953600.0


def test_an_id_has_the_form_that_sorts_by_time():
    first, second = new_id(NOON), new_id(NOON + 1)
    assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}", first)
    assert first < second
    assert len({new_id(NOON) for _ in range(50)}) > 40


def test_runs_of_one_second_sort_in_the_order_they_were_started():
    ids = [new_id(NOON)]
    for _ in range(100):
        ids.append(new_id(NOON, after=ids[-1]))
    assert ids == sorted(set(ids))


def test_what_came_before_need_not_be_an_id():
    for other in ("", "draft", "20261129T120000Z-zz", new_id(NOON - 60)):
        assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}", new_id(NOON, after=other))
