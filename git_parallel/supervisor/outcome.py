"""Decides how a worker ended: from git, exit codes and the agent's own word, in that order. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from git_parallel.agents.claim import Claim
from git_parallel.plan.model import CheckResult, Result, Status
from git_parallel.render import text
from git_parallel.supervisor.host import Ending

Said = Literal["done", "failed", "partial", "unknown", "stop_run"]

# Endings that the supervisor brought about itself: status when there is work, status when there is none.
_STOPPED: dict[str, tuple[Status, Status]] = {
    "timeout": ("timeout", "timeout"),
    "idle": ("timeout", "timeout"),
    "run_timeout": ("timeout", "timeout"),
    "budget": ("partial", "failed"),
    "run_budget": ("partial", "failed"),
    "max_steps": ("partial", "failed"),
    "memory": ("partial", "failed"),
    "output": ("partial", "failed"),
    "disk": ("partial", "failed"),
    "interrupted": ("cancelled", "cancelled"),
    "stopped": ("cancelled", "cancelled"),
    "halted": ("cancelled", "cancelled"),
}

_MOST_NAMED = 5  # files in a warning

# The agent's own early ends that leave usable work.
_PARTIAL_REASONS = ("budget", "max_steps", "timeout")


# Why the supervisor leaves workers out that waited for their turn; a worker may also leave itself out.
_LEFT_OUT = ("halted", "run_budget", "run_timeout")


class Evidence(Struct, frozen=True):
    """What is known at a worker's end.

    ``stopped`` is the reason when the supervisor ended it; ``said`` and ``reason`` are the agent's
    claim as its reader understood it, already held against the exit code; ``work`` says that git
    shows changed files; ``checks`` ran on exactly those files; not ``captured``: there may be more than git shows.
    """

    stopped: str | None
    said: Said
    reason: str | None
    work: bool
    allow_empty: bool
    checks: Sequence[CheckResult]
    outside: bool = False
    captured: bool = True


def decide(evidence: Evidence) -> tuple[Status, str]:
    """Return status and reason."""
    work = evidence.work
    if evidence.stopped is not None:
        with_work, without = _STOPPED.get(evidence.stopped, ("cancelled", "cancelled"))
        return (with_work if work else without), evidence.stopped
    reason = evidence.reason or "agent_error"
    if evidence.said == "stop_run":
        return "failed", reason
    if evidence.said == "failed":
        if reason in _PARTIAL_REASONS:
            return _agent_stopped(reason, work)
        return "failed", reason
    if evidence.said == "unknown":
        # `exit 125` says "leave this one out"; any other silence about the result is a fault.
        nothing: Status = "skipped" if reason == "cannot_tell" else "failed"
        return ("partial" if work else nothing), reason
    if evidence.said == "partial":
        return _agent_stopped(reason, work)
    return _done(evidence)


def _agent_stopped(reason: str, work: bool) -> tuple[Status, str]:
    if reason == "timeout":
        return "timeout", reason
    return ("partial" if work else "failed"), reason


def _done(evidence: Evidence) -> tuple[Status, str]:
    if not evidence.captured:
        return ("partial" if evidence.work else "failed"), "not_captured"
    if not evidence.work and not evidence.allow_empty:
        return "failed", "no_changes"
    if any(not check.green for check in evidence.checks):
        return "partial", "check_failed"
    if evidence.outside:
        return "partial", "scope"
    return "success", "done"


def unseen(edited: Sequence[str], changed: Sequence[str], subdir: str = "") -> list[str]:
    """Say which files the agent edited by its own account that git shows unchanged: one warning, or none.

    An edit may have failed, have been taken back, or be of a file that git ignores. ``subdir`` is where the
    agent started, from the top of its worktree.
    """
    shown = set(changed)
    missing = [path for path in edited if not {path, os.path.normpath(os.path.join(subdir, path))} & shown]
    if not missing:
        return []
    more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
    return [f"edits that git does not show: {', '.join(map(text.printable, missing[:_MOST_NAMED]))}{more}"]


def unpriced(claim: Claim, money: str) -> list[str]:
    """Say that a program which reports dollars, so that there was a budget, has reported none for tokens it used."""
    if money != "reported" or claim.cost is not None or not any((claim.tokens or {}).values()):
        return []
    return ["no cost was reported for its tokens, so no budget was enforced"]


def worth_retrying(status: Status, reason: str, work: bool) -> bool:
    """Say whether another attempt may help: never once there is work, and only for passing causes."""
    return status == "failed" and not work and reason in ("signal", "rate_limit", "api_error", "guard_died", "spawn")


def check_result(command: str, ending: Ending | None) -> CheckResult:
    """What a check said: green only when it ended by itself, with 0."""
    if ending is None:
        return CheckResult(command, None, 0.0)
    code = ending.exit_code if ending.signal is None else -ending.signal
    return CheckResult(command, code if ending.ended_by == "exit" else None, ending.duration)


def unfinished(result: Result) -> bool:
    """Whether a worker did not come to an end by itself: those are the ones that `resume` runs again."""
    return result.status == "cancelled" or (result.status == "skipped" and result.reason in _LEFT_OUT)
