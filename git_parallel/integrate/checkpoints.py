"""The checkpoints of a worker: the states of its worktree that a chain of snapshots holds, and one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate.restorable import Restorable
from git_parallel.plan.values import SECONDS
from git_parallel.store import snapshots
from git_parallel.store.objects import Objects
from git_parallel.store.snapshots import Snapshot

_SPAN = re.compile(r"[0-9.]+[dhms]([0-9.]+[hms])*")
_OID = re.compile(r"[0-9a-f]{7,64}")
_EPOCH = re.compile(r"@?([0-9]{9,11})")
# git takes any word for a time, and one that it does not know for now.
_TELLS_TIME = re.compile(r"[0-9]|\b(?:now|today|yesterday|noon|midnight|tea|ago|last)\b")
_PREVIOUS = re.compile(r"^Architect-Previous: ([0-9a-f]+)$", re.MULTILINE)


def history(repo: Repository, item: Restorable) -> list[Snapshot]:
    """The newest state that is kept and all before it that it leads to, the newest first."""
    oids: list[str] = []
    following = item.wip
    with Objects(repo) as objects:
        while following is not None and following not in oids:
            try:
                message = objects.read_commit(following)[2]
            except ParallelError:  # fetched without its past, or never here
                break
            oids.append(following)
            named = _PREVIOUS.search(message.rpartition("\n\n")[2])
            following = named[1] if named else None
    return [found for found in snapshots.read_snapshots(repo, oids) if found is not None]


def at(repo: Repository, item: Restorable, when: str, now: float) -> Restorable:
    """Return the worker as it was at a time: the last checkpoint not after it, on the commit that HEAD was at.

    ``when``: a time as git knows them, a span such as ``10m``, or the id of a checkpoint. Raises UsageError for
    what is neither, ParallelError when nothing was captured by then.
    """
    known = history(repo, item)
    if not known:
        raise ParallelError(
            f"no checkpoint of {item.handle} is kept", "see what can be brought back: git parallel restore --list"
        )
    found = chosen(known, when, moment(repo, when, now))
    if found is None:
        raise ParallelError(
            f"nothing was captured of {item.handle} by then", f"see when: git parallel restore --list {item.handle}"
        )
    return replace(item, snapshot=found, head=found.head, tip=None, kept=None)  # not where its branch is now


def chosen(known: Sequence[Snapshot], when: str, seconds: float) -> Snapshot | None:
    """Choose from checkpoints, the newest first: by id, or the last one at or before ``seconds``. Pure."""
    if _OID.fullmatch(when):
        named = [one for one in known if one.oid.startswith(when)]
        if len(named) == 1:
            return named[0]
    return next((one for one in known if one.time <= seconds), None)


def moment(repo: Repository, when: str, now: float) -> float:
    """Read a time in the past as seconds since the epoch. Raises UsageError."""
    if _SPAN.fullmatch(when):
        try:
            return now - float(SECONDS.parse(when))
        except ValueError:
            pass
    if stamp := _EPOCH.fullmatch(when):
        return float(stamp[1])
    if not _TELLS_TIME.search(when.lower()) and not _OID.fullmatch(when):
        raise UsageError(
            f"--at must be a time, not '{when}'", "for example 14:05, '10 minutes ago', 10m or 2026-11-29T14:05:00Z"
        )
    asked = repo.common.text("rev-parse", f"--until={when}")  # git says --min-age=SECONDS
    return float(asked.rpartition("=")[2])


def committed(repo: Repository, item: Restorable) -> Restorable:
    """Return the worker with a commit of the snapshot's files as its head: a branch can hold no more than that."""
    state = item.snapshot
    if state is None or (state.head and repo.common.text("rev-parse", f"{state.head}^{{tree}}") == state.tree):
        return item
    with Objects(repo) as objects:
        message = f"state of {item.handle}\n\nArchitect-Snapshot: {state.oid}\n"
        head = objects.commit(state.tree, [state.head] if state.head else [], message)
    return replace(item, head=head)
