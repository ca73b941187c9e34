"""Further rounds of a run's workers: ``retry`` after a review or a failure, ``resume`` after a crash.

A round is a new attempt of the same worker, on its own branch and in its own worktree. The run's record
goes on: what an earlier attempt came to is kept beside the new one's as ``workers/<n>/attempts/<k>/``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from git_parallel.agents import launch
from git_parallel.agents import preset as presets
from git_parallel.errors import RefusedError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts
from git_parallel.integrate.verdicts import Comment, Verdict
from git_parallel.layout import State
from git_parallel.plan.model import Result
from git_parallel.render import text
from git_parallel.store.objects import batch
from git_parallel.supervisor import feedback, onward, recover, standing
from git_parallel.supervisor.onward import Again, Ended, Order
from git_parallel.supervisor.outcome import unfinished
from git_parallel.supervisor.standing import Site

_FAILED = ("failed", "partial", "timeout")

_STAT = ("diff", "--stat=100", "--stat-count=60", "--no-color", "--no-ext-diff", "--no-textconv")


# --- what is to go on -------------------------------------------------------------------------------


def retry(
    repo: Repository,
    run: str,
    worker: int,
    *,
    message: str | None = None,
    limits: Mapping[str, float | None] | None = None,
) -> str:
    """Send one worker back in the background: with its review's words, ``message``, or its task again.

    Returns the run's id once it is up. Raises RefusedError, UsageError or ParallelError; nothing is started then.
    """
    from git_parallel.supervisor import detached  # noqa: PLC0415 (imports the loop, which planning does not need)

    return detached.detached(retrying(repo, run, [worker], message=message, limits=limits))


def retrying(
    repo: Repository,
    run: str,
    numbers: Sequence[int],
    *,
    message: str | None = None,
    limits: Mapping[str, float | None] | None = None,
    terminal: str | None = None,
    anew: bool = False,
) -> Again:
    """Plan another round of workers that have ended. Raises when one of them cannot or should not go on.

    ``anew``: they begin a new conversation with their program.
    ``limits`` are those that differ from the run's; ``terminal``: ``tmux`` or ``none`` (None: as the run has it).
    """
    state = _ended(repo, run)
    _check(state, numbers)
    given = verdicts.of_record(state.recorded)
    orders = []
    for site in _sites(repo, run, numbers, "retry"):
        worker = site.remains.worker
        tip = site.remains.tip or state.results[worker].head
        verdict = verdicts.current(given.get(worker, []), tip)
        order = _retry(repo, state, state.results[worker], tip, verdict=verdict, message=message)
        orders.append(msgspec.structs.replace(order, anew=anew))
    return _again(repo, state, orders, limits, terminal)


def resuming(
    repo: Repository,
    run: str,
    numbers: Sequence[int] = (),
    *,
    failed: bool = False,
    limits: Mapping[str, float | None] | None = None,
    terminal: str | None = None,
) -> Again | None:
    """Plan another round of the workers (of ``numbers``, else of all) that did not end by themselves.

    ``failed``: also of those that ended without success. None when there is no such worker.
    """
    state = _ended(repo, run)
    _check(state, numbers)
    results = [state.results[number] for number in numbers or sorted(state.results)]
    orders = [_repeat(repo, state, one) for one in results if unfinished(one) or (failed and one.status in _FAILED)]
    if not orders:
        return None
    _sites(repo, run, [order.worker for order in orders], "resume --failed" if failed else "resume")
    return _again(repo, state, orders, limits, terminal)


def _sites(repo: Repository, run: str, numbers: Sequence[int], command: str) -> list[Site]:
    """Where the workers go on. Raises RefusedError for the first that cannot; its hints name those that can."""
    try:
        return standing.sites(repo, run, numbers)
    except RefusedError as error:
        able = [f"{run}/{number}" for number in numbers if standing.can_go_on(repo, run, number)]
        if not able:
            raise
        others = f"nothing was moved or started; those that can go on: git parallel {command} {' '.join(able)}"
        raise RefusedError(error.message, *error.hints, others) from error


def _ended(repo: Repository, run: str) -> Ended:
    """Read a run that has ended, or has been finished now in the place of a supervisor that died."""
    run_files = State(repo.common_dir).run(run)
    if os.path.exists(run_files.supervisor) and recover.recover(repo, run) is None:
        raise onward.goes_on(run)
    return onward.read(repo, run)


def _check(state: Ended, numbers: Sequence[int]) -> None:
    """Raise for a number that the run does not have, or that has no result."""
    known = [job.worker for job in state.spec.jobs]
    for number in numbers:
        if number not in known:
            raise UsageError(f"run {state.spec.run} has no worker {number}", f"it has {', '.join(map(str, known))}")
        if number not in state.results:
            raise RefusedError(f"worker {number} has not ended", f"see: git parallel status {state.spec.run}")


def _again(
    repo: Repository,
    state: Ended,
    orders: Sequence[Order],
    limits: Mapping[str, float | None] | None,
    terminal: str | None,
) -> Again:
    """Check what can be checked before anything is changed."""
    where = state.spec.terminal if terminal is None else "tmux" if terminal == "tmux" else None
    for order in orders:
        launch.check_task(presets.settled(state.preset, where), order.prompt)
    given = msgspec.structs.replace(state.spec.limits, **(limits or {}))
    spent = sum(result.cost or 0.0 for result in state.results.values())
    if given.budget is not None and spent >= given.budget:
        raise UsageError(
            f"the run's budget is spent: {text.money(spent)} of {text.money(given.budget)}",
            "give it more in all with: --budget USD",
        )
    if where is not None:
        from git_parallel.supervisor import tmux  # noqa: PLC0415 (few runs have one)

        tmux.find()
    return Again(repo, state.spec.run, tuple(orders), given, where)


# --- what it is told --------------------------------------------------------------------------------


def _retry(
    repo: Repository, state: Ended, result: Result, tip: str | None, *, verdict: Verdict | None, message: str | None
) -> Order:
    worker, speaks = result.worker_id, feedback.speaks(verdict)
    if message is None and not speaks:
        if result.status == "success" or verdict is not None:
            how = text.ending(result.status, result.reason)
            raise UsageError(
                f"worker {worker} ended with {how}, and no review says what to change",
                "say it with -m TEXT or -F FILE, or: git parallel review",
            )
        return _repeat(repo, state, result)
    reason = feedback.reason(verdict) if verdict is not None and speaks else "more to do"
    if feedback.takes_commands(state.preset):
        if message is None:
            raise UsageError(
                f"the task of worker {worker} is a command line, and a review is none",
                "give the command that makes the changes with -m TEXT or -F FILE",
            )
        return Order(worker, message, reason, result, more=True)
    task = state.spec.task(result.task).prompt
    quotes = _quotes(repo, verdict, result.base, tip) if verdict is not None else {}
    prompt = feedback.asked(task, verdict, quotes, message, _stat(repo, result.base, tip))
    return Order(worker, prompt, reason, result, more=True)


def _repeat(repo: Repository, state: Ended, result: Result) -> Order:
    """The worker's last task once more."""
    worker = result.worker_id
    told = state.recorded.file(f"workers/{worker}/prompt.txt")
    prompt = os.fsdecode(told) if told is not None else state.spec.task(result.task).prompt
    if not feedback.takes_commands(state.preset) and result.head is not None:
        prompt = feedback.repeated(prompt, result, _stat(repo, result.base, result.head))
    return Order(worker, prompt, text.ending(result.status, result.reason), result)


def _stat(repo: Repository, base: str, tip: str | None) -> str:
    """What a branch changes, as `git diff --stat`; empty for nothing."""
    if tip is None or tip == base:
        return ""
    return repo.common.run(*_STAT, f"{base}...{tip}", "--", ok=(0, 128)).text


def _quotes(repo: Repository, verdict: Verdict, base: str, tip: str | None) -> dict[Comment, str]:
    """The lines that a verdict's comments are about."""
    about = feedback.numbered(verdict.comments)
    sides = {"old": base, "new": tip or verdict.head, None: tip or verdict.head}
    found = batch(repo, [f"{sides[comment.side]}:{path}" for comment, path, _ in about])
    quotes = {}
    for (comment, _, number), blob in zip(about, found, strict=True):
        lines = os.fsdecode(blob.data).split("\n") if blob is not None and blob.kind == "blob" else []
        if 1 <= number <= len(lines):
            quotes[comment] = lines[number - 1].rstrip("\r")
    return quotes
