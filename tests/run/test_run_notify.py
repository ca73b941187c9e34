"""When a run ends, the person hears of it; whatever goes wrong with that is a warning and no more."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time

import at_terminal
import pytest

from git_parallel.supervisor import notify
from git_parallel.supervisor.host import Ending


def run(repo, *arguments: str, code: int = 0):
    done = repo.parallel("run", "--program", "shell", *arguments)
    assert done.returncode == code, done.stderr
    return done


def test_the_command_gets_what_json_prints(repo, tmp_path):
    told = tmp_path / "it's told"
    repo.git("config", "parallel.notify", f"cat > {shlex.quote(str(told))}; pwd >> {shlex.quote(str(told))}.pwd")
    done = run(repo, "--json", "--task", "echo 1 > a", "--task", "exit 3", code=1)
    document = json.loads(told.read_text())
    assert document == json.loads(done.stdout)
    assert document["status"] == "ended"
    assert [worker["status"] for worker in document["workers"]] == ["success", "failed"]
    assert (tmp_path / "it's told.pwd").read_text() == f"{repo.path}\n"


def test_the_record_is_complete_when_it_runs(repo, tmp_path):
    repo.git(
        "config", "parallel.notify", f"git for-each-ref --format='%(trailers)' refs/architect/runs > {tmp_path}/out"
    )
    run(repo, "--task", "echo 1 > a")
    assert "Architect-State: ended" in (tmp_path / "out").read_text()


def test_it_runs_for_a_run_in_the_background(repo, tmp_path):
    repo.git("config", "parallel.notify", f"cat > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/told")
    run(repo, "--detach", "--task", "echo 1 > a")
    end = time.monotonic() + 20
    while not (tmp_path / "told").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert json.loads((tmp_path / "told").read_text())["workers"][0]["status"] == "success"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("echo out of paper; exit 3", "warning: the notify command failed with exit code 3; what it wrote: "),
        ("kill -9 $$", "warning: the notify command was killed by signal 9"),
    ],
)
def test_a_command_that_fails_is_a_warning(repo, command, says):
    repo.git("config", "parallel.notify", command)
    (line,) = [line for line in run(repo, "-q", "--task", "echo 1 > a").stderr.splitlines() if "warning" in line]
    assert line.startswith(says)
    if "paper" in command:
        with open(line.rpartition(": ")[2]) as output:
            assert output.read() == "out of paper\n"


def test_what_it_leaves_running_ends_with_it(repo):
    repo.git("config", "parallel.notify", "setsid sleep 300 & true")  # the fixture looks for processes that are left
    assert "warning" not in run(repo, "--task", "echo 1 > a").stderr


def test_a_command_of_the_repository_needs_approval(repo, tmp_path):
    repo.commit("config", {".git-parallel.yaml": f"parallel_runs: {{notify: touch {tmp_path}/ran}}\n"})
    done = run(repo, "--task", "true", code=2)
    assert f"touch {tmp_path}/ran" in done.stderr
    assert not (tmp_path / "ran").exists()
    run(repo, "--trust", "--task", "echo 1 > a")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("ending", "says"),
    [
        (Ending(0, None, "exit", None, 1.0), None),
        (Ending(7, None, "exit", None, 1.0), "failed with exit code 7"),
        (Ending(None, 15, "timeout", None, 30.0), "took longer than 30s and was ended"),
        (Ending(None, None, "exit", None, 0.0, spawn_error="no such file"), "could not be started: no such file"),
        (Ending(None, 9, "guard-died", None, 1.0), "did not end by itself"),
        (None, "did not end by itself"),
    ],
)
def test_what_is_said_of_its_ending(ending, says):
    assert notify.fault(ending) == says


BELL = "\x1b]9;git parallel: run ended: 1 success\x1b\\\a"


def at(repo, *arguments: str, term: str = "xterm") -> str:
    argv = ("run", "--program", "shell", "--task", "echo 1 > a", *arguments)
    with at_terminal.parallel(*argv, cwd=repo.path, env={"TERM": term}) as terminal:
        assert terminal.end() == 0
        return terminal.everything


def test_the_terminal_rings_once(repo):
    shown = at(repo)
    assert BELL in shown
    assert shown.count("\a") == 1


def test_the_bell_can_be_turned_off(repo):
    repo.git("config", "parallel.bell", "false")
    shown = at(repo)
    assert "1 success" in shown
    assert "\a" not in shown


def test_a_terminal_that_knows_no_sequences_gets_none(repo):
    assert "\a" not in at(repo, term="dumb")


def test_no_bell_where_there_is_no_terminal(repo):
    done = run(repo, "--task", "echo 1 > a")
    assert "\a" not in done.stdout + done.stderr


def test_a_run_whose_supervisor_died_is_told_of_once(repo, tmp_path):
    told = tmp_path / "told"
    repo.git("config", "parallel.notify", f"cat >> {told}; echo >> {told}")
    argv = [sys.executable, "-m", "git_parallel", "run", "--program", "shell", "echo x > x; touch ../up; sleep 60"]
    supervisor = subprocess.Popen(argv, cwd=repo.path, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 20
    while not (repo.path / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    supervisor.kill()
    supervisor.wait()
    assert "is captured and recorded" in repo.parallel("cleanup").stderr
    repo.parallel("cleanup")
    document = json.loads(told.read_text())  # one, and no more
    assert document["status"] == "ended"
    assert [one["reason"] for one in document["workers"]] == ["supervisor_died"]


def test_of_a_worker_that_asks_again_and_again_a_person_hears_once_a_minute():
    calls = notify.Calls(None)  # type: ignore[arg-type] # it calls nobody
    assert calls.due(1, 100.0)
    assert not calls.due(1, 159.0)
    assert calls.due(2, 159.0)
    assert calls.due(1, 160.0)
