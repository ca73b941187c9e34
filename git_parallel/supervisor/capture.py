"""What git shows of a worker's work at its end, and how what no commit holds is kept.

Looking writes only objects; the caller makes :attr:`Work.updates` in one transaction with the record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from git_parallel import worktrees
from git_parallel.agents import launch
from git_parallel.errors import ParallelError
from git_parallel.layout import HEADS, wip_ref
from git_parallel.plan.model import CheckResult, IgnoredFiles, IgnoredPath, Job
from git_parallel.render import text
from git_parallel.store import refs, snapshots
from git_parallel.store.lost import lost_commits, on_no_ref
from git_parallel.store.objects import batch
from git_parallel.store.refs import Update
from git_parallel.supervisor import checkpoints, hookfiles, leftovers, surroundings
from git_parallel.supervisor.context import Context
from git_parallel.worktrees import submodules, uncaptured

_MOST_NAMED = 10
_MOST_LISTED = 50
_MOST_ASKED = 1000
_SHORT = 12

SCRATCH = "capture.index"  # among the worker's files, while its end is recorded


class Work(Struct):
    """What git shows of a worker's work, gathered on the way to its result.

    ``admin`` is the worktree's entry as it was found at first; who writes there looks for it again.
    ``lost`` are commits that no ref has, ``ignored`` what git ignores, ``past`` the last of its checkpoints or, with
    none, what its wip ref held before; ``done``: its last round did some work; ``captured``: as far as anybody knows,
    that is all it did.
    """

    seen: snapshots.Look | None = None
    admin: str | None = None
    change: snapshots.Change = field(default_factory=lambda: snapshots.Change([], 0, 0, []))
    head: str | None = None
    snapshot: str | None = None
    lost: list[str] = field(default_factory=list)
    ignored: IgnoredFiles | None = None
    past: str | None = None
    checks: list[CheckResult] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    done: bool = False
    captured: bool = True


def look(context: Context, job: Job, *, ran: bool) -> Work:
    """See what lies in the worktree; one that cannot be read is kept and named."""
    work = Work()
    admin = work.admin = worktrees.paired(context.repo, job.worktree)
    if admin is not None:
        for lock in leftovers.unlock(context.repo, job, admin):
            context.journal.append("note", worker=job.worker, reason=f"{lock} was left by a git that was killed")
    if not ran:
        if context.rounds[job.worker].before is not None:
            _look_at_branch(context, job, work)
        else:
            _look_at_empty(context, job, work)
        return work
    context.journal.append("intent", worker=job.worker, act="capture")
    if admin is None:
        work.warnings.append(f"the worktree is gone or no longer ours: {job.worktree}")
        _look_at_branch(context, job, work)
        _look_at_checkpoint(context, job, work)
        work.captured = work.done
        return work
    scratch = os.path.join(context.files.worker(job.worker).top, SCRATCH)
    try:
        leave = launch.pathspecs(context.preset)
        work.seen = snapshots.look(context.repo, job.worktree, admin, scratch, leave, objects=context.objects)
    except ParallelError as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        work.warnings.append(f"nothing was captured ({error.message}); the work is still in {job.worktree}")
        _look_at_branch(context, job, work)
        _look_at_checkpoint(context, job, work)
        work.captured = False
        return work
    _compare(context, job, work, work.seen.tree)
    try:
        work.lost = _lost(context, job, admin, work)
        _look_at_the_rest(context, job, work)
    except (ParallelError, OSError) as error:
        work.warnings.append(f"what the capture left out could not be listed: {error}")
    work.warnings += surroundings.changes(context.repo, context.before, worktree_too=not work.change.paths)
    work.warnings += [
        f"the repository's hook {name} is {how} since the run started: see git parallel doctor"
        for name, how in hookfiles.changes(context.repo.common_dir, context.files.hooks_before).items()
    ]
    work.warnings += [f"not captured: {what}" for what in (*work.seen.missing, *_nested(work))]
    work.warnings += snapshots.submodule_work(context.repo.at(job.worktree), job.worktree)
    return work


def _look_at_empty(context: Context, job: Job, work: Work) -> None:
    """No agent ever ran: the branch goes, unless its worktree was made already; that both stay."""
    if os.path.lexists(job.worktree):
        with refs.locked(context.repo):
            worktrees.take_back(context.repo, job.worktree)
    work.updates += empty_branches(context, [job.worker])
    if not work.updates:
        _look_at_branch(context, job, work)


def _look_at_branch(context: Context, job: Job, work: Work) -> None:
    """See what the branch alone has."""
    work.head = _tip(context, job, work)
    if work.head is not None:
        _compare(context, job, work, _tree(context, work.head))


def _look_at_checkpoint(context: Context, job: Job, work: Work) -> None:
    """The last checkpoint is all there is of what was not committed: it stays, and says what was done."""
    work.snapshot = checkpoints.newest(context, job)
    if work.snapshot is None:
        return
    ref = wip_ref(context.spec.run, job.worker)
    work.warnings.append(f"the last checkpoint is kept as {ref}: git parallel restore {job.worker} --to DIR")
    (seen,) = snapshots.read_snapshots(context.repo, [work.snapshot])
    if seen is not None and seen.head == work.head:
        _compare(context, job, work, seen.tree)
        work.warnings += [f"not captured: {what}" for what in (*seen.missing, *_nested(work))]


def _tip(context: Context, job: Job, work: Work) -> str | None:
    """The commit that the worker's branch names, if it is there: git itself may have lost it."""
    tip = refs.read(context.repo, HEADS + job.branch).get(HEADS + job.branch)
    if tip is None or batch(context.repo, [tip]) != [None]:
        return tip
    said = f"{job.branch} names commit {tip[:_SHORT]}, which is missing from the repository: see git fsck"
    work.warnings += [said] if said not in work.warnings else []
    return None


