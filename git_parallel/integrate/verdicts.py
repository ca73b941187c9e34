"""A person's word on a worker: bound to the exact head it was given for, kept in the run's record.

A verdict counts only while the branch stands at that head; a later commit voids it. Each is a file of
its own (``workers/<n>/verdicts/<time>-<head>-<random>.json``), so that verdicts given in two clones
come together without a conflict, and a line in the note on the head, so that ``git log`` tells it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from git_parallel.git import Repository
from git_parallel.plan.model import SCHEMA_VERSION, decode, encode
from git_parallel.store import objects, record
from git_parallel.store.reading import Record, read
from git_parallel.store.refs import Update

Word = Literal["approved", "rejected", "changes"]


class Comment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A remark; where ``path`` and ``line`` are set, on that line of the diff's old or new ``side``."""

    text: str
    path: str | None = None
    line: int | None = None
    side: Literal["old", "new"] | None = None


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One verdict. ``head`` is a full commit id, ``at`` UTC; ``explicit``: given by a flag, not at a prompt.

    ``terminal``: whether whoever gave it sat at a terminal; None where nobody said so.
    """

    v: int = SCHEMA_VERSION
    run: str
    worker: int
    verdict: Word
    head: str
    by: str
    at: str
    message: str | None = None
    comments: tuple[Comment, ...] = ()
    explicit: bool = False
    terminal: bool | None = None


def give(
    repo: Repository,
    run: str,
    worker: int,
    word: Word,
    head: str,
    *,
    message: str | None = None,
    comments: Sequence[Comment] = (),
    explicit: bool = False,
    terminal: bool | None = None,
    branch: str | None = None,
) -> Verdict:
    """Record the present person's verdict on ``head``, at once; return it. Raises ParallelError.

    With ``branch`` (a full ref name) only while that is at ``head``: RaceError when it has moved.
    """
    now = datetime.now(UTC)
    verdict = Verdict(
        run=run,
        worker=worker,
        verdict=word,
        head=head,
        by=objects.identity(repo)[1],
        at=now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        message=message,
        comments=tuple(comments),
        explicit=explicit,
        terminal=terminal,
    )
    name = f"{now:%Y%m%dT%H%M%S%fZ}-{head[:10]}-{os.urandom(2).hex()}"
    record.write(
        repo,
        run,
        {f"workers/{worker}/verdicts/{name}.json": encode(verdict)},
        subject=f"worker {worker}: {word} by {verdict.by.split(' <')[0]}",
        trailers=[
            ("Architect-Event", "verdict"),
            ("Architect-Worker", str(worker)),
            ("Architect-Verdict", word),
            ("Architect-Head", head),
        ],
        parents=[head],
        updates=[Update(branch, head, head)] if branch else [],
        notes={head: line(verdict)},
    )
    return verdict


def line(verdict: Verdict) -> str:
    """The line that the note on the head gets."""
    said = f": {' '.join(verdict.message.split())}" if verdict.message else ""
    return f"Review: {verdict.verdict} by {verdict.by} on {when(verdict.at)}{_way(verdict)}{said}\n"


def when(at: str) -> str:
    """The time of a verdict as people read it, to the second: by it they know which of several counts."""
    return f"{at[:10]} {at[11:19]}Z"


def _way(given: Verdict) -> str:
    if not given.explicit:
        return ""
    return " (by a flag, without a terminal)" if given.terminal is False else " (by a flag)"


def of_record(recorded: Record | None) -> dict[int, list[Verdict]]:
    """All verdicts of a run by worker, the oldest first; a file that is no verdict is passed over."""
    found: dict[int, list[Verdict]] = {}
    if recorded is None:
        return found
    for path in sorted(recorded.paths()):
        parts = path.split("/")
        if len(parts) != 4 or parts[0] != "workers" or parts[2] != "verdicts":
            continue
        try:
            verdict = decode(recorded.file(path) or b"", Verdict)
        except msgspec.MsgspecError:
            continue
        found.setdefault(verdict.worker, []).append(verdict)
    for verdicts in found.values():
        verdicts.sort(key=lambda verdict: verdict.at)
    return found


def of_run(repo: Repository, run: str) -> dict[int, list[Verdict]]:
    """All verdicts of a run by worker, the oldest first."""
    return of_record(read(repo, run))


def standing(verdicts: Sequence[Verdict], tip: str | None) -> Verdict | None:
    """The verdict that stands: for this head, or the newest one as it was given, where the branch is gone."""
    return current(verdicts, tip) if tip is not None else next(reversed(verdicts), None)


def current(verdicts: Sequence[Verdict], tip: str | None) -> Verdict | None:
    """The newest verdict that was given for exactly this head; None when there is none."""
    return next((verdict for verdict in reversed(verdicts) if verdict.head == tip), None)


def said(given: Verdict) -> str:
    """``approved by A U Thor <…> on 2026-11-29 16:50:00Z for 1a2b3c4d5e6f``."""
    return f"{given.verdict} by {given.by} on {when(given.at)} for {given.head[:12]}{_way(given)}"


def remarks(given: Verdict) -> list[str]:
    """The message of a verdict and its comments, line by line: what an agent is told, and a person reads."""
    lines = given.message.splitlines() if given.message else []
    for comment in given.comments:
        first, *rest = comment.text.splitlines() or [""]
        place = where(comment)
        lines += [f"{place}: {first}" if place else first, *(f"    {line}" for line in rest)]
    return lines


def where(comment: Comment) -> str:
    """``src/a.txt:12``, ``src/a.txt:12 (old)``, ``src/a.txt``; empty for a comment on no file."""
    if comment.path is None:
        return ""
    path = " ".join(comment.path.split("\n"))
    line = f":{comment.line}" if comment.line is not None else ""
    return f"{path}{line}{' (old)' if comment.side == 'old' else ''}"
