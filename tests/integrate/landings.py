"""Runs that wait to be landed, made of real branches and records, and what a test asks of the repository afterwards."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from git_parallel.git import Repository
from git_parallel.integrate import verdicts
from git_parallel.layout import State
from git_parallel.plan.model import Job, Limits, Result, RunSpec, Task, encode
from git_parallel.store import record
from git_parallel.supervisor import files
from git_parallel.supervisor.journal import Journal

RUN = "20261129T165000Z-7f3a"
PERSON = "A U Thor <author@example.com>"

# What a worker did: path to content, to (mode, content), or to None for a path that is gone.
Work = Mapping[str, "str | tuple[str, str] | None"]


@dataclass(frozen=True)
class Landable:
    """A run whose workers have ended. ``repo`` is conftest's Repo; ``heads`` are the branches' tips in order."""

    repo: Any
    run: str
    base: str
    heads: tuple[str, ...]

    @property
    def where(self) -> Repository:
        return Repository.discover(str(self.repo.path))

    def approve(self, *workers: int) -> None:
        """Approve these workers' heads as they are now."""
        for worker in workers:
            tip = self.repo.git("rev-parse", f"architect/parallel-{worker}")
            verdicts.give(self.where, self.run, worker, "approved", tip)

    def amend(self, worker: int, path: str, content: str) -> str:
        """Move a worker's branch by one commit."""
        tip = commit(self.repo, {path: content}, f"architect/parallel-{worker}", "more")
        self.repo.git("update-ref", f"refs/heads/architect/parallel-{worker}", tip)
        return tip

    def merge(self, *arguments: str, **options: Any) -> tuple[int, dict[str, Any], str]:
        """``git parallel merge --yes --json``: exit code, document, standard error."""
        done = self.repo.parallel("merge", "--yes", "--json", *arguments, **options)
        return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr

    def states(self, document: Mapping[str, Any]) -> dict[int, str]:
        return {branch["worker"]: branch["state"] for branch in document["branches"]}


