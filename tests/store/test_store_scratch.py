"""Temporary indexes: gone after use, and swept when their command was killed."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.store import scratch


@pytest.fixture
def here(repo) -> Repository:
    return Repository.discover(str(repo.path))


def left(here: Repository) -> list[str]:
    return sorted(os.listdir(State(here.common_dir).top))


def test_nothing_is_left_of_one_that_was_used(repo, here):
    with scratch.index(here, "restore") as index:
        repo.git("read-tree", f"--index-output={index}", "HEAD")
        assert left(here) == [f"restore.{os.getpid()}.index"]
        open(f"{index}.lock", "w").close()
    assert left(here) == []


def test_what_killed_commands_left_is_swept_by_a_later_one(here):
    with subprocess.Popen(["true"]) as dead:
        pass
    top = State(here.common_dir).top
    os.makedirs(top)
    names = {
        "dead": f"cleanup-3.{dead.pid}.index",
        "its lock": f"cleanup-3.{dead.pid}.index.lock",
        "young": f"restore.{dead.pid}.index",
        "living": f"with-changes.{os.getppid()}.index",
        "other": "lock",
    }
    for what, name in names.items():
        with open(os.path.join(top, name), "w"):
            pass
        if what != "young":
            os.utime(os.path.join(top, name), (time.time() - 7200,) * 2)
    with scratch.index(here, "restore"):
        pass
    assert left(here) == sorted([names["young"], names["living"], names["other"]])
