"""Finds what a crash, a kill or somebody else left in disorder, and repairs it when told to.

Each finding says what is wrong, what was not touched, and what its repair would do. Looking changes
nothing; no repair removes anything that a ref or the trash does not keep.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from git_parallel import worktrees
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import KEPT, LOGS, NOTES, RUNS, WIP, State, kept_ref, wip_ref
from git_parallel.store import objects, reading, refs, snapshots
from git_parallel.store.refs import Update
from git_parallel.supervisor import files, hookfiles, journal, leftovers, liveness, rebuild, recover, view
from git_parallel.supervisor.processes import kill_all, marked
from git_parallel.worktrees.registry import OUR_LOCK, Entry

KILL_LIMIT = 5.0
# A lock that is younger may belong to a git command that is at work this very moment.
STALE_AFTER = 60.0


class Finding(Struct, frozen=True):
    """One thing that is wrong. ``kind`` is stable, for scripts; ``repair`` says what would be done, None: by hand."""

    kind: str
    what: str
    hint: str
    repair: str | None = None
    act: Callable[[], None] | None = None


def examine(repo: Repository) -> Iterator[Finding]:
    """Yield all findings, the most urgent first."""
    state = State(repo.common_dir)
    live = {run for run in view.live_runs(state) if _alive(state, run)}
    yield from _locks(repo)
    yield from _half_made(repo, state)
    yield from _interrupted(repo, state, live)
    yield from _records(repo, state)
    yield from _landings(repo, state)
    yield from _processes(repo, live)
    yield from _configuration(repo, state)
    yield from _hooks(repo, state)
    yield from _worktrees(repo, state, live)
    yield from _refs(repo, state)


def _alive(state: State, run: str) -> bool:
    loaded = view.load(state.run(run))
    return loaded is not None and loaded.pid is not None


def _locks(repo: Repository) -> Iterator[Finding]:
    """Lock files that a killed git command, or a power cut, left: every later one fails on them."""
    old = [(lock, age) for lock in leftovers.locks(repo) if (age := _age(lock)) > STALE_AFTER]
    if not old:
        return
    tops = [entry.path for entry in worktrees.entries(repo)]
    if leftovers.git_at_work([repo.common_dir, *tops]):
        return
    for lock, age in old:
        yield Finding(
            kind="stale-lock",
            what=f"{lock} is {round(age)} s old, and no git command is at work in this repository",
            hint="if somebody is at work in it from another machine, let them finish",
            repair="remove it",
            act=lambda lock=lock: os.unlink(lock),  # type: ignore[misc]
        )


def _age(path: str) -> float:
    try:
        return time.time() - os.stat(path).st_mtime
    except FileNotFoundError:
        return 0.0


def _half_made(repo: Repository, state: State) -> Iterator[Finding]:
    if view.half_made(state):
        yield Finding(
            kind="half-made-run",
            what=f"the maker of run {', '.join(view.half_made(state))} died before anything had begun",
            hint="there is no branch, worktree or record of it",
            repair="remove its files",
            act=lambda: _forget_half_made(repo),
        )


def _forget_half_made(repo: Repository) -> None:
    leftovers.forget_half_made(repo)


def _interrupted(repo: Repository, state: State, live: set[str]) -> Iterator[Finding]:
    for run in view.live_runs(state):
        if run in live:
            continue
        yield Finding(
            kind="interrupted-run",
            what=f"run {run}: its supervisor died before the record was complete",
            hint=f"git parallel resume {run} goes on with it",
            repair="capture what its workers had done and finish the record",
            act=lambda run=run: _recover(repo, run),  # type: ignore[misc]
        )


def _recover(repo: Repository, run: str) -> None:
    if recover.recover(repo, run) is None:
        raise ParallelError(f"run {run} is being supervised or finished by another process just now")


def _records(repo: Repository, state: State) -> Iterator[Finding]:
    """Records that are gone or cannot be read, of runs whose files are here. One that goes on writes its own."""
    for run in view.known_runs(state):
        run_files = state.run(run)
        trouble = None if os.path.exists(run_files.supervisor) else rebuild.trouble(repo, run)
        loaded = view.load(run_files) if trouble is not None else None
        if loaded is not None and rebuild.begun(loaded.spec, journal.read(run_files.journal)):
            yield Finding(
                kind="lost-record",
                what=f"run {run}: {trouble}, and its files are here",
                hint=f"what was printed is in {run_files.top}",
                repair="write the record anew from them; verdicts and earlier rounds stood in the lost one alone",
                act=lambda files=run_files, spec=loaded.spec: rebuild.rebuild(repo, files, spec),  # type: ignore[misc]
            )


def _landings(repo: Repository, state: State) -> Iterator[Finding]:
    """Landings whose process died; one that waits at a conflict is in order."""
    from git_parallel.integrate import land, merges  # noqa: PLC0415 (most repositories have none in progress)

    for name in merges.live(repo):
        merge = merges.load(repo, name)
        if merge is None or merge.state == "stopped" or liveness.holder(state.merge(name).holder) is not None:
            continue
        yield Finding(
            kind="interrupted-merge",
            what=f"landing {name} on {merges.short(merge.target)} died before it was complete",
            hint=f"git parallel merge --continue {name} goes on with it; after a repair: git parallel merge",
            repair="bring the target and its checkouts to the same side of what was landing, and finish the record",
            act=lambda name=name: land.close_one(repo, name),  # type: ignore[misc]
        )


def _processes(repo: Repository, live: set[str]) -> Iterator[Finding]:
    """Processes that were started for a worker of this repository and whose run is over."""
    left: dict[str, list[int]] = {}
    for process in marked({"GIT_PARALLEL_COMMON": repo.common_dir}):
        run = _run_of(process.pid)
        if run is not None and run not in live:
            left.setdefault(run, []).append(process.pid)
    for run, pids in sorted(left.items()):
        shown = ", ".join(map(str, sorted(pids)))
        yield Finding(
            kind="left-processes",
            what=f"run {run} is over, but processes of it are alive: {shown}",
            hint=f"look at them: ps -o pid,args -p {shown.replace(' ', '')}",
            repair="kill them",
            act=lambda run=run: _kill(repo, run),  # type: ignore[misc]
        )


def _run_of(pid: int) -> str | None:
    import psutil  # noqa: PLC0415 (only when there is such a process)

    try:
        return psutil.Process(pid).environ().get("GIT_PARALLEL_RUN")
    except psutil.Error:
        return None


def _kill(repo: Repository, run: str) -> None:
    marker = {"GIT_PARALLEL_COMMON": repo.common_dir, "GIT_PARALLEL_RUN": run}
    for process in marked(marker):
        process.send(signal.SIGTERM, signal.SIGCONT)
    _, survivors = kill_all(lambda: marked(marker), KILL_LIMIT)
    if survivors:
        raise ParallelError(f"could not kill {', '.join(map(str, survivors))}")


def _configuration(repo: Repository, state: State) -> Iterator[Finding]:
    """``core.bare`` or the hooks' path that changed under a run: `git init` with GIT_DIR alone set does the first."""
    known = view.known_runs(state)
    before = files.read(state.run(known[-1]).config_before) if known else None
    path = os.path.join(repo.common_dir, "config")
    now = files.read(path)
    if not before or now is None or before == now:
        return
    then = _settings(repo, state.run(known[-1]).config_before)
    for key in ("core.bare", "core.hookspath", "core.worktree"):
        was, value = then.get(key), _settings(repo, path).get(key)
        if was != value:
            yield Finding(
                kind="configuration",
                what=f"{key} was {was or 'not set'} when run {known[-1]} started and is {value or 'not set'} now",
                hint=f"git config {key} shows it; nothing else depends on this tool",
                repair=f"set it back to {was}" if was else "take it out",
                act=lambda key=key, was=was: _set(repo, path, key, was),  # type: ignore[misc]
            )


