"""From what a person asked for to a run that has begun.

:func:`plan_run` decides and checks everything and changes nothing, so that every mistake is reported
before anything starts; :func:`begin` writes the intent, then makes the branches and the first record
in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from git_parallel import system, worktrees
from git_parallel.agents import launch, prices
from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Preset
from git_parallel.errors import ParallelError, RaceError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import HEADS, RunFiles, State
from git_parallel.plan import assign, programs
from git_parallel.plan.config import Config
from git_parallel.plan.configfile import PROJECT_FILE
from git_parallel.plan.model import Job, Limits, RunSpec, Task, encode
from git_parallel.render import text
from git_parallel.store import objects, record, refs, scratch, snapshots
from git_parallel.store.refs import Update
from git_parallel.supervisor import files, hookfiles, liveness, rounds, surroundings, view
from git_parallel.supervisor.ahead import Ahead
from git_parallel.supervisor.context import Context, prepare, recording
from git_parallel.supervisor.host import GuardHost, guard_host
from git_parallel.supervisor.journal import Journal, timestamp
from git_parallel.supervisor.recorder import Recorder
from git_parallel.supervisor.surroundings import Surroundings

_TRIES = 5


class Request(Struct, frozen=True):
    """What was asked for on the command line. ``workers`` is the number typed there, None when it was not.

    ``preset`` is the program, where somebody has found it already; ``ahead`` what was begun before.
    """

    tasks: Sequence[str]
    config: Config
    argv: Sequence[str]
    workers: int | None = None
    matrix: bool = False
    base: str | None = None
    with_changes: bool = False
    allow_empty: bool = False
    preset: Preset | None = None
    ahead: Ahead | None = None


class Draft(Struct, frozen=True):
    """A run that could start: everything but the numbers of its workers is settled.

    ``notes`` are what was decided without being asked for. ``host`` is there already for the first try.
    """

    repo: Repository
    spec: RunSpec
    branch: str
    worktree: str
    with_changes: bool
    warnings: tuple[str, ...]
    before: Surroundings
    notes: tuple[str, ...] = ()
    host: GuardHost | None = None

    def begin(self) -> tuple[Context, liveness.Claim]:
        """Start the run: see :func:`begin`."""
        return begin(self)


def plan_run(repo: Repository, request: Request, looking: surroundings.Looking | None = None) -> Draft:
    """Check a request and return the run it describes. Raises UsageError or ParallelError; nothing is changed.

    ``looking`` is a look at how things stand that was begun before.
    """
    config = request.config
    before = looking.done() if looking else surroundings.look(repo)
    base, base_name = _base(repo, request.base, before)
    target = _target(repo, config.target, before)
    tasks = tuple(Task(id=f"t{number}", prompt=prompt) for number, prompt in enumerate(request.tasks, 1))
    if not tasks:
        raise UsageError("no task was given", 'try: git parallel "what is to be done"')
    for task in tasks:
        if not task.title:
            raise UsageError("a task is empty", "say what is to be done, or leave that --task out")
    terminal: Literal["tmux"] | None = "tmux" if config.terminal else None
    recorded, notes = (request.preset, ()) if request.preset else _preset(repo, config)
    preset = presets.settled(recorded, terminal)
    if terminal:
        from git_parallel.supervisor import tmux  # noqa: PLC0415 (few runs have one)

        tmux.find()
    for task in tasks:
        launch.check_task(preset, task.prompt)
    pairs = assign.assign(len(tasks), config.models, workers=request.workers, matrix=request.matrix)
    warnings = []
    if unused := assign.unused_models(config.models, pairs):
        warnings.append(f"no worker uses {', '.join(unused)}: there are more models than tasks (--matrix uses all)")
    if not request.with_changes and before.changed:
        warnings.append("uncommitted changes are not in the base the workers start from (--with-changes takes them in)")
    if preset.money == "none" and (config.budget is not None or config.budget_per_worker is not None):
        warnings.append(f"{preset.name} reports no cost, so no budget can be enforced; use --timeout-per-worker")
    elif config.budget is not None or config.budget_per_worker is not None:
        warnings += _unpriced(preset, [model for _, model in pairs])
    if target is None:
        warnings.append("HEAD is detached: name the branch to land on with --target when you merge")
    spec = RunSpec(
        run=request.ahead.run if request.ahead else view.fresh_id(State(repo.common_dir)),
        created=timestamp(),
        argv=tuple(request.argv),
        person=objects.identity(repo)[1],
        base=base,
        base_name=base_name,
        target=target,
        subdir=repo.prefix,
        top=repo.top,
        program=preset.name,
        role=config.agent,
        tasks=tasks,
        jobs=tuple(Job(0, tasks[index].id, model, "", "") for index, model in pairs),
        workers=config.workers,
        limits=Limits(
            budget_per_worker=config.budget_per_worker,
            timeout_per_worker=config.timeout_per_worker,
            max_steps=config.max_steps,
            budget=config.budget,
            timeout=config.timeout,
            idle_timeout=config.idle_timeout,
            memory_per_worker=config.memory_per_worker,
            memfree=config.memfree,
            max_output=config.max_output,
            max_disk=config.max_disk,
        ),
        checks=config.check,
        halt=config.halt,
        retries=config.retries,
        allow_empty=request.allow_empty,
        grace=config.grace,
        checkpoint=config.checkpoint,
        keep_ignored=config.keep_ignored,
        terminal=terminal,
        notify=config.notify,
        bell=config.bell,
        herdr=config.herdr,
        preset=presets.as_data(recorded),  # whole: it may go on with or without a terminal
    )
    host = request.ahead.host if request.ahead else None
    return Draft(repo, spec, config.branch, config.worktree, request.with_changes, tuple(warnings), before, notes, host)


def place(draft: Draft) -> RunSpec:
    """Give the workers their numbers, branches and worktrees: the lowest that are free now."""
    titles = {task.id: task.title for task in draft.spec.tasks}

    def values(index: int) -> Mapping[str, str]:
        job = draft.spec.jobs[index]
        return {"run": draft.spec.run, "task": titles[job.task], "model": job.model or "default"}

    places = worktrees.allocate(
        draft.repo, len(draft.spec.jobs), branch=draft.branch, worktree=draft.worktree, values=values
    )
    jobs = tuple(
        Job(found.worker, job.task, job.model, found.branch, found.path)
        for found, job in zip(places, draft.spec.jobs, strict=True)
    )
    return _with(draft.spec, jobs=jobs)


def begin(draft: Draft) -> tuple[Context, liveness.Claim]:
    """Start the run: branches and first record exist when this returns, but no worker runs yet."""
    repo = draft.repo
    if draft.with_changes:
        draft = replace(draft, spec=_with(draft.spec, base=_with_changes(draft)))
    with worktrees.Finding(repo, draft.spec.base) as finding:
        for tries_left in reversed(range(_TRIES)):
            try:
                begun = _begin(draft)
                break
            except RaceError:  # somebody made one of the branches without our lock: look for free numbers again
                if not tries_left:
                    raise
                draft = replace(draft, host=None)
        spec = begun.spec
        # They get ready while the rest is loaded.
        begun.host.expect(min(len(spec.jobs), spec.workers))
        features = finding.done()
    context = prepare(
        repo,
        spec,
        begun.run,
        begun.journal,
        before=draft.before,
        rounds={job.worker: rounds.first(spec, job) for job in spec.jobs},
        features=features,
        host=begun.host,
        recorder=begun.recorder,
    )
    return context, begun.held


class _Begun(NamedTuple):
    spec: RunSpec
    run: RunFiles
    held: liveness.Claim
    journal: Journal
    host: GuardHost
    recorder: Recorder


def _begin(draft: Draft) -> _Begun:
    """Make the run's live files, its branches and its first record, or nothing."""
    repo, run = draft.repo, State(draft.repo.common_dir).run(draft.spec.run)
    with refs.locked(repo), ExitStack() as undo:
        recorder = recording(repo, run, draft.spec.run)
        undo.callback(recorder.close)
        recorder.begin()  # git does this and what is asked for to find places at once
        spec = place(draft)
        held, journal = _open(repo, run, spec, draft.before.config)
        undo.callback(_undo, run, held, journal)
        host = draft.host or guard_host(run)
        undo.callback(host.close)
        places = [worktrees.Place(job.worker, job.branch, job.worktree) for job in spec.jobs]
        worktrees.exclude(repo, draft.worktree, places)
        recorder.submit(first_record(spec, [Update(HEADS + job.branch, spec.base, repo.zero) for job in spec.jobs]))
        undo.pop_all()
    return _Begun(spec, run, held, journal, host, recorder)


