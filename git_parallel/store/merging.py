"""Two histories of one record, brought together without losing anything of either.

A record's files are merged one by one against what both began with. What only one side changed is taken from it;
of what both changed, events are united, the newer attempt's result counts, and otherwise ours stays: theirs is in
the second parent's tree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from git_parallel.plan.model import Result, decode_result
from git_parallel.store.objects import FILE, Objects
from git_parallel.store.reading import COUNTS, STATE, TITLE, parse_trailers

Paths = Mapping[str, tuple[int, str]]

_OF_WORKER = re.compile(r"workers/(?P<worker>[0-9]+)/(?P<name>result\.json|report\.md|prompt\.txt)")
_VERDICT = re.compile(r"workers/[0-9]+/verdicts/[^/]+\.json")
_EVENTS = "events.jsonl"


# --- files ------------------------------------------------------------------------------------------


def paths(base: Paths, ours: Paths, theirs: Paths, read: Callable[[str], bytes]) -> dict[str, tuple[int, str] | bytes]:
    """Return the merged files by path: an entry of either side, or new content."""
    merged: dict[str, tuple[int, str] | bytes] = {}
    later = _later_rounds(base, ours, theirs, read)
    for path in sorted({*ours, *theirs}):
        old, one, other = base.get(path), ours.get(path), theirs.get(path)
        if other in (one, old):
            chosen: tuple[int, str] | bytes | None = one
        elif one == old:
            chosen = other
        elif path == _EVENTS and one is not None and other is not None:
            chosen = united(read(one[1]), read(other[1]))
        elif match := _OF_WORKER.fullmatch(path):
            chosen = other if int(match["worker"]) in later else one
        else:
            chosen = one or other
        if chosen is not None:
            merged[path] = chosen
    return merged


def _later_rounds(base: Paths, ours: Paths, theirs: Paths, read: Callable[[str], bytes]) -> set[int]:
    """The workers of which theirs is ahead: by attempts, then by the time of their end; one at work is ahead."""

    def rank(side: Paths, path: str) -> tuple[int, int, str]:
        if path not in side:  # it was put aside when another round began
            before = _result(base, path, read)
            return (before.attempts if before is not None else 0, 1, "")
        found = _result(side, path, read)
        return (found.attempts, 0, found.ended or "") if found is not None else (0, 0, "")

    workers = {path: int(match["worker"]) for path in {*ours, *theirs} if (match := _OF_WORKER.fullmatch(path))}
    results = {f"workers/{worker}/result.json": worker for worker in workers.values()}
    return {worker for path, worker in results.items() if rank(theirs, path) > rank(ours, path)}


def _result(side: Paths, path: str, read: Callable[[str], bytes]) -> Result | None:
    try:
        return decode_result(read(side[path][1])) if path in side else None
    except msgspec.MsgspecError:
        return None


def united(ours: bytes, theirs: bytes) -> bytes:
    """Every line of both, once; by time, as far as the lines of one side stay in their order."""
    left = ours.splitlines(keepends=True)
    known = set(left)
    right = [line for line in theirs.splitlines(keepends=True) if line not in known]
    lines: list[bytes] = []
    at = 0
    for line in right:
        while at < len(left) and _time(left[at]) <= _time(line):
            lines.append(left[at])
            at += 1
        lines.append(line)
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in [*lines, *left[at:]])


def _time(line: bytes) -> str:
    try:
        event = msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return ""
    found = event.get("time") if isinstance(event, dict) else None
    return found if isinstance(found, str) else ""


# --- what a merged record says of itself -------------------------------------------------------------


def standing(base: str, ours: str, theirs: str) -> list[tuple[str, str]]:
    """Merge the trailers that say how a run stands: what one side alone changed counts; else ours."""
    old, one, other = parse_trailers(base), parse_trailers(ours), parse_trailers(theirs)
    found = []
    for key in (STATE, TITLE):
        value = other.get(key) if one.get(key) == old.get(key) else one.get(key)
        if value or one.get(key):
            found.append((key, value or one[key]))
    return found


def counts(merged: Mapping[str, tuple[int, str] | bytes], read: Callable[[str], bytes]) -> list[tuple[str, str]]:
    """Count the statuses of a merged record's results, as its newest commit tells them."""
    totals: dict[str, int] = {}
    for path, entry in merged.items():
        match = _OF_WORKER.fullmatch(path)
        if match is None or match["name"] != "result.json":
            continue
        try:
            status = decode_result(entry if isinstance(entry, bytes) else read(entry[1])).status
        except msgspec.MsgspecError:
            continue
        totals[status] = totals.get(status, 0) + 1
    order = ("success", "partial", "failed", "timeout", "cancelled", "skipped")
    said = " ".join(f"{status}={totals[status]}" for status in order if status in totals)
    return [(COUNTS, said)] if said else []


def verdicts(ours: Paths, theirs: Paths, read: Callable[[str], bytes]) -> list[str]:
    """Say which verdicts theirs has and ours has not: ``worker 2 approved by A U Thor``."""
    said = []
    for path in sorted(set(theirs) - set(ours)):
        if not _VERDICT.fullmatch(path):
            continue
        try:
            given: Any = msgspec.json.decode(read(theirs[path][1]))
            said.append(f"worker {given['worker']} {given['verdict']} by {given['by'].split(' <')[0]}")
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError):
            continue
    return said


# --- commits ----------------------------------------------------------------------------------------


def record(objects: Objects, base: str | None, tips: tuple[str, str], subject: str, key: tuple[str, str]) -> str:
    """Write the commit that joins two histories of one record, ours first; ``key`` is its trailer, ours and theirs."""
    messages, trees = {}, {}
    for commit in {*tips, *([base] if base else [])}:
        tree, _, messages[commit] = objects.read_commit(commit)
        trees[commit] = objects.read_tree(tree)
    ours, theirs = tips
    old: Paths = trees[base] if base else {}
    merged = paths(old, trees[ours], trees[theirs], objects.read_blob)
    news = verdicts(trees[ours], trees[theirs], objects.read_blob)
    said = ": " + ", ".join(news[:2]) + (f" and {len(news) - 2} more" if len(news) > 2 else "") if news else ""
    trailers = [key, ("Architect-Event", "joined")]
    trailers += standing(messages[base] if base else "", messages[ours], messages[theirs])
    trailers += counts(merged, objects.read_blob)
    entries = {
        path: (FILE, objects.blob(entry)) if isinstance(entry, bytes) else entry for path, entry in merged.items()
    }
    body = "\n".join(f"{name}: {value}" for name, value in trailers)
    return objects.commit(objects.tree(entries), tips, f"{subject}{said}\n\n{body}\n")


def heads(files: Paths, read: Callable[[str], bytes]) -> dict[int, str]:
    """The recorded head of each worker that has one."""
    found = {}
    for path in files:
        match = _OF_WORKER.fullmatch(path)
        if match is not None and match["name"] == "result.json":
            result = _result(files, path, read)
            if result is not None and result.head is not None:
                found[int(match["worker"])] = result.head
    return found
