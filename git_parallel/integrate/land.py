"""Landings as commands know them: begin one, take one up again, predict one, and what comes after it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_parallel.errors import ParallelError, RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import advance, merged, merges, message, resolve, verdicts, workers
from git_parallel.integrate.chain import Chain, ImpossibleError
from git_parallel.integrate.landing import Landing
from git_parallel.integrate.person import Answer, Link, Person
from git_parallel.integrate.plan import Branch, Merge, encode
from git_parallel.layout import State
from git_parallel.render import text
from git_parallel.store import refs
from git_parallel.store.objects import Objects
from git_parallel.supervisor import files, liveness


def begin(repo: Repository, merge: Merge, person: Person, template: str, *, again: bool = False) -> Landing:
    """Start a landing: its live files exist from here on. ``template`` is ``parallel.worktree``."""
    place = State(repo.common_dir).merge(merge.merge)
    try:
        os.makedirs(place.top)
        held = merges.claim(place)
        files.replace(place.plan, encode(merge), durable=True)
    except OSError as error:
        raise ParallelError(
            f"cannot write the landing's files: {error.strerror}: {error.filename or place.top}", "nothing was changed"
        ) from error
    landing = Landing(repo, merge, place, held, person, template=template, again=again)
    landing.events.append("landing-started", source="person", durable=True)
    return landing


def reopened(repo: Repository, merge: Merge, person: Person, template: str, *, again: bool = False) -> Landing:
    """Take up a landing that stopped or died; a move that it had begun is finished first."""
    place = State(repo.common_dir).merge(merge.merge)
    held = merges.claim(place)
    for line in advance.settle(repo, place):
        person.noted(line)
    merge = _with_record(repo, merges.load(repo, merge.merge) or merge)
    return Landing(repo, merge, place, held, person, template=template, again=again)


def resume(landing: Landing, how: str) -> Merge:
    """Go on with a reopened landing: ``continue`` with what the person resolved, ``skip`` it, or ``abort``."""
    merge, stop = landing.merge, landing.merge.stop
    try:
        if stop is not None and merge.state == "stopped":
            branch = merge.branch(stop.handle)
            if how == "continue":
                landing.scratch.adopt(stop.worktree)
                resolve.refuse_loose(landing.scratch, branch.files)
                commit, said = resolve.finish(landing.scratch, landing.objects, merge.strategy, stop.onto, branch.head)
                branch.why, branch.files, branch.message = None, [], said or branch.message
                landing.take(branch, commit, stop.onto)
            else:
                if landing.scratch.find():  # if the person has not removed it themselves
                    resolve.refuse_loose(landing.scratch, branch.files)
                branch.settle("skipped", "left out at a conflict")
        elif landing.scratch.find():
            landing.scratch.remove()
        merge.stop = None
        if merge.state == "stopped":
            merge.state = "going"
    except BaseException:
        landing.close()  # still stopped: everything stays for the next try
        raise
    if how == "abort":
        for branch in merge.waiting:
            branch.settle("skipped", "aborted")
        merge.state = "aborted"
    return landing.run()


def _with_record(repo: Repository, merge: Merge) -> Merge:
    """The landing with what its record knows to have landed: that moved with the target, the file only after it."""
    kept = merges.recorded(repo, merge.merge)
    for branch in kept.landed if kept is not None else ():
        here = merge.branch(branch.handle)
        if here.state != "landed":
            merge.branches[merge.branches.index(here)] = branch
    if kept is not None and kept.state == "undone":
        merge.state, merge.undone = kept.state, kept.undone
    return merge


def close_interrupted(repo: Repository, template: str) -> list[str]:
    """Finish landings whose process died, before a new one begins; return what to tell.

    Raises RefusedError while one waits at a conflict.
    """
    said: list[str] = []
    for name in merges.live(repo):
        place = State(repo.common_dir).merge(name)
        if liveness.holder(place.holder) is not None:
            continue
        merge = merges.load(repo, name) if os.path.exists(place.plan) else None
        if merge is None:  # it died before it had begun
            os.unlink(place.holder)
            continue
        if merge.state == "stopped":
            raise RefusedError(
                f"landing {name} has stopped at a conflict",
                "end it first: git parallel merge --continue, --skip or --abort",
            )
        said += _closed(repo, merge, template)
    return said


def close_one(repo: Repository, name: str) -> None:
    """Finish the landing of this id, whose process died. Raises ParallelError."""
    merge = merges.load(repo, name)
    if merge is not None:
        _closed(repo, merge, "")


def _closed(repo: Repository, merge: Merge, template: str) -> list[str]:
    lines = _Lines()
    landing = reopened(repo, merge, lines, template)
    landing.scratch.find()
    for branch in landing.merge.waiting:
        branch.settle("skipped", "the landing was interrupted")
    landing.close()
    said = f"landing {merge.merge} was interrupted; {len(landing.merge.landed)} of its branches have landed"
    return [said, *lines.lines]


class _Lines:
    """Keeps what a landing has to tell. There is nobody to be asked, and nothing to ask: none of it lands."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def asked(self, merge: Merge, link: Link) -> Answer:
        return Answer("quit")

    def asked_together(self, merge: Merge, links: Sequence[Link]) -> Answer:
        return Answer("quit")

    def told(self, merge: Merge, branch: Branch) -> None:
        pass

    def checking(self, branch: Branch, command: str) -> None:
        pass

    def noted(self, line: str) -> None:
        self.lines.append(line)


