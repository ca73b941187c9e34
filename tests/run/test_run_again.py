"""Further rounds: workers that are sent back after a review, or go on after a crash, on their own branches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEADLINE = 30.0

# An agent for these tests. It notes how it was called, runs the script that the test wrote for this call, and
# reports what the test wrote for it.
AGENT = """
import json, os, subprocess, sys
there = os.environ["AGENT_DIR"]
number = len(os.listdir(os.path.join(there, "calls"))) + 1
with open(os.path.join(there, "calls", f"{number}.json"), "w") as file:
    json.dump({"argv": sys.argv[1:], "worker": os.environ["GIT_PARALLEL_WORKER"]}, file)
code = subprocess.run(["sh", os.path.join(there, f"{number}.sh")]).returncode
report = {"status": "failed" if code else "success", "stop_reason": "llm_error" if code else "llm_done"}
extra = os.path.join(there, f"{number}.report")
if os.path.exists(extra):
    report.update(json.load(open(extra)))
print(json.dumps(report), flush=True)
sys.exit(code)
"""

PRESET = """
agents:
  helper:
    command: [{python}, {agent}]
    options:
      session: [--new, "{{session}}"]
      resume: [--go-on, "{{session}}"]
    prompt: {{argv: [--, "{{task}}"]}}
    output: architect
    stderr: separate
    money: reported
    cumulative: [cost]
"""


def eventually(condition: Callable[[], Any], what: str) -> Any:
    """Poll until ``condition`` holds; fail after the deadline."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"not within {DEADLINE} s: {what}")


class Runs:
    """Runs of a repository: what the commands say, and what the record has, asked of git alone."""

    def __init__(self, repo) -> None:
        self.repo = repo

    @property
    def id(self) -> str:
        (name,) = os.listdir(self.repo.path / ".git/architect/runs")
        return name

    @property
    def ref(self) -> str:
        return f"refs/architect/runs/{self.id}"

    def files(self) -> list[str]:
        return self.repo.git("ls-tree", "-r", "--name-only", self.ref).splitlines()

    def file(self, path: str) -> str:
        return self.repo.git("cat-file", "blob", f"{self.ref}:{path}")

    def result(self, worker: int, attempt: int | None = None) -> dict[str, Any]:
        """A worker's result in the record, or that of an earlier attempt."""
        below = f"workers/{worker}" if attempt is None else f"workers/{worker}/attempts/{attempt}"
        return json.loads(self.file(f"{below}/result.json"))

    def statuses(self) -> dict[int, str]:
        found = [self.result(int(path.split("/")[1])) for path in self.files() if path.count("/") == 2]
        return {one["worker_id"]: f"{one['status']}/{one['reason']}" for one in found}

    def trailer(self, key: str) -> str:
        return self.repo.git("log", "-1", f"--format=%(trailers:key={key},valueonly)", self.ref)

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = self.file("events.jsonl").splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def shell(self, *tasks: str, options: tuple[str, ...] = (), code: int | None = 0) -> dict[str, Any]:
        """Run tasks with the shell preset."""
        words = [word for task in tasks for word in ("--task", task)]
        return self.json("run", "--program", "shell", *options, *words, code=code)

    def json(self, command: str, *arguments: str, code: int | None = 0) -> dict[str, Any]:
        done = self.repo.parallel(command, "--json", *arguments)
        assert code is None or done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def refused(self, *arguments: str, code: int = 5) -> str:
        """Run a command that must be refused and change nothing; return what it says."""
        before = self.state()
        done = self.repo.parallel(*arguments)
        assert done.returncode == code, done.stderr + done.stdout
        assert self.state() == before
        return done.stderr

    def state(self) -> tuple[str, str]:
        return (
            self.repo.git("for-each-ref", "--format=%(refname) %(objectname)"),
            self.repo.git("worktree", "list", "--porcelain"),
        )