def _preset(repo: Repository, config: Config) -> tuple[Preset, tuple[str, ...]]:
    """The program that does the work, with its executable found: nothing may start that cannot run.

    With a note when nobody named it.
    """
    if config.agent in presets.known_programs():
        raise UsageError(
            f"--agent names a role (build, plan, …), and '{config.agent}' is a program",
            f"name the program with: --program {config.agent}",
        )
    known = programs.load(config.raw, repo.top)
    start = os.path.join(repo.top, repo.prefix) if repo.top else None
    program, notes = (config.program, ()) if config.program else _default(known, start)
    found = presets.priced(presets.find(program, known.agents, known.locate), known.prices, known.locate)
    return launch.resolved(found, cwd=start), notes


def _default(known: programs.Programs, start: str | None) -> tuple[str, tuple[str, ...]]:
    from git_parallel.agents import default  # noqa: PLC0415 (not needed when the program is named)

    chosen = default.choose(known.agents, known.locate, cwd=start)
    if chosen is None:
        raise UsageError(
            f"none of the known programs is installed: {', '.join(default.PROGRAMS)}",
            "name your own with --program COMMAND, or run command lines with --program shell",
        )
    return chosen.name, (f"program: {chosen.name} ({chosen.why})",)


def _unpriced(preset: Preset, models: Sequence[str | None]) -> list[str]:
    """Warn of workers whose tokens nobody can turn into money, so that their budget is no limit."""
    if preset.money != "tokens" or all(prices.find(preset.prices, model) is not None for model in models):
        return []
    named = ", ".join(sorted({model for model in models if model and prices.find(preset.prices, model) is None}))
    whose = f"the price of {named}" if named else "its model's price"
    return [f"{preset.name} reports only tokens: without {whose} (prices: in {PROJECT_FILE}) no budget is enforced"]


