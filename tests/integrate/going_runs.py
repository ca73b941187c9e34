"""Runs that go on while a test looks at them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def until(ready: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Poll until ``ready`` says so."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.02)


@contextmanager
def going_run(repo: Any, *tasks: str, states: dict[int, str]) -> Iterator[str]:
    """Start a run of the shell preset; yield its id once its workers are in ``states``; end it afterwards."""
    words = [word for task in tasks for word in ("--task", task)]
    done = repo.parallel("run", "--detach", "--program", "shell", "--workers", str(len(tasks)), *words)
    assert done.returncode == 0, done.stderr
    run = done.stdout.strip()

    def reached() -> bool:
        rows = [line.split("\t") for line in repo.parallel("status", "--porcelain", run).stdout.splitlines()]
        return {int(row[1]): row[2] for row in rows} == states

    try:
        until(reached, f"workers in {states}")
        yield run
    finally:
        repo.parallel("stop", "--now", run)
        repo.parallel("wait", run)