class Helper(Runs):
    """Runs with the agent above."""

    def __init__(self, repo, there: Path) -> None:
        super().__init__(repo)
        self.there = there
        (there / "calls").mkdir(parents=True)
        (there / "agent.py").write_text(AGENT)
        preset = PRESET.format(python=sys.executable, agent=there / "agent.py")
        repo.commit("the helper", {".git-parallel.yaml": preset})

    def will(self, call: int, script: str, **report: object) -> None:
        """Say what the agent's n-th call does, and what it reports beside its status."""
        (self.there / f"{call}.sh").write_text(script)
        if report:
            (self.there / f"{call}.report").write_text(json.dumps(report))

    def calls(self) -> list[list[str]]:
        names = sorted((self.there / "calls").iterdir(), key=lambda path: int(path.stem))
        return [json.loads(path.read_text())["argv"] for path in names]

    def start(self, task: str, *options: str, code: int = 0) -> dict[str, Any]:
        return self.json("run", "--trust", "--program", "helper", *options, task, code=code)


@pytest.fixture
def runs(repo) -> Runs:
    return Runs(repo)


@pytest.fixture
def helper(repo, tmp_path, monkeypatch) -> Helper:
    monkeypatch.setenv("AGENT_DIR", str(tmp_path / "agent"))
    return Helper(repo, tmp_path / "agent")


# --- after a review --------------------------------------------------------------------------------


def give(repo, *arguments: str) -> None:
    done = repo.parallel("review", *arguments)
    assert done.returncode == 0, done.stderr


def comment(repo, run: str, worker: int, head: str) -> None:
    """A review with comments on lines, as the walk records it."""
    code = (
        "import sys; from git_parallel.git import Repository; from git_parallel.integrate.verdicts import *\n"
        "give(Repository.discover(), sys.argv[1], int(sys.argv[2]), 'changes', sys.argv[3],\n"
        "     message='Please speak up.', comments=[Comment('In capitals.', 'greeting.txt', 2, 'new'),\n"
        "     Comment('Why is this gone?', 'src/a.txt', 1, 'old')])"
    )
    subprocess.run([sys.executable, "-c", code, run, str(worker), head], cwd=repo.path, check=True)


def test_the_words_of_a_review_are_the_task_of_the_next_round(repo, helper):
    helper.will(1, "printf 'well\\nhello\\n' > greeting.txt; : > src/a.txt", cost=0.5, steps=2)
    helper.will(2, "printf 'well\\nHELLO\\n' > greeting.txt; echo a > src/a.txt", cost=0.75, steps=1)
    first = helper.start("write a greeting")["workers"][0]
    comment(repo, helper.id, 1, first["head"])

    (second,) = helper.json("retry", "1", "-m", "And be quick.")["workers"]

    prompt = helper.calls()[1][-1]
    assert prompt.rstrip("\n") == helper.file("workers/1/prompt.txt")
    wanted = (
        "Please speak up.",
        "greeting.txt:2:\n    > hello\nIn capitals.",
        "src/a.txt:1 (old):\n    > a\nWhy is this",
    )
    for words in (*wanted, "And be quick.", "write a greeting", " greeting.txt |", "2 files changed"):
        assert words in prompt, prompt
    assert (second["worker_id"], second["branch"], second["attempts"]) == (1, first["branch"], 2)
    assert second["status"] == "success"
    assert second["files_modified"] == ["greeting.txt"]
    assert repo.git("show", "architect/parallel-1:greeting.txt") == "well\nHELLO"
    assert repo.git("rev-parse", "architect/parallel-1^") == first["head"]
    # History stays, the old verdict is void, the record says how the run stands.
    assert helper.result(1, attempt=1)["head"] == first["head"]
    assert helper.file("workers/1/attempts/1/prompt.txt") == "write a greeting"
    assert repo.parallel("review", "--porcelain").stdout.split("\t")[5] == "void"
    assert helper.trailer("Architect-State").strip() == "ended"
    assert helper.trailer("Architect-Counts").strip() == "success=1"
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def test_the_agents_own_conversation_goes_on_and_what_it_counts_up_is_counted_once(repo, helper):
    helper.will(1, "echo one > one", cost=0.5, steps=2)
    helper.will(2, "echo two > two", cost=0.8, steps=3)
    helper.will(3, "exit 1", cost=1.0)
    helper.will(4, "echo four > four", cost=1.1)
    first = helper.start("count")["workers"][0]
    second = helper.json("retry", "1", "-m", "go on")["workers"][0]
    third = helper.json("retry", "1", "-m", "go on", code=1)["workers"][0]
    fourth = helper.json("retry", "1")["workers"][0]

    begun, *others = helper.calls()
    session = begun[1]
    assert begun[0] == "--new"
    assert [call[:2] for call in others] == [["--go-on", session]] * 3
    assert [one["session"] for one in (first, second, third, fourth)] == [session] * 4
    assert [one["cost"] for one in (first, second, third, fourth)] == pytest.approx([0.5, 0.8, 1.0, 1.1])
    assert [one["attempts"] for one in (first, second, third, fourth)] == [1, 2, 3, 4]
    assert second["steps"] == 5
    assert [one["status"] for one in (third, fourth)] == ["failed", "success"]
    assert helper.result(1, attempt=3)["status"] == "failed"
    assert fourth["files_modified"] == ["four", "one", "two"]