def _lost(context: Context, job: Job, admin: str, work: Work) -> list[str]:
    """Commits that only reflogs of the worker know, such as those that it has amended or reset away."""
    seen, own, ref = work.seen, HEADS + job.branch, wip_ref(context.spec.run, job.worker)
    assert seen is not None
    tip = seen.head if seen.branch == own else _tip(context, job, work)
    of = context.rounds[job.worker]
    kept = [commit for commit in (context.spec.base, of.start, of.wip, seen.head, tip) if commit]
    found = lost_commits(context.repo.common, admin, kept, ("HEAD", own))
    return on_no_ref(context.repo, found, besides=ref)  # the checkpoints there have done their work


def _look_at_the_rest(context: Context, job: Job, work: Work) -> None:
    """Count and name what the capture leaves out; keep as much of what git ignores as was asked for."""
    assert work.seen is not None
    if not work.seen.missing and uncaptured.nothing(job.worktree, work.seen.index):
        return
    found = uncaptured.ignored(context.repo.at(job.worktree), job.worktree)
    if found.total.files:
        listed = found.paths[:_MOST_LISTED]
        paths = [IgnoredPath(name, size.files, size.size, size.more) for name, size in listed]
        kept = _keep_ignored(context, job, work, found) if context.spec.keep_ignored else None
        total = found.total
        work.ignored = IgnoredFiles(total.files, total.size, total.more, paths, kept)
    work.warnings += submodules.only_here(context.repo, job.worktree, context.spec.base, work.seen.tree)
    kinds: dict[str, list[str]] = {}
    for path, kind in uncaptured.unusual(job.worktree, frozenset(found.names)):
        kinds.setdefault(kind, []).append(path)
    if uncaptured.EMPTY in kinds:  # that of a submodule which is not filled in is tracked
        asked = kinds[uncaptured.EMPTY][:_MOST_ASKED]
        links = snapshots.tracked(context.repo.at(job.worktree), work.seen.index, asked)
        kinds[uncaptured.EMPTY] = [path for path in kinds[uncaptured.EMPTY] if path.rstrip("/") not in links]
    for kind, named in kinds.items():
        work.warnings += [f"not captured: {path}: {_a(kind)}" for path in named[:_MOST_NAMED]]
        if len(named) > _MOST_NAMED:
            work.warnings.append(f"not captured: {len(named) - _MOST_NAMED} more paths, each {_a(kind)}")


