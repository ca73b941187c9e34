"""What is to land, decided once: heads, verdicts, order and commands (DESIGN section 9, step 1).

The data of a landing and the pure functions that make it. A verdict counts only for the exact head that
it was given for; afterwards nothing here is read again, so that no command and no head slips in later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from git_parallel.integrate.verdicts import Verdict, current
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import branch_name
from git_parallel.plan import model

Strategy = Literal["merge", "squash", "rebase", "ff"]
State = Literal["waiting", "landed", "parked", "red", "skipped", "refused"]
Standing = Literal["going", "stopped", "ended", "aborted", "undone"]


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check: a command line for ``sh``, and the directory below the top that it runs in ("" is the top)."""

    text: str
    subdir: str = ""


class Checked(msgspec.Struct, frozen=True, omit_defaults=True):
    """A check that ran on an integrated tree.

    ``exit_code`` is negative for a signal, None when it did not end by itself (``ended_by`` says how);
    ``duration`` in seconds; ``log`` is the path of its output; ``cached``: it ran earlier, on the same tree.
    """

    command: str
    exit_code: int | None
    duration: float
    log: str
    ended_by: str = "exit"
    cached: bool = False

    @property
    def green(self) -> bool:
        return self.exit_code == 0


class Branch(msgspec.Struct, kw_only=True):
    """One branch on its way to the target. ``head`` is the commit that was approved.

    ``verdict`` is the one that stands for exactly this head, given by ``by`` at ``at``, or None; ``no-review`` where
    landing without one was asked for. ``depends`` are the ids of tasks of the same run that must have landed before.
    ``onto`` and ``commit`` are the target before and after it landed. ``why`` explains every state but ``waiting`` and
    ``landed``; ``files`` are the paths of a conflict or in the way. ``resolution`` is the commit with what a person
    made of its conflicts, which the landing's record keeps.
    """

    run: str
    worker: int
    branch: str
    head: str
    base: str
    task: str
    title: str
    body: str = ""
    agent: str = ""
    model: str | None = None
    cost: float | None = None
    status: str | None = None
    depends: tuple[str, ...] = ()
    verdict: Literal["approved", "rejected", "changes", "no-review"] | None = None
    by: str | None = None
    at: str | None = None
    message: str | None = None
    state: State = "waiting"
    why: str | None = None
    files: list[str] = []
    onto: str | None = None
    commit: str | None = None
    tree: str | None = None
    checks: list[Checked] = []
    resolution: str | None = None

    @property
    def handle(self) -> str:
        return f"{self.run}/{self.worker}"

    def settle(self, state: State, why: str | None = None, files: Sequence[str] = ()) -> None:
        """Say what became of it."""
        self.state, self.why, self.files = state, why, list(files)


class Stop(msgspec.Struct, kw_only=True):
    """A conflict that waits for the person: the branch's handle, the worktree to resolve it in, and the target then."""

    handle: str
    worktree: str
    onto: str


class Merge(msgspec.Struct, kw_only=True):
    """A landing. ``start`` is the target's commit when it began, ``target`` a full ref name.

    ``timeout`` in seconds limits each check; ``review`` is False where landing without a verdict was asked for;
    ``terminal``: whether whoever asked for it sat at one, None where nobody said so.
    """

    v: int = 1
    merge: str
    created: str
    person: str
    argv: tuple[str, ...]
    target: str
    start: str
    strategy: Strategy
    template: str | None = None
    checks: tuple[Command, ...] = ()
    timeout: float | None = None
    batch: bool = False
    yes: bool = False
    terminal: bool | None = None
    review: bool = True
    verify: bool = True
    on_conflict: Literal["park", "stop"] = "park"
    state: Standing = "going"
    stop: Stop | None = None
    branches: list[Branch] = []
    undone: str | None = None

    @property
    def waiting(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.state == "waiting"]

    @property
    def landed(self) -> list[Branch]:
        return [branch for branch in self.branches if branch.state == "landed"]

    def branch(self, handle: str) -> Branch:
        """Return the branch of this worker."""
        return next(branch for branch in self.branches if branch.handle == handle)


def encode(merge: Merge) -> bytes:
    """Encode ``merge.json``."""
    return model.encode(merge) + b"\n"


def decode(data: bytes) -> Merge:
    """Decode ``merge.json``. Raises msgspec.MsgspecError."""
    return model.decode(data, Merge)


def select(
    candidates: Iterable[Candidate],
    verdicts: Mapping[str, Mapping[int, Sequence[Verdict]]],
    *,
    review: bool,
    named: Collection[str] = (),
) -> list[Branch]:
    """Decide for each worker whether it may land; those that may are ``waiting``.

    ``verdicts`` has those of each run by worker. ``review`` False takes workers without a verdict too.
    ``named`` are the handles of workers that the person named one by one: of these, what may not land is
    ``refused`` and not just passed over.
    """
    branches = []
    for one in candidates:
        given = verdicts.get(one.run, {}).get(one.worker, ())
        branch = _branch(one)
        _judge(branch, one, given, review=review, named=one.handle in named)
        branches.append(branch)
    return branches