def test_a_resume_that_fails_uncounts_nothing_and_its_result_is_kept(repo, helper):
    """The third attempt's program says nothing of money, as one whose session is not found."""
    helper.will(1, "echo one > one", cost=0.5)
    helper.will(2, "exit 1")
    helper.will(3, "echo three > three", cost=0.9)
    helper.start("count")
    second = helper.json("retry", "1", "-m", "go on", code=1)["workers"][0]
    third = helper.json("retry", "1")["workers"][0]
    assert (second["cost"], third["cost"]) == (pytest.approx(0.5), pytest.approx(0.9))
    assert third["session"] == second["session"] == helper.result(1, attempt=1)["session"]
    assert [helper.result(1, attempt=number)["status"] for number in (1, 2)] == ["success", "failed"]


def test_a_round_that_changes_nothing_has_failed_and_the_review_stays_in_force(repo, helper):
    helper.will(1, "echo one > one")
    helper.will(2, "true")
    head = helper.start("count")["workers"][0]["head"]
    give(repo, "--changes", "1", "-m", "more")

    (worker,) = helper.json("retry", "1", code=1)["workers"]

    assert (worker["status"], worker["reason"], worker["head"]) == ("failed", "no_changes", head)
    assert repo.parallel("review", "--porcelain").stdout.split("\t")[5] == "changes"


def test_what_a_person_edited_in_the_worktree_is_committed_before_the_agent_goes_on(repo, runs):
    head = runs.shell("echo one > file")["workers"][0]["head"]
    worktree = repo.path / ".architect-parallel-1"
    (worktree / "file").write_text("one, edited\n")
    (worktree / "new").write_text("by hand\n")

    (worker,) = runs.json("retry", "1", "-m", "rm new; echo two >> file")["workers"]

    edits = repo.git("rev-parse", f"{worker['head']}^")
    assert repo.git("rev-parse", f"{edits}^") == head
    assert repo.git("show", f"{edits}:file") == "one, edited"
    assert repo.git("show", f"{edits}:new") == "by hand"
    assert repo.git("log", "-1", "--format=%an %s", edits) == "A U Thor edits before attempt 2: echo one > file"
    assert "Parallel-Worker: 1" in repo.git("log", "-1", "--format=%B", edits)
    assert repo.git("show", f"{worker['head']}:file") == "one, edited\ntwo"
    assert repo.git("status", "--porcelain", cwd=worktree) == ""


