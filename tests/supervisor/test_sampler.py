"""What workers use is read for each whole process tree, and each worker's files are counted in its turn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from git_parallel.errors import GitError
from git_parallel.supervisor import sampler
from git_parallel.supervisor.sampler import Sampler

CHILD = "x = bytes(range(256)) * 200_000; sum(x); print('up', flush=True); input()"
TREE = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE)
input()
child.stdin.close()
child.wait()
"""


@pytest.mark.parametrize("read", [sampler._from_proc, sampler._from_psutil])
def test_a_tree_is_added_up_without_its_guard(read) -> None:
    with subprocess.Popen([sys.executable, "-c", TREE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        assert root.stdin is not None
        root.stdout.readline()
        found = read({7: root.pid, 8: os.getpid()})
        root.stdin.close()
    assert len(found[7].processes) == 1
    assert 51e6 < found[7].rss < 100e6
    assert found[7].cpu > 0.1
    assert {root.pid, *found[7].processes} <= found[8].processes
    assert found[8].rss > found[7].rss


def test_of_those_that_did_something_the_one_looked_at_longest_ago_is_next(monkeypatch) -> None:
    asked: list[str] = []

    class Git:
        def __init__(self, path: str) -> None:
            self.path = path

        def run(self, command: str, *_: str) -> SimpleNamespace:
            if command == "diff":
                asked.append(self.path)
            if self.path == "broken":
                raise GitError(["git"], 128, b"")
            return SimpleNamespace(fields=["a"])

    def worker(number: int, path: str, running: float | None = 1.0) -> SimpleNamespace:
        return SimpleNamespace(job=SimpleNamespace(worker=number, worktree=path), stirred=True, stirred_at=running)

    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    context = SimpleNamespace(repo=SimpleNamespace(at=Git), spec=SimpleNamespace(base="b"))
    one, broken, idle, unborn = worker(1, "one"), worker(2, "broken"), worker(3, "idle"), worker(4, "unborn", None)
    idle.stirred = False
    looks = Sampler()
    counts = []
    for _ in range(4):
        counts.append(looks.changed_files(context, [one, broken, idle, unborn]))  # type: ignore[arg-type]
        clock[0] += 0.1
        assert looks.changed_files(context, [one, broken]) == {}  # type: ignore[arg-type]
        one.stirred = broken.stirred = True
        clock[0] += 1
    assert asked == ["one", "broken", "one", "broken"]
    assert counts == [{1: 2}, {}, {1: 2}, {}]
