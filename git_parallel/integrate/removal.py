"""What the record keeps of a removal: ``workers/<n>/cleanup.json``, by which restore finds everything again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from git_parallel.git import Repository
from git_parallel.layout import run_ref
from git_parallel.plan import model
from git_parallel.store.objects import batch

Address = tuple[str, int]
"""A worker: its run's id and its number."""


class Removal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What cleanup removed of one worker and where it is kept.

    ``branch`` is the short name of the branch that was deleted, None when it stayed; ``head`` its tip, kept
    by refs/architect/kept/. ``snapshot`` is the commit with what no commit held. ``worktree`` is where it
    was, ``trash`` where its directory went. ``settings`` are the branch's own lines of the configuration.
    ``restored`` is when the branch or worktree was brought back: from then on both are the worker's again.
    """

    v: int = 1
    time: str
    branch: str | None = None
    head: str | None = None
    snapshot: str | None = None
    worktree: str | None = None
    trash: str | None = None
    settings: list[tuple[str, str]] = []
    restored: str | None = None


def path(worker: int) -> str:
    """Where the record has it."""
    return f"workers/{worker}/cleanup.json"


def encode(removal: Removal) -> bytes:
    """The file's content."""
    return model.encode(removal)


def decode(data: bytes | None) -> Removal | None:
    """Read the file's content; None for what is missing or was written by something else."""
    try:
        return model.decode(data, Removal) if data is not None else None
    except msgspec.MsgspecError:
        return None


def read(repo: Repository, workers: Sequence[Address]) -> dict[Address, Removal]:
    """Return what the records say of these workers' removals, in one git call."""
    found = batch(repo, [f"{run_ref(run)}:{path(worker)}" for run, worker in workers])
    removals = {one: decode(blob.data if blob else None) for one, blob in zip(workers, found, strict=True)}
    return {one: removal for one, removal in removals.items() if removal is not None}
