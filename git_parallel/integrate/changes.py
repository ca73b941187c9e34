"""What a step of the target changes, path by path, and paths that only some file systems can tell apart."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from git_parallel.git import Pending, Repository
from git_parallel.store.objects import Objects

GITLINK = "160000"
SYMLINK = "120000"
NOTHING = "000000"

_DIRECTORY = 0o040000


class Changed(Struct, frozen=True):
    """One path: modes as git writes them (``000000`` where there is nothing) and object ids, before and after."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str

    @property
    def added(self) -> bool:
        return self.old_mode == NOTHING

    @property
    def deleted(self) -> bool:
        return self.new_mode == NOTHING


def between(repo: Repository, old: str, new: str) -> list[Changed]:
    """Compare two commits."""
    return compare(repo, [(old, new)])[0]


def compare(repo: Repository, pairs: Sequence[tuple[str, str]]) -> list[list[Changed]]:
    """Compare each (old, new) pair of commits, in one git call; a rename is a path gone and one added."""
    if not pairs:
        return []
    found = list(parse(begin(repo, pairs).done().fields))
    assert len(found) == len(pairs)
    return found


def begin(repo: Repository, pairs: Sequence[tuple[str, str]]) -> Pending:
    """Begin to compare pairs; :func:`parse` reads the fields of what comes of it."""
    # A line `commit parent` compares the two as if they were. --always: the header is there for no change too.
    lines = "".join(f"{new} {old}\n" for old, new in pairs)
    how = ("--stdin", "--always", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none")
    return repo.common.begin("diff-tree", *how, stdin=lines.encode())


def parse(fields: Sequence[str]) -> Iterator[list[Changed]]:
    """Read ``diff-tree --stdin --always -z --raw``: a header for each comparison, then its records. Pure."""
    position = 0
    while position < len(fields):
        position += 1  # the header: the commit's id
        found = []
        while position < len(fields) and fields[position].startswith(":"):
            old_mode, new_mode, old, new, _ = fields[position][1:].split(" ")
            found.append(Changed(fields[position + 1], old_mode, new_mode, old, new))
            position += 2
        yield found


def together(steps: Iterable[Sequence[Changed]]) -> list[Changed]:
    """What several steps change, one after the other, as one step. Pure."""
    found: dict[str, Changed] = {}
    for step in steps:
        for one in step:
            before = found.get(one.path)
            if before is not None:
                one = Changed(one.path, before.old_mode, one.new_mode, before.old, one.new)  # noqa: PLW2901
            found[one.path] = one
    return [one for one in found.values() if (one.old_mode, one.old) != (one.new_mode, one.new)]


def above(paths: Iterable[str]) -> set[str]:
    """Return the directories that hold these paths."""
    return {directory for path in paths for directory in parents(path)}


def parents(path: str) -> Iterator[str]:
    """Yield the directories above a path, the nearest first."""
    while path := os.path.dirname(path):
        yield path


def case_clashes(objects: Objects, tree: str, added: Iterable[str], sides: Callable[[], Sequence[str]]) -> list[str]:
    """Return paths of the merged ``tree`` that differ from another only in case, and do so in none of ``sides``.

    Git merges ``Readme`` and ``README`` from two branches without a word, and no macOS or Windows checkout can
    hold both. Where one side (a tree) has both already, that is how its people want it. ``added`` are the paths
    to look at; names that differ in their Unicode form alone are the same to macOS.
    """
    found = set()
    lists: dict[str, Mapping[str, tuple[int, str]]] = {}
    folded: dict[str, dict[str, list[str]]] = {}
    for path in added:
        at = tree
        names = path.split("/")
        for depth, name in enumerate(names):
            if at not in lists:
                lists[at] = objects.list_tree(at)
                groups: dict[str, list[str]] = {}
                for other in lists[at]:
                    groups.setdefault(_folded(other), []).append(other)
                folded[at] = groups
            for other in folded[at][_folded(name)]:
                pair = ["/".join([*names[:depth], one]) for one in (name, other)]
                if other != name and not any(all(_has(objects, side, one) for one in pair) for side in sides()):
                    found.update(pair)
            at = lists[at][name][1]
    return sorted(found)


def _folded(name: str) -> str:
    return name.lower() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def _has(objects: Objects, tree: str, path: str) -> bool:
    names = path.split("/")
    for depth, name in enumerate(names):
        entries = objects.list_tree(tree)
        if name not in entries:
            return False
        mode, tree = entries[name]
        if depth + 1 < len(names) and mode != _DIRECTORY:
            return False
    return True
