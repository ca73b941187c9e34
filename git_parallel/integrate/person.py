"""What a landing shows and asks, whoever the person is: a terminal, ``--yes``, or a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from git_parallel.integrate.chain import Step
from git_parallel.integrate.plan import Branch, Checked, Merge


class Link(Struct, frozen=True):
    """A branch on top of the ones before it, and what its checks said."""

    branch: Branch
    step: Step
    checks: tuple[Checked, ...] = ()

    @property
    def green(self) -> bool:
        return all(one.green for one in self.checks)


class Answer(Struct, frozen=True):
    """What the person said: ``yes``, ``no`` (not this one), ``skip`` (later), ``quit``, or another ``message``."""

    word: str
    message: str | None = None


class Person(Protocol):
    """Who is asked and told. Unattended landings have one that says yes (``cli``)."""

    def asked(self, merge: Merge, link: Link) -> Answer:
        """Show what will land and decide."""

    def asked_together(self, merge: Merge, links: Sequence[Link]) -> Answer:
        """The same for a whole batch: ``yes`` or ``quit``."""

    def told(self, merge: Merge, branch: Branch) -> None:
        """A branch's state was settled."""

    def checking(self, branch: Branch, command: str) -> None:
        """A check begins."""

    def noted(self, line: str) -> None:
        """Anything else worth a line."""


class QuitError(Exception):
    """The person wants no more of it."""


def outcome(check: Checked) -> str:
    """How a check ended, in words."""
    if check.ended_by == "timeout":
        return f"took longer than allowed and was stopped after {check.duration:.0f}s"
    if check.exit_code is None:
        return f"did not end by itself ({check.ended_by})"
    if check.exit_code < 0:
        return f"killed by signal {-check.exit_code}"
    return "green" if check.green else f"exit code {check.exit_code}"