def test_a_worker_that_was_cleaned_up_comes_back_with_what_was_uncommitted(repo, runs):
    head = runs.shell("echo one > file")["workers"][0]["head"]
    (repo.path / ".architect-parallel-1" / "draft").write_text("unfinished\n")
    done = repo.parallel("cleanup", "1")
    assert done.returncode == 0, done.stderr
    assert repo.git("branch", "--list", "architect/*") == ""

    (worker,) = runs.json("retry", f"{runs.id}/1", "-m", "cat draft >> file")["workers"]

    assert repo.git("show", "architect/parallel-1:file") == "one\nunfinished"
    assert repo.git("merge-base", "--is-ancestor", head, worker["head"]) == ""
    assert (repo.path / ".architect-parallel-1" / "file").read_text() == "one\nunfinished\n"


def test_a_snapshot_of_an_earlier_round_is_never_overwritten(repo, runs):
    (first,) = runs.shell("git checkout -q --detach; echo draft > draft", options=("--check", "true"))["workers"]
    worktree, wip = repo.path / ".architect-parallel-1", f"refs/architect/wip/{runs.id}/1"
    kept = first["snapshot"]
    assert repo.git("show", f"{kept}:draft") == "draft"
    repo.git("clean", "-fdq", cwd=worktree)
    repo.git("switch", "-q", "architect/parallel-1", cwd=worktree)

    (second,) = runs.json("retry", "1", "-m", "echo work > work")["workers"]
    assert (second["status"], second["snapshot"]) == ("success", None)
    assert repo.git("rev-parse", wip) == kept

    (third,) = runs.json("retry", "1", "-m", "git checkout -q --detach; echo other > other", code=None)["workers"]
    assert repo.git("rev-parse", wip) == third["snapshot"] != kept
    assert repo.git("show", f"{wip}:other") == "other"
    assert repo.git("merge-base", "--is-ancestor", kept, wip) == ""


def test_a_failed_worker_gets_its_task_again_and_the_others_stay_as_they_are(repo, runs, tmp_path):
    flag = tmp_path / "flag"
    runs.shell(f"test -e {flag} && echo done > done", "echo other > other", code=1)
    other = runs.result(2)
    flag.touch()

    (worker,) = runs.json("retry", "1")["workers"]

    assert (worker["worker_id"], worker["status"], worker["attempts"]) == (1, "success", 2)
    assert runs.result(2) == other
    assert sorted(event["worker"] for event in runs.events("started")) == [1, 1, 2]
    assert runs.trailer("Architect-Counts").strip() == "success=2"
    assert repo.parallel("status").stdout.startswith(f"run {runs.id}: ended")


def test_retry_refuses_what_it_cannot_do_and_changes_nothing(repo, runs):
    runs.shell("echo one > one", "echo two > two", "exit 3", code=1)
    worktree = repo.path / ".architect-parallel-1"
    assert "no review says what to change" in runs.refused("retry", "1", code=2)
    assert "no review says what to change" in runs.refused("retry", "3", "2", code=2)
    assert "has no worker 9" in runs.refused("retry", f"{runs.id}/9", code=2)
    assert "which worker?" in runs.refused("retry", code=2)
    assert "a run of 3 workers" in runs.refused("retry", "last", code=2)
    assert "exclude each other" in runs.refused("retry", "1", "-m", "x", "-F", "y", code=2)
    assert "--budget-per-worker must" in runs.refused("retry", "3", "--budget-per-worker", "0", code=2)
    give(repo, "--changes", "1", "-m", "rm -rf ..")
    assert "is a command line" in runs.refused("retry", "1", code=2)

    repo.git("switch", "-q", "--detach", cwd=worktree)
    assert "not on its branch" in runs.refused("retry", "1", "-m", "true")
    repo.git("switch", "-q", "architect/parallel-1", cwd=worktree)
    repo.git("checkout", "-q", "-B", "side", "main", cwd=worktree)
    repo.git("commit", "-q", "--allow-empty", "-m", "side", cwd=worktree)
    repo.git("checkout", "-q", "architect/parallel-1", cwd=worktree)
    repo.git("merge", "-q", "--no-commit", "side", cwd=worktree)
    assert "a merge is in progress" in runs.refused("retry", "1", "-m", "true")
    repo.git("merge", "--abort", cwd=worktree)

    worktree.rename(repo.path / "elsewhere")
    assert "removed without git" in runs.refused("retry", "1", "-m", "true")
    (worktree).mkdir()
    assert "something else now" in runs.refused("retry", "1", "-m", "true")


