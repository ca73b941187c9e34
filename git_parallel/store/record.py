"""The record of a run: a chain of commits at ``refs/architect/runs/<id>``, and the one writer of it.

The first commit has no parent; each later one has the previous record as its first parent and workers'
heads as further ones, which keeps them alive. ``git log --first-parent refs/architect/runs/<id>`` is the
trace of the run. Lists are made from the commit messages alone: reading every run's JSON does not scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Literal, get_args

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from git_parallel.errors import ParallelError, RaceError
from git_parallel.git import Pending, Repository
from git_parallel.layout import NOTES, merge_ref, run_ref
from git_parallel.plan.model import Status, decode_result
from git_parallel.store import refs
from git_parallel.store.notes import build as build_notes
from git_parallel.store.objects import FILE, Objects
from git_parallel.store.reading import (
    COUNTS,
    STATE,
    TITLE,
    TRAILER,
    VERSION,
    Record,
    Step,
    Summary,
    list_runs,
    parse_counts,
    parse_trailers,
    parse_version,
    read,
)
from git_parallel.store.refs import Update

__all__ = [
    "Chain",
    "Entry",
    "Record",
    "Step",
    "Summary",
    "Tips",
    "list_runs",
    "merge_chain",
    "read",
    "run_chain",
    "write",
    "write_chains",
    "write_many",
]

# git's own octopus stops at 16; so do viewers.
_MOST_PARENTS = 16
# How often another writer (`git fetch`, a person) may come first before we give up.
_ATTEMPTS = 20

_VERSION_FILE = b"%d\n" % VERSION

# Trailers that say where the run stands: a record that does not mention them has the previous one's.
_STANDING = (STATE, COUNTS, TITLE)


class Entry(Struct, frozen=True, kw_only=True):
    """One commit of the record and what happens together with it.

    ``changes`` sets files of the record's tree (None removes one). For the ``Architect-Counts`` of the run,
    ``ended`` gives the status of each worker that this entry ends, and ``begun`` names those whose end counts no
    longer. ``parents`` are commits to keep alive. ``updates`` are other refs that move in the same transaction,
    ``notes`` go from commit to text.
    """

    changes: Mapping[str, bytes | None]
    subject: str
    trailers: Sequence[tuple[str, str]] = ()
    parents: Sequence[str] = ()
    updates: Sequence[Update] = ()
    notes: Mapping[str, str] | None = None
    ended: Mapping[int, Status] = field(default_factory=dict)
    begun: Sequence[int] = ()

    def with_changes(self, changes: Mapping[str, bytes | None]) -> Entry:
        """Return the entry with these files changed too."""
        return replace(self, changes={**self.changes, **changes})


# --- writing ---------------------------------------------------------------------------------------


def write(
    repo: Repository,
    run: str,
    changes: Mapping[str, bytes | None],
    *,
    subject: str,
    trailers: Sequence[tuple[str, str]] = (),
    parents: Sequence[str] = (),
    updates: Sequence[Update] = (),
    notes: Mapping[str, str] | None = None,
    ended: Mapping[int, Status] | None = None,
    worktree: str | None = None,
) -> str:
    """Add one commit to the record of ``run`` (see :class:`Entry`); return its id. Raises as :func:`write_many`."""
    entry = Entry(
        changes=changes,
        subject=subject,
        trailers=trailers,
        parents=parents,
        updates=updates,
        notes=notes,
        ended=ended or {},
    )
    return write_many(repo, run, [entry], worktree=worktree)[0]


def write_many(repo: Repository, run: str, entries: Sequence[Entry], *, worktree: str | None = None) -> list[str]:
    """Add a commit for each entry, in one transaction with their notes and updates; return the ids.

    Raises as :func:`write_chains`.
    """
    return write_chains(repo, [run_chain(run, entries)], worktree=worktree)[0] if entries else []


Tips = dict[str, str]
"""Refs and the commits that they are at; empty when that is not known."""


class Chain(Struct, frozen=True):
    """Commits to add to one record: at ``ref``, of the run or merge ``name``, known by the trailer ``key``."""

    ref: str
    kind: Literal["run", "merge"]
    name: str
    entries: Sequence[Entry]

    @property
    def key(self) -> str:
        return f"Architect-{self.kind.capitalize()}"

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"


def run_chain(run: str, entries: Sequence[Entry]) -> Chain:
    """Commits to add to the record of a run."""
    return Chain(run_ref(run), "run", run, entries)


def merge_chain(merge: str, entries: Sequence[Entry]) -> Chain:
    """Commits to add to the record of a landing."""
    return Chain(merge_ref(merge), "merge", merge, entries)


def write_chains(
    repo: Repository,
    chains: Sequence[Chain],
    *,
    worktree: str | None = None,
    ready: Callable[[], None] = lambda: None,
    objects: Objects | None = None,
    tips: Pending | None = None,
    known: Tips | None = None,
    through: refs.Transactions | None = None,
) -> list[list[str]]:
    """Add commits to several records, in one transaction with all their notes and updates; return the ids.

    When another process moved one of the records or the notes meanwhile, all is built again on what it wrote.
    A raced ref among the entries' ``updates`` raises RaceError, an unusable repository ParallelError; in
    both cases no ref has moved. With ``worktree``, the reflog of that worktree's HEAD is written too.
    ``ready`` is asked last of all, before a ref moves: what it raises keeps them where they are. ``objects`` are
    the repository's, where they are open already, ``through`` the process for transactions, where there is one, and
    ``tips`` what :func:`begin_tips` began. ``known`` is where the chains' refs and the notes were left by the last call
    that was given it: most likely they still are there, and the transaction says if not.
    """
    if not all(chain.entries for chain in chains):
        raise ValueError("a chain without entries")
    entries = [entry for chain in chains for entry in chain.entries]
    theirs = [update for entry in entries for update in entry.updates]
    told = [note for entry in entries for note in (entry.notes or {}).items()]
    message = f"parallel: {_one_line(chains[0].entries[-1].subject)}"
    records = [chain.ref for chain in chains]
    with refs.locked(repo), nullcontext(objects) if objects is not None else Objects(repo) as store:
        for attempt in range(_ATTEMPTS):
            seen = dict(known) if known else _tips(tips or begin_tips(repo, chains), records)
            tips = None
            commits = [_chain(store, chain, seen.get(chain.ref)) for chain in chains]
            ours = [
                Update(chain.ref, made[-1], seen.get(chain.ref) or repo.zero)
                for chain, made in zip(chains, commits, strict=True)
            ]
            if told:
                note = build_notes(repo, told, seen.get(NOTES), store)
                if note != seen.get(NOTES):
                    ours.append(Update(NOTES, note, seen.get(NOTES) or repo.zero))
            ready()
            try:
                refs.transaction(repo, [*ours, *theirs], message=message, worktree=worktree, through=through)
            except RaceError:
                if known:
                    known.clear()
                found = _tips(begin_tips(repo, chains), records)
                if all(found.get(chain.ref) == made[-1] for chain, made in zip(chains, commits, strict=True)):
                    return commits  # by a git that died before it could tell
                if attempt + 1 == _ATTEMPTS or found == seen:
                    raise  # not our refs: whoever gave the updates has to read again
                continue
            if known is not None:
                known.update(seen, **{update.ref: update.new for update in ours if update.new is not None})
            return commits
    raise AssertionError("unreachable")


def begin_tips(repo: Repository, chains: Sequence[Chain]) -> Pending:
    """Begin to read the refs that writing these chains will move; what it says holds only under the lock."""
    return refs.begin_read(repo, *(chain.ref for chain in chains), NOTES)


def _tips(read: Pending, records: Sequence[str]) -> dict[str, str]:
    """Say where the refs are that every write moves, and refuse a repository where one of them cannot be."""
    there = refs.parse_read(read.done())
    for name in there:
        if name not in (*records, NOTES):
            blocked = next(ref for ref in (*records, NOTES) if name.startswith(f"{ref}/"))
            raise ParallelError(
                f"ref '{name}' is in the way of '{blocked}'", f"rename or delete it: git update-ref -d {name}"
            )
    return there


class _Link(Struct, frozen=True):
    """The newest commit of a chain: its id and tree, and its trailers; ``current``: this version wrote the tree."""

    oid: str | None
    tree: str | None
    trailers: Mapping[str, str]
    current: bool = False


def _chain(objects: Objects, chain: Chain, tip: str | None) -> list[str]:
    """Write the commits of a chain's entries on top of ``tip``; return their ids."""
    link = _Link(None, None, {})
    if tip is not None:
        _refuse_newer(objects, chain, tip)
        tree, _, message = objects.read_commit(tip)
        link = _Link(tip, tree, parse_trailers(message))
    elif chain.entries[0].parents:
        # `--first-parent` must not walk off into the history of the project.
        tree = objects.edit(None, {"version": (FILE, objects.blob(_VERSION_FILE))})
        link = _Link(objects.commit(tree, [], f"{chain.title}\n\n{chain.key}: {chain.name}\n"), tree, {})
    commits = []
    for entry in chain.entries:
        link = _append(objects, chain, link, entry)
        assert link.oid is not None
        commits.append(link.oid)
    return commits


