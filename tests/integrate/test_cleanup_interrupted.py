"""cleanup and restore may be killed anywhere: the next cleanup finishes, and nothing is lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ended_runs import cleanup, ended_run, only, ref


def killed_everywhere(repo, expected: dict[str, list[str]], first: list[str], then: list[str]) -> dict[str, list[str]]:
    """Kill ``first`` before each kind of its changes, and run ``then``; return by kind what was missing or left."""
    backup = repo.path.parent / "backup"
    shutil.copytree(repo.path, backup, symlinks=True)
    arguments = [str(repo.path), str(backup), *map(json.dumps, (expected, first, then))]
    script = Path(__file__).with_name("killed.py")
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def messy(worker) -> tuple[list[str], list[str]]:
    """Leave work of every kind in a worktree; return contents and commits that must not be lost."""
    amended = worker.commit("first thought", "thought.txt", "first thought\n")
    worker.write("thought.txt", "second thought\n")
    worker.git("commit", "-q", "-a", "--amend", "-m", "second thought")
    worker.write("README", "staged\n")
    worker.git("add", "README")
    worker.write("README", "changed after staging\n")
    worker.write("new/untracked.txt", "untracked\n")
    worker.write("secret.env", "ignored\n")
    contents = [
        "first thought\n",
        "second thought\n",
        "staged\n",
        "changed after staging\n",
        "untracked\n",
        "ignored\n",
    ]
    return contents, [amended, worker.git("rev-parse", "HEAD")]


def test_a_cleanup_killed_anywhere_is_finished_by_the_next(repo) -> None:
    (repo.path / ".git/info/exclude").open("a").write("*.env\n")
    worker = ended_run(repo)[0]
    contents, commits = messy(worker)
    expected = {
        "contents": contents,
        "commits": [*commits, worker.head],
        "gone": [str(worker.path)],
        "gone_refs": [f"refs/heads/{worker.branch}"],
        "refs": [f"{worker.git('rev-parse', 'HEAD')} commit\t{worker.kept}"],
    }
    found = killed_everywhere(repo, expected, ["cleanup"], ["cleanup"])
    assert {kind: problems for kind, problems in found.items() if problems} == {}
    assert len(found) > 20


def test_a_restore_killed_anywhere_leaves_all_of_it_to_restore(repo) -> None:
    (repo.path / ".git/info/exclude").open("a").write("*.env\n")
    worker = ended_run(repo)[0]
    contents, commits = messy(worker)
    tip = worker.git("rev-parse", "HEAD")
    cleanup(repo)
    expected = {
        "contents": contents,
        "commits": commits,
        "gone": [str(worker.path)],
        "gone_refs": [f"refs/heads/{worker.branch}"],
        "refs": [f"{tip} commit\t{worker.kept}"],
    }
    found = killed_everywhere(repo, expected, ["restore", worker.handle, "--worktree"], ["cleanup"])
    assert {kind: problems for kind, problems in found.items() if problems} == {}
    assert len(found) > 20


# Where a cleanup is killed: before the entry goes, with the directory moved; before the record is written.
BEFORE_THE_ENTRY_GOES = "from git_parallel.worktrees import removal as module; name = 'forget'"
BEFORE_THE_RECORD = "from git_parallel.store import record as module; name = 'write_many'"


@pytest.mark.parametrize("leave", ["staged and more", "untracked alone"])
@pytest.mark.parametrize("place", [BEFORE_THE_ENTRY_GOES, BEFORE_THE_RECORD])
def test_after_the_interruption_the_snapshot_is_still_the_workers_state(repo, leave, place) -> None:
    worker = ended_run(repo)[0]
    if leave == "staged and more":
        messy(worker)
    else:
        worker.write("new/untracked.txt", "untracked\n")
    status = worker.git("status", "--porcelain")
    script = (
        f"import os, signal\nfrom git_parallel import cli\n{place}\n"
        "assert hasattr(module, name)\n"
        "setattr(module, name, lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL))\n"
        "cli.run(['cleanup'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=repo.path, check=False, capture_output=True)
    assert done.returncode == -9, done.stderr
    assert not worker.path.exists()
    assert ref(repo, worker.branch) is not None
    snapshot = ref(repo, worker.wip)
    outcome = only(cleanup(repo))
    assert outcome["snapshot"] == snapshot
    assert ref(repo, worker.branch) is None
    assert repo.parallel("restore", worker.handle, "--worktree").returncode == 0
    assert worker.git("status", "--porcelain") == status
