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
from collections.abc import Iterable, Mapping, Sequence
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
    tree = base
    for commit, text in notes.items() if isinstance(notes, Mapping) else notes:
        tree = _set(objects, tree, commit, text)
    tree = tree or objects.tree({})
    if current and tree == base:
        return current
    return objects.commit(tree, [current] if current else [], "Notes added by 'git parallel'")


def _set(objects: Objects, tree: str | None, commit: str, text: str) -> str | None:
    """Return the tree with one note brought up to date."""
    there, free = _places(objects, tree, commit)
    existing = _joined([os.fsdecode(objects.read_blob(oid)) for _, oid in there])
    wanted = merged(existing, text)
    if wanted == existing or not wanted:
        return tree
    path = there[0][0] if there else free
    changes: dict[str, tuple[int, str] | None] = {other: None for other, _ in there[1:]}
    changes[path] = (FILE, objects.blob(os.fsencode(wanted)))
    return objects.edit(tree, changes)


def _places(objects: Objects, tree: str | None, commit: str) -> tuple[list[tuple[str, str]], str]:
    """Return the (path, blob) of the commit's note, wherever there is one, and the path where a new one belongs."""
    there: list[tuple[str, str]] = []
    prefix, rest = "", commit
    for depth in range(_DEEPEST + 1):
        entries = objects.list_tree(tree) if tree else {}
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
