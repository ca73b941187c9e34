"""Processes that nobody guards any more and that carry no mark: known only by where they work.

Needed when supervisor, zygote and guard were all killed: an agent's process that had cut itself loose
and cleared its environment is then a child of the system's first process, with its current directory in
the worker's worktree. A person's own processes there have a terminal, or a parent that is theirs.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import psutil

_PAUSE = 0.02
_REAPERS = ("init", "systemd", "launchd")


def end(worktrees: Sequence[str], limit: float) -> list[int]:
    """Kill orphans that work below ``worktrees`` until there are none; return those left after ``limit`` seconds."""
    deadline = time.monotonic() + limit
    while found := orphans(worktrees):
        for process in found:
            try:
                process.kill()
            except psutil.Error:
                continue
        if time.monotonic() >= deadline:
            return [process.pid for process in found]
        time.sleep(_PAUSE)
    return []


def orphans(worktrees: Sequence[str]) -> list[psutil.Process]:
    """Processes below ``worktrees`` without a terminal whose parent is gone."""
    tops = [os.path.realpath(top) for top in worktrees]
    return [process for process in psutil.process_iter() if _is_orphan(process, tops)]


def git_at_work(tops: Sequence[str]) -> bool:
    """Whether a git command works below ``tops``, by its directory or words; none of ours, and none above us."""
    real = [os.path.realpath(top) for top in tops]
    above = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    for process in psutil.process_iter():
        try:
            if process.pid in above or process.ppid() == os.getpid() or not process.name().startswith("git"):
                continue
            words = " ".join(process.cmdline())
            if _below(process.cwd(), real) or any(top in words for top in real):
                return True
        except psutil.Error:
            continue
    return False


def _is_orphan(process: psutil.Process, tops: Sequence[str]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE or not _below(process.cwd(), tops):
            return False
        if process.terminal() is not None:
            return False
        parent = process.parent()
        return parent is None or parent.pid == 1 or parent.name() in _REAPERS or _is_orphan(parent, tops)
    except psutil.Error:
        return False


def _below(directory: str, tops: Sequence[str]) -> bool:
    directory = directory.removesuffix(" (deleted)")
    return any(directory == top or directory.startswith(top + os.sep) for top in tops)
