"""What a step of the target changes, path by path, and paths that only some file systems can tell apart."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from git_parallel.git import Repository
from git_parallel.store.objects import Objects

GITLINK = "160000"
SYMLINK = "120000"
_NOTHING = "000000"


@dataclass(frozen=True, slots=True)
class Changed:
    """One path: modes as git writes them (``000000`` where there is nothing) and object ids, before and after."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def added(self) -> bool:
        return self.old_mode == _NOTHING

    @property
    def deleted(self) -> bool:
        return self.new_mode == _NOTHING


def between(repo: Repository, old: str, new: str) -> list[Changed]:
    """Compare two commits or trees; a rename is a path gone and one added."""
    if old == new:
        return []
    fields = repo.common.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new).fields
    return [
        Changed(path, *about.removeprefix(":").split(" ")[:4])
        for about, path in zip(fields[::2], fields[1::2], strict=True)
    ]


def above(paths: Iterable[str]) -> set[str]:
    """Return the directories that hold these paths."""
    return {directory for path in paths for directory in parents(path)}


def parents(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first."""
    while path := os.path.dirname(path):
        yield path


def case_clashes(objects: Objects, tree: str, sides: Sequence[str], added: Iterable[str]) -> list[str]:
    """Return paths of the merged ``tree`` that differ from another only in case, and do so in none of ``sides``.

    Git merges ``Readme`` and ``README`` from two branches without a word, and no macOS or Windows checkout can
    hold both. Where one side has both already, that is how its people want it. ``added`` are the paths to look at.
    """
    found = set()
    for path in added:
        at = tree
        names = path.split("/")
        for depth, name in enumerate(names):
            entries = objects.list_tree(at)
            for other in entries:
                if other != name and other.casefold() == name.casefold():
                    pair = ["/".join([*names[:depth], one]) for one in (name, other)]
                    if not any(all(_has(objects, side, one) for one in pair) for side in sides):
                        found.update(pair)
            if name not in entries:
                break
            at = entries[name][1]
    return sorted(found)


def _has(objects: Objects, tree: str, path: str) -> bool:
    names = path.split("/")
    for depth, name in enumerate(names):
        entries = objects.list_tree(tree)
        if name not in entries:
            return False
        mode, tree = entries[name]
        if depth + 1 < len(names) and mode != 0o040000:
            return False
    return True
