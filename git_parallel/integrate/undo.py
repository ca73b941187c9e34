"""Take a landing back: the target moves back where nothing came after it, else the landed work is reverted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct

from git_parallel.errors import CONFLICT, ParallelError, RefusedError
from git_parallel.git import Repository
from git_parallel.integrate import advance, changes, hooks, merges
from git_parallel.integrate.chain import Chain, ImpossibleError
from git_parallel.integrate.plan import Branch, Merge, encode
from git_parallel.integrate.scratch import Scratch
from git_parallel.layout import RUNS, MergeFiles, State, run_ref
from git_parallel.store import record, refs
from git_parallel.store.objects import Objects
from git_parallel.store.record import Entry, merge_chain, run_chain
from git_parallel.supervisor import files
from git_parallel.supervisor.journal import Journal


class ConflictError(ParallelError):
    """What came after the landing is in the way of taking it back."""

    exit_code = CONFLICT
    label = "error"


class Undone(Struct, frozen=True):
    """How a landing was taken back: ``reverts`` are the commits made, none where the target moved back to ``now``."""

    merge: Merge
    before: str
    now: str
    reverts: tuple[str, ...]

    @property
    def said(self) -> str:
        target = merges.short(self.merge.target)
        if not self.reverts:
            return f"{target} is back at {self.now[:12]}, where it was before landing {self.merge.merge}"
        return f"landing {self.merge.merge} is reverted on {target}: {' '.join(one[:12] for one in self.reverts)}"

    def document(self) -> dict[str, Any]:
        return {
            "v": 1,
            "merge": self.merge.merge,
            "state": self.merge.state,
            "target": self.merge.target,
            "before": self.before,
            "now": self.now,
            "reverts": list(self.reverts),
        }


def undo(repo: Repository, word: str, template: str) -> Undone:
    """Take the landing that ``word`` names back. ``template`` is ``parallel.worktree``, for hooks.

    Raises RefusedError when a checkout cannot follow or nothing of it is there to be taken back, ConflictError
    when a revert does not merge; in both cases nothing was changed.
    """
    merge = merges.find(repo, word)
    landed = merge.landed
    if merge.state == "undone":
        raise RefusedError(f"landing {merge.merge} is undone already", "nothing was changed")
    if merge.state in ("going", "stopped"):
        raise RefusedError(f"landing {merge.merge} is not complete", "end it first: git parallel merge --abort")
    if not landed:
        raise RefusedError(f"nothing landed in {merge.merge}", "nothing was changed")
    place = State(repo.common_dir).merge(merge.merge)
    os.makedirs(place.top, exist_ok=True)
    held = merges.claim(place)
    try:
        if not os.path.exists(place.plan):
            files.replace(place.plan, encode(merge), durable=True)
        for _ in advance.settle(repo, place):
            pass
        done = _undo(repo, merge, place, held.descriptor, template)
    except advance.BetweenError:
        os.close(held.descriptor)  # the file stays, by which it is found
        raise
    except BaseException:
        held.release()
        raise
    held.release()
    return done


def _undo(repo: Repository, merge: Merge, place: MergeFiles, lock: int, template: str) -> Undone:
    landed = merge.landed
    tip = refs.read(repo, merge.target).get(merge.target)
    if tip is None:
        raise RefusedError(f"the target {merges.short(merge.target)} is gone", "nothing was changed")
    scratch = Scratch(repo, merge.merge, template)
    events = Journal(place.journal)
    with Objects(repo) as objects:
        try:
            if tip == landed[-1].commit and _in_one_go(landed):
                new, reverts = str(landed[0].onto), []
            else:
                reverts = _reverts(_chain(repo, objects, scratch, place, merge), landed, tip)
                new = reverts[-1]
            before = _entries(repo, merge, f"not undone: {merges.short(merge.target)} could not follow", "undo-failed")
            merge.state, merge.undone = "undone", new
            how = f"undo: {merges.short(merge.target)} {'reverted' if reverts else 'moved back'} to {new[:12]}"
            move = advance.Move(
                target=merge.target,
                old=tip,
                new=new,
                changed=changes.between(repo, tip, new),
                chains=_entries(repo, merge, how, "landing-undone", keep=(tip, new)),
                back=before,
            )
            advance.advance(repo, move, place, events, (lock,))
            files.replace(place.plan, encode(merge))
        finally:
            scratch.remove()
            events.close()
    return Undone(merge, tip, new, tuple(reverts))


def _in_one_go(landed: Sequence[Branch]) -> bool:
    """Whether nobody else moved the target between the branches."""
    return all(later.onto == earlier.commit for earlier, later in pairwise(landed))


def _chain(repo: Repository, objects: Objects, scratch: Scratch, place: MergeFiles, merge: Merge) -> Chain:
    present = hooks.present(repo, "squash") if merge.verify else None
    own = hooks.Hooks(scratch, "squash", present) if present and present.names else None
    return Chain(repo, objects, place.top, sign=hooks.signs(repo), hooks=own)


def _reverts(chain: Chain, landed: Sequence[Branch], tip: str) -> list[str]:
    """Commits that take the branches back, the last one landed first. Raises ConflictError."""
    at, made = tip, []
    for branch in reversed(landed):
        assert branch.commit is not None
        assert branch.onto is not None
        if not chain.repo.common.succeeds("merge-base", "--is-ancestor", branch.commit, tip):
            raise RefusedError(
                f"worker {branch.worker} landed as {branch.commit[:12]}, which the target does not contain any more",
                "nothing was changed",
            )
        try:
            tree = chain.picked(at, chain.tree(branch.commit), chain.tree(at), chain.tree(branch.onto))
            step = chain.resolved("squash", at, branch.commit, tree, _message(chain, branch))
        except ImpossibleError as error:
            if error.state == "skipped":
                continue  # somebody has taken it back already
            raise ConflictError(
                f"worker {branch.worker} cannot be reverted: {error.why}",
                *error.files[:10],
                f"nothing was changed; revert it by hand: git revert {branch.commit[:12]}",
            ) from None
        at = step.commit
        made.append(at)
    if not made:
        raise RefusedError("all of it has been reverted already", "nothing was changed")
    return made


def _message(chain: Chain, branch: Branch) -> str:
    assert branch.commit is not None
    _, parents, message = chain.objects.read_commit(branch.commit)
    subject = message.partition("\n")[0]
    if len(parents) > 1:
        return f'Revert "{subject}"\n\nThis reverts commit {branch.commit}, reversing\nchanges made to {branch.onto}.\n'
    if parents == [branch.onto]:
        return f'Revert "{subject}"\n\nThis reverts commit {branch.commit}.\n'
    return f'Revert "{subject}"\n\nThis reverts the commits {branch.onto}..{branch.commit}.\n'


def _entries(
    repo: Repository, merge: Merge, subject: str, event: str, *, keep: Sequence[str] = ()
) -> list[record.Chain]:
    """What the landing's record and those of its runs say of an undo."""
    told = {
        str(branch.commit): f"Undone: {merge.merge} by {merge.person}\n"
        for branch in merge.landed
        if event == "landing-undone"
    }
    found = [merge_chain(merge.merge, [merges.entry(merge, subject, event, parents=keep, notes=told)])]
    runs = {run_ref(branch.run) for branch in merge.landed}
    for ref in refs.read(repo, *runs):
        run = ref.removeprefix(RUNS)
        workers = ", ".join(str(branch.worker) for branch in merge.landed if branch.run == run)
        trailers = [("Architect-Event", event), ("Architect-Merge", merge.merge)]
        found.append(run_chain(run, [Entry(changes={}, subject=f"worker {workers}: {subject}", trailers=trailers)]))
    return found
