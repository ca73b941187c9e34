"""Where herdr runs, workers are shown in it; whatever it does, a run takes no notice."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time

import pytest
from fake_herdr import FakeHerdr, eventually
from msgspec.structs import replace

from git_parallel.layout import herdr_socket
from git_parallel.plan.model import Result
from git_parallel.supervisor.herdr import Herdr
from git_parallel.supervisor.view import WorkerView


def run(repo, herdr, *tasks: str, code: int = 0):
    arguments = [word for task in tasks for word in ("--task", task)]
    place = {"HERDR_SOCKET_PATH": str(herdr)}
    done = repo.parallel("run", "--json", "--program", "shell", *arguments, env=place)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)["workers"]


def test_workers_are_opened_as_worktrees_and_their_states_reported(repo):
    wait = "until [ -e ../seen ]; do sleep 0.05; done"

    def answer(request):
        said = herdr.answered(request)
        if sum(one["params"].get("state") == "working" for one in herdr.asked) == 2:
            (repo.path / "seen").touch()
        return said

    with FakeHerdr(answer=answer) as herdr:
        workers = run(repo, herdr.path, f"echo 1 > a; {wait}", f"{wait}; exit 3", code=1)
        opened = {one["params"]["path"]: one["params"] for one in herdr.asked if one["method"] == "worktree.open"}
        assert set(opened) == {worker["worktree_path"] for worker in workers}
        assert {one["cwd"] for one in opened.values()} == {str(repo.path)}
        assert {one["focus"] for one in opened.values()} == {False}
        assert sorted(one["label"][:9] for one in opened.values()) == ["1: echo 1", "2: until "]
        panes = {one["params"]["pane_id"] for one in herdr.asked if one["method"] == "pane.report_agent"}
        said = sorted([(one["state"], one["message"]) for one in herdr.reports(pane)] for pane in panes)
        assert said == [
            [("working", None), ("idle", "failed/agent_error")],
            [("working", None), ("idle", "success")],
        ]
        for pane in panes:
            numbers = [one["seq"] for one in herdr.reports(pane)]
            assert numbers == sorted(set(numbers))


def test_the_default_place_counts_too_and_a_setting_turns_it_off(repo):
    with FakeHerdr("herdr/herdr.sock") as herdr:
        place = {"XDG_CONFIG_HOME": str(herdr.top)}
        done = repo.parallel("run", "--program", "shell", "echo 1 > a", env=place)
        assert herdr.asked, done.stderr
        before = herdr.connections
        repo.git("config", "parallel.herdr", "false")
        repo.parallel("run", "--program", "shell", "echo 1 > a", env=place)
        assert herdr.connections == before


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: time.sleep(20),
        lambda request: None,
        lambda request: b"no json\n",
        lambda request: b"[1, 2]\n",
        lambda request: b'{"id": "x", "result": {"type": "worktree_opened", "root_pane": {}}}\n',
        lambda request: b'{"id": "x", "error": {"code": "not_found", "message": "no such repository"}}\n',
    ],
    ids=["silent", "hangs up", "no json", "no object", "no pane", "refuses"],
)
def test_a_run_does_not_depend_on_it(repo, answer):
    with FakeHerdr(answer=answer) as herdr:
        herdr._thread.join = lambda timeout: None  # it may be asleep
        begun = time.monotonic()
        (worker,) = run(repo, herdr.path, "echo 1 > a")
        assert worker["status"] == "success"
        assert time.monotonic() - begun < 10
        assert herdr.connections <= 2


def test_a_socket_that_nobody_listens_at_is_passed_over(repo, tmp_path):
    with FakeHerdr() as herdr, socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(herdr.top / "dead"))
        assert run(repo, herdr.top / "dead", "echo 1 > a")[0]["status"] == "success"
        assert run(repo, tmp_path / "none", "echo 1 > a")[0]["status"] == "success"


def test_nothing_of_it_is_loaded_where_it_does_not_run(repo):
    program = (
        "import sys; from git_parallel.cli import run; run(['run', '-q', '--program', 'shell', 'echo 1 > a']); "
        "sys.exit('git_parallel.supervisor.herdr' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=repo.path, check=False).returncode == 0


def test_a_worker_knows_nothing_of_the_pane_that_the_run_was_started_in(repo):
    with FakeHerdr() as herdr:
        place = {"HERDR_SOCKET_PATH": str(herdr.path), "HERDR_ENV": "1", "HERDR_PANE_ID": "w1:p1"}
        repo.parallel("run", "--program", "shell", "env > seen", env=place)
        assert "HERDR" not in repo.git("show", "architect/parallel-1:seen")


def view(state: str, *, reason: str | None = None, path: str = "/") -> WorkerView:
    return WorkerView(
        worker=1,
        task="1",
        title="fix\x1b[31m it",
        model=None,
        branch="b",
        worktree=path,
        state=state,
        reason=reason,
        since="",
    )


def test_only_changes_of_state_are_reported_and_blocked_says_why(tmp_path):
    with FakeHerdr() as herdr:
        bridge = Herdr(str(herdr.path), cwd=str(tmp_path), agent="a command of my own, and one that is quite long")
        for one in (
            view("queued", path=str(tmp_path)),
            view("preparing", path=str(tmp_path)),
            view("running", path=str(tmp_path)),
            view("running", path=str(tmp_path)),
            view("blocked", reason="may I run make?", path=str(tmp_path)),
            view("running", path=str(tmp_path)),
            view("finishing", path=str(tmp_path)),
        ):
            bridge.show(one)
        bridge.close()
        eventually(lambda: len(herdr.asked) == 4)
        assert [(one["state"], one["message"]) for one in herdr.reports("w2:p1")] == [
            ("working", None),
            ("blocked", "may I run make?"),
            ("working", None),
        ]
        assert all(len(one["agent"]) <= 80 for one in herdr.reports("w2:p1"))
        assert "\x1b" not in herdr.asked[0]["params"]["label"]


NEVER = Result(
    worker_id=1,
    branch="b",
    model=None,
    status="skipped",
    steps=None,
    cost=None,
    duration=None,
    files_modified=[],
    worktree_path="/",
    run="r",
    task="1",
    agent="a",
    role="build",
    base="0",
    head=None,
    reason="halted",
)


def test_a_worker_that_never_ran_is_not_shown(tmp_path):
    with FakeHerdr() as herdr:
        bridge = Herdr(str(herdr.path), cwd=str(tmp_path), agent="a")
        bridge.show(replace(view("ended"), result=NEVER))
        bridge.close()
        assert herdr.connections == 0


def test_where_it_listens(monkeypatch):
    monkeypatch.setenv("HOME", "/home/a")
    assert herdr_socket({}) == "/home/a/.config/herdr/herdr.sock"
    assert herdr_socket({"XDG_CONFIG_HOME": "/c"}) == "/c/herdr/herdr.sock"
    assert herdr_socket({"HERDR_SESSION": "work"}) == "/home/a/.config/herdr/sessions/work/herdr.sock"
    assert herdr_socket({"HERDR_SESSION": "work", "HERDR_SOCKET_PATH": "/s"}) == "/s"
