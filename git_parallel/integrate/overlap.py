"""Which pairs of branches can conflict at all: found from the paths each one changes, without merging.

A merge starts from a merge base and combines, path by path, what two sides did since. When no path was
changed on both sides nothing is left to clash, but for three things that git's merge finds beyond single
paths, and that have a rule here:

- a file ``x`` on one side, and new files below ``x/`` on the other;
- a directory that one side moved away as a whole, and new files below it on the other: git wants to move
  those too, and asks (``merge.directoryRenames``);
- several merge bases, which git merges into one first: such a pair is always merged to know.

Renames need no rule: the old path counts as changed, the new one as well.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from git_parallel.git import Git, Repository

Pair = tuple[int, int]

_TREE = "040000"
_ABSENT = "000000"


class Changes(Struct, frozen=True):
    """What a commit changed since another one. Paths as git has them; submodules count as files.

    ``touched`` are all files that differ, ``added`` those of them that are new (as files), ``gone`` the
    directories that are no more, ``made`` the new ones.
    """

    touched: frozenset[str] = frozenset()
    added: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    made: frozenset[str] = frozenset()


class Overlaps(Struct, frozen=True):
    """What is known of the pairs before any merge.

    ``bases`` has the one merge base of each pair, or None where there is none or more than one.
    ``suspects`` are the pairs that only a merge can decide, with how many paths both sides changed;
    all others merge cleanly. ``same_but_case`` are new names of a pair that differ in case (or in Unicode
    form) alone: git merges them, and a file system that folds case cannot hold both. ``changes`` is keyed
    by (base, commit).
    """

    bases: Mapping[Pair, str | None]
    suspects: Mapping[Pair, int]
    same_but_case: Mapping[Pair, tuple[tuple[str, str], ...]]
    changes: Mapping[tuple[str, str], Changes]


def find(
    repo: Repository, commits: Sequence[str], pairs: Iterable[Pair], *, env: Mapping[str, str] | None = None
) -> Overlaps:
    """Look at ``pairs`` of indices into ``commits`` (ids). A handful of git calls, however many there are."""
    wanted = list(pairs)
    git = Git(repo.common.options, repo.common.cwd, env or {})
    bases = _merge_bases(git, commits, wanted)
    asked = {(base, commits[side]) for pair, base in bases.items() if base is not None for side in pair}
    changes = changed(git, sorted(asked))
    suspects: dict[Pair, int] = {pair: 0 for pair in wanted if bases[pair] is None}
    same_but_case: dict[Pair, tuple[tuple[str, str], ...]] = {}
    for base, of_base in _by_base(bases).items():
        sides = sorted({side for pair in of_base for side in pair})
        of_side = {side: changes[base, commits[side]] for side in sides}
        suspects |= {pair: shared for pair, shared in suspicious(of_side).items() if pair in of_base}
        same_but_case |= {pair: names for pair, names in case_clashes(of_side).items() if pair in of_base}
    return Overlaps(bases, suspects, same_but_case, changes)


def _by_base(bases: Mapping[Pair, str | None]) -> dict[str, set[Pair]]:
    groups: defaultdict[str, set[Pair]] = defaultdict(set)
    for pair, base in bases.items():
        if base is not None:
            groups[base].add(pair)
    return groups


# --- which paths -----------------------------------------------------------------------------------


def changed(git: Git, asked: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Changes]:
    """Return what each ``(base, commit)`` changes, from one ``git diff-tree``."""
    found = {pair: Changes() for pair in asked}
    wanted = [pair for pair in found if pair[0] != pair[1]]
    if not wanted:
        return found
    # A line `commit parent` compares the two as if they were. --always: the header is there for no change too.
    lines = "".join(f"{commit} {base}\n" for base, commit in wanted)
    done = git.run(
        "diff-tree",
        "--stdin",
        "--always",
        "-t",
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--ignore-submodules=none",
        stdin=lines.encode(),
    )
    return found | dict(zip(wanted, parse_changes(done.stdout), strict=True))


def parse_changes(output: bytes) -> Iterator[Changes]:
    """Parse ``diff-tree --stdin --always -t -z --raw``: a header for each comparison, then its records. Pure."""
    fields = os.fsdecode(output).split("\0")[:-1]
    position = 0
    while position < len(fields):
        touched: set[str] = set()
        added: set[str] = set()
        gone: set[str] = set()
        made: set[str] = set()
        position += 1  # the header: the commit's id
        while position < len(fields) and fields[position].startswith(":"):
            before, after = fields[position][1:7], fields[position][8:14]
            path = fields[position + 1]
            position += 2
            if _TREE in (before, after):
                if before == _ABSENT:
                    made.add(path)
                elif after == _ABSENT:
                    gone.add(path)
                continue
            touched.add(path)
            if before == _ABSENT:
                added.add(path)
        yield Changes(frozenset(touched), frozenset(added), frozenset(gone), frozenset(made))


# --- which pairs -----------------------------------------------------------------------------------


def suspicious(changes: Mapping[int, Changes]) -> dict[Pair, int]:
    """Return the pairs of sides that may conflict, with how many paths both changed. Pure.

    All sides are compared with the same base. Sides are bits of a mask while paths are counted, so that a
    path which everybody touches costs no more than any other.
    """
    touching: defaultdict[str, int] = defaultdict(int)
    roots: defaultdict[str, int] = defaultdict(int)  # new files, and directories that are gone
    for side, one in changes.items():
        for path in one.touched:
            touching[path] |= 1 << side
        for path in (*one.added, *one.gone):
            roots[path] |= 1 << side
    shared: Counter[Pair] = Counter()
    for mask, count in Counter(touching.values()).items():
        for pair in _pairs(mask, mask):
            shared[pair] += count
    for above, below in _beneath(changes, roots):
        for pair in _pairs(above, below):
            shared[pair] += 0
    return dict(shared)


def _beneath(changes: Mapping[int, Changes], roots: Mapping[str, int]) -> set[tuple[int, int]]:
    """Return masks of the sides that have a root and of those that add a file below it."""
    below: defaultdict[str, int] = defaultdict(int)
    for side, one in changes.items():
        for path in one.added:
            for directory in _above(path):
                if directory in roots:
                    below[directory] |= 1 << side
    return {(roots[directory], mask) for directory, mask in below.items()}


def _above(path: str) -> Iterator[str]:
    """The directories above a path, the deepest first."""
    while (cut := path.rfind("/")) > 0:
        path = path[:cut]
        yield path


def _pairs(some: int, others: int) -> Iterator[Pair]:
    """Every pair, the smaller index first, of a bit in one mask and another bit in the other mask."""
    if some == others and some & (some - 1) == 0:
        return
    for one in _bits(some):
        for other in _bits(others):
            if one < other or (one > other and not (some >> other & 1 and others >> one & 1)):
                yield (min(one, other), max(one, other))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def case_clashes(changes: Mapping[int, Changes]) -> dict[Pair, tuple[tuple[str, str], ...]]:
    """Return new names of a pair that a file system which folds case takes for one. Pure."""
    folded: defaultdict[str, set[str]] = defaultdict(set)
    owners: defaultdict[str, int] = defaultdict(int)
    for side, one in changes.items():
        for path in (*one.added, *one.made):
            folded[unicodedata.normalize("NFC", path).casefold()].add(path)
            owners[path] |= 1 << side
    found: defaultdict[Pair, list[tuple[str, str]]] = defaultdict(list)
    for spellings in folded.values():
        for path in spellings if len(spellings) > 1 else ():
            for other in spellings - {path}:
                for first in _bits(owners[path]):
                    for second in _bits(owners[other]):
                        if first < second:
                            found[first, second].append((path, other))
    return {pair: tuple(sorted(_topmost(names))) for pair, names in found.items()}


def _topmost(names: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Leave out what only follows from a directory above it."""
    known = set(names)
    for path, other in names:
        if not any(pair in known for pair in zip(_above(path), _above(other), strict=False)):
            yield path, other


