"""What can be brought back: tips of removed branches, snapshots, and worktrees in the trash."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from git_parallel import worktrees
from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import removal
from git_parallel.integrate.removal import Address, Removal
from git_parallel.layout import HEADS, KEPT, RUNS, WIP, State, run_ref
from git_parallel.plan.model import Result, RunSpec, decode_result, decode_spec
from git_parallel.store import handles, refs, snapshots
from git_parallel.store.objects import batch
from git_parallel.store.snapshots import Snapshot
from git_parallel.supervisor import files, view
from git_parallel.worktrees import Trashed

Shape = TypeVar("Shape")

_KEPT_OR_WIP = re.compile(r"refs/architect/(?P<kind>kept|wip)/(?P<run>[^/]+)/(?P<worker>[1-9][0-9]*)")


class Restorable(Struct, frozen=True):
    """What there is of one worker. Commits are ids; ``branch`` is the short name that the worker was given.

    ``head``: the tip to bring back (from the kept ref, else from the record), ``head_time`` epoch seconds.
    ``snapshot``: the newest state of its worktree that no commit held. ``tip``: where a branch of that
    name is now. ``ignored``: a commit of files that git ignores. ``trash``: its directories in the trash, oldest first.
    """

    run: str
    worker: int
    branch: str | None = None
    worktree: str | None = None
    base: str | None = None
    kept: str | None = None
    head: str | None = None
    tip: str | None = None
    wip: str | None = None
    snapshot: Snapshot | None = None
    ignored: str | None = None
    removal: Removal | None = None
    trash: tuple[Trashed, ...] = ()
    status: str | None = None

    @property
    def address(self) -> Address:
        return self.run, self.worker

    @property
    def handle(self) -> str:
        """What a person types for it."""
        return f"{self.run}/{self.worker}"


class _Found(Struct):
    """Values of the refs that keep something, and the trash."""

    kept: dict[Address, str] = field(default_factory=dict)
    wip: dict[Address, str] = field(default_factory=dict)
    trash: dict[Address, list[Trashed]] = field(default_factory=dict)

    def addresses(self) -> list[Address]:
        return sorted({*self.kept, *self.wip, *self.trash})


def everything(repo: Repository) -> list[Restorable]:
    """Return all workers of which something is kept, the oldest first."""
    found = _found(repo)
    return _describe(repo, found.addresses(), found)


def named(repo: Repository, words: Sequence[str]) -> list[Restorable]:
    """Return the workers that ``words`` name, each once. Raises UsageError for a word that names none.

    A number means the newest run that has or had a worker of that number; a run means all its workers of
    which something is kept.
    """
    found = _found(repo)
    addresses: list[Address] = []
    for word in words:
        addresses += _resolve(repo, word, found)
    return _describe(repo, list(dict.fromkeys(addresses)), found)


def _found(repo: Repository) -> _Found:
    found = _Found()
    for name, oid in refs.read_below(repo, KEPT.rstrip("/"), WIP.rstrip("/")).items():
        if match := _KEPT_OR_WIP.fullmatch(name):
            kind = found.kept if match["kind"] == "kept" else found.wip
            kind[match["run"], int(match["worker"])] = oid
    for item in worktrees.trashed(repo):
        if item.present:
            found.trash.setdefault((item.run, item.worker), []).append(item)
    return found


def _resolve(repo: Repository, word: str, found: _Found) -> list[Address]:
    removed = found.addresses()
    if word.isascii() and word.isdecimal():
        own = [address for address in removed if address[1] == int(word)]
        try:
            own += [(handle.run, handle.worker) for handle in handles.resolve(repo, [word]) if handle.worker]
        except UsageError:
            if not own:
                raise
        if own:
            return [max(own)]
    try:
        (handle,) = handles.resolve(repo, [word])
    except UsageError as error:
        raise _unknown(repo, error) from None
    if handle.worker is not None:
        return [(handle.run, handle.worker)]
    whole = [address for address in removed if address[0] == handle.run]
    if not whole:
        raise ParallelError(
            f"nothing of run {handle.run} was removed", "see what can be brought back: git parallel restore --list"
        )
    return whole


def _unknown(repo: Repository, error: UsageError) -> ParallelError:
    """In a clone that has none of the refs, say so instead of offering names."""
    if refs.read_below(repo, RUNS.rstrip("/")) or view.known_runs(State(repo.common_dir)):
        return error
    return ParallelError(
        "this repository has no record of any run",
        "runs are recorded in the repository they ran in; to get them from there: git parallel fetch <remote>",
    )


def _describe(repo: Repository, addresses: Sequence[Address], found: _Found) -> list[Restorable]:
    """Look up what the records say, in a constant number of git calls."""
    specs = _specs(repo, {run for run, _ in addresses})
    removals = removal.read(repo, addresses)
    results = _results(repo, addresses)
    items = []
    for address in addresses:
        spec, removed, result = specs.get(address[0]), removals.get(address), results.get(address)
        job = next((job for job in spec.jobs if job.worker == address[1]), None) if spec is not None else None
        kept, wip = found.kept.get(address), found.wip.get(address)
        items.append(
            Restorable(
                run=address[0],
                worker=address[1],
                branch=job.branch if job is not None else removed.branch if removed is not None else None,
                worktree=job.worktree if job is not None else None,
                base=spec.base if spec is not None else None,
                kept=kept,
                head=kept or (result.head if result is not None else None),
                wip=wip,
                ignored=result.ignored.kept if result is not None and result.ignored is not None else None,
                removal=removed,
                trash=tuple(found.trash.get(address, ())),
                status=result.status if result is not None else None,
            )
        )
    return _with_commits(repo, items)


def _with_commits(repo: Repository, items: Sequence[Restorable]) -> list[Restorable]:
    """Fill in what the branches are at, and the snapshots that are there."""
    tips = refs.read(repo, *{HEADS + item.branch for item in items if item.branch})
    states = [_state_of(item) for item in items]
    known = {one: found for one, found in zip(*_read(repo, states), strict=True) if found is not None}
    filled = []
    for item, state in zip(items, states, strict=True):
        snapshot = known.get(state) if state else None
        head = item.head or (snapshot.head if snapshot is not None else None)
        tip = tips.get(HEADS + item.branch) if item.branch else None
        filled.append(replace(item, tip=tip, head=head, snapshot=snapshot))
    return filled


def _state_of(item: Restorable) -> str | None:
    """The snapshot that is the worktree's last state, as far as anybody said so."""
    if item.removal is not None and item.removal.worktree is not None:
        return item.removal.snapshot
    return (item.removal.snapshot if item.removal is not None else None) or item.wip


