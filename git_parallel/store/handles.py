"""Handles: which run or worker a person means by ``2``, ``last``, a branch, a run's id or its first letters.

The live files of the runs answer most questions; the rest costs a handful of git calls, however many words
and runs there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec import Struct

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.layout import HEADS, RUNS, State, away_ref, run_ref
from git_parallel.plan.model import RunSpec, decode_spec
from git_parallel.store import refs
from git_parallel.store.objects import batch

LAST = "last"

_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_OF_RUN = re.compile(r"(?P<run>[^/]+)/(?P<worker>[1-9][0-9]{0,8})")
# `2026` may begin a run's id, `2` and `20` are workers that are no more.
_SHORTEST_DIGITS = 4
# Of runs whose live files are gone, only so many of the newest are asked for their workers and branches.
_RECORDS_READ = 200
_NAMED = 8


class Handle(Struct, frozen=True):
    """A run, or one worker of it."""

    run: str
    worker: int | None = None

    def __str__(self) -> str:
        return self.run if self.worker is None else f"{self.run}/{self.worker}"


def resolve(repo: Repository, words: Sequence[str], *, default: Sequence[str] = (LAST,)) -> list[Handle]:
    """Return what each of ``words`` names (without any, each of ``default``), each thing once, in order.

    A word is a live worker's number (its branch exists; the newest run that has it, else the only fetched run),
    ``<id>``, ``<id>/<n>``, ``last``, ``last/<n>``, a worker's branch, or a beginning of a run's id that only one
    run has. Raises UsageError for any other, with what comes near.
    """
    words = words or default
    known = _Known(repo, frozenset(int(word) for word in words if _NUMBER.fullmatch(word)))
    return list(dict.fromkeys(_resolve(known, word) for word in words))


def _resolve(known: _Known, word: str) -> Handle:
    if _NUMBER.fullmatch(word):
        run = known.run_of_live_worker(int(word))
        if run is not None:
            return Handle(run, int(word))
        if away := known.runs_elsewhere(int(word)):
            if len(away) > 1:
                handles = [f"{run}/{word}" for run in away[:_NAMED]]
                raise UsageError(f"worker {word} is ambiguous: {len(away)} fetched runs have one", *handles)
            return Handle(away[0], int(word))
        if len(word) < _SHORTEST_DIGITS:
            raise _no_live_worker(known, word)
    handle = _run(known, word) or _worker(known, word) or _branch(known, word)
    if handle is None:
        raise _unknown(known, word)
    return handle


def _run(known: _Known, word: str) -> Handle | None:
    """Read the word as a run: its id, ``last``, or the beginning of its id."""
    if word == LAST:
        if not known.runs:
            raise UsageError("there are no runs in this repository", "start one: git parallel 'TASK'")
        return Handle(known.runs[0])
    matches = [word] if word in known.runs else [run for run in known.runs if word and run.startswith(word)]
    if len(matches) > 1:
        rest = f"… and {len(matches) - _NAMED} more" if len(matches) > _NAMED else ""
        raise UsageError(
            f"'{word}' is ambiguous: {len(matches)} runs begin with it", *matches[:_NAMED], *([rest] if rest else [])
        )
    return Handle(matches[0]) if matches else None


def _worker(known: _Known, word: str) -> Handle | None:
    """Read the word as ``<run>/<n>``."""
    match = _OF_RUN.fullmatch(word)
    of = _run(known, match["run"]) if match else None
    if match is None or of is None:
        return None
    number = int(match["worker"])
    spec = known.spec(of.run)
    if spec is not None and all(job.worker != number for job in spec.jobs):
        raise UsageError(f"run {of.run} has no worker {number}", f"it has {_numbers(job.worker for job in spec.jobs)}")
    return Handle(of.run, number)


def _branch(known: _Known, word: str) -> Handle | None:
    """Read the word as the branch of a worker, of the newest run that had it."""
    name = word.removeprefix(HEADS)
    for run, spec in known.newest_specs():
        for job in spec.jobs:
            if job.branch == name:
                return Handle(run, job.worker)
    return None


def _no_live_worker(known: _Known, word: str) -> UsageError:
    specs = known.newest_specs()
    jobs = [job for _, spec in specs for job in spec.jobs]
    there = known.existing(job.branch for job in jobs)
    live = sorted({job.worker for job in jobs if job.branch in there})
    had = next((run for run, spec in specs if any(str(job.worker) == word for job in spec.jobs)), None)
    return UsageError(
        f"there is no worker {word}",
        f"workers whose branch exists: {_numbers(live)}" if live else "no worker's branch exists",
        f"the newest run that had one: git parallel show {had}/{word}"
        if had is not None
        else "name an older one as <run>/<n>; list the runs with: git parallel list",
    )


def _unknown(known: _Known, word: str) -> UsageError:
    from difflib import get_close_matches  # noqa: PLC0415 (only on the way to an error)

    branches = [job.branch for _, spec in known.newest_specs() for job in spec.jobs]
    near = get_close_matches(word, [LAST, *known.runs[:1000], *dict.fromkeys(branches)], n=3)
    hints = [f"did you mean {' or '.join(repr(name) for name in near)}?"] if near else []
    return UsageError(
        f"'{word}' is no run, worker or branch of a worker here", *hints, "list the runs with: git parallel list"
    )


def _numbers(numbers: Iterable[int]) -> str:
    return ", ".join(str(number) for number in numbers)


class _Known(Struct, dict=True):
    """What the repository knows of its runs, each part read once and only when a word needs it.

    ``numbers`` are the workers' numbers among the words, whose branches are looked up together.
    """

    repo: Repository
    numbers: frozenset[int]

    @cached_property
    def runs(self) -> list[str]:
        """Every run's id, the newest first: ids begin with their time."""
        return sorted({*self.live, *self.recorded}, reverse=True)

    @cached_property
    def live(self) -> list[str]:
        """The runs that have live files, the newest first."""
        try:
            names = os.listdir(State(self.repo.common_dir).runs)
        except (FileNotFoundError, NotADirectoryError):
            return []
        state = State(self.repo.common_dir)
        return sorted((name for name in names if os.path.isfile(state.run(name).spec)), reverse=True)

    @cached_property
    def recorded(self) -> list[str]:
        """The runs that have a record."""
        lines = self.repo.common.run("for-each-ref", "--format=%(refname)", RUNS).lines
        return [line.removeprefix(RUNS) for line in lines]

    @cached_property
    def specs(self) -> dict[str, RunSpec]:
        """The runs as they were asked for, by id: those with live files."""
        specs = {}
        for run in self.live:
            try:
                with open(State(self.repo.common_dir).run(run).spec, "rb") as file:
                    spec = _decode(file.read())
            except OSError:  # cleaned up meanwhile
                continue
            if spec is not None:
                specs[run] = spec
        return specs

    @cached_property
    def older_specs(self) -> dict[str, RunSpec]:
        """The same of the newest runs that have only a record."""
        runs = [run for run in self.runs if run not in self.specs][:_RECORDS_READ]
        found = batch(self.repo, [f"{run_ref(run)}:run.json" for run in runs])
        decoded = ((run, _decode(blob.data)) for run, blob in zip(runs, found, strict=True) if blob is not None)
        return {run: spec for run, spec in decoded if spec is not None}

    def spec(self, run: str) -> RunSpec | None:
        """One run, however old, or None where neither its live files nor its record can be read."""
        if run in self.specs or run in self.older_specs:
            return self.specs.get(run) or self.older_specs[run]
        blob = batch(self.repo, [f"{run_ref(run)}:run.json"])[0]
        return _decode(blob.data) if blob is not None else None

    def newest_specs(self) -> list[tuple[str, RunSpec]]:
        """Every run that is known in full, the newest first."""
        return sorted({**self.older_specs, **self.specs}.items(), reverse=True, key=lambda item: item[0])

    def existing(self, branches: Iterable[str]) -> set[str]:
        """Those of the branches that exist."""
        there = refs.read(self.repo, *{HEADS + branch for branch in branches})
        return {ref.removeprefix(HEADS) for ref in there}

    def run_of_live_worker(self, number: int) -> str | None:
        """The newest run whose worker of this number still has its branch; one with live files is newer than others."""
        return self._owners_with_files.get(number) or self._owners_with_records.get(number)

    def runs_elsewhere(self, number: int) -> list[str]:
        """The fetched runs that have a worker of this number whose branch came along, the newest first."""
        jobs = [(run, job) for run, spec in self.older_specs.items() for job in spec.jobs if job.worker == number]
        there = refs.read(self.repo, *(away_ref(run, job.branch) for run, job in jobs))
        return sorted((run for run, job in jobs if away_ref(run, job.branch) in there), reverse=True)

    @cached_property
    def _owners_with_files(self) -> dict[int, str]:
        return self._owners(self.specs)

    @cached_property
    def _owners_with_records(self) -> dict[int, str]:
        return self._owners(self.older_specs)

    def _owners(self, specs: Mapping[str, RunSpec]) -> dict[int, str]:
        """The newest run that has a live worker of each of the numbers asked for."""
        jobs = [(run, job) for run, spec in specs.items() for job in spec.jobs if job.worker in self.numbers]
        there = self.existing(job.branch for _, job in jobs)
        return {job.worker: run for run, job in sorted(jobs, key=lambda item: item[0]) if job.branch in there}


def _decode(data: bytes) -> RunSpec | None:
    try:
        return decode_spec(data)
    except msgspec.MsgspecError:
        return None
