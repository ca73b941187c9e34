"""Most tests here begin with a run that has ended; where the same recurs, it is not made again (``stage.py``)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from repository import Repo
from stage import Stage


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """The stage of this process."""
    return Stage(tmp_path_factory.mktemp("staged"))


@pytest.fixture
def repo(stage: Stage, tmp_path: Path, make_repo) -> Iterator[Repo]:
    """A repository with one commit, as everywhere; but it lies elsewhere until the test has ended."""
    yield stage.begin(lambda path: shutil.move(make_repo().path, path))
    with suppress(FileNotFoundError):  # the test's doing
        stage.path.rename(tmp_path / "stage")
