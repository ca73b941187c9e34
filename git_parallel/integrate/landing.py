"""Landing approved branches in sequence: build, check, ask, advance (DESIGN section 9).

A landing is a loop over the branches that wait. Each round takes one of them, or all where nobody is asked in
between, puts them on top of the target as it is now, and moves it. What comes in between (the target
moves, a checkout is in the way) leaves them waiting for the next round, which plans again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from git_parallel.errors import ParallelError, RaceError, RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import advance, changes, hooks, merges, message, prepare, resolve
from git_parallel.integrate.chain import Chain, ImpossibleError, Step
from git_parallel.integrate.checkout import OverlapError
from git_parallel.integrate.checks import Checks
from git_parallel.integrate.person import Link, Person, QuitError, outcome
from git_parallel.integrate.plan import Branch, Merge, Stop, encode
from git_parallel.integrate.scratch import Scratch
from git_parallel.layout import RUNS, MergeFiles, run_ref
from git_parallel.store import record, refs
from git_parallel.store.objects import Objects
from git_parallel.supervisor import files, liveness
from git_parallel.supervisor.journal import Journal

_MOST_RACES = 5


@dataclass
class Landing:
    """One landing at work. Make it with :func:`begin` or :func:`reopened`, then :meth:`run` it."""

    repo: Repository
    merge: Merge
    files: MergeFiles
    held: liveness.Claim
    person: Person
    template: str
    again: bool = False
    scratch: Scratch = field(init=False)
    _races: int = 0
    _single: bool = False
    _recorded: bytes = b""
    _agreed: set[str] = field(default_factory=set)
    _declined: list[Branch] = field(default_factory=list)
    _resolved: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = Journal(self.files.journal)
        self.objects = Objects(self.repo)
        self.scratch = Scratch(self.repo, self.merge.merge, self.template)
        self.checks = Checks(
            self.repo,
            self.merge.checks,
            self.scratch,
            self.files.top,
            self.merge.merge,
            timeout=self.merge.timeout,
            again=self.again,
        )
        present = hooks.present(self.repo, self.merge.strategy) if self.merge.verify else None
        self.hooks = hooks.Hooks(self.scratch, self.merge.strategy, present) if present and present.names else None
        self.chain = Chain(self.repo, self.objects, self.files.top, hooks.signs(self.repo), self.hooks)

    def run(self) -> Merge:
        """Land what waits; return the landing as it ended, or stopped at a conflict. Raises ParallelError.

        Whatever was landed stays landed when something goes wrong later.
        """
        try:
            while self.merge.state == "going" and (waiting := self.merge.waiting):
                self._round(waiting if self._together else waiting[:1])
        except QuitError:
            self._settle_rest("skipped", "left for later")
        except KeyboardInterrupt:
            self._settle_rest("skipped", "interrupted")
            raise
        except ParallelError as error:
            self._settle_rest("skipped", error.message)
            raise
        finally:
            self.close()
        return self.merge

    def close(self) -> None:
        """Write down how it ended and let everything go, except what a stopped landing needs."""
        self.checks.close()
        self.objects.close()
        stopped = self.merge.state == "stopped"
        if not stopped:
            self.scratch.remove()
            if self.merge.state == "going":
                self.merge.state = "ended"
        self._save()
        if self._recorded != encode(self.merge):
            said = "stopped at a conflict" if stopped else f"landed {len(self.merge.landed)}"
            event = "landing-stopped" if stopped else "landing-ended"
            record.write_chains(
                self.repo, [record.merge_chain(self.merge.merge, [merges.entry(self.merge, said, event)])]
            )
        self.events.append("landing-ended" if not stopped else "landing-stopped")
        self.events.close()
        if stopped:
            os.close(self.held.descriptor)
        else:
            shutil.rmtree(os.path.join(self.files.top, "attributes"), ignore_errors=True)
            self.held.release()

    # one round

    @property
    def _together(self) -> bool:
        unasked = self.merge.yes and not self.merge.checks and self.merge.on_conflict == "park"
        return (self.merge.batch or unasked) and not self._single

    def _round(self, branches: Sequence[Branch]) -> None:
        links = self._built(branches)
        links = self._checked(links)
        links = self._agreed_to(links)
        if not links:
            return
        try:
            self._advance(links)
        except RaceError:
            self._races += 1
            if self._races > _MOST_RACES:
                raise
            # What did not merge may do so now, and the other way round; approvals bind to the head and stay.
            for branch in branches:
                if branch.state in ("parked", "skipped") and branch not in self._declined:
                    branch.settle("waiting")
            self.person.noted(f"{merges.short(self.merge.target)} moved meanwhile: planning again on top of it")
        except OverlapError as error:
            if len(links) > 1:
                self._single = True  # one of them may be in nobody's way
                return
            self._settle(links[0].branch, "refused", error.message, error.paths)
        except RefusedError as error:
            self._settle_rest("refused", " ".join((error.message, *error.hints)))

    def _built(self, branches: Sequence[Branch]) -> list[Link]:
        """Put the branches on top of the target, each on the one before; those that cannot be are settled."""
        there = refs.read(self.repo, self.merge.target, *{branch.branch for branch in branches})
        onto = there.get(self.merge.target)
        if onto is None:
            raise RefusedError(f"the target {merges.short(self.merge.target)} is gone", "nothing was changed")
        links: list[Link] = []
        for branch in branches:
            try:
                self._refuse_moved(branch, there.get(branch.branch))
                self._refuse_unmet(branch, onto, links)
                step = self._step(branch, onto)
            except ImpossibleError as error:
                if error.state == "parked" and self.merge.on_conflict == "stop":
                    if not links:  # else the next round stops at it, with those before it landed
                        self._stop(branch, onto, error)
                    break
                self._settle(branch, error.state, error.why, error.files)
                continue
            links.append(Link(branch, step))
            onto = step.commit
        return links

    def _step(self, branch: Branch, onto: str) -> Step:
        said = message.compose(branch, self.merge.strategy, self.merge.template)
        if branch.handle not in self._resolved:
            return self.chain.build(self.merge.strategy, onto, branch.head, said)
        resolved, resolved_onto = self._resolved[branch.handle]
        if self.merge.strategy == "rebase":
            return self.chain.build("rebase", onto, resolved, said)
        tree = self.chain.tree(resolved) if resolved_onto == onto else self.chain.merged(onto, resolved)
        return self.chain.resolved(self.merge.strategy, onto, branch.head, tree, said)

    def _refuse_moved(self, branch: Branch, tip: str | None) -> None:
        if tip != branch.head:
            where = f"has moved to {tip[:12]}" if tip else "is gone"
            raise ImpossibleError(
                "refused", f"the branch {where} since it was chosen: git parallel review {branch.worker}"
            )

    def _refuse_unmet(self, branch: Branch, onto: str, links: Sequence[Link]) -> None:
        """A branch may hold the work of those it depends on: that must have landed by its own approval."""
        if not branch.depends:
            return
        taken = [*self.merge.landed, *(link.branch for link in links)]
        landed = {other.task for other in taken if other.run == branch.run}
        missing = [task for task in branch.depends if task not in landed]
        if not missing:
            return
        heads = prepare.dependency_heads(self.repo, self.merge, branch)
        for task in missing:
            contained = (self.repo.common.succeeds("merge-base", "--is-ancestor", head, onto) for head in heads[task])
            if not any(contained):
                raise ImpossibleError("refused", f"it depends on task {task}, which has not landed")

    def _checked(self, links: Sequence[Link]) -> list[Link]:
        """Run the checks; return the links before the first that is red, which is settled."""
        if not self.merge.checks or not links:
            return list(links)
        last = self._check(links[-1])
        if all(one.green for one in last.checks):
            return [*links[:-1], last]
        if len(links) == 1:
            return self._red(last)
        green, red = 0, len(links)  # the first `green` links are known to be good together, `red` are not
        good: Link | None = None
        bad = last
        while red - green > 1:
            middle = (green + red) // 2
            tried = self._check(links[middle - 1])
            if all(one.green for one in tried.checks):
                green, good = middle, tried
            else:
                red, bad = middle, tried
        self._red(bad)
        return [*links[: green - 1], good] if good is not None else []

    def _red(self, link: Link) -> list[Link]:
        link.branch.checks = list(link.checks)
        link.branch.tree = link.step.tree
        red = link.checks[-1]
        self._settle(link.branch, "red", f"{red.command}: {outcome(red)}")
        return []

    def _check(self, link: Link) -> Link:
        self.checks.say = lambda command: self.person.checking(link.branch, command)
        self.events.append("intent", act="check", worker=link.branch.worker, tree=link.step.tree)
        found = self.checks.run(link.step.commit, link.step.tree, link.branch.worker)
        self.events.append("check", worker=link.branch.worker, results=[[one.command, one.exit_code] for one in found])
        return replace(link, checks=tuple(found))

    def _agreed_to(self, links: Sequence[Link]) -> list[Link]:
        """Ask the person; return what shall land now."""
        asked = [link for link in links if link.branch.handle not in self._agreed]
        if self.merge.yes or not asked:
            return list(links)
        if len(links) > 1:
            if self.person.asked_together(self.merge, links).word != "yes":
                raise QuitError
            return list(links)
        (link,) = links
        while True:
            answer = self.person.asked(self.merge, link)
            if answer.word == "yes":
                self._agreed.add(link.branch.handle)
                return [link]
            if answer.word == "quit":
                raise QuitError
            if answer.word != "edit" or answer.message is None:
                self._declined.append(link.branch)
                self._settle(link.branch, "skipped", "not wanted" if answer.word == "no" else "left for later")
                return []
            link = self._reworded(link, answer.message)

    def _reworded(self, link: Link, said: str) -> Link:
        link.branch.message = said
        self._save()
        whole = message.compose(link.branch, self.merge.strategy)
        try:
            if self.hooks is not None:
                self.scratch.show(link.step.onto)
                whole = self.hooks.reword(whole, edited=True)
        except ImpossibleError as error:
            self.person.noted(error.why)
            return link
        return replace(link, step=self.chain.reworded(link.step, whole))

    # moving

    def _advance(self, links: Sequence[Link]) -> None:
        """Move the target to the last of the links, in one step."""
        branches = [link.branch for link in links]
        runs = {run_ref(branch.run) for branch in branches}
        known = [ref.removeprefix(RUNS) for ref in refs.read(self.repo, *runs)]
        before = merges.taken_back(self.merge, branches, known_runs=known)
        for link in links:
            branch = link.branch
            branch.settle("landed")
            branch.onto, branch.commit, branch.tree = link.step.onto, link.step.commit, link.step.tree
            branch.checks = list(link.checks)
        if not self.merge.waiting:
            self.merge.state = "ended"
        old, new = links[0].step.onto, links[-1].step.commit
        changed = links[0].step.changed if len(links) == 1 else changes.between(self.repo, old, new)
        move = advance.Move(
            target=self.merge.target,
            old=old,
            new=new,
            changed=changed,
            chains=merges.chains(self.merge, branches, known_runs=known),
            back=before,
        )
        try:
            advance.advance(self.repo, move, self.files, self.events, (self.held.descriptor,))
        except BaseException:
            for branch in branches:
                branch.settle("waiting")
                branch.onto = branch.commit = None
            self.merge.state = "going"
            raise
        self._recorded = encode(self.merge)
        self._save()
        for branch in branches:
            self.person.told(self.merge, branch)

    def _stop(self, branch: Branch, onto: str, error: ImpossibleError) -> None:
        """Leave a conflict to the person."""
        if error.why.startswith("paths that differ"):
            self._settle(branch, "parked", error.why, error.files)
            return
        self.events.append("intent", act="stop", worker=branch.worker)
        said = message.compose(branch, self.merge.strategy, self.merge.template)
        left = resolve.begin(self.scratch, self.merge.strategy, onto, branch.head, said)
        assert self.scratch.path is not None
        if not left:  # rerere knew them all, and may stage what it knows
            self.person.noted(f"worker {branch.worker}: conflicts resolved as remembered by rerere")
            commit, _ = resolve.finish(self.scratch, self.objects, self.merge.strategy, onto, branch.head)
            self._resolved[branch.handle] = (commit, onto)
            return
        branch.files = left
        branch.why = error.why
        self.merge.stop = Stop(handle=branch.handle, worktree=self.scratch.path, onto=onto)
        self.merge.state = "stopped"
        self._save()

    def take(self, branch: Branch, commit: str, onto: str) -> None:
        """Land a branch with this resolution of its conflicts with ``onto``."""
        self._resolved[branch.handle] = (commit, onto)

    # settling

    def _settle(self, branch: Branch, state: str, why: str | None = None, paths: Sequence[str] = ()) -> None:
        branch.settle(state, why, paths)  # type: ignore[arg-type]
        self.events.append("settled", worker=branch.worker, state=state, reason=why)
        self._save()
        self.person.told(self.merge, branch)

    def _settle_rest(self, state: str, why: str) -> None:
        for branch in self.merge.waiting:
            self._settle(branch, state, why)

    def _save(self) -> None:
        files.replace(self.files.plan, encode(self.merge))
