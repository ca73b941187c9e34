"""Worlds for the real programs: each test has its own home, repository and model."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from installed_programs import InstallError
from real_programs import PROGRAMS, World, world
from scripted_model import Model


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as server:
        yield server


@pytest.fixture
def make_world(model: Model) -> Iterator[Callable[..., World]]:
    """Return a function that makes a world in which these programs are installed; the test fails where one is not."""
    # Not below /dev/shm, nor below /tmp: Codex hides the one from the commands it runs, and lets them write the other.
    path = Path(tempfile.mkdtemp(prefix="git-parallel-real-", dir="/var/tmp"))

    def make(*names: str) -> World:
        try:
            return world(path, model.url, [PROGRAMS[name] for name in names])
        except InstallError as error:
            pytest.fail(str(error))

    yield make
    shutil.rmtree(path, ignore_errors=True)
