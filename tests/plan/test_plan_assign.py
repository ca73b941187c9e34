"""How tasks, models and workers combine (DESIGN section 4)."""

from __future__ import annotations

from itertools import product

import pytest

from git_parallel.plan.assign import assign, parse_models, unused_models

# Every combination of up to 6 tasks, 5 models and 12 typed workers is few enough to try them all.
EVERY = [
    (tasks, tuple("abcde"[:models]), workers, matrix)
    for tasks, models, workers, matrix in product(range(1, 7), range(6), [None, *range(1, 13)], [False, True])
]


def pairs_of(tasks: int, models: tuple[str, ...], matrix: bool) -> int:
    return tasks * len(models) if models and (matrix or tasks == 1) else tasks


def test_one_task_and_several_models_make_one_worker_per_model():
    assert assign(1, ["a", "b", "c"]) == [(0, "a"), (0, "b"), (0, "c")]


def test_several_tasks_are_dealt_the_models_in_turn():
    assert assign(5, ["a", "b"]) == [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "a")]


def test_matrix_tries_every_task_with_every_model():
    assert assign(2, ["a", "b"], matrix=True) == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def test_workers_typed_beyond_the_pairs_repeat_the_first_task_with_the_default_model():
    assert assign(2, ["a"], workers=4) == [(0, "a"), (1, "a"), (0, None), (0, None)]


def test_without_models_the_default_model_does_every_task():
    assert assign(3) == [(0, None), (1, None), (2, None)]


def test_nothing_is_repeated_when_workers_is_not_typed():
    for tasks, models, workers, matrix in EVERY:
        if workers is None:
            assert len(assign(tasks, models, matrix=matrix)) == pairs_of(tasks, models, matrix)


def test_every_task_has_a_worker_and_none_is_dropped():
    for tasks, models, workers, matrix in EVERY:
        pairs = assign(tasks, models, workers=workers, matrix=matrix)
        assert {task for task, _ in pairs} == set(range(tasks))
        assert len(pairs) == max(pairs_of(tasks, models, matrix), workers or 0)


def test_padding_only_adds_at_the_end():
    for tasks, models, workers, matrix in EVERY:
        bare = assign(tasks, models, matrix=matrix)
        pairs = assign(tasks, models, workers=workers, matrix=matrix)
        assert pairs[: len(bare)] == bare
        assert set(pairs[len(bare) :]) <= {(0, None)}


def test_models_are_dealt_evenly():
    for tasks, models, _, matrix in EVERY:
        if models:
            used = [model for _, model in assign(tasks, models, matrix=matrix)]
            shares = [used.count(model) for model in models]
            assert max(shares) - min(shares) <= 1


def test_no_task_is_an_error():
    with pytest.raises(ValueError, match="no task"):
        assign(0, ["a"])


def test_models_that_no_worker_got_are_named():
    models = ["a", "b", "c"]
    assert unused_models(models, assign(2, models)) == ("c",)
    assert unused_models(models, assign(2, models, matrix=True)) == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ("a",)), ("a,b", ("a", "b")), (" a , b ", ("a", "b")), ("a,a", ("a", "a")), ("p/m:1.5", ("p/m:1.5",))],
)
def test_models_are_split_at_commas_and_trimmed(text, names):
    assert parse_models(text) == names


@pytest.mark.parametrize("text", ["", " ", ",", "a,", ",a", "a,,b", "a, ,b"])
def test_an_empty_model_name_is_an_error(text):
    with pytest.raises(ValueError, match="empty"):
        parse_models(text)