# --- from which base -------------------------------------------------------------------------------


def _merge_bases(git: Git, commits: Sequence[str], pairs: Sequence[Pair]) -> dict[Pair, str | None]:
    """Return the one merge base of each pair, or None where there is not exactly one."""
    if not pairs:
        return {}
    heads = sorted(set(commits))
    root = _common_ancestor(git, heads)
    if root is None:
        related = _related(git, heads)
        root = _common_ancestor(git, related)
        heads = related if root is not None else []
    if root is None:
        return dict.fromkeys(pairs)
    done = git.run(
        "rev-list",
        "--topo-order",
        "--parents",
        "--stdin",
        stdin="".join(f"{one}\n" for one in (*heads, f"^{root}")).encode(),
    )
    graph = [(words[0], words[1:]) for words in (line.split(" ") for line in done.lines)]
    history = History.of([*graph, (root, [])], heads)
    return {pair: history.base(commits[pair[0]], commits[pair[1]]) for pair in pairs}


def _common_ancestor(git: Git, heads: Sequence[str]) -> str | None:
    return next(iter(git.run("merge-base", "--octopus", *heads, ok=(0, 1)).lines), None) if heads else None


def _related(git: Git, heads: Sequence[str]) -> list[str]:
    """The heads that share history with most others: an unrelated one must not slow down the rest."""
    for anchor in heads[:3]:
        related = [one for one in heads if git.run("merge-base", anchor, one, ok=(0, 1)).returncode == 0]
        if len(related) > 1:
            return related
    return []


class History(Struct):
    """The part of the history above a commit that all heads have in common, that commit included.

    Only commits matter that more heads reach than reach any of their children: every merge base is one of
    them. ``seen_by`` gives for each head the mask of those, ``above`` for each of those which others descend
    from it.
    """

    joints: list[str] = field(default_factory=list)
    seen_by: dict[str, int] = field(default_factory=dict)
    above: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, graph: Sequence[tuple[str, Sequence[str]]], heads: Sequence[str]) -> History:
        """Build from commits with their parents, children first; the last is the common ancestor of all. Pure."""
        reached: defaultdict[str, int] = defaultdict(int)
        from_child: defaultdict[str, set[int]] = defaultdict(set)
        for index, head in enumerate(heads):
            reached[head] |= 1 << index
        joints: list[str] = []
        descend: defaultdict[str, int] = defaultdict(int)
        history = cls(joints, dict.fromkeys(heads, 0), [])
        root = graph[-1][0]
        for commit, parents in graph:
            mask = (1 << len(heads)) - 1 if commit == root else reached[commit]
            joint = 0
            if mask & (mask - 1) and mask not in from_child[commit]:
                joint = 1 << len(joints)
                joints.append(commit)
                history.above.append(descend[commit])
                for index in _bits(mask):
                    history.seen_by[heads[index]] |= joint
            for parent in parents:
                reached[parent] |= mask
                from_child[parent].add(mask)
                descend[parent] |= descend[commit] | joint
        return history

    def base(self, one: str, other: str) -> str | None:
        """Return the only merge base of two heads; None when there are several, or a head is not known here."""
        if one == other:
            return one
        common = self.seen_by.get(one, 0) & self.seen_by.get(other, 0)
        best = [index for index in _bits(common) if not self.above[index] & common]
        return self.joints[best[0]] if len(best) == 1 else None