def test_a_review_can_send_a_worker_back_in_the_background(repo, runs):
    run = runs.shell("echo one > one")["run"]
    code = (
        "import sys; from git_parallel.git import Repository; from git_parallel.supervisor import again\n"
        "print(again.retry(Repository.discover(), sys.argv[1], 1, message='echo two > two'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, run], cwd=repo.path, check=True, capture_output=True, text=True, timeout=DEADLINE
    )
    assert done.stdout == f"{run}\n"
    assert repo.parallel("wait", run).returncode == 0
    assert runs.result(1)["files_modified"] == ["one", "two"]


def test_a_detached_retry_that_is_refused_says_why(repo, runs):
    runs.shell("echo one > one")
    assert "no review says" in runs.refused("retry", "--detach", "1", code=2)


def test_the_runs_budget_counts_what_was_spent_before(repo, helper):
    helper.will(1, "exit 1", cost=2.0)
    helper.will(2, "echo x > x", cost=2.5)
    helper.start("spend", "--budget", "2", code=1)
    assert "budget is spent: $2.00 of $2.00" in helper.refused("retry", "1", code=2)
    (worker,) = helper.json("retry", "1", "--budget", "5")["workers"]
    assert worker["status"] == "success"


# --- after a crash ---------------------------------------------------------------------------------


class Background:
    """A command in the background; ``touch`` lets its workers go on."""

    def __init__(self, repo, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "git_parallel", *arguments],
            cwd=repo.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, err


@pytest.fixture
def background(repo):
    started: list[Background] = []

    def start(*arguments: str) -> Background:
        started.append(Background(repo, *arguments))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


def waiting(flag: Path, name: str) -> str:
    """A task that works, waits for the flag, and works again."""
    return f"echo begun >> {name}; while ! test -e {flag}; do sleep 0.05; done; echo ended >> {name}"


def begun(repo, worker: int, name: str) -> Callable[[], bool]:
    return (repo.path / f".architect-parallel-{worker}" / name).exists


@pytest.fixture
def interrupted(repo, runs, background, tmp_path):
    """A run of three, one at a time, of which the first has ended and the second was at work."""

    def make(number: int) -> Path:
        flag = tmp_path / "flag"
        tasks = ("echo one > one", waiting(flag, "two"), "echo three > three")
        options = [word for task in tasks for word in ("--task", task)]
        run = background("run", "-q", "--program", "shell", "--workers", "1", *options)
        eventually(begun(repo, 2, "two"), "the second worker works")
        run.end(number)
        flag.touch()
        return flag

    return make


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_resume_runs_what_did_not_end_by_itself_and_nothing_else(repo, runs, interrupted, number):
    interrupted(number)

    done = repo.parallel("resume", "--json")

    assert done.returncode == 0, done.stderr
    assert [worker["worker_id"] for worker in json.loads(done.stdout)["workers"]] == [2, 3]
    assert runs.statuses() == {1: "success/done", 2: "success/done", 3: "success/done"}
    assert repo.git("show", "architect/parallel-2:two") == "begun\nbegun\nended"
    assert repo.git("show", "architect/parallel-3:three") == "three"
    assert [runs.result(worker)["attempts"] for worker in (1, 2, 3)] == [1, 2, 1]
    assert runs.result(2, attempt=1)["status"] == "cancelled"
    spawned = [event["worker"] for event in runs.events("intent") if event["act"] == "spawn"]
    assert spawned == [1, 2, 2, 3]
    assert repo.git("log", "-1", "--format=%s", f"{runs.ref}") == "run ended: 3 success"
    assert repo.git("fsck", "--strict", "--no-dangling") == ""
    again = repo.parallel("resume")
    assert (again.returncode, again.stdout) == (0, "")
    assert "ended by themselves" in again.stderr


