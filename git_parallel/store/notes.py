"""Notes: what ``git log`` shows on workers' heads and merge commits, kept in ``refs/notes/architect``.

Here is only the text and the tree. The ref moves in the transaction of :mod:`git_parallel.store.record`:
``git notes add`` loses notes when two processes add at once.

The tree is edited in process, one path per note, because each writer at hand has a fault: ``git fast-import``
counts every note of the ref and adds a second file for a note that ``git notes`` filed under another fanout,
and dulwich reads the whole tree. git accepts any mixture of fanouts (notes.c, load_subtree) and files notes
anew in its own way when ``git notes`` writes next.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from git_parallel.git import Repository
from git_parallel.layout import NOTES
from git_parallel.store.objects import FILE, Objects, batch

# Two hexadecimal digits are a directory of a notes tree. git's own writers go two deep from 65,536 notes on
# and three from 16 million.
_DEEPEST = 3
_FANOUT = re.compile(r"[0-9a-f]{2}")
# Above this many notes in one directory, new ones go one level deeper.
_CROWDED = 256

Notes = Mapping[str, str] | Iterable[tuple[str, str]]


def merged(existing: str, added: str) -> str:
    """Return a note with the paragraphs of ``added``: each takes the place of the one with the same first line.

    Paragraphs without such a counterpart go to the end, so that a commit that is the head of two workers
    tells of both.
    """
    paragraphs = _paragraphs(existing)
    for paragraph in _paragraphs(added):
        first = _first_line(paragraph)
        at = next((at for at, old in enumerate(paragraphs) if _first_line(old) == first), len(paragraphs))
        paragraphs[at : at + 1] = [paragraph]
    return "\n\n".join(paragraphs) + "\n" if paragraphs else ""


def read(repo: Repository, commits: Sequence[str], at: str = NOTES) -> dict[str, str]:
    """Return the notes of these commits (full ids), in one git call; commits without one are absent."""
    paths = [(commit, path) for commit in dict.fromkeys(commits) for path in _candidates(commit)]
    found = batch(repo, [f"{at}:{path}" for _, path in paths])
    parts: dict[str, list[str]] = {}
    for (commit, _), answer in zip(paths, found, strict=True):
        if answer is not None and answer.kind == "blob":
            parts.setdefault(commit, []).append(os.fsdecode(answer.data))
    return {commit: _joined(texts) for commit, texts in parts.items()}


def build(repo: Repository, notes: Notes, current: str | None, objects: Objects | None = None) -> str:
    """Write the commit that follows the notes commit ``current`` (None: there is none) and holds these notes too.

    ``notes`` goes from commit id to text, or is a sequence of such pairs in which a commit may come twice;
    :func:`merged` says how a text joins the note that is there. Returns ``current`` itself when it has all of it.
    """
    if objects is None:
        with Objects(repo) as opened:
            return build(repo, notes, current, opened)
    base = objects.read_commit(current)[0] if current else None
    pairs = notes.items() if isinstance(notes, Mapping) else notes
    tree = _set(objects, base, [(commit, partial(merged, added=text)) for commit, text in pairs])
    tree = tree or objects.tree({})
    if current and tree == base:
        return current
    return objects.commit(tree, [current] if current else [], "Notes added by 'git parallel'")


def merge(objects: Objects, base: str | None, ours: str, theirs: str) -> str:
    """Write the commit that joins two histories of the notes, which both began with ``base`` (None: nothing).

    Paragraph by paragraph: what theirs says beyond the base is added to ours. Where both changed a paragraph
    with the same first line, both stay.
    """
    trees = [objects.read_commit(commit)[0] if commit else None for commit in (base, ours, theirs)]
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for path, old, new in _changed(objects, trees[0], trees[2], ""):
        commit = path.replace("/", "")
        before.setdefault(commit, []).extend([old] if old else [])
        after.setdefault(commit, []).extend([new] if new else [])
    updates: list[tuple[str, Callable[[str], str]]] = []
    for commit, blobs in after.items():
        old_text, new_text = (_text(objects, oids) for oids in (before[commit], blobs))
        updates.append((commit, partial(_both, base=old_text, theirs=new_text)))
    tree = _set(objects, trees[1], updates)
    return objects.commit(tree or objects.tree({}), [ours, theirs], "Notes merged by 'git parallel'")


def _both(ours: str, base: str, theirs: str) -> str:
    """Merge one note by paragraphs."""
    old, result = _paragraphs(base), _paragraphs(ours)
    for paragraph in _paragraphs(theirs):
        if paragraph in old or paragraph in result:
            continue
        first = _first_line(paragraph)
        there = (at for at, one in enumerate(result) if _first_line(one) == first and one in old)
        at = next(there, len(result))
        result[at : at + 1] = [paragraph]
    return "\n\n".join(result) + "\n" if result else ""


def _changed(
    objects: Objects, old: str | None, new: str | None, prefix: str
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield each path that differs between two trees, with both blobs; trees that are the same are not read."""
    if old == new:
        return
    sides = [objects.list_tree(tree) if tree else {} for tree in (old, new)]
    for name in sorted({*sides[0], *sides[1]}):
        found = [side.get(name) for side in sides]
        if found[0] == found[1]:
            continue
        trees = [entry[1] if entry and stat.S_ISDIR(entry[0]) else None for entry in found]
        blobs = [entry[1] if entry and stat.S_ISREG(entry[0]) else None for entry in found]
        if any(trees):
            yield from _changed(objects, trees[0], trees[1], f"{prefix}{name}/")
        if any(blobs):
            yield prefix + name, blobs[0], blobs[1]