def _keep_ignored(context: Context, job: Job, work: Work, found: uncaptured.Ignored) -> str | None:
    """Write a commit of the ignored files, the smallest paths first, as far as they may be kept; name the rest."""
    room = context.spec.keep_ignored or 0
    taken, left = uncaptured.fitting(found, room)
    for name, size in left[:_MOST_NAMED]:
        much = f"{'more than ' if size.more else ''}{text.size(size.size)}"
        work.warnings.append(f"not kept: {name}: ignored, and {much} are too much for --keep-ignored")
    if len(left) > _MOST_NAMED:
        work.warnings.append(f"not kept: {len(left) - _MOST_NAMED} more ignored paths: too much for --keep-ignored")
    if not taken:
        return None
    scratch = os.path.join(context.files.worker(job.worker).top, "ignored.index")
    git = context.repo.at(job.worktree)
    tree, missing = snapshots.tree_of(git, scratch, [name for name, _ in taken])
    work.warnings += [f"not kept: {path}" for path in missing]
    return context.objects.commit(tree, [], f"git parallel {context.spec.run}/{job.worker}: what git ignores\n")


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _nested(work: Work) -> list[str]:
    """Name the repositories that the agent made: of each git keeps the id of its commit alone."""
    return [f"{path}: a repository of its own" for path in work.change.nested]


def _compare(context: Context, job: Job, work: Work, now: str) -> None:
    """Hold a tree against the base's, and that of where this round had to begin to change something."""
    objects = context.objects
    base, since = (_begun(context, one) for one in (context.spec.base, context.rounds[job.worker].since))
    work.change = snapshots.compared(objects, base, now)
    work.done = bool(work.change.paths if since == base else snapshots.compared(objects, since, now).paths)


def _begun(context: Context, commit: str) -> str:
    """The tree of a commit that workers start from: many ask for it."""
    if commit not in context.trees:
        context.trees[commit] = _tree(context, commit)
    return context.trees[commit]


def _tree(context: Context, commit: str) -> str:
    (tree,) = context.objects.resolve(f"{commit}^{{tree}}")
    return tree if tree is not None else context.objects.read_commit(commit)[0]  # which says that it is missing


def keep_during_checks(context: Context, job: Job, work: Work) -> None:
    """Checks may take long and may do anything to the worktree: put the work under a ref before they start."""
    if work.seen is None or not work.seen.dirty:
        return
    message = f"git parallel {context.spec.run}/{job.worker}: before its checks"
    commit = snapshots.snapshot(context.objects, work.seen, message, index_tree=None, previous=work.past)
    ref = wip_ref(context.spec.run, job.worker)
    with refs.locked(context.repo):
        refs.transaction(context.repo, [Update(ref, commit, None)])
    # The commit on the branch replaces it.
    work.updates.append(Update(ref, context.rounds[job.worker].wip, None))


def commit(context: Context, job: Job, work: Work, message: str) -> None:
    """Put uncommitted work onto the branch; where that cannot be, under a wip ref."""
    seen = work.seen
    assert seen is not None
    own = HEADS + job.branch
    work.head = seen.head if seen.branch == own else _tip(context, job, work)
    if seen.branch != own or (seen.dirty and (seen.operation is not None or seen.head is None)):
        if not seen.dirty:
            work.warnings.append(f"the agent left its branch: HEAD is at {seen.branch or seen.head}")
        why = f"a {seen.operation} is in progress" if seen.dirty and seen.operation else "the agent left its branch"
        index_tree = snapshots.staged_tree(context.repo.at(job.worktree))
        work.snapshot = _keep(context, job, work, seen, why, index_tree=index_tree)
        work.warnings.append(f"{why}: its state is kept as {wip_ref(context.spec.run, job.worker)}")
    else:
        staged = None
        if seen.dirty:
            assert seen.head is not None
            staged = _only_staged(context, job, work, seen)
            work.head = context.objects.commit(seen.tree, [seen.head], message)
            work.updates.append(Update(own, work.head, seen.head))
        earlier = work.past != context.rounds[job.worker].wip
        if staged or work.lost or earlier or (work.ignored is not None and work.ignored.kept):
            clean = replace(seen, head=work.head, head_tree=seen.tree)  # as the worktree is when its index has followed
            _keep(context, job, work, clean, "what its branch does not have", index_tree=staged)
    work.warnings += _named(context, job, work.lost)