def _hooks(repo: Repository, state: State) -> Iterator[Finding]:
    """The repository's own hooks, where they changed under a run: tools install them, also from a worktree."""
    known = view.known_runs(state)
    if not known:
        return
    run = state.run(known[-1])
    for name, how in hookfiles.changes(repo.common_dir, run.hooks_before).items():
        aside = os.path.join(run.hooks_aside, f"{name}.{time.time_ns()}")
        moved = "put back what it was" if how != hookfiles.NEW else ""
        moved = " and ".join(filter(None, (f"move it to {aside}" if how != hookfiles.GONE else "", moved)))
        yield Finding(
            kind="hooks",
            what=f"the hook {name} is {how} since run {known[-1]} started, and git runs it in every worktree",
            hint=f"look at it: {os.path.join(repo.common_dir, 'hooks', name)}; if it is yours, leave it",
            repair=moved,
            act=lambda run=run, name=name, aside=aside: hookfiles.put_back(  # type: ignore[misc]
                repo.common_dir, run.hooks_before, name, aside
            ),
        )


def _settings(repo: Repository, path: str) -> dict[str, str]:
    entries = repo.common.run("config", "--file", path, "--list", "-z").fields
    return {key: value for key, _, value in (entry.partition("\n") for entry in entries)}


def _set(repo: Repository, path: str, key: str, value: str | None) -> None:
    if value is None:
        repo.common.run("config", "--file", path, "--unset-all", key, ok=(0, 5))
    else:
        repo.common.run("config", "--file", path, key, value)


