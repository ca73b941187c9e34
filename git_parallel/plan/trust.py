"""Which of a repository's own commands the person has approved on this machine.

A cloned repository must not be able to run anything unseen: commands that come from its files run
only once their exact text was approved. The approvals live in the git directory, which no clone copies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_parallel.layout import State


def unapproved(common_dir: str, commands: Sequence[str]) -> list[str]:
    """Return those of ``commands`` whose exact text has not been approved."""
    if not commands:
        return []
    approved = _read(common_dir)
    return [command for command in commands if _digest(command) not in approved]


def approve(common_dir: str, commands: Sequence[str]) -> None:
    """Remember that the person approved these texts. Raises OSError."""
    path = State(common_dir).trusted
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="ascii") as file:
        file.writelines(_digest(command) + "\n" for command in commands)


def _read(common_dir: str) -> set[str]:
    try:
        with open(State(common_dir).trusted, encoding="ascii") as file:
            return set(file.read().split())
    except FileNotFoundError:
        return set()


def _digest(command: str) -> str:
    import hashlib  # noqa: PLC0415 (5 ms, and most repositories bring no commands)

    return hashlib.sha256(os.fsencode(command)).hexdigest()