def predict(repo: Repository, merge: Merge) -> list[Link]:
    """What would land, without changing a ref or a file; branches that cannot are settled.

    Objects are written to the repository: they are unreachable and go with the next ``git gc``.
    """
    import tempfile  # noqa: PLC0415 (a landing needs none)

    links: list[Link] = []
    onto = merge.start
    with tempfile.TemporaryDirectory(prefix="git-parallel-") as scratch, Objects(repo) as objects:
        chain = Chain(repo, objects, scratch)
        for branch in merge.waiting:
            said = message.compose(branch, merge.strategy, merge.template)
            try:
                (step,) = chain.compared([chain.build(merge.strategy, onto, branch.head, said)])
                if clashes := chain.clashes(step):
                    raise ImpossibleError("parked", "paths that differ only in case", clashes)
            except ImpossibleError as error:
                found = merged.explained(repo, branch, error, onto)
                branch.settle(found.state, found.why, found.files)
                continue
            links.append(Link(branch, step))
            onto = step.commit
    return links


# --- afterwards --------------------------------------------------------------------------------------


def reject_siblings(repo: Repository, merge: Merge) -> list[str]:
    """Reject the other workers of tasks that have landed; return what was done."""
    said = []
    for branch in merge.landed:
        landed = {other.worker for other in merge.landed if other.run == branch.run}
        for one in workers.gather(repo, [branch.run]):
            if one.job.task != branch.task or one.worker in landed or one.tip is None:
                continue
            why = f"worker {branch.worker} of the same task has landed"
            verdicts.give(repo, one.run, one.worker, "rejected", one.tip, message=why, explicit=True)
            said.append(f"worker {one.worker} is rejected: {why}")
    return said


def send_back(repo: Repository, merge: Merge) -> list[str]:
    """Let the agents of parked branches resolve the conflicts, each in its worktree; return what was done.

    Their new heads need a review of their own: no approval covers them.
    """
    from git_parallel.supervisor import again, detached, feedback, onward  # noqa: PLC0415 (they bring everything)

    tip = refs.read(repo, merge.target).get(merge.target, merge.start)
    parked = [branch for branch in merge.branches if branch.state == "parked"]
    said = []
    for run in dict.fromkeys(branch.run for branch in parked):
        numbers = [branch.worker for branch in parked if branch.run == run]
        names = ", ".join(map(str, numbers))
        try:
            if feedback.takes_commands(onward.read(repo, run).preset):
                said.append(f"worker {names} ran a command line, which resolves no conflict: git parallel merge --stop")
                continue
            detached.detached(again.retrying(repo, run, numbers, message=_request(merge, tip, parked, run)))
        except ParallelError as error:
            said.append(f"worker {names} could not be sent back: {error.message}")
            continue
        said.append(f"worker {names} is at work on its conflicts: git parallel watch {run}")
        said.append(f"look at the result before it lands: git parallel review {' '.join(map(str, numbers))}")
    return said


def _request(merge: Merge, tip: str, parked: Sequence[Branch], run: str) -> str:
    """What an agent is asked to do about its conflicts."""
    files = sorted({path for branch in parked if branch.run == run for path in branch.files})
    return "\n".join(
        [
            f"Your branch does not merge into {merges.short(merge.target)} any more. Merge that into your branch:",
            "",
            f"    git merge {tip}",
            "",
            "and resolve the conflicts so that both sides' intentions hold. Change nothing else, and commit the merge.",
            "Conflicts were foreseen in:",
            *(f"    {text.printable(path)}" for path in files),
        ]
    )


def clean_up(repo: Repository, merge: Merge) -> list[str]:
    """Remove branches and worktrees of what has landed, as ``git parallel cleanup`` does; return what was done."""
    from git_parallel.integrate import cleanup  # noqa: PLC0415 (only when it is asked for)

    wanted: list[tuple[str, int | None]] = [(branch.run, branch.worker) for branch in merge.landed]
    try:
        here = os.path.realpath(os.getcwd())
    except FileNotFoundError:
        here = None
    outcomes = cleanup.clean(repo, wanted, cleanup.Options(here=here))
    return [
        f"worker {one.remains.worker}: {one.action}" + (f" ({one.obstacle.message})" if one.obstacle else "")
        for one in outcomes
    ]