def _base(repo: Repository, asked: str | None, before: Surroundings) -> tuple[str, str]:
    """Resolve the base once: a commit id, and the name a person knows it by."""
    if asked is None:
        if before.head is None:
            raise ParallelError(
                "the repository has no commits yet, so there is nothing for a worker to start from",
                'make one first: git commit --allow-empty -m "first"',
            )
        return before.head, "HEAD"
    done = repo.git.run("rev-parse", "--verify", "-q", "--end-of-options", f"{asked}^{{commit}}", ok=(0, 1, 128))
    if done.returncode:
        raise UsageError(f"base '{asked}' is not a commit")
    return done.text, asked


def _target(repo: Repository, asked: str | None, before: Surroundings) -> str | None:
    if asked is None:
        return before.branch
    full = asked if asked.startswith(HEADS) else HEADS + asked
    if full not in refs.read(repo, full):
        raise UsageError(f"target '{asked}' is not a branch", "list them with: git branch")
    return full


def _with_changes(draft: Draft) -> str:
    """Snapshot the caller's uncommitted changes into a commit to start from; their index is not touched."""
    repo = draft.repo
    if repo.top is None:
        raise UsageError("--with-changes needs a worktree, and this repository is bare")
    if repo.git.run("ls-files", "--unmerged", "-z").stdout:
        raise UsageError("--with-changes cannot take in unmerged files", "resolve the conflicts first: git status")
    store = objects.Objects(repo)
    with scratch.index(repo, "with-changes") as index:
        seen = snapshots.look_at(repo.git, repo.git_dir, index)
    if seen.missing:
        raise ParallelError(f"--with-changes cannot take in everything: {'; '.join(seen.missing)}")
    if not seen.dirty or seen.head is None:
        return draft.spec.base
    if seen.head != draft.spec.base:
        raise UsageError("--with-changes goes with the current HEAD, not with another --base")
    message = f"uncommitted changes at the start of git parallel {draft.spec.run}\n\nParallel-Run: {draft.spec.run}\n"
    return store.commit(seen.tree, [seen.head], message)


def _open(repo: Repository, run: RunFiles, spec: RunSpec, config: bytes) -> tuple[liveness.Claim, Journal]:
    """Write the run's live files: what a later command needs if this process dies at any point from here on."""
    try:
        os.makedirs(run.top)
        held = liveness.claim(run)
        assert held is not None, "a run's id is new"
        for job in spec.jobs:
            worker = run.worker(job.worker)
            os.makedirs(worker.top, exist_ok=True)
            prompt = spec.task(job.task).prompt.encode("utf-8", "surrogateescape")
            files.replace(worker.prompt, prompt)
        files.replace(run.spec, encode(spec), durable=True)  # from here on there is a run
        files.replace(run.config_before, config, durable=True)
        hookfiles.keep(repo.common_dir, run.hooks_before)
        journal = Journal(run.journal)
        journal.append("intent", act="branches", branches=[job.branch for job in spec.jobs])
        journal.append("run-started", source="person", durable=True)
    except OSError as error:
        system.remove(run.top)
        raise ParallelError(
            f"cannot write the run's files: {error.strerror}: {error.filename or run.top}", "nothing was started"
        ) from error
    return held, journal


def first_record(spec: RunSpec, created: Sequence[Update] = ()) -> record.Entry:
    """What begins the record of a run, in one transaction with the branches that are ``created``."""
    prompts = {
        f"workers/{job.worker}/prompt.txt": spec.task(job.task).prompt.encode("utf-8", "surrogateescape")
        for job in spec.jobs
    }
    first = spec.tasks[0].title
    more = f" and {text.count(len(spec.tasks) - 1, 'more task')}" if len(spec.tasks) > 1 else ""
    return record.Entry(
        changes={"run.json": encode(spec), **prompts},
        subject=f"run {text.count(len(spec.jobs), 'worker')}: {text.subject(first)}{more}",
        trailers=[("Architect-Event", "run-started"), ("Architect-State", "running")],
        updates=created,
    )


def _undo(run: RunFiles, held: liveness.Claim, journal: Journal) -> None:
    """Take back the live files of a run whose branches could not be made."""
    journal.close()
    held.release()
    for path, directories, names in os.walk(run.top, topdown=False):
        for name in names:
            os.unlink(os.path.join(path, name))
        for name in directories:
            os.rmdir(os.path.join(path, name))
    os.rmdir(run.top)


def _with(spec: RunSpec, **changes: object) -> RunSpec:
    return msgspec.structs.replace(spec, **changes)
