"""What comes after a landing: cleanup, siblings, agents that resolve, doctor; and the command line's refusals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from landings import landable, tree_on_disk

from git_parallel.git import Repository
from git_parallel.integrate import verdicts

# Writes a file; asked to merge, it does that and keeps both sides' lines.
AGENT = r"""#!/bin/sh
task=$(cat)
commit=$(printf '%s\n' "$task" | sed -n 's/^ *git merge //p')
if test -n "$commit"; then
    git merge -q "$commit" || { cat one > both; git show :2:one > one; git show :3:one >> one; rm both; git add one; }
    git commit -q --no-edit
else
    eval "$(printf '%s\n' "$task" | tail -n 1)"
fi
"""


def test_cleanup_removes_what_has_landed_and_nothing_else(repo):
    done = repo.parallel(
        "run", "-q", "--json", "--program", "shell", "--task", "echo 1 > one", "--task", "echo 2 > two"
    )
    run = json.loads(done.stdout)["run"]
    repo.parallel("review", "--approve", "1")
    done = repo.parallel("merge", "--yes", "--cleanup")
    assert done.returncode == 0, done.stderr
    assert "worker 1: removed" in done.stderr
    assert repo.git("branch", "--list", "architect/*").split() == ["+", "architect/parallel-2"]
    assert not (repo.path / ".architect-parallel-1").exists()
    assert (repo.path / ".architect-parallel-2").exists()
    assert repo.git("rev-parse", f"refs/architect/kept/{run}/1")


def test_without_cleanup_branch_and_worktree_stay(repo):
    repo.parallel("run", "-q", "--program", "shell", "echo 1 > one")
    repo.parallel("review", "--approve", "1")
    assert repo.parallel("merge", "--yes").returncode == 0
    assert (repo.path / ".architect-parallel-1").exists()
    assert repo.git("rev-parse", "architect/parallel-1")


@pytest.mark.parametrize("asked", [True, False])
def test_siblings_are_rejected_only_when_asked(repo, asked):
    run = landable(repo, {"one": "1\n"}, {"one": "2\n"}, {"three": "3\n"}, tasks=["t1", "t1", "t2"], approve=[1])
    code, _, _ = run.merge(*(["--reject-siblings"] if asked else []))
    assert code == 0
    given = verdicts.of_run(run.where, run.run)
    assert [one.verdict for one in given.get(2, [])] == (["rejected"] if asked else [])
    assert 3 not in given
    if asked:
        assert given[2][0].message == "worker 1 of the same task has landed"


def test_the_agent_resolves_and_its_resolution_is_reviewed_again(repo):
    agent = repo.write(".git/agent", AGENT)
    agent.chmod(0o755)
    repo.write("one", "start\n")
    repo.git("add", "one")
    repo.git("commit", "-q", "-m", "start")
    project = f"agents:\n  helper:\n    command: ['{agent}']\n    prompt: {{stdin: []}}\n"
    repo.write(".git-parallel.yaml", project)
    tasks = ["--task", "echo first >> one", "--task", "echo second >> one"]
    done = repo.parallel("run", "-q", "--json", "--trust", "--program", "helper", *tasks)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    repo.parallel("review", "--approve", "1", "2")
    before = repo.git("rev-parse", "architect/parallel-2")
    done = repo.parallel("merge", "--yes", "--resolve", "agent")
    assert done.returncode == 3, done.stderr
    assert "worker 2 is at work on its conflicts" in done.stderr
    assert repo.parallel("wait", run).returncode == 0
    assert repo.git("rev-parse", "architect/parallel-2") != before
    assert repo.git("merge-base", "--is-ancestor", "main", "architect/parallel-2") == ""
    done = repo.parallel("merge", "--yes")
    assert (done.returncode, "the branch has moved" in done.stderr) == (5, True), "no approval covers the resolution"
    repo.parallel("review", "--approve", "2")
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 0, done.stderr
    assert (repo.path / "one").read_text().splitlines() in (
        ["start", "first", "start", "second"],
        ["start", "second", "start", "first"],
    )


def test_a_command_line_is_not_asked_to_resolve(repo):
    repo.write("one", "start\n")
    repo.git("add", "one")
    repo.git("commit", "-q", "-m", "start")
    repo.parallel("run", "-q", "--program", "shell", "--task", "echo 1 > one", "--task", "echo 2 > one")
    repo.parallel("review", "--approve", "1", "2")
    done = repo.parallel("merge", "--yes", "--resolve", "agent")
    assert done.returncode == 3
    assert "ran a command line, which resolves no conflict" in done.stderr


def killed_landing(repo) -> str:
    """A landing that dies while its check runs; its id."""
    landable(repo, {"one": "1\n"})
    started = repo.path / ".git/started"
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "merge", "--yes", "--check", f"touch '{started}'; sleep 600"],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (name,) = os.listdir(repo.path / ".git/architect/merges")
    return name


def test_doctor_finds_a_dead_landing_and_finishes_it(repo):
    name = killed_landing(repo)
    done = repo.parallel("doctor")
    assert done.returncode == 1
    assert f"interrupted-merge: landing {name} on main died before it was complete" in done.stdout
    assert repo.parallel("doctor", "--repair").returncode == 0
    assert repo.parallel("doctor").returncode == 0
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert not (repo.path / f".git/architect/merges/{name}/merge.pid").exists()
    assert repo.parallel("merge", "--yes").returncode == 0


def test_a_check_dies_with_its_landing(repo):
    killed_landing(repo)
    deadline = time.monotonic() + 30

    def alive() -> list[str]:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if str(repo.path / ".git/started") in line]

    while alive():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert repo.parallel("merge", "--continue", "--yes", "--abort").returncode == 2
    assert repo.parallel("merge", "--abort").returncode == 0


def test_a_landing_that_waits_at_a_conflict_is_in_order(repo):
    run = landable(repo, {"f": "1\n"}, {"f": "2\n"})
    assert run.merge("--stop")[0] == 3
    assert "interrupted-merge" not in repo.parallel("doctor").stdout
    assert run.merge("--abort")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--continue", "--skip"), "exclude each other"),
        (("--stop", "--resolve", "agent", "--yes"), "--stop leaves a conflict to you"),
        (("--json",), "--json asks nothing"),
        (("--strategy", "octopus"), "octopus"),
        (("--check-timeout", "0", "--yes"), "must be a time greater than 0"),
        (("--continue",), "there is no landing in progress"),
        (("nosuch", "--yes"), "nosuch"),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_done(repo, arguments, said):
    run = landable(repo, {"one": "1\n"})
    done = repo.parallel("merge", *arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert repo.git("rev-parse", "main") == run.base
    assert tree_on_disk(repo.path).keys() == {"README", "src/a.txt"}


def test_a_run_that_goes_on_lands_what_has_ended(repo):
    done = repo.parallel(
        "run", "--detach", "--program", "shell", "--task", "echo 1 > one", "--task", "echo 2 > two; exec sleep 600"
    )
    run = done.stdout.strip()
    try:
        deadline = time.monotonic() + 60
        while "\tended\t" not in repo.parallel("status", "--porcelain", run).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        repo.parallel("review", "--approve", "1")
        done = repo.parallel("merge", "--yes", "--json")
        states = {one["worker"]: (one["state"], one["why"]) for one in json.loads(done.stdout)["branches"]}
        assert states == {1: ("landed", None), 2: ("skipped", "it has not ended: running")}
        assert (repo.path / "one").exists()
    finally:
        repo.parallel("stop", "--now", run)
        repo.parallel("wait", run)


def test_works_from_a_subdirectory_and_a_linked_worktree(repo, tmp_path):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    assert run.merge("1", cwd=repo.path / "src")[0] == 0
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    assert run.merge("2", cwd=tmp_path / "linked")[0] == 0
    assert tree_on_disk(repo.path).keys() == {"README", "src/a.txt", "one", "two"}
    assert repo.git("status", "--porcelain") == ""


def test_no_process_and_no_file_is_left(repo):
    run = landable(repo, {"one": "1\n"})
    run.merge("--check", "true")
    top = Path(Repository.discover(str(repo.path)).common_dir) / "architect"
    (merge,) = (top / "merges").iterdir()
    assert sorted(path.name for path in merge.iterdir()) == [
        "check.exit.json",
        "guard.log",
        "journal.jsonl",
        "merge.json",
    ]
    assert not (repo.path / ".git/index.lock").exists()
