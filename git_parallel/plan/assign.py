"""Combines tasks, models and workers into the workers of a run (DESIGN section 4). Pure."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, str | None]
"""The index of a task (from 0) and the model that works on it; None is the program's default model."""


def assign(tasks: int, models: Sequence[str] = (), *, workers: int | None = None, matrix: bool = False) -> list[Pair]:
    """Return one pair for each worker of the run, in the order in which they start.

    ``tasks`` is their number (1 or more). One task is tried with each model; several tasks are dealt
    the models round-robin; ``matrix`` tries every task with every model. ``workers`` is the number
    that the person *typed*, or None: beyond the number of pairs it repeats the first task with the
    default model. A number that comes from configuration must not be passed, because a repeat costs
    money. It never shortens the list: what exceeds it waits in the queue.

    Raises ValueError when there is no task.
    """
    if tasks < 1:
        raise ValueError("there is no task")
    pairs: list[Pair]
    if not models:
        pairs = [(task, None) for task in range(tasks)]
    elif matrix or tasks == 1:
        pairs = [(task, model) for task in range(tasks) for model in models]
    else:
        pairs = [(task, models[task % len(models)]) for task in range(tasks)]
    return pairs + [(0, None)] * max(0, (workers or 0) - len(pairs))


def unused_models(models: Sequence[str], pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Return the models that no worker uses: with more models than tasks, the last ones get none."""
    used = {model for _, model in pairs}
    return tuple(model for model in dict.fromkeys(models) if model not in used)


def parse_models(text: str) -> tuple[str, ...]:
    """Split ``"a, b"`` at its commas and trim each name.

    A name that is given twice counts twice: that is how one model is asked for two attempts at a
    task. Raises ValueError for an empty name.
    """
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError("must be names separated by commas, and one of them is empty")
    return names
