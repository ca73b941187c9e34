"""Several attempts at one task beside each other: what each changed, what they share, where they part."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from git_parallel.errors import UsageError
from git_parallel.git import Git, Repository
from git_parallel.integrate import conflicts, mergetree, rank, verdicts
from git_parallel.integrate.conflicts import Forecast
from git_parallel.integrate.heads import Absent, Head
from git_parallel.integrate.rank import Attempt, Place
from git_parallel.integrate.verdicts import Verdict
from git_parallel.integrate.workers import Candidate, gather
from git_parallel.store import handles

Pair = tuple[int, int]

# How a file ends up: its mode and object id, or None where it is deleted.
Version = tuple[str, str] | None

_ABSENT = "000000"


class Work(Struct, frozen=True):
    """What one worker changed since it started, as git has it. ``versions``: each changed path, as it is now."""

    versions: Mapping[str, Version]
    insertions: int
    deletions: int
    commits: int


class Kinship(Struct, frozen=True):
    """How two attempts relate. ``alike``, ``different``: paths both changed, to the same content or not.

    ``only``: paths that just one of them changed. ``commits``: how git's range-diff pairs their commits,
    ``=`` alike, ``!`` changed, ``<`` only in the first, ``>`` only in the second.
    """

    alike: int
    different: int
    only: tuple[int, int]
    commits: Mapping[str, int]


class Comparison(Struct, frozen=True):
    """Workers of one task. Everything is in the order of ``heads``; ``task`` is None for workers of several."""

    task: str | None
    heads: Sequence[Head]
    absent: Sequence[Absent]
    work: Sequence[Work]
    verdicts: Sequence[Verdict | None]
    forecast: Forecast
    pairs: Mapping[Pair, Kinship]

    @property
    def paths(self) -> list[str]:
        """Every path that somebody changed."""
        return sorted({path for one in self.work for path in one.versions})

    @property
    def common(self) -> list[str]:
        """The paths that all of them changed, those aside who changed nothing at all."""
        active = self._active
        return [path for path in self.paths if all(path in one.versions for one in active)] if len(active) > 1 else []

    @property
    def identical(self) -> list[str]:
        """Those that all of them changed to the same content."""
        active = self._active
        return [path for path in self.common if len({one.versions[path] for one in active}) == 1]

    @property
    def _active(self) -> list[Work]:
        return [one for one in self.work if one.versions]

    def ranking(self) -> list[Place]:
        """The places, the best first, with their evidence."""
        return rank.rank([attempt(self, index) for index in range(len(self.heads))])


def groups(
    repo: Repository, words: Sequence[str], *, default: Sequence[str] = (handles.LAST,)
) -> list[list[Candidate]]:
    """Return the workers to compare: several named ones, the siblings of a single one, or each task of a run.

    Raises UsageError when there are no two workers to compare.
    """
    named = handles.resolve(repo, words, default=default) if words or default else []
    if not named:
        return []
    if len(named) > 1 and all(one.worker is not None for one in named):
        return [gather(repo, [str(one) for one in named])]
    runs = list(dict.fromkeys(one.run for one in named))
    workers = gather(repo, runs)
    if len(named) == 1 and named[0].worker is not None:
        [chosen] = [one for one in workers if one.worker == named[0].worker]
        workers = [one for one in workers if one.task.id == chosen.task.id]
    tasks = [list(group) for _, group in itertools.groupby(sorted(workers, key=_task), key=_task)]
    found = [group for group in tasks if len(group) > 1]
    if not found:
        what = f"the task of worker {named[0].worker}" if named[0].worker is not None else f"no task of run {runs[0]}"
        raise UsageError(
            f"{what} has {'only one worker' if named[0].worker is not None else 'two workers'}",
            "name the workers to compare: git parallel compare 1 2",
        )
    return found


def _task(candidate: Candidate) -> tuple[str, str]:
    return candidate.run, candidate.task.id


def compare(repo: Repository, candidates: Sequence[Candidate]) -> Comparison:
    """Look at the workers as they are now, live worktrees included."""
    with mergetree.scratch_objects(repo) as env:
        forecast = conflicts.foresee(repo, candidates, env=env)
        git = Git(repo.common.options, repo.common.cwd, env)
        heads = forecast.heads
        work = _work(git, heads)
        pairs = {
            (one, other): _kinship(git, heads, work, one, other)
            for one, other in itertools.combinations(range(len(heads)), 2)
        }
    tasks = {_task(one) for one in candidates}
    return Comparison(
        task=candidates[0].task.title if len(tasks) == 1 else None,
        heads=heads,
        absent=forecast.absent,
        work=work,
        verdicts=_verdicts(repo, heads),
        forecast=forecast,
        pairs=pairs,
    )


def _work(git: Git, heads: Sequence[Head]) -> list[Work]:
    """Ask one ``git diff-tree`` for the changes of all heads, and one ``rev-list`` for each number of commits."""
    lines = "".join(f"{head.commit} {head.candidate.base}\n" for head in heads)
    what = ("--stdin", "--always", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-abbrev", "--no-ext-diff")
    done = git.run("diff-tree", *what, "--ignore-submodules=none", stdin=lines.encode())
    found = parse_work(done.stdout, len(heads))
    return [
        Work(versions, insertions, deletions, _commits(git, head))
        for head, (versions, insertions, deletions) in zip(heads, found, strict=True)
    ]


def _commits(git: Git, head: Head) -> int:
    """How many commits the worker made; what it has not committed yet is none."""
    count = git.text("rev-list", "--count", f"{head.candidate.base}..{head.commit}", "--")
    return int(count) - head.uncommitted


def parse_work(output: bytes, count: int) -> list[tuple[dict[str, Version], int, int]]:
    """Parse ``diff-tree --stdin --always -z --raw --numstat``: per comparison a header, raw records, counts. Pure."""
    fields = os.fsdecode(output).split("\0")[:-1]
    found: list[tuple[dict[str, Version], int, int]] = []
    position = 0
    for _ in range(count):
        position += 1  # the header: the commit's id
        versions: dict[str, Version] = {}
        insertions = deletions = 0
        while position < len(fields) and fields[position].startswith(":"):
            _, mode, _, oid, _ = fields[position].split(" ")
            versions[fields[position + 1]] = None if mode == _ABSENT else (mode, oid)
            position += 2
        while position < len(fields) and "\t" in fields[position]:
            added, removed, _ = fields[position].split("\t", 2)
            insertions += int(added) if added != "-" else 0
            deletions += int(removed) if removed != "-" else 0
            position += 1
        found.append((versions, insertions, deletions))
    return found


def _kinship(git: Git, heads: Sequence[Head], work: Sequence[Work], one: int, other: int) -> Kinship:
    first, second = work[one].versions, work[other].versions
    both = first.keys() & second.keys()
    alike = sum(first[path] == second[path] for path in both)
    return Kinship(
        alike=alike,
        different=len(both) - alike,
        only=(len(first) - len(both), len(second) - len(both)),
        commits=_paired_commits(git, heads[one], heads[other], (work[one].commits, work[other].commits)),
    )


def span(head: Head) -> str:
    """A worker's own commits, as a range for git. What it has not committed is no commit."""
    return f"{head.candidate.base}..{head.commit}{'~' if head.uncommitted else ''}"