def test_resume_refuses_when_a_workers_number_was_given_away(repo, runs, interrupted):
    interrupted(signal.SIGINT)
    assert repo.git("branch", "--list", "architect/parallel-3") == ""
    repo.git("branch", "architect/parallel-3", "main")
    run = runs.id
    said = runs.refused("resume", run)
    assert "branch 'architect/parallel-3' is not worker" in said
    assert "it had not begun" in said
    assert f"git parallel resume {run}/2" in said
    # Those that can go on may.
    assert [one["worker_id"] for one in runs.json("resume", f"{run}/2")["workers"]] == [2]


def test_resume_says_which_worker_has_the_number_of_one_that_never_began(repo, runs, interrupted):
    interrupted(signal.SIGINT)
    run = runs.id
    other = runs.json("run", "--program", "shell", "echo x > x")
    assert [one["worker_id"] for one in other["workers"]] == [3]
    said = runs.refused("resume", run)
    path = repo.path / ".architect-parallel-3"
    assert f"the number of worker {run}/3 was given away: '{path}' is the worktree of {other['run']}/3" in said
    assert "move it away" not in said
    assert f"those that can go on: git parallel resume {run}/2\n" in said
    assert f"'{path}' is the worktree of {other['run']}/3" in runs.refused("retry", f"{run}/3", "-m", "true")
    assert (path / "x").exists()


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_that_was_stopped_hints_at_resume_where_that_does_something(repo, runs, quiet):
    options = ["-q"] if quiet else []
    halted = ("--halt", "now,fail=1", "--workers", "1", "--task", "false", "--task", "echo x > x")
    done = repo.parallel("run", "--program", "shell", *options, *halted)
    assert (f"git parallel resume {runs.id}" in done.stderr) is not quiet
    done = repo.parallel("run", "--program", "shell", *options, "false")
    assert "git parallel resume" not in done.stderr


def test_resume_takes_failed_ones_only_when_asked(repo, runs, tmp_path):
    flag = tmp_path / "flag"
    runs.shell(f"test -e {flag} && echo x > x", "echo y > y", "exit 125", code=1)
    assert runs.statuses()[3] == "skipped/cannot_tell"
    flag.touch()
    assert "ended by themselves" in repo.parallel("resume").stderr
    document = runs.json("resume", "--failed")
    assert [one["worker_id"] for one in document["workers"]] == [1]
    assert runs.statuses()[1] == "success/done"


def test_a_run_that_goes_on_is_left_alone(repo, runs, background, tmp_path):
    flag = tmp_path / "flag"
    run = background("run", "-q", "--program", "shell", waiting(flag, "work"))
    eventually(begun(repo, 1, "work"), "the worker works")
    for command in (("retry", "1", "-m", "true"), ("resume",)):
        done = repo.parallel(*command)
        assert done.returncode == 5, done.stderr
        assert "goes on" in done.stderr
    flag.touch()
    assert run.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_second_round_that_is_cut_off_loses_nothing_of_the_first(repo, runs, background, tmp_path, number):
    flag = tmp_path / "flag"
    first = runs.shell("echo one > one", "echo other > other")["workers"][0]
    round_two = background("retry", "-q", "1", "2", "-m", waiting(flag, "two"))
    eventually(begun(repo, 1, "two"), "the first worker works again")
    eventually(begun(repo, 2, "two"), "the second worker works again")
    round_two.end(number)
    status = repo.parallel("status")
    assert status.returncode == 0, status.stderr

    flag.touch()
    done = repo.parallel("resume")

    assert done.returncode == 0, done.stderr
    assert runs.result(1, attempt=1)["head"] == first["head"]
    assert runs.result(1, attempt=2)["status"] == "cancelled"
    assert runs.result(1)["attempts"] == 3
    assert repo.git("show", "architect/parallel-1:one") == "one"
    assert repo.git("show", "architect/parallel-1:two") == "begun\nbegun\nended"
    assert runs.statuses() == {1: "success/done", 2: "success/done"}
    assert runs.trailer("Architect-Counts").strip() == "success=2"


