"""The search in a batch: how much of it is good together, in as few checks as can be. Pure but for the checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from git_parallel.integrate.person import Link


def search(links: Sequence[Link], check: Callable[[Link], Link]) -> tuple[list[Link], Link | None]:
    """Return the links before the first that is red, the last of them checked, and that one (None: all are green).

    ``check`` returns a link with what its checks said of the tree that it makes with all before it.
    """
    last = check(links[-1])
    if last.green:
        return [*links[:-1], last], None
    # The first `green` links are good together, the first `red` are not.
    green, red = 0, len(links)
    good, bad = None, last
    while red - green > 1:
        middle = (green + red) // 2
        tried = check(links[middle - 1])
        if tried.green:
            green, good = middle, tried
        else:
            red, bad = middle, tried
    return [*links[: green - 1], good] if good is not None else [], bad