def _branch(one: Candidate) -> Branch:
    result, task = one.result, one.task
    first, _, rest = task.prompt.strip().partition("\n")
    return Branch(
        run=one.run,
        worker=one.worker,
        branch=one.branch,
        head=one.tip or "",
        base=one.base,
        task=task.id,
        title=task.title,
        body=rest.strip() if first.strip() == task.title else "",
        agent=one.spec.program,
        model=(result.model if result else None) or one.job.model,
        cost=result.cost if result else None,
        status=result.status if result else None,
        depends=task.depends,
    )


def _judge(branch: Branch, one: Candidate, given: Sequence[Verdict], *, review: bool, named: bool) -> None:
    verdict = current(given, one.tip)
    passed: State = "refused" if named else "skipped"
    review_it = f"git parallel review {one.worker}"
    if one.tip is None:
        branch.settle(passed, one.gone if one.successor is None else f"{one.gone}; its work: {one.back}")
    elif not one.ended:
        branch.settle(passed, f"it has not ended: {one.state}")
    elif one.tip == one.base and (verdict is None or verdict.verdict == "approved"):
        branch.settle("skipped", "no changes: the branch has no commit of its own")
    elif verdict is not None and verdict.verdict == "approved":
        branch.verdict, branch.by, branch.at = "approved", verdict.by, verdict.at
    elif verdict is not None:
        branch.verdict, branch.by, branch.at = verdict.verdict, verdict.by, verdict.at
        word = "rejected" if verdict.verdict == "rejected" else "sent back"
        branch.settle(passed, f"{word} by {verdict.by}")
    elif not review:
        branch.verdict = "no-review"
    elif any(earlier.verdict == "approved" for earlier in given):
        # It counted once: whoever gave it must hear that it does not count any more, named or not.
        last = next(earlier for earlier in reversed(given) if earlier.verdict == "approved")
        branch.settle(
            "refused",
            f"approved at {last.head[:12]}, but the branch has moved to {one.tip[:12]} since: {review_it}",
        )
    else:
        branch.settle(passed, f"not reviewed: {review_it}")


def ordered(branches: Sequence[Branch]) -> list[Branch]:
    """Return the branches so that each comes after those it depends on, and otherwise as they were given.

    A cycle, which no plan should have, is taken apart at its first branch.
    """
    done: list[Branch] = []
    rest = list(branches)
    while rest:
        ahead = {(branch.run, branch.task) for branch in rest}
        ready = (
            branch
            for branch in rest
            if not any((branch.run, task) in ahead for task in branch.depends if task != branch.task)
        )
        chosen = next(ready, rest[0])
        rest.remove(chosen)
        done.append(chosen)
    return done


def commands(specs: Iterable[tuple[Sequence[str], str]], configured: Sequence[str], subdir: str) -> tuple[Command, ...]:
    """Return the checks of a landing, each once: those of the runs (with their subdirectories), then the configured."""
    found = [Command(text, inside) for texts, inside in specs for text in texts]
    found += [Command(text, subdir) for text in configured if text not in {command.text for command in found}]
    return tuple(dict.fromkeys(found))


def exit_code(merge: Merge) -> int:
    """The exit code of a landing: the gravest of what happened (DESIGN section 3)."""
    codes = {"landed": 0, "skipped": 0, "waiting": 0, "parked": 3, "red": 4, "refused": 5}
    stopped = 3 if merge.state == "stopped" else 0
    return max([stopped, *(codes[branch.state] for branch in merge.branches)])


def document(merge: Merge) -> dict[str, Any]:
    """The JSON that ``merge`` prints."""
    return {
        "v": 1,
        "merge": merge.merge,
        "state": merge.state,
        "target": merge.target,
        "strategy": merge.strategy,
        "start": merge.start,
        "branches": [_document(branch) for branch in merge.branches],
    }


def _document(branch: Branch) -> dict[str, Any]:
    red = next((check for check in branch.checks if not check.green), None)
    return {
        "run": branch.run,
        "worker": branch.worker,
        "branch": branch_name(branch.branch),
        "head": branch.head or None,
        "verdict": branch.verdict,
        "state": branch.state,
        "why": branch.why,
        "files": branch.files,
        "commit": branch.commit if branch.state == "landed" else None,
        "tree": branch.tree,
        "resolution": branch.resolution,
        "check": red.command if red else None,
        "log": red.log if red else None,
        "checks": [msgspec.to_builtins(check) for check in branch.checks],
    }