def _append(objects: Objects, chain: Chain, link: _Link, entry: Entry) -> _Link:
    """Write one commit of a chain."""
    trailers = _trailers(chain, link, entry, _counts(objects, link, entry))
    if entry.changes or not link.current or link.tree is None:
        changes = {**entry.changes, "version": _VERSION_FILE}
        blobs = {path: None if data is None else (FILE, objects.blob(data)) for path, data in changes.items()}
        tree = objects.edit(link.tree, blobs)
    else:
        tree = link.tree  # only the message says something
    for parent in entry.parents:
        objects.read_commit(parent)  # git checks only the commit that a ref names
    parents = [link.oid] if link.oid else []
    parents += _grouped(objects, chain, list(dict.fromkeys(entry.parents)), _MOST_PARENTS - 1)
    body = "\n".join(f"{key}: {value}".rstrip() for key, value in trailers)
    oid = objects.commit(tree, parents, f"{_one_line(entry.subject)}\n\n{body}\n")
    return _Link(oid, tree, dict(trailers), current=True)


def _grouped(objects: Objects, chain: Chain, heads: list[str], room: int) -> list[str]:
    """Return at most ``room`` commits that keep all the heads alive."""
    while len(heads) > room:
        chunks = [heads[at : at + _MOST_PARENTS] for at in range(0, len(heads), _MOST_PARENTS)]
        message = f"heads of {chain.title}\n\n{chain.key}: {chain.name}\n"
        heads = [objects.commit(objects.tree({}), chunk, message) if chunk[1:] else chunk[0] for chunk in chunks]
    return heads