def test_a_worker_that_never_came_to_its_second_round_stays_as_it_was(repo, runs, background, tmp_path):
    flag = tmp_path / "flag"
    runs.shell("echo one > one", "echo two > two", options=("--workers", "1"))
    before = runs.result(2)
    round_two = background("retry", "-q", "1", "2", "-m", waiting(flag, "more"))
    eventually(begun(repo, 1, "more"), "the first worker works again")
    round_two.end(signal.SIGINT)

    after = runs.result(2)
    assert (after["status"], after["reason"]) == ("cancelled", "interrupted")
    kept = ("head", "attempts", "files_modified", "insertions", "session", "duration", "started")
    assert {key: after[key] for key in kept} == {key: before[key] for key in kept}
    assert (repo.path / ".architect-parallel-2" / "two").exists()

    flag.touch()
    document = runs.json("resume")
    assert [one["files_modified"] for one in document["workers"]] == [["more", "one"], ["more", "two"]]


def test_orders_to_an_earlier_supervisor_are_not_obeyed_again(repo, runs, background, tmp_path):
    flag = tmp_path / "flag"
    run = background("run", "-q", "--program", "shell", waiting(flag, "work"))
    eventually(begun(repo, 1, "work"), "the worker works")
    assert repo.parallel("stop").returncode == 0
    run.process.wait(DEADLINE)

    again = background("resume", "-q")
    count = repo.path / ".git/architect/runs" / runs.id / "journal.jsonl"
    eventually(lambda: count.read_text().count('"state":"running"') == 2, "the worker works again")
    os.kill(again.process.pid, signal.SIGUSR1)
    flag.touch()
    _, err = again.process.communicate(timeout=DEADLINE)

    assert again.process.returncode == 0, err
    assert runs.statuses() == {1: "success/done"}


DIE = """
import os, signal, sys
from git_parallel.git import Repository
from git_parallel.supervisor import again, onward
kind = sys.argv[2]
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
if kind == "before":
    onward.record.write_many = die
elif kind == "after":
    onward._set_out = die
else:
    onward.standing.settle = die
again.retrying(Repository.discover(), sys.argv[1], [1], message="echo two > two").begin()
"""


@pytest.mark.parametrize("kind", ["before", "after", "between"])
def test_a_supervisor_that_dies_while_it_takes_over_leaves_a_run_that_can_go_on(repo, runs, kind):
    run = runs.shell("echo one > one", "echo other > other")["run"]
    before = runs.result(1)
    (repo.path / ".architect-parallel-1" / "edit").write_text("by hand\n")
    done = subprocess.run([sys.executable, "-c", DIE, run, kind], cwd=repo.path, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr

    assert repo.parallel("wait", run).returncode in (0, 1)
    result = runs.result(1)
    assert result["attempts"] == 1
    assert result["status"] == ("success" if kind == "before" else "cancelled")
    assert repo.git("show", f"{result['head']}:one") == "one"
    assert runs.result(2)["status"] == "success"
    assert runs.trailer("Architect-State").strip() == "ended"

    (worker,) = runs.json("retry", "1", "-m", "echo three > three")["workers"]
    assert worker["files_modified"] == ["edit", "one", "three"]
    assert repo.git("merge-base", "--is-ancestor", before["head"], worker["head"]) == ""
