"""Landing approved branches in sequence: build, check, ask, advance (DESIGN section 9).

A landing is a loop over the branches that wait. Each round takes one of them, or all where nobody is asked in
between, puts them on top of the target as it is now, and moves it. What comes in between (the target
moves, a checkout is in the way) leaves them waiting for the next round, which plans again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from git_parallel.errors import ParallelError, RaceError, RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import advance, changes, firstred, hooks, merged, merges, message
from git_parallel.integrate.chain import Chain, ImpossibleError, Step
from git_parallel.integrate.checkout import OverlapError
from git_parallel.integrate.person import Link, Person, QuitError, outcome
from git_parallel.integrate.plan import Branch, Merge, State, Stop, encode
from git_parallel.integrate.scratch import Scratch
from git_parallel.layout import RUNS, MergeFiles, run_ref
from git_parallel.store import record
from git_parallel.store.objects import Objects
from git_parallel.supervisor import files, liveness
from git_parallel.supervisor.journal import Journal

if TYPE_CHECKING:
    from git_parallel.integrate.checks import Checks

_MOST_RACES = 5
_WORTH_UNITING = 3  # branches: their merges take about as long as finding out that there is nothing to merge


class Landing:
    """One landing at work: see :func:`~git_parallel.integrate.land.begin`.

    ``held`` is its lock, ``template`` is ``parallel.worktree``; ``again``: checks run whatever is remembered.
    """

    def __init__(
        self,
        repo: Repository,
        merge: Merge,
        place: MergeFiles,
        held: liveness.Claim,
        person: Person,
        *,
        template: str,
        again: bool = False,
    ) -> None:
        self.repo = repo
        self.merge = merge
        self.files = place
        self.person = person
        self.events = Journal(place.journal)
        self.objects = Objects(repo)
        self.scratch = Scratch(repo=repo, merge=merge.merge, template=template)
        self._held = held
        self._again = again
        self._checks: Checks | None = None
        present = hooks.present(repo, merge.strategy) if merge.verify else None
        self._hooks = hooks.Hooks(self.scratch, merge.strategy, present) if present and present.names else None
        self._sign = hooks.signs(repo)
        self._chain = Chain(repo, self.objects, place.top, sign=self._sign, hooks=self._hooks)
        self._runs: list[str] = []  # those that have a record
        self._races = 0
        self._single = False
        self._dead = False
        self._recorded = b""
        self._agreed: set[str] = set()
        self._declined: list[Branch] = []
        self._resolved: dict[str, tuple[str, str]] = {}

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
        except advance.BetweenError:
            self._dead = True
            raise
        except ParallelError as error:
            self._settle_rest("skipped", error.message)
            raise
        finally:
            self.close()
        return self.merge

    def close(self) -> None:
        """Write down how it ended and let everything go, except what a stopped landing needs, or a dead one."""
        if self._checks is not None:
            self._checks.close()
        self.objects.close()
        if self._dead:
            self.events.close()
            os.close(self._held.descriptor)
            return
        stopped = self.merge.state == "stopped"
        if not stopped:
            self.scratch.remove()
            self._chain.clear()
            if self.merge.state == "going":
                self.merge.state = "ended"
        if self._recorded != encode(self.merge):
            self._save()
            said = "stopped at a conflict" if stopped else f"landed {len(self.merge.landed)}"
            event = "landing-stopped" if stopped else "landing-ended"
            record.write_chains(
                self.repo, [record.merge_chain(self.merge.merge, [merges.entry(self.merge, said, event)])]
            )
        self.events.append("landing-stopped" if stopped else "landing-ended")
        self.events.close()
        if stopped:
            os.close(self._held.descriptor)
        else:
            self._held.release()

    def take(self, branch: Branch, commit: str, onto: str) -> None:
        """Land a branch with this resolution of its conflicts with ``onto``, which is kept whatever comes of it."""
        branch.resolution = commit
        resolved = merges.entry(self.merge, f"worker {branch.worker}: conflicts resolved", "resolved", parents=[commit])
        record.write_chains(self.repo, [record.merge_chain(self.merge.merge, [resolved])])
        self._resolved[branch.handle] = (commit, onto)

    # one round

    @property
    def _together(self) -> bool:
        unasked = self.merge.yes and not self.merge.checks and self.merge.on_conflict == "park"
        return (self.merge.batch or unasked) and not self._single

    def _round(self, branches: Sequence[Branch]) -> None:
        built = self._built(branches)
        parked = [branch for branch in branches if branch.state == "parked"]
        links = self._agreed_to(self._checked(self._compared(built)))
        if len(links) < len(built):
            self._plan_again(parked)
        if links:
            self._land(branches, parked, links)

    def _plan_again(self, branches: Sequence[Branch]) -> None:
        """Plan these once more: what did not go together with a branch that does not land may well go without it."""
        for branch in branches:
            if branch not in self._declined:
                branch.settle("waiting")

    def _land(self, branches: Sequence[Branch], parked: Sequence[Branch], links: Sequence[Link]) -> None:
        try:
            self._advance(links)
        except RaceError:
            self._races += 1
            if self._races > _MOST_RACES:
                raise
            # What did not merge may do so now, and the other way round; approvals bind to the head and stay.
            self._plan_again([branch for branch in branches if branch.state in ("parked", "skipped")])
            self.person.noted(f"{merges.short(self.merge.target)} moved meanwhile: planning again on top of it")
        except OverlapError as error:
            self._plan_again(parked)
            if len(links) > 1:
                self._single = True  # one of them may be in nobody's way
                return
            self._settle(links[0].branch, "refused", error.message, error.paths)
        except RefusedError as error:
            self._settle_rest("refused", "; ".join((error.message, *error.hints)))

    def _built(self, branches: Sequence[Branch]) -> list[Link]:
        """Put the branches on top of the target, each on the one before; those that cannot be are settled."""
        tips = self._tips(branches)
        onto = tips.get(self.merge.target)
        if onto is None:
            raise RefusedError(f"the target {merges.short(self.merge.target)} is gone", "nothing was changed")
        if (links := self._united(branches, tips, onto)) is not None:
            return links
        links = []
        for branch in branches:
            try:
                self._refuse_moved(branch, tips.get(branch.branch))
                self._refuse_unmet(branch, onto, links)
                step = self._step(branch, onto)
            except ImpossibleError as error:
                if error.state == "parked" and self.merge.on_conflict == "stop":
                    if not links:  # else the next round stops at it, with those before it landed
                        self._stop(branch, onto, error)
                    break
                self._settle_impossible(branch, merged.explained(self.repo, branch, error, onto))
                continue
            links.append(Link(branch, step))
            onto = step.commit
        return links

    def _united(self, branches: Sequence[Branch], tips: Mapping[str, str], onto: str) -> list[Link] | None:
        """The links of branches that cannot meet, all at once; None when something is to be looked at one by one."""
        plain = self._hooks is None and not self._sign and self.merge.strategy in ("merge", "squash")
        if len(branches) < _WORTH_UNITING or not plain or self._resolved:
            return None
        if any(branch.depends or tips.get(branch.branch) != branch.head for branch in branches):
            return None
        from git_parallel.integrate import union  # noqa: PLC0415 (not for one branch at a time)

        said = [message.compose(branch, self.merge.strategy, self.merge.template) for branch in branches]
        wanted = [(branch.head, words) for branch, words in zip(branches, said, strict=True)]
        steps = union.build(self.repo, self.objects, self.merge.strategy, onto, wanted)
        if steps is None:
            return None
        self._chain.trees.update((step.commit, step.tree) for step in steps)
        return [Link(branch, step) for branch, step in zip(branches, steps, strict=True)]

    def _tips(self, branches: Sequence[Branch]) -> dict[str, str]:
        """Read the target, the branches and the runs' records in one call, and remember the trees of commits."""
        wanted = {self.merge.target, *(one.branch for one in branches), *(run_ref(one.run) for one in branches)}
        rows = self.repo.common.run("for-each-ref", "--format=%(objectname) %(tree) %(refname)", *wanted).lines
        tips: dict[str, str] = {}
        for row in rows:
            oid, tree, name = row.split(" ", 2)
            tips[name] = oid
            if tree:
                self._chain.trees[oid] = tree
        self._runs = [name.removeprefix(RUNS) for name in tips if name.startswith(RUNS)]
        return tips

    def _step(self, branch: Branch, onto: str) -> Step:
        said = message.compose(branch, self.merge.strategy, self.merge.template)
        if branch.handle not in self._resolved:
            return self._chain.build(self.merge.strategy, onto, branch.head, said)
        resolved, resolved_onto = self._resolved[branch.handle]
        if self.merge.strategy == "rebase":
            return self._chain.build("rebase", onto, resolved, said)
        tree = self._chain.tree(resolved) if resolved_onto == onto else self._chain.merged(onto, resolved)
        return self._chain.resolved(self.merge.strategy, onto, branch.head, tree, said)

    def _refuse_moved(self, branch: Branch, tip: str | None) -> None:
        if tip != branch.head:
            where = f"has moved to {tip[:12]}" if tip else "is gone"
            raise ImpossibleError(
                "refused", f"the branch {where} since it was chosen: git parallel review {branch.worker}"
            )

    def _refuse_unmet(self, branch: Branch, onto: str, links: Sequence[Link]) -> None:
        if not branch.depends:
            return
        from git_parallel.integrate import dependencies  # noqa: PLC0415 (only where tasks depend on others)

        taken = [*self.merge.landed, *(link.branch for link in links)]
        if (task := dependencies.unmet(self.repo, branch, taken, onto)) is not None:
            raise ImpossibleError("refused", f"it depends on task {task}, which has not landed")

    def _compared(self, links: Sequence[Link]) -> list[Link]:
        """Find what each link changes; return those before the first that no folding file system could hold."""
        steps = self._chain.compared([link.step for link in links])
        none_clashes = self._chain.without_clashes(steps)
        found: list[Link] = []
        for link, step in zip(links, steps, strict=True):
            if not none_clashes and (clashes := self._chain.clashes(step)):
                error = ImpossibleError("parked", "paths that differ only in case", clashes)
                self._settle_impossible(link.branch, error)
                break
            found.append(replace(link, step=step))
        return found

    def _checked(self, links: Sequence[Link]) -> list[Link]:
        """Run the checks; return the links before the first that is red, which is settled."""
        if not self.merge.checks or not links:
            return list(links)
        good, bad = firstred.search(links, self._check)
        if bad is not None:
            bad.branch.checks, bad.branch.tree = list(bad.checks), bad.step.tree
            self._settle(bad.branch, "red", f"{bad.checks[-1].command}: {outcome(bad.checks[-1])}")
        return good

    def _check(self, link: Link) -> Link:
        if self._checks is None:
            from git_parallel.integrate.checks import Checks  # noqa: PLC0415 (it brings all of the guards along)

            self._checks = Checks(
                self.repo,
                self.merge.checks,
                self.scratch,
                top=self.files.top,
                merge=self.merge.merge,
                timeout=self.merge.timeout,
                again=self._again,
            )
        worker = link.branch.worker
        self.events.append("intent", act="check", worker=worker, tree=link.step.tree)
        found = self._checks.run(
            link.step.commit, link.step.tree, worker, lambda command: self.person.checking(link.branch, command)
        )
        self.events.append("check", worker=worker, results=[[one.command, one.exit_code] for one in found])
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
            if self._hooks is not None:
                self.scratch.show(link.step.onto)
                whole = self._hooks.reword(whole, edited=True)
        except ImpossibleError as error:
            self.person.noted(error.why)
            return link
        return replace(link, step=self._chain.reworded(link.step, whole))

    # moving

    def _advance(self, links: Sequence[Link]) -> None:
        """Move the target to the last of the links, in one step."""
        branches = [link.branch for link in links]
        before = merges.taken_back(self.merge, branches, known_runs=self._runs)
        for link in links:
            branch = link.branch
            branch.settle("landed")
            branch.onto, branch.commit, branch.tree = link.step.onto, link.step.commit, link.step.tree
            branch.checks = list(link.checks)
        if not self.merge.waiting:
            self.merge.state = "ended"
        move = advance.Move(
            target=self.merge.target,
            old=links[0].step.onto,
            new=links[-1].step.commit,
            changed=changes.together(link.step.changed for link in links),
            chains=merges.chains(self.merge, branches, known_runs=self._runs),
            back=before,
        )
        try:
            keep = (self._held.descriptor,)
            places = advance.advance(self.repo, move, self.files, self.events, keep, objects=self.objects)
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
        for place in places:
            for line in hooks.after(self.repo, place.path, self.merge.strategy):
                self.person.noted(line)

    def _stop(self, branch: Branch, onto: str, error: ImpossibleError) -> None:
        """Leave a conflict to the person."""
        from git_parallel.integrate import resolve  # noqa: PLC0415 (only for conflicts)

        self.events.append("intent", act="stop", worker=branch.worker)
        said = message.compose(branch, self.merge.strategy, self.merge.template)
        left = resolve.begin(self.scratch, self.merge.strategy, onto, branch.head, said)
        assert self.scratch.path is not None
        if not left:  # rerere knew them all, and may stage what it knows
            self.person.noted(f"worker {branch.worker}: conflicts resolved as remembered by rerere")
            commit, _ = resolve.finish(self.scratch, self.objects, self.merge.strategy, onto, branch.head)
            self.take(branch, commit, onto)
            return
        branch.files = left
        branch.why = error.why
        self.merge.stop = Stop(handle=branch.handle, worktree=self.scratch.path, onto=onto)
        self.merge.state = "stopped"
        self._save()

    # settling

    def _settle_impossible(self, branch: Branch, error: ImpossibleError) -> None:
        self._settle(branch, error.state, error.why, error.files)

    def _settle(self, branch: Branch, state: State, why: str | None = None, paths: Sequence[str] = ()) -> None:
        branch.settle(state, why, paths)
        self.events.append("settled", worker=branch.worker, state=state, reason=why)
        self._save()
        self.person.told(self.merge, branch)

    def _settle_rest(self, state: State, why: str) -> None:
        for branch in self.merge.waiting:
            self._settle(branch, state, why)

    def _save(self) -> None:
        files.replace(self.files.plan, encode(self.merge))
