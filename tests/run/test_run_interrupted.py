"""A Ctrl-C reaches every process at the terminal; what git is doing for the run at that moment is done all the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import at_terminal
import pytest

# No shell script: some shells let through every signal that was held back from them.
GIT = """#!{python} -SE
import os, sys, time
words = " ".join(["", *sys.argv[1:], ""])
if {at!r} == " the record " and " update-ref " in words:
    wait = 'if [ $N = 2 ]; then mkdir "{here}/reached"; until [ -e "{here}/go" ]; do sleep 0.02; done; fi'
    os.execv(sys.executable, [sys.executable, {transactions!r}, {git!r}, wait, *sys.argv[1:]])
if {at!r} in words:
    try:
        os.mkdir("{here}/reached")
        while not os.path.exists("{here}/go"):
            time.sleep(0.02)
    except FileExistsError:
        pass
os.execv({git!r}, ["git", *sys.argv[1:]])
"""


def until(true, what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not in {seconds} s: {what}"
        time.sleep(0.02)


@pytest.fixture
def slow_git(tmp_path):
    """Return a function that makes a git which waits at one of its calls; it gives PATH."""

    def make(at: str) -> dict[str, str]:
        here = tmp_path / "slow"
        here.mkdir()
        used = {"git": shutil.which("git"), "transactions": str(Path(__file__).with_name("transactions_of_git.py"))}
        (here / "git").write_text(GIT.format(python=sys.executable, at=at, here=here, **used))
        (here / "git").chmod(0o755)
        return {"PATH": f"{here}:{os.environ['PATH']}"}

    return make


def ended(repo) -> dict:
    """What the one worker came to; the run's record must be complete."""
    refs = "refs/architect/runs"
    state = repo.git("for-each-ref", "--format=%(contents:trailers:key=Architect-State,valueonly)", refs)
    assert state.strip() == "ended"
    (worker,) = json.loads(repo.parallel("show", "--json").stdout)["workers"]
    return {name: worker[name] for name in ("status", "reason", "files_modified")}


DONE = {"status": "success", "reason": "done", "files_modified": ["new"]}
CAPTURE = " add -A "
TREE = " write-tree"
RECORD = " the record "  # in the second transaction: the first has begun it


@pytest.mark.parametrize("at", [CAPTURE, TREE, RECORD])
def test_ctrl_c_while_git_works_for_the_run(repo, tmp_path, slow_git, at):
    repo.git("config", "index.version", "4" if at == TREE else "2")  # the tree of another than 2 is left to git
    arguments = ("run", "--program", "shell", "--task", "echo work > new")
    with at_terminal.parallel(*arguments, cwd=repo.path, env=slow_git(at)) as person:
        until((tmp_path / "slow/reached").exists, f"git is at{at}")
        person.type("\x03")
        person.wait("stopping: workers get time to end")
        (tmp_path / "slow/go").touch()
        assert person.end() == 130
    assert ended(repo) == DONE
    assert repo.git("show", "architect/parallel-1:new") == "work"


LOCKS_THE_END = "echo work > new; mkdir -p {0}; : > {0}/$GIT_PARALLEL_RUN.lock"


@pytest.mark.parametrize("how", ["Ctrl-C", "hang-up"])
def test_what_comes_while_git_writes_the_last_record(repo, how):
    logs, runs = repo.path / ".git/refs/architect/logs", repo.path / ".git/architect/runs"
    with at_terminal.parallel(
        *("run", "--program", "shell", "--task", LOCKS_THE_END.format(logs)), cwd=repo.path, env={}
    ) as person:
        until(lambda: any(b"run-ended" in one.read_bytes() for one in runs.glob("*/journal.jsonl")), "it ends")
        if how == "Ctrl-C":  # to which nobody listens any more
            person.type("\x03")
        else:
            os.killpg(os.tcgetpgrp(person.descriptor), signal.SIGHUP)  # as the system does
        (lock,) = logs.iterdir()
        lock.unlink()
        assert person.end() == 0
    assert ended(repo) == DONE


def test_ctrl_c_while_git_fills_a_worktree(repo, tmp_path, slow_git):
    arguments = ("run", "--program", "shell", "--task", "echo work > new")
    with at_terminal.parallel(*arguments, cwd=repo.path, env=slow_git(" read-tree ")) as person:
        until((tmp_path / "slow/reached").exists, "git fills it")
        person.type("\x03")
        person.wait("stopping: workers get time to end")
        (tmp_path / "slow/go").touch()
        assert person.end() == 130
    assert ended(repo) == {"status": "cancelled", "reason": "interrupted", "files_modified": []}


@pytest.mark.parametrize("at", [CAPTURE, RECORD])
def test_a_terminal_that_is_closed_while_git_works_for_the_run(repo, tmp_path, slow_git, at):
    arguments = ("run", "--program", "shell", "--task", "echo work > new")
    with at_terminal.parallel(*arguments, cwd=repo.path, env=slow_git(at)) as person:
        until((tmp_path / "slow/reached").exists, f"git is at{at}")
        os.killpg(os.tcgetpgrp(person.descriptor), signal.SIGHUP)  # as the system does
        (tmp_path / "slow/go").touch()
        assert person.end() == 0
    assert ended(repo) == DONE