def _refuse_newer(objects: Objects, chain: Chain, tip: str) -> None:
    version = parse_version(objects.path_blob(tip, "version"))
    if version is None:
        raise ParallelError(f"'{chain.ref}' is no record of a {chain.kind}: it has no version", "nothing was changed")
    if version > VERSION:
        raise ParallelError(
            f"the record of {chain.title} has version {version}; this git parallel writes up to version {VERSION}",
            "nothing was changed; upgrade git parallel (reading works as far as possible)",
        )


# --- what a message says ---------------------------------------------------------------------------


def _trailers(chain: Chain, link: _Link, entry: Entry, counts: str) -> list[tuple[str, str]]:
    """Return all trailers of a record: whose it is, what the entry says, and where the run stands."""
    said = [(key, _one_line(value)) for key, value in entry.trailers]
    for key, _ in said:
        if not TRAILER.fullmatch(f"{key}:"):
            raise ValueError(f"not a trailer's name: {key!r}")
    standing = {STATE: "running", TITLE: _one_line(entry.subject), **link.trailers}
    if counts:
        standing[COUNTS] = counts
    elif entry.begun:
        standing.pop(COUNTS, None)
    keys = {key for key, _ in said}
    inherited = [(key, standing[key]) for key in _STANDING if key in standing and key not in keys]
    return [(chain.key, chain.name), *said, *inherited]


def _counts(objects: Objects, link: _Link, entry: Entry) -> str:
    """Return the counts of the workers' statuses after an entry; a worker that ended before counts once."""
    counts = parse_counts(link.trailers.get(COUNTS, ""))
    for worker in (*entry.begun, *entry.ended):
        before = _status_before(objects, link, worker)
        if before is not None and counts.get(before):
            counts[before] -= 1
    for status in entry.ended.values():
        counts[status] = counts.get(status, 0) + 1
    order: tuple[str, ...] = get_args(Status)
    known = [status for status in order if counts.get(status)]
    return " ".join(f"{status}={counts[status]}" for status in known)


def _status_before(objects: Objects, link: _Link, worker: int) -> str | None:
    data = objects.path_blob(link.oid, f"workers/{worker}/result.json") if link.oid else None
    try:
        return decode_result(data).status if data is not None else None
    except msgspec.MsgspecError:
        return None


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())
