"""Repositories for the store's tests: as the program sees them, in both object formats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from git_parallel.git import Repository


@pytest.fixture(params=["sha1", "sha256"])
def both(request, make_repo):
    """A repository with one commit, once in each object format."""
    return make_repo(init=(f"--object-format={request.param}",))


@pytest.fixture
def opened() -> Callable[[Path], Repository]:
    """Return a function that opens a repository as a command started there would."""
    return lambda path: Repository.discover(str(path))


@pytest.fixture
def start_python():
    """Return a function that starts a Python program in a process of its own; all are ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
