"""From what a person asked for to a landing that could begin: everything is decided and nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec import Struct

from git_parallel import worktrees
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import checkout, merges, nested, plan, verdicts, workers
from git_parallel.integrate.plan import Merge, Strategy
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS, State, run_ref
from git_parallel.plan.config import Config
from git_parallel.plan.ids import new_id
from git_parallel.store import handles, objects, refs
from git_parallel.store.reading import Record
from git_parallel.supervisor.journal import timestamp
from git_parallel.worktrees import submodules


class Request(Struct, frozen=True):
    """What was asked for on the command line; None means not given there."""

    words: Sequence[str]
    config: Config
    argv: Sequence[str]
    target: str | None = None
    review: bool = True
    yes: bool = False
    terminal: bool | None = None
    batch: bool = False
    stop: bool = False
    verify: bool = True
    checks: bool = True


class Draft(Struct, frozen=True):
    """A landing that could begin.

    ``foreign`` are check commands of runs that were not made in this clone; ``doubts`` what speaks against it.
    """

    merge: Merge
    candidates: Sequence[Candidate]
    foreign: Sequence[str]
    doubts: Sequence[str]


def prepare(repo: Repository, request: Request) -> Draft:
    """Freeze target, heads, verdicts, order and checks. Raises UsageError, RefusedError; nothing is changed."""
    config = request.config
    with worktrees.begin_entries(repo) as listed:
        candidates = workers.gather(repo, request.words, default=workers.going_on(repo))
        if not candidates:
            raise UsageError("there is no run yet", 'start one with: git parallel "what is to be done"')
        target = _target(repo, request, candidates)
        runs = list(dict.fromkeys(one.run for one in candidates))
        with refs.begin_read(repo, *map(run_ref, runs)) as records:
            start = _commit(repo, target)
            checkout.find(repo, target, listed)  # a merge or rebase in progress there: refuse before anything is begun
            tips = refs.parse_read(records.done())
    kept = {run: Record(repo, run, tip) for run in runs if (tip := tips.get(run_ref(run)))}
    given = {run: verdicts.of_record(kept.get(run)) for run in runs}
    named = (
        {str(handle) for handle in handles.resolve(repo, request.words) if handle.worker} if request.words else set()
    )
    branches = plan.ordered(plan.select(candidates, given, review=request.review, named=named))
    for branch in branches:
        if branch.branch == target and branch.state == "waiting":
            branch.settle("refused", "it is the target itself")
    specs = [one.spec for one in candidates if any(branch.handle == one.handle for branch in branches)]
    waiting = {branch.run for branch in branches if branch.state == "waiting"}
    ours = [(spec.checks, spec.subdir) for spec in specs if spec.run in waiting]
    merge = Merge(
        merge=new_id(after=merges.newest(repo)),
        created=timestamp(),
        person=objects.identity(repo)[1],
        argv=tuple(request.argv),
        target=target,
        start=start,
        strategy=config.strategy,  # type: ignore[arg-type]
        template=config.message,
        checks=plan.commands(ours, config.check, repo.prefix) if request.checks else (),
        timeout=config.check_timeout,
        batch=request.batch,
        yes=request.yes,
        terminal=request.terminal,
        review=request.review,
        verify=request.verify,
        on_conflict="stop" if request.stop else "park",
        branches=branches,
    )
    state = State(repo.common_dir)
    foreign = [
        text
        for spec in specs
        if spec.run in waiting and not os.path.exists(state.run(spec.run).spec)
        for text in spec.checks
    ]
    going = {branch.handle for branch in merge.waiting}
    landing = [(one.worktree, one.base, one.tip) for one in candidates if one.handle in going and one.tip is not None]
    doubts = [doubt for one in landing for doubt in submodules.only_here(repo, *one)]
    doubts += nested.doubts(repo, [(base, tip) for _, base, tip in landing])
    return Draft(merge, candidates, tuple(dict.fromkeys(foreign)) if request.checks else (), doubts)


def _target(repo: Repository, request: Request, candidates: Sequence[Candidate]) -> str:
    """The branch to land on: as typed, else what the runs were started for, else as configured or checked out."""
    if request.target is not None:
        return _full(request.target)
    targets = {one.spec.target for one in candidates}
    if len(targets) > 1:
        names = ", ".join(sorted(str(target or "none").removeprefix(HEADS) for target in targets))
        raise UsageError(f"these runs have different targets: {names}", "say which one: --target BRANCH")
    (target,) = targets
    if target is not None:
        return target
    if request.config.target is not None:
        return _full(request.config.target)
    here = repo.git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
    if not here:
        raise UsageError("HEAD is detached, and the run had no target", "say where to land: --target BRANCH")
    return here


def _full(name: str) -> str:
    return name if name.startswith(HEADS) else HEADS + name


def _commit(repo: Repository, target: str) -> str:
    rows = repo.common.run("for-each-ref", "--format=%(objectname) %(refname) %(symref)", target).lines
    for row in rows:
        oid, name, symref = row.split(" ", 2)
        if name == target and symref:
            raise UsageError(f"target '{target}' is another name for '{symref}'", f"name that one: --target {symref}")
        if name == target:
            return oid
    raise UsageError(f"target '{target.removeprefix(HEADS)}' is not a branch", "list them with: git branch")


__all__ = ["Draft", "Request", "Strategy", "prepare"]
