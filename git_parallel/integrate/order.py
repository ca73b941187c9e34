"""In which order branches land with the fewest conflicts on the way. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

Pair = tuple[int, int]


class Step(Struct, frozen=True):
    """A place in the order, and its reasons. Numbers are of conflicting paths.

    ``target``: with the target; ``earlier`` and ``later``: with branches before and behind it in the order;
    ``after``: the branches it depends on.
    """

    item: int
    target: int
    earlier: Mapping[int, int]
    later: Mapping[int, int]
    after: tuple[int, ...]

    @property
    def collides(self) -> bool:
        """Landing in this order, this one meets a conflict."""
        return bool(self.target or self.earlier)


def suggest(
    items: Sequence[int],
    pairs: Mapping[Pair, int],
    target: Mapping[int, int],
    depends: Mapping[int, Collection[int]],
) -> list[Step]:
    """Order ``items``: what they depend on comes first, and then the one that spoils least for the others.

    ``pairs`` (smaller number first) and ``target`` give how many paths conflict; what is absent does not.
    Each time that branch is taken which meets no conflict so far and has the fewest conflicts with branches
    that could still land without one; those are spoilt by it, and go to the end. Among equals the order of
    ``items`` stays. A circle of dependencies is broken at its first member.
    """
    partners: dict[int, dict[int, int]] = {item: {} for item in items}
    for (one, other), count in pairs.items():
        if count and one in partners and other in partners:
            partners[one][other] = count
            partners[other][one] = count
    needs = {item: [one for one in items if one in depends.get(item, ()) and one != item] for item in items}
    rank = {item: position for position, item in enumerate(items)}
    left = list(items)
    placed: list[int] = []
    clean: set[int] = set()  # placed, and landed without a conflict

    def spoilt(item: int) -> bool:
        return bool(target.get(item)) or not clean.isdisjoint(partners[item])

    def cost(item: int) -> tuple[bool, int, int, int, int]:
        met = target.get(item, 0) + sum(partners[item].get(one, 0) for one in placed)
        spoils = [one for one in left if one in partners[item] and not spoilt(one)]
        return spoilt(item), met, len(spoils), sum(partners[item][one] for one in spoils), rank[item]

    while left:
        ready = [item for item in left if all(one in placed for one in needs[item])] or left[:1]
        chosen = min(ready, key=cost)
        if not spoilt(chosen):
            clean.add(chosen)
        left.remove(chosen)
        placed.append(chosen)
    return [_step(placed, index, partners, target, needs) for index in range(len(placed))]


def _step(
    placed: Sequence[int],
    index: int,
    partners: Mapping[int, Mapping[int, int]],
    target: Mapping[int, int],
    needs: Mapping[int, Sequence[int]],
) -> Step:
    item = placed[index]
    return Step(
        item=item,
        target=target.get(item, 0),
        earlier={one: partners[item][one] for one in placed[:index] if one in partners[item]},
        later={one: partners[item][one] for one in placed[index + 1 :] if one in partners[item]},
        after=tuple(needs[item]),
    )
