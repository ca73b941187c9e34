"""The record of a run as it is read: what its newest commit holds, its trace, and the list of all runs.

Nothing here imports dulwich: each question is one git call, or two, however large the answer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from git_parallel import plain
from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Repository
from git_parallel.layout import RUNS, run_ref
from git_parallel.plan.model import Result, RunSpec, decode_result, decode_spec
from git_parallel.store import refs
from git_parallel.store.objects import batch

VERSION = 1

STATE = "Architect-State"
COUNTS = "Architect-Counts"
TITLE = "Architect-Title"
TRAILER = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*):[ \t]*(?P<value>.*)")

_RESULT = r"workers/(?P<worker>[0-9]+)/result\.json"
# Read together at the first question, because a command that asks for one mostly asks for all.
_FACTS = r"version|run\.json|events\.jsonl|workers/[0-9]+/(result\.json|verdicts/[^/]+\.json)"


_MISSING = "its record is missing from the repository: git parallel doctor"


class Step(NamedTuple):
    """One commit of the trace. ``time`` is epoch seconds."""

    oid: str
    time: int
    subject: str
    trailers: dict[str, str]


class Record:
    """A run as its record has it at the commit ``tip``; later writes do not change what it says.

    What a newer version of the tool wrote is read as far as possible; otherwise a file that is missing or
    does not parse raises ParallelError.
    """

    def __init__(self, repo: Repository, run: str, tip: str) -> None:
        self.repo = repo
        self.run = run
        self.tip = tip

    @cached_property
    def version(self) -> int | None:
        """The version of the record's format, or None where it says none."""
        return parse_version(self._facts.get("version"))

    def spec(self) -> RunSpec:
        """Return the run as it was asked for."""
        data = self._facts.get("run.json")
        if data is None:
            raise ParallelError(f"the record of run {self.run} has no run.json")
        try:
            return decode_spec(data)
        except msgspec.MsgspecError as error:
            raise self._unreadable("run.json", error) from error

    def results(self) -> dict[int, Result]:
        """Return the results of the workers that have ended, by number."""
        results = {}
        for path, data in self._facts.items():
            match = re.fullmatch(_RESULT, path)
            if match is None:
                continue
            try:
                results[int(match["worker"])] = decode_result(data)
            except msgspec.MsgspecError as error:
                if (self.version or 0) <= VERSION:
                    raise self._unreadable(path, error) from error
        return dict(sorted(results.items()))

    def events(self) -> list[dict[str, Any]]:
        """Return the recorded events, the oldest first. A line that was cut off is left out."""
        events = []
        for line in self._facts.get("events.jsonl", b"").splitlines():
            try:
                event = plain.decode(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                events.append(event)
        return events

    def file(self, path: str) -> bytes | None:
        """Return a file of the record, or None where there is none."""
        if path in self._facts:
            return self._facts[path]
        oid = self._paths.get(path)
        found = batch(self.repo, [oid])[0] if oid else None
        return found.data if found else None

    def paths(self) -> list[str]:
        """Return the paths of all files of the record."""
        return list(self._paths)

    def torn(self) -> bool:
        """Say whether its newest commit, or anything in that, is missing from the repository."""
        if batch(self.repo, [self.tip]) == [None]:
            return True
        objects = ("rev-list", "--objects", "--no-object-names", "--missing=print", "--no-walk", self.tip)
        return any(line.startswith("?") for line in self.repo.common.run(*objects).lines)

    def history(self) -> list[Step]:
        """Return the trace, the oldest step first."""
        form = "--format=%H%x00%ct%x00%s%x00%(trailers:only,unfold)"
        fields = self.repo.common.run("log", "-z", "--first-parent", "--no-show-signature", form, self.tip).fields
        steps = [fields[at : at + 4] for at in range(0, len(fields), 4)]
        return [Step(oid, int(time), subject, parse_trailers(block)) for oid, time, subject, block in reversed(steps)]

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Every file of the record and its blob."""
        try:
            listed = self.repo.common.run("ls-tree", "-r", "-z", self.tip).fields
        except GitError as error:
            raise ParallelError(
                f"cannot read the record of run {self.run} at {self.tip}: {error.message}",
                "see what can be done: git parallel doctor",
            ) from error
        rows = (row.partition("\t") for row in listed)
        return {path: about.split(" ")[2] for about, _, path in rows}

    @cached_property
    def _facts(self) -> dict[str, bytes]:
        wanted = {path: oid for path, oid in self._paths.items() if re.fullmatch(_FACTS, path)}
        found = batch(self.repo, list(wanted.values()))
        return {path: blob.data for path, blob in zip(wanted, found, strict=True) if blob is not None}

    def _unreadable(self, path: str, error: Exception) -> ParallelError:
        return ParallelError(f"cannot read {path} of the record of run {self.run}: {error}")


def read(repo: Repository, run: str) -> Record | None:
    """Return the record of a run (its full id), or None where there is none."""
    tip = refs.read(repo, run_ref(run)).get(run_ref(run))
    return Record(repo, run, tip) if tip else None


# --- listing ---------------------------------------------------------------------------------------


class Summary(Struct, frozen=True, dict=True):
    """What the newest commit of a record says of the run. ``time`` is that commit's, in epoch seconds."""

    run: str
    tip: str
    time: int
    subject: str
    block: str

    @cached_property
    def trailers(self) -> dict[str, str]:
        """The trailers of the commit; read only when asked for, since a list of 10,000 runs shows a page."""
        return parse_trailers(self.block)

    @property
    def title(self) -> str:
        """The subject of the run's first record."""
        return self.trailers.get(TITLE, self.subject)

    @property
    def state(self) -> str:
        """``running`` or ``ended``, ``unreadable`` where the commit is missing from the repository."""
        if self.subject == _MISSING:
            return "unreadable"
        return "running" if self.trailers.get(STATE) == "running" else "ended"

    @property
    def counts(self) -> dict[str, int]:
        """The number of ended workers by status."""
        return parse_counts(self.trailers.get(COUNTS, ""))


def list_runs(repo: Repository, limit: int | None = None) -> list[Summary]:
    """Return the recorded runs, the newest first, at most ``limit``: one git call or two, and no JSON is read."""
    wanted = [RUNS]
    if limit is not None:
        # git reads the commits of all refs before it counts (2.39): 7 ms for names alone, of 10,000 runs.
        newest = ("for-each-ref", "--sort=-refname", f"--count={limit}", "--format=%(refname)", RUNS)
        wanted = repo.common.run(*newest).lines if limit > 0 else []
    if not wanted:
        return []
    try:
        return _listed(repo, wanted)
    except GitError:  # one whose commit is missing must not hide the others
        return _listed_one_by_one(repo, wanted)


def _listed(repo: Repository, wanted: Sequence[str]) -> list[Summary]:
    names = ("refname", "objectname", "committerdate:unix", "contents:subject", "contents:trailers:only,unfold")
    form = "--format=" + "".join(f"%({name})%00" for name in names)
    fields = repo.common.run("for-each-ref", "--sort=-refname", form, *wanted).fields
    return [_summary(*fields[at : at + len(names)]) for at in range(0, len(fields), len(names))]


def _listed_one_by_one(repo: Repository, wanted: Sequence[str]) -> list[Summary]:
    there = refs.read_below(repo, *wanted)
    found = dict(zip(there, batch(repo, list(there.values())), strict=True))
    whole = [ref for ref, commit in found.items() if commit is not None]
    missing = [Summary(ref.removeprefix(RUNS), there[ref], 0, _MISSING, "") for ref in found if found[ref] is None]
    rows = (_listed(repo, whole) if whole else []) + missing
    return sorted(rows, key=lambda row: row.run, reverse=True)


def _summary(ref: str, tip: str, time: str, subject: str, block: str) -> Summary:
    # The newline ends the row before.
    return Summary(ref.lstrip("\n").removeprefix(RUNS), tip, int(time or 0), subject, block)


# --- what a commit says ----------------------------------------------------------------------------


def parse_trailers(text: str) -> dict[str, str]:
    """Return the trailers at the end of a message, or of a bare block of them; of equal keys the last one counts."""
    lines = text.rstrip().rpartition("\n\n")[2].split("\n")
    matches = (TRAILER.fullmatch(line) for line in lines)
    return {match["key"]: match["value"].strip() for match in matches if match}


def parse_counts(text: str) -> dict[str, int]:
    """Read ``success=2 failed=1``; what is no such pair is left out."""
    pairs = (pair.partition("=") for pair in text.split())
    return {status: int(number) for status, _, number in pairs if status and number.isdecimal()}


def parse_version(data: bytes | None) -> int | None:
    """Read the file ``version``."""
    text = os.fsdecode(data or b"").strip()
    return int(text) if text.isdecimal() else None