def _only_staged(context: Context, job: Job, work: Work, seen: snapshots.Look) -> str | None:
    """The tree of the index when it has what the worktree does not: files that were changed after they were staged."""
    if work.admin is None or seen.head_tree is None:
        return None
    own = os.path.join(work.admin, "index")
    if snapshots.stamp(own) == context.filled.get(job.worker, ()):  # nobody has staged anything
        return None
    tree = _staged_tree(context, job, own, seen.index)
    if tree is None or tree in (seen.tree, seen.head_tree):
        return None
    staged = set(snapshots.compared(context.objects, seen.head_tree, tree).paths)
    changed = sorted(staged.intersection(snapshots.compared(context.objects, tree, seen.tree).paths))
    # Some programs stage a new file empty and write it afterwards: there is nothing in it to be kept.
    found = batch(context.repo, [f"{tree}:{path}" for path in changed])
    changed = [path for path, one in zip(changed, found, strict=True) if one is None or one.data]
    if not changed:
        return None
    ref = wip_ref(context.spec.run, job.worker)
    shown = ", ".join(map(text.one_line, changed[:_MOST_NAMED]))
    work.warnings.append(f"changed after being staged ({shown}): what was staged is kept under {ref}")
    return tree


def _staged_tree(context: Context, job: Job, index: str, scratch: str) -> str | None:
    """The tree of an index, of which a copy beside ``scratch`` is taken: writing its tree may write it anew."""
    copy = f"{scratch}.staged.index"
    snapshots.copy_index(index, copy)
    try:
        return snapshots.staged_tree(context.repo.at(job.worktree), copy)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(copy)


def _keep(context: Context, job: Job, work: Work, seen: snapshots.Look, why: str, *, index_tree: str | None) -> str:
    """Write a snapshot, for the worker's wip ref, and return it: the state, lost commits, ignored files."""
    message = f"git parallel {context.spec.run}/{job.worker}: {why}"
    kept = snapshots.snapshot(
        context.objects,
        seen,
        message,
        index_tree=index_tree,
        lost=work.lost,
        ignored=work.ignored.kept if work.ignored is not None else None,
        previous=work.past,
    )
    ref = wip_ref(context.spec.run, job.worker)
    work.updates = [update for update in work.updates if update.ref != ref]
    work.updates.append(Update(ref, kept, None))
    return kept


def _named(context: Context, job: Job, lost: Sequence[str]) -> list[str]:
    """Say of commits that no branch has what they are, and where they are kept."""
    ref = wip_ref(context.spec.run, job.worker)
    said = []
    for commit in lost[:_MOST_NAMED]:
        subject = context.objects.read_commit(commit)[2].partition("\n")[0]
        said.append(f"no branch has commit {commit[:_SHORT]} ({text.one_line(subject)}); it is kept under {ref}")
    if len(lost) > _MOST_NAMED:
        said.append(f"{len(lost) - _MOST_NAMED} more commits that no branch has are kept under {ref}")
    return said


def settle(context: Context, job: Job, work: Work) -> None:
    """After the commit is on the branch, the worktree's index follows it; a held lock leaves that to the person."""
    seen = work.seen
    if seen is None:
        return
    if work.head is not None and work.head != seen.head and seen.branch == HEADS + job.branch:
        admin = worktrees.paired(context.repo, job.worktree)
        if admin is not None and not snapshots.install_index(admin, seen.index):
            context.journal.append("note", worker=job.worker, reason="index.lock is held; `git reset` in the worktree")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(seen.index)


def settle_after_death(context: Context, job: Job) -> None:
    """Do what is left of :func:`settle` when the supervisor died between the record and it."""
    scratch = os.path.join(context.files.worker(job.worker).top, SCRATCH)
    admin = worktrees.paired(context.repo, job.worktree)
    if admin is None or not os.path.exists(scratch):
        return
    git = context.repo.at(job.worktree)
    head = git.run("rev-parse", "-q", "--verify", "HEAD^{tree}", ok=(0, 1, 128)).text
    with contextlib.suppress(FileNotFoundError):  # no index
        if os.stat(os.path.join(admin, "index")).st_mtime_ns > os.stat(scratch).st_mtime_ns:
            return  # somebody has worked there since
    if _staged_tree(context, job, scratch, scratch) == head:
        snapshots.install_index(admin, scratch)


def empty_branches(context: Context, numbers: Sequence[int]) -> list[Update]:
    """Deletions of branches that nothing was ever done on. One that was moved meanwhile is somebody's and stays."""
    base = context.spec.base
    jobs = [context.spec.job(number) for number in numbers]
    names = [HEADS + job.branch for job in jobs if not os.path.lexists(job.worktree)]
    found = refs.read(context.repo, *names)
    return [Update(name, None, base) for name in names if found.get(name) == base]
