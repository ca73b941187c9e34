"""Checkpoints: what lies in a running worker's worktree can be got back, whatever happens next."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from git_parallel.supervisor import checkpoints

DEADLINE = 20.0

# What a worker does when told to: the test writes the steps, one after the other.
AGENT = """
import os, subprocess, sys, time
print("ready", flush=True)
done = 0
while True:
    step = os.path.join(sys.argv[1], str(done))
    if os.path.exists(step):
        with open(step) as file:
            command = file.read()
        if command == "end":
            break
        subprocess.run(["sh", "-c", command], check=True)
        os.rename(step, step + ".done")
        done += 1
    time.sleep(0.02)
"""


def eventually(condition: Callable[[], object], what: str) -> object:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


class Running:
    """A run of one worker that takes its steps from the test."""

    def __init__(self, repo, place: Path, *options: str) -> None:
        self.repo = repo
        self.steps = place / f"steps-{uuid.uuid4().hex}"
        self.steps.mkdir(parents=True)
        self.taken = 0
        (place / "agent.py").write_text(AGENT)
        task = f"exec {sys.executable} {place / 'agent.py'} {self.steps}"
        argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", "--task", task, *options]
        self.process = subprocess.Popen(
            argv, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.worktree = repo.path / ".architect-parallel-1"

    def does(self, command: str) -> None:
        """Have the worker run a command, and wait until it has."""
        step = self.steps / str(self.taken)
        (self.steps / "new").write_text(command)
        os.rename(self.steps / "new", step)
        self.taken += 1
        if command != "end":
            eventually((self.steps / f"{step.name}.done").exists, command)

    def ends(self) -> dict:
        """Let the worker end; return its result."""
        self.does("end")
        out, err = self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0, out + err
        return self.result()

    @property
    def run(self) -> str:
        return next(iter(os.listdir(self.repo.path / ".git/architect/runs")))

    @property
    def ref(self) -> str:
        return f"refs/architect/wip/{self.run}/1"

    def tip(self) -> str:
        """The newest checkpoint; empty when there is none."""
        return self.repo.git("rev-parse", "-q", "--verify", self.ref, check=False)

    def holds(self, path: str, content: str) -> Callable[[], bool]:
        return lambda: self.repo.git("show", f"{self.ref}:{path}", check=False) == content

    def result(self) -> dict:
        return json.loads(self.repo.git("show", f"refs/architect/runs/{self.run}:workers/1/result.json"))


@pytest.fixture
def start(repo, tmp_path) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(*options: str) -> Running:
        started.append(Running(repo, tmp_path / "agent", *options))
        return started[-1]

    yield begin
    for run in started:
        if run.process.poll() is None:
            for process in psutil.Process(run.process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            run.process.kill()
        run.process.communicate()


def test_the_last_checkpoint_survives_supervisor_and_worktree(repo, start, tmp_path):
    run = start("--checkpoint", "1s")
    run.does("echo work > work; mkdir -p deep/er; echo more >> src/a.txt; printf 'x\\0y' > deep/er/data; git add work")
    eventually(run.holds("work", "work"), "a checkpoint")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    shutil.rmtree(run.worktree)

    repo.parallel("wait")  # finishes the record
    result = run.result()
    assert (result["status"], result["reason"]) == ("cancelled", "supervisor_died")
    assert result["snapshot"] == run.tip()
    assert result["files_modified"] == ["deep/er/data", "src/a.txt", "work"]
    assert any(run.ref in warning for warning in result["warnings"])

    back = tmp_path / "back"
    done = repo.parallel("restore", "1", "--to", str(back))
    assert done.returncode == 0, done.stderr
    assert (back / "work").read_text() == "work\n"
    assert (back / "src/a.txt").read_text() == "a\nmore\n"
    assert (back / "deep/er/data").read_bytes() == b"x\0y"
    index = repo.git("show", "-s", "--format=%(trailers:key=Architect-Index,valueonly)", run.ref)
    assert repo.git("ls-tree", "-r", "--name-only", index).split() == ["README", "src/a.txt", "work"]


def test_the_whole_worktree_comes_back_after_it_was_deleted(repo, start):
    run = start("--checkpoint", "1s")
    run.does("echo work > work; git add work; echo loose > loose")
    eventually(run.holds("loose", "loose"), "a checkpoint")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    shutil.rmtree(run.worktree)
    repo.parallel("wait")
    done = repo.parallel("restore", "1", "--worktree=back", "--branch", "again")
    assert done.returncode == 0, done.stderr
    assert repo.git("status", "--porcelain", cwd=repo.path / "back").splitlines() == ["A  work", "?? loose"]


def test_a_worktree_that_is_still_there_is_newer_than_its_checkpoint(repo, start):
    run = start("--checkpoint", "1s")
    run.does("echo work > work")
    eventually(run.holds("work", "work"), "a checkpoint")
    run.does("echo newer > work")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    repo.parallel("wait")
    assert (run.result()["reason"], run.result()["snapshot"]) == ("supervisor_died", None)
    assert repo.git("show", "architect/parallel-1:work") == "newer"
    assert repo.git("show", f"{run.ref}:work") == "newer"  # the end, and before it the checkpoint
    earlier = repo.git("show", "-s", "--format=%(trailers:key=Architect-Previous,valueonly)", run.ref)
    assert repo.git("show", f"{earlier}:work") == "work"


def test_a_checkpoint_names_the_one_before_it(repo, start):
    run = start("--checkpoint", "1s")
    tips = []
    for number in range(3):
        run.does(f"echo {number} > work")
        eventually(run.holds("work", str(number)), f"checkpoint {number}")
        tips.append(run.tip())
    format_ = "--format=%(trailers:key=Architect-Previous,valueonly)"
    assert [repo.git("show", "-s", format_, tip).strip() for tip in tips] == ["", *tips[:2]]


def test_nothing_new_makes_no_checkpoint(repo, start):
    run = start("--checkpoint", "0.2s")
    run.does("true")
    time.sleep(2)  # absence, held for a while: nothing has been done yet
    assert run.tip() == ""
    run.does("echo work > work")
    eventually(run.holds("work", "work"), "a checkpoint")
    tip = run.tip()
    run.does("touch work")
    time.sleep(2)
    assert run.tip() == tip


def test_the_branch_replaces_a_checkpoint_that_holds_no_more(repo, start):
    run = start("--checkpoint", "0.5s")
    run.does("echo work > work")
    eventually(run.holds("work", "work"), "a checkpoint")
    result = run.ends()
    assert (result["status"], result["snapshot"]) == ("success", None)
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert repo.git("for-each-ref", "refs/architect/wip") == ""
    left = list((repo.path / ".git/architect/runs" / run.run).rglob("checkpoint.index*"))
    assert left == []


@pytest.mark.parametrize("options", [(), ("--check", "true")])
def test_checkpoints_come_back_after_the_end(repo, start, tmp_path, options):
    run = start("--checkpoint", "1s", *options)
    tips = []
    for number in range(2):
        run.does(f"echo {number} > work; echo {number} > only-{number}")
        eventually(run.holds("work", str(number)), f"checkpoint {number}")
        tips.append(run.tip())
    run.does("rm only-0 work; echo good > end")
    result = run.ends()
    assert (result["status"], result["snapshot"], result["files_modified"]) == ("success", None, ["end", "only-1"])
    assert repo.git("ls-tree", "--name-only", "architect/parallel-1").split() == ["README", "end", "only-1", "src"]
    repo.git("gc", "-q", "--prune=now")
    for gone in (False, True):
        (worker,) = json.loads(repo.parallel("restore", "--list", "1", "--json").stdout)["workers"]
        assert [one["commit"] for one in worker["checkpoints"]][1:3] == tips[::-1]
        for number, tip in enumerate(tips):
            done = repo.parallel("restore", "1", "--at", tip, "--to", str(tmp_path / f"{gone}-{number}"))
            assert done.returncode == 0, done.stderr
            assert (tmp_path / f"{gone}-{number}/work").read_text() == f"{number}\n"
            assert (tmp_path / f"{gone}-{number}/only-0").read_text() == "0\n"
        if not gone:
            assert repo.parallel("cleanup").returncode == 0
    assert repo.parallel("restore", "1", "--worktree").returncode == 0
    assert repo.git("status", "--porcelain", cwd=run.worktree) == ""
    assert (run.worktree / "end").read_text() == "good\n"


def test_a_commit_of_the_agent_is_held_as_well(repo, start):
    run = start("--checkpoint", "0.5s")
    run.does("echo work > work; git add work; git commit -qm mine")
    own = repo.git("rev-parse", "architect/parallel-1")
    eventually(lambda: run.tip() and repo.git("rev-parse", f"{run.ref}^1") == own, "a checkpoint on the commit")
    assert run.ends()["head"] == own
    assert run.tip() == ""


def test_a_commit_that_was_reset_away_is_held_by_the_checkpoint(repo, start, tmp_path):
    run = start("--checkpoint", "0.5s")
    run.does(
        "echo work > work; git add work; git commit -qm mine; git rev-parse HEAD > ../id; git reset -q --hard HEAD~1"
    )
    lost = (repo.path / "id").read_text().strip()
    eventually(lambda: lost in repo.git("log", "-1", "--format=%P", run.ref, "--", check=False), "a checkpoint")
    tip = run.tip()
    time.sleep(1.5)  # absence, held for a while: it is kept already
    assert run.tip() == tip
    assert f"{lost[:10]} mine (no branch had it)" in repo.parallel("restore", "--list", "1").stdout
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    shutil.rmtree(run.worktree)
    repo.parallel("wait")
    assert lost in repo.git("log", "-1", "--format=%P", run.ref)


def test_repositories_that_the_agent_made_are_named_where_only_a_checkpoint_is_left(repo, start, tmp_path):
    run = start("--checkpoint", "0.5s")
    made = "git init -q made; cd made; git commit -q --allow-empty -m m; cd .."
    run.does(f"echo work > work; git init -q bare; {made}")
    eventually(run.holds("work", "work"), "a checkpoint")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    shutil.rmtree(run.worktree)
    repo.parallel("wait")
    named = [
        "not captured: bare/: a repository of its own without a commit",
        "not captured: made: a repository of its own",
    ]
    assert [one for one in run.result()["warnings"] if one.startswith("not captured")] == named
    done = repo.parallel("restore", "1", "--to", str(tmp_path / "back"))
    assert [line for line in done.stderr.splitlines() if "not captured" in line] == [f"warning: {one}" for one in named]


def test_neither_index_nor_lock_of_the_agent_is_touched(repo, start):
    run = start("--checkpoint", "0.5s")
    run.does('echo staged > staged; git add staged; touch "$(git rev-parse --git-dir)/index.lock"; echo loose > loose')
    admin = Path(repo.git("rev-parse", "--git-dir", cwd=run.worktree))
    before = ((admin / "index").read_bytes(), (admin / "index").stat().st_mtime_ns)
    eventually(run.holds("loose", "loose"), "a checkpoint in spite of the lock")
    assert ((admin / "index").read_bytes(), (admin / "index").stat().st_mtime_ns) == before
    assert (admin / "index.lock").exists()
    index = repo.git("show", "-s", "--format=%(trailers:key=Architect-Index,valueonly)", run.ref)
    assert repo.git("ls-tree", "-r", "--name-only", index).split() == ["README", "src/a.txt", "staged"]

    (admin / "index.lock").unlink()
    os.utime(admin / "index", ns=(0, before[1] + 1))  # the index looks new, so that all of it is looked at again
    run.does("echo more > loose")
    eventually(run.holds("loose", "more"), "another checkpoint")
    assert ((admin / "index").read_bytes(), (admin / "index").stat().st_mtime_ns) == (before[0], before[1] + 1)


def test_a_file_that_is_ignored_and_staged_is_taken_from_then_on(repo, start):
    repo.commit("ignore", {".gitignore": "*.o\n"})
    run = start("--checkpoint", "0.5s")
    run.does("echo object > a.o; echo work > work")
    eventually(run.holds("work", "work"), "a checkpoint")
    run.does("git add -f a.o")
    eventually(run.holds("a.o", "object"), "a checkpoint with it")
    run.does("git rm -q --cached a.o; rm work")
    eventually(lambda: "work" not in repo.git("ls-tree", "--name-only", run.ref).split(), "a checkpoint without it")
    assert repo.git("ls-tree", "--name-only", run.ref).split() == [".gitignore", "README", "src"]


def test_what_git_ignores_is_not_taken(repo, start):
    repo.commit("ignore", {".gitignore": "*.o\n"})
    run = start("--checkpoint", "0.5s")
    run.does("echo object > a.o; echo work > work")
    eventually(run.holds("work", "work"), "a checkpoint")
    assert repo.git("ls-tree", "--name-only", run.ref).split() == [".gitignore", "README", "src", "work"]


def test_none_are_made_when_nobody_wants_them(repo, start):
    run = start("--checkpoint", "never")
    run.does("echo work > work")
    time.sleep(2)
    assert run.tip() == ""


@pytest.mark.parametrize("value", ["0", "-1", "0s"])
def test_no_time_between_checkpoints_is_an_error(repo, value):
    done = repo.parallel("run", "--program", "shell", "--task", "true", f"--checkpoint={value}")
    assert done.returncode == 2
    assert "--checkpoint must be a time greater than 0" in done.stderr


# --- bringing one of them back ---------------------------------------------------------------------


@pytest.fixture
def three(repo, start) -> tuple[Running, list[str]]:
    """A running worker with three checkpoints, whose times differ; their ids, the oldest first."""
    run = start("--checkpoint", "1s")
    tips = []
    for number in range(3):
        run.does(f"echo {number} > work; echo {number} > only-{number}")
        eventually(run.holds("work", str(number)), f"checkpoint {number}")
        tips.append(run.tip())
    times = [repo.git("show", "-s", "--format=%ct", tip) for tip in tips]
    assert len(set(times)) == 3
    return run, tips


def test_any_checkpoint_comes_back_into_a_directory(repo, three, tmp_path):
    _, tips = three
    for number, tip in enumerate(tips):
        time_ = repo.git("show", "-s", "--format=%cI", tip)
        for name, when in ((f"t{number}", time_), (f"i{number}", tip[:10])):
            done = repo.parallel("restore", "1", "--at", when, "--to", str(tmp_path / name))
            assert done.returncode == 0, done.stderr
            assert (tmp_path / name / "work").read_text() == f"{number}\n"
            assert len(list((tmp_path / name).glob("only-*"))) == number + 1


def test_a_checkpoint_comes_back_as_a_branch(repo, three):
    run, tips = three
    done = repo.parallel("restore", "1", "--at", tips[1], "--branch", "then")
    assert done.returncode == 0, done.stderr
    assert repo.git("show", "then:work") == "1"
    assert repo.git("rev-parse", "then^{tree}", "then^") == repo.git("rev-parse", f"{tips[1]}^{{tree}}", f"{tips[1]}^1")
    assert (run.worktree / "work").read_text() == "2\n"

    refused = repo.parallel("restore", "1", "--at", tips[1])  # the worker's own branch is its own
    assert refused.returncode == 5
    assert "--branch NAME" in refused.stderr


def test_a_checkpoint_comes_back_as_a_worktree_beside_the_workers_own(repo, three):
    _, tips = three
    done = repo.parallel("restore", "1", "--at", tips[0], "--worktree=then", "--branch", "then")
    assert done.returncode == 0, done.stderr
    assert repo.git("status", "--porcelain", cwd=repo.path / "then").splitlines() == ["?? only-0", "?? work"]
    assert (repo.path / "then/work").read_text() == "0\n"


def test_the_list_shows_them(repo, three):
    _, tips = three
    (worker,) = json.loads(repo.parallel("restore", "--list", "1", "--json").stdout)["workers"]
    assert [one["commit"] for one in worker["checkpoints"]] == tips[::-1]
    shown = repo.parallel("restore", "--list").stdout
    assert [line.split()[1].rstrip(",") for line in shown.splitlines() if "earlier" in line] == [
        tips[1][:10],
        tips[0][:10],
    ]


def test_a_time_that_cannot_be_is_refused(repo, three):
    run, _ = three
    for arguments, code, said in (
        (("--at", "nonsense"), 2, "--at must be a time, not 'nonsense'"),
        (("--at", "2001-01-01"), 128, "nothing was captured of"),
        (("--at", "10m", "--list"), 2, "--at goes with"),
        (("--at", "10m", "--from-trash", "x"), 2, "--at goes with"),
    ):
        done = repo.parallel("restore", "1", *arguments)
        assert (done.returncode, done.stdout) == (code, ""), done.stderr
        assert said in done.stderr
        assert run.tip()


def test_without_checkpoints_there_is_no_earlier_state(repo, start):
    run = start("--checkpoint", "never")
    run.does("echo work > work")
    done = repo.parallel("restore", "1", "--at", "now", "--to", "x")
    assert done.returncode == 128
    assert "no checkpoint of" in done.stderr


# --- when it is time (pure) ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "looked", "stirred", "expected"),
    [
        (110.0, 100.0, 109.0, False),  # something new, but neither the time nor quiet
        (220.0, 100.0, 219.9, True),  # the time has come
        (131.0, 100.0, 105.0, True),  # quiet since long
        (129.0, 100.0, 105.0, False),  # quiet, but the last one is too near
        (131.0, 100.0, 130.0, False),  # not quiet
        (300.0, 100.0, 90.0, False),  # nothing new
        (701.0, 100.0, 90.0, True),  # nothing new to be seen, but who knows
    ],
)
def test_when_a_checkpoint_is_due(now, looked, stirred, expected):
    assert checkpoints.due(now, every=120.0, looked=looked, stirred=stirred) is expected