def _worktrees(repo: Repository, state: State, live: set[str]) -> Iterator[Finding]:
    recorded = {summary.run for summary in reading.list_runs(repo)} | set(view.known_runs(state))
    for entry in worktrees.entries(repo):
        if not entry.ours or entry.main:
            continue
        run, _, number = (entry.locked or "").removeprefix(OUR_LOCK).partition("/")
        if run in live or not number.isdecimal():
            continue
        if run not in recorded and os.path.lexists(entry.path):
            yield _orphan(repo, entry, run, int(number))
        elif not os.path.lexists(entry.path):  # git calls no locked worktree prunable
            yield Finding(
                kind="missing-worktree",
                what=f"worktree {entry.path} of {run}/{number} was removed by hand, and git still lists it",
                hint="its commits are on the branch",
                repair="remove git's entry of it, by name",
                act=lambda entry=entry, run=run, number=number: _forget(repo, entry.path, run, int(number)),  # type: ignore[misc]
            )


def _orphan(repo: Repository, entry: Entry, run: str, number: int) -> Finding:
    return Finding(
        kind="orphan-worktree",
        what=f"worktree {entry.path} says it belongs to {run}/{number}, and no record knows that run",
        hint="look into it; the repair keeps its commits and files under refs",
        repair=f"keep it as {kept_ref(run, number)} and {wip_ref(run, number)}, and move it to the trash",
        act=lambda: _keep(repo, entry.path, run, number),
    )


def _keep(repo: Repository, path: str, run: str, number: int) -> None:
    """Put everything of an orphan under refs, then move its directory to the trash."""
    admin = worktrees.paired(repo, path)
    if admin is None:
        raise ParallelError(f"{path} is no worktree of this repository any more; it was not touched")
    scratch = os.path.join(admin, f"doctor.{os.getpid()}.index")
    try:
        seen = snapshots.look(repo, path, admin, scratch)
    finally:
        if os.path.exists(scratch):
            os.unlink(scratch)
    with objects.Objects(repo) as store, refs.locked(repo):
        kept = [Update(kept_ref(run, number), seen.head, None)] if seen.head else []
        if seen.dirty:
            staged = snapshots.staged_tree(repo.at(path))
            commit = snapshots.snapshot(store, seen, f"git parallel {run}/{number}: an orphan", index_tree=staged)
            kept.append(Update(wip_ref(run, number), commit, None))
        refs.transaction(repo, kept, message="parallel: doctor")
        worktrees.retire(repo, path, admin, run=run, worker=number)


def _forget(repo: Repository, path: str, run: str, number: int) -> None:
    admins = [os.path.join(repo.common_dir, "worktrees", name) for name in worktrees.registry.entry_names(repo)]
    for admin in admins:
        if worktrees.registry.named_by_entry(admin) == worktrees.registry.real(path):
            with refs.locked(repo):
                worktrees.retire(repo, path, admin, run=run, worker=number)


def _refs(repo: Repository, state: State) -> Iterator[Finding]:
    """Refs whose object is missing, and refs of runs that no record knows."""
    here = view.known_runs(state)  # their records are seen to
    there = refs.read_below(repo, "refs/heads", "refs/architect", NOTES)
    for name, found in zip(there, objects.batch(repo, [f"{name}^{{}}" for name in there]), strict=True):
        if found is None and name.removeprefix(RUNS) not in here:
            yield Finding(
                kind="broken-ref",
                what=f"{name} names {there[name]}, which is missing from the repository",
                hint=f"git fsck tells more; a worktree of it keeps its files; git update-ref -d {name} takes it away",
            )
    names = repo.common.run("for-each-ref", "--format=%(refname)", RUNS, WIP, KEPT, LOGS).lines
    runs = {name.removeprefix(RUNS) for name in names if name.startswith(RUNS)}
    for name in names:
        for prefix in (WIP, KEPT, LOGS):
            if name.startswith(prefix) and name.removeprefix(prefix).split("/")[0] not in runs:
                yield Finding(
                    kind="ref-without-record",
                    what=f"{name} belongs to a run without a record",
                    hint=f"git log -1 --stat {name} shows what it holds; it is kept",
                )