def _text(objects: Objects, blobs: Iterable[str]) -> str:
    return _joined([os.fsdecode(objects.read_blob(oid)) for oid in blobs])


def _set(objects: Objects, tree: str | None, updates: Iterable[tuple[str, Callable[[str], str]]]) -> str | None:
    """Return the tree with notes brought up to date: each is what its update makes of its text."""
    lists: dict[str, Mapping[str, tuple[int, str]]] = {}
    texts: dict[str, str] = {}
    changes: dict[str, tuple[int, str] | None] = {}
    for commit, update in updates:
        there, free = _places(objects, tree, commit, lists)
        existing = texts[commit] if commit in texts else _text(objects, [oid for _, oid in there])
        wanted = update(existing)
        if wanted == existing or not wanted:
            continue
        texts[commit] = wanted
        changes |= {other: None for other, _ in there[1:]}
        changes[there[0][0] if there else free] = (FILE, objects.blob(os.fsencode(wanted)))
    return objects.edit(tree, changes) if changes else tree


def _places(
    objects: Objects, tree: str | None, commit: str, lists: dict[str, Mapping[str, tuple[int, str]]]
) -> tuple[list[tuple[str, str]], str]:
    """Return the (path, blob) of the commit's note, wherever there is one, and the path where a new one belongs.

    ``lists`` keeps what was read: all notes of one call are looked up in the same trees.
    """
    there: list[tuple[str, str]] = []
    prefix, rest = "", commit
    for depth in range(_DEEPEST + 1):
        if tree and tree not in lists:
            lists[tree] = objects.list_tree(tree)
        entries = lists[tree] if tree else {}
        if rest in entries:
            there.append((prefix + rest, entries[rest][1]))
        fans_out = len(entries) >= _CROWDED or any(_FANOUT.fullmatch(name) for name in entries)
        if depth == _DEEPEST or not fans_out:
            break
        tree = entries.get(rest[:2], (0, None))[1]
        prefix, rest = f"{prefix}{rest[:2]}/", rest[2:]
    return there, prefix + rest


def _candidates(commit: str) -> list[str]:
    """Return every path at which a note of the commit may be filed, the shortest first."""
    paths = []
    for depth in range(_DEEPEST + 1):
        directories = [commit[2 * at : 2 * at + 2] for at in range(depth)]
        paths.append("/".join([*directories, commit[2 * depth :]]))
    return paths


def _joined(texts: Sequence[str]) -> str:
    """Join what several files say of one commit, as git does (notes.c, combine_notes_concatenate)."""
    different = list(dict.fromkeys(texts))
    return different[0] if len(different) == 1 else "\n\n".join(text.rstrip("\n") for text in different)


def _paragraphs(text: str) -> list[str]:
    groups = groupby(text.split("\n"), key=lambda line: bool(line.strip()))
    return ["\n".join(lines) for says_something, lines in groups if says_something]


def _first_line(paragraph: str) -> str:
    return paragraph.partition("\n")[0].strip()
