"""Decides which workers start next and when the run is over. Pure: takes counts and money, returns a decision."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Purse(Struct, frozen=True):
    """The run's money: ``limit`` (None: no limit), ``spent`` by ended workers and ``reserved`` for living ones."""

    limit: float | None
    spent: float = 0.0
    reserved: float = 0.0

    @property
    def left(self) -> float | None:
        """What may still be promised to a worker; None means no limit."""
        return (
            None if self.limit is None else round(self.limit - self.spent - self.reserved, 9)
        )  # no 0.30000000000000004


def reservation(purse: Purse, per_worker: float | None) -> float | None:
    """Return the most that a worker starting now may spend (None: no limit), or 0.0 when the run has no money left.

    The last worker of a run may get less than the others: what is left.
    """
    left = purse.left
    if left is None:
        return per_worker
    if left <= 0:
        return 0.0
    return left if per_worker is None else min(per_worker, left)


def startable(queue: Sequence[int], active: int, slots: int) -> list[int]:
    """Return the workers that may start now, in the queue's order."""
    return list(queue[: max(0, slots - active)])