def commit(repo: Any, work: Work, parent: str, message: str) -> str:
    """Commit ``work`` on top of ``parent`` without a worktree; return the commit."""
    index = str(repo.path / "work.index")
    env = {**os.environ, "GIT_INDEX_FILE": index}

    def git(*arguments: str, stdin: bytes | None = None) -> str:
        done = subprocess.run(["git", *arguments], cwd=repo.path, env=env, input=stdin, capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("read-tree", parent)
    lines = []
    for path, what in sorted(work.items(), key=lambda item: item[1] is not None):
        mode, content = ("0", "") if what is None else ("100644", what) if isinstance(what, str) else what
        oid = "0" * 40
        if mode == "160000":
            oid = content
        elif mode != "0":
            oid = git("hash-object", "-w", "--stdin", stdin=content.encode("utf-8", "surrogateescape"))
        lines.append(f"{mode} {oid}\t{path}\0")
    git("update-index", "-z", "--add", "--index-info", stdin=os.fsencode("".join(lines)))
    tree = git("write-tree")
    os.unlink(index)
    return git("commit-tree", tree, "-p", parent, "-m", message)


def landable(
    repo: Any,
    *works: Work | Sequence[Work],
    approve: bool | Sequence[int] = True,
    run: str = RUN,
    first: int = 1,
    target: str | None = "refs/heads/main",
    depends: Mapping[int, tuple[str, ...]] | None = None,
    tasks: Sequence[str] | None = None,
    base: str = "HEAD",
    model: str | None = None,
    cost: float | None = None,
    stacked: bool = False,
    live: bool = True,
    checks: tuple[str, ...] = (),
) -> Landable:
    """Make a run whose i-th worker has done ``works[i]``: one commit, or one for each of a sequence.

    ``tasks`` are the task ids of the workers (default: ``t1``, ``t2`` …); ``stacked``: each starts
    from the one before; ``live``: with the run's live files, as where it was made; ``checks`` are the run's.
    """
    base = repo.git("rev-parse", base)
    numbers = range(first, first + len(works))
    ids = list(tasks or (f"t{number}" for number, _ in enumerate(works, 1)))
    jobs = tuple(
        Job(number, task, model, f"architect/parallel-{number}", str(repo.path / f".architect-parallel-{number}"))
        for number, task in zip(numbers, ids, strict=True)
    )
    spec = RunSpec(
        run=run,
        created="2026-11-29T16:50:00.000Z",
        argv=("git", "parallel"),
        person=PERSON,
        base=base,
        base_name="HEAD",
        target=target,
        subdir="",
        top=str(repo.path),
        program="claude",
        role="build",
        tasks=tuple(
            Task(task, f"Do {task}\n\nand do it well", depends=(depends or {}).get(int(task[1:]), ()))
            for task in dict.fromkeys(ids)
        ),
        jobs=jobs,
        workers=3,
        limits=Limits(),
        checks=checks,
    )
    where = Repository.discover(str(repo.path))
    changes: dict[str, bytes | None] = {"run.json": encode(spec)}
    heads, tip = [], base
    for job, work in zip(jobs, works, strict=True):
        tip = tip if stacked else base
        for number, one in enumerate([work] if isinstance(work, Mapping) else work, 1):
            tip = commit(repo, one, tip, f"worker {job.worker}, step {number}") if one else tip
        heads.append(tip)
        repo.git("branch", "-q", job.branch, tip)
        changes[f"workers/{job.worker}/result.json"] = encode(_result(spec, job, tip, cost))
    changes["events.jsonl"] = b'{"event":"run-ended","time":"2026-11-29T17:00:00.000Z"}\n'
    record.write(where, run, changes, subject="run", trailers=[("Architect-State", "ended")], parents=heads)
    if live:
        _write_files(where, spec, changes)
    made = Landable(repo, run, base, tuple(heads))
    made.approve(*(numbers if approve is True else approve or ()))
    return made


def _write_files(where: Repository, spec: RunSpec, changes: Mapping[str, bytes | None]) -> None:
    """The live files of a run that has ended."""
    place = State(where.common_dir).run(spec.run)
    os.makedirs(place.top)
    files.replace(place.spec, encode(spec))
    journal = Journal(place.journal)
    for job in spec.jobs:
        os.makedirs(place.worker(job.worker).top)
        files.replace(place.worker(job.worker).result, changes[f"workers/{job.worker}/result.json"] or b"")
        journal.append("state", worker=job.worker, state="ended")
    journal.append("run-ended")
    journal.close()


def _result(spec: RunSpec, job: Job, head: str, cost: float | None) -> Result:
    return Result(
        worker_id=job.worker,
        branch=job.branch,
        model=job.model,
        status="success",
        steps=None,
        cost=cost,
        duration=12.0,
        files_modified=["a"],
        worktree_path=job.worktree,
        run=spec.run,
        task=job.task,
        agent=spec.program,
        role=spec.role,
        base=spec.base,
        head=head,
        reason="done",
    )


def note_of(repo: Any, commit_id: str) -> str:
    return str(repo.git("notes", "--ref=architect", "show", commit_id, check=False))


def recorded(repo: Any, merge: str) -> dict[str, Any]:
    """What the record of a landing holds."""
    return dict(msgspec.json.decode(repo.git("show", f"refs/architect/merges/{merge}:merge.json").encode()))


def tree_on_disk(top: Path) -> dict[str, bytes]:
    """Every file of a worktree, without git's own and without other worktrees in it."""
    found = {}
    for path, directories, names in os.walk(top):
        directories[:] = [one for one in directories if one != ".git" and not one.startswith(".architect-")]
        for name in names:
            full = Path(path) / name
            relative = str(full.relative_to(top))
            if name == ".git" or relative.startswith(".git/"):
                continue
            found[relative] = os.readlink(full).encode() if full.is_symlink() else full.read_bytes()
    return found