def _read(repo: Repository, states: Iterable[str | None]) -> tuple[list[str], list[Snapshot | None]]:
    oids = list(dict.fromkeys(state for state in states if state))
    return oids, snapshots.read_snapshots(repo, oids)


def _specs(repo: Repository, runs: Iterable[str]) -> dict[str, RunSpec]:
    state = State(repo.common_dir)
    specs: dict[str, RunSpec] = {}
    missing = []
    for run in runs:
        spec = _decoded(files.read(state.run(run).spec), decode_spec)
        if spec is not None:
            specs[run] = spec
        else:
            missing.append(run)
    for run, blob in zip(missing, batch(repo, [f"{run_ref(run)}:run.json" for run in missing]), strict=True):
        spec = _decoded(blob.data if blob else None, decode_spec)
        if spec is not None:
            specs[run] = spec
    return specs


def _results(repo: Repository, addresses: Sequence[Address]) -> dict[Address, Result]:
    names = [f"{run_ref(run)}:workers/{worker}/result.json" for run, worker in addresses]
    found = zip(addresses, batch(repo, names), strict=True)
    results = {address: _decoded(blob.data if blob else None, decode_result) for address, blob in found}
    return {address: result for address, result in results.items() if result is not None}


def _decoded(data: bytes | None, decode: Callable[[bytes], Shape]) -> Shape | None:
    try:
        return decode(data) if data is not None else None
    except msgspec.MsgspecError:
        return None


def changed_files(repo: Repository, items: Sequence[Restorable]) -> dict[Address, int]:
    """How many paths each snapshot has changed against its HEAD, in one git call."""
    pairs: list[tuple[Address, str]] = []
    for item in items:
        if item.snapshot is not None and item.snapshot.head is not None:
            pairs.append((item.address, f"{item.snapshot.oid} {item.snapshot.head}"))
    if not pairs:
        return {}
    stdin = "".join(f"{pair}\n" for _, pair in pairs).encode()
    # A line with a commit and another compares it with that one as its parent, and begins with its id.
    fields = repo.common.run("diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames", "--always", stdin=stdin)
    counts: dict[str, int] = {}
    current = ""
    commits = {pair.split(" ")[0] for _, pair in pairs}
    for name in fields.fields:
        if name in commits:
            current = name
            counts.setdefault(current, 0)
        else:
            counts[current] += 1
    return {address: counts.get(pair.split(" ")[0], 0) for address, pair in pairs}


def subjects(repo: Repository, commits: Iterable[str]) -> dict[str, str]:
    """The subjects of commits, by commit, in one git call; what is not there has none."""
    found = batch(repo, list(dict.fromkeys(commits)))
    said = {}
    for commit in found:
        if commit is not None and commit.kind == "commit":
            message = commit.data.partition(b"\n\n")[2]
            said[commit.oid] = message.partition(b"\n")[0].decode("utf-8", "replace")
    return said