def _paired_commits(git: Git, one: Head, other: Head, counts: tuple[int, int]) -> dict[str, int]:
    """Count how git's range-diff pairs the commits of two workers, which have so many."""
    if not all(counts):  # git takes an empty range for none
        return {"=": 0, "!": 0, "<": counts[0], ">": counts[1]}
    found = dict.fromkeys("=!<>", 0)
    for line in git.run("range-diff", "--no-patch", "--no-color", span(one), span(other)).lines:
        words = line.split()
        if len(words) > 2 and words[2] in found:
            found[words[2]] += 1
    return found


def _verdicts(repo: Repository, heads: Sequence[Head]) -> list[Verdict | None]:
    """The verdict that stands for each head; one on work that goes on stands for nothing."""
    of_run = {run: verdicts.of_run(repo, run) for run in {head.candidate.run for head in heads}}
    return [verdicts.current(of_run[head.candidate.run].get(head.candidate.worker, []), head.commit) for head in heads]


def attempt(comparison: Comparison, index: int) -> Attempt:
    """What ranking counts of a worker: from git, exit codes and the record, never from what an agent says of itself."""
    head, work, verdict = comparison.heads[index], comparison.work[index], comparison.verdicts[index]
    result = head.candidate.result if head.candidate.ended else None
    checks = (result.check or []) if result is not None else []
    has_target = comparison.forecast.targets[index] is not None
    return Attempt(
        status=result.status if result is not None else head.candidate.state,
        reason=result.reason if result is not None else head.candidate.state,
        files=len(work.versions),
        lines=work.insertions + work.deletions,
        checks=len(checks),
        green=sum(check.green for check in checks),
        conflicts=comparison.forecast.with_target(index).size if has_target else None,
        warnings=len(result.warnings) if result is not None else 0,
        cost=result.cost if result is not None else None,
        duration=result.duration if result is not None else None,
        verdict=verdict.verdict if verdict is not None else None,
        going_on=result is None,
    )
