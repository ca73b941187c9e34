"""Checks of integrated trees: green, red, hanging, killed, leaving things behind; remembered, searched, frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from landings import landable, recorded, tree_on_disk

from git_parallel.integrate import land, prepare
from git_parallel.integrate.person import Answer
from git_parallel.integrate.plan import Command, commands
from git_parallel.plan import config


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def ran(tmp_path) -> Path:
    """A file outside the repository that a check may append to."""
    return tmp_path / "ran"


def test_each_integrated_tree_is_checked_and_not_the_branch_alone(repo, ran):
    """Both branches are good alone; together they are not."""
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"}, {"three": "3\n"})
    code, document, _ = run.merge("--check", f"ls | tr '\\n' ' ' >> '{ran}'; echo >> '{ran}'; ! test -f two -a -f one")
    assert (code, run.states(document)) == (4, {1: "landed", 2: "red", 3: "landed"})
    assert lines(ran) == ["README one src ", "README one src two ", "README one src three "]
    branch = document["branches"][1]
    assert "exit code 1" in branch["why"]
    assert Path(branch["log"]).exists()
    assert "two" not in tree_on_disk(repo.path)


def test_a_red_check_shows_what_it_printed(repo):
    landable(repo, {"one": "1\n"})
    done = repo.parallel("merge", "--yes", "--check", "echo what went wrong; exit 3")
    assert done.returncode == 4
    assert "what went wrong" in done.stderr
    assert "exit code 3" in done.stderr


def test_a_check_sees_exactly_the_tree_and_leaves_nothing_for_the_next(repo, ran):
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("untracked", "mine\n")
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    check = (
        f"git status --porcelain --ignored >> '{ran}'; touch left a.o; mkdir -p sub && git init -q sub; echo x > README"
    )
    code, _, _ = run.merge("--check", check)
    assert code == 0
    assert lines(ran) == []
    assert (repo.path / "README").read_text() == "hello\n"
    assert not (repo.path / "left").exists()
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert not (repo.path / ".architect-parallel-merge").exists()


def test_a_check_that_breaks_its_worktree_does_not_break_the_next(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"}, {"three": "3\n"})
    check = 'mkdir -p a/b && touch a/b/c && chmod 500 a/b a; touch "$(git rev-parse --git-dir)/index.lock"; rm -f .git'
    code, document, said = run.merge("--check", check)
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed", 3: "landed"}), said
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert list((repo.path / ".git/architect/scratch").iterdir()) == []
    assert not (repo.path / ".git/index.lock").exists()


def test_a_check_that_hangs_is_ended_and_red(repo):
    run = landable(repo, {"one": "1\n"})
    began = time.monotonic()
    code, document, _ = run.merge("--check", "sleep 1000", "--check-timeout", "1")
    assert (code, run.states(document)) == (4, {1: "red"})
    assert "took longer than allowed" in document["branches"][0]["why"]
    assert document["branches"][0]["checks"][0]["exit_code"] is None
    assert time.monotonic() - began < 60
    assert run.merge("--check", "sleep 1000", "--check-timeout", "1")[0] == 4, "a time limit is not remembered"


def test_the_time_limit_is_a_setting(repo):
    repo.git("config", "parallel.checkTimeout", "1s")
    run = landable(repo, {"one": "1\n"})
    assert run.merge("--check", "sleep 1000")[0] == 4


def test_a_check_that_is_killed_is_red_and_not_remembered(repo, ran):
    run = landable(repo, {"one": "1\n"})
    check = f"test -e '{ran}' || {{ touch '{ran}'; kill -9 $$; }}"
    code, document, _ = run.merge("--check", check)
    assert (code, run.states(document)) == (4, {1: "red"})
    assert "killed by signal 9" in document["branches"][0]["why"]
    assert run.merge("--check", check)[0] == 0


def test_processes_that_a_check_leaves_are_ended(repo, ran):
    run = landable(repo, {"one": "1\n"})
    check = f"setsid sleep 987 & echo $! > '{ran}'; (setsid sh -c 'sleep 987' &) ; true"
    assert run.merge("--check", check)[0] == 0
    assert not psutil.pid_exists(int(ran.read_text()))
    assert not [one for one in psutil.process_iter(["cmdline"]) if one.info["cmdline"] == ["sleep", "987"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_landing_that_is_told_to_end_leaves_nothing_behind(repo, ran, number):
    run = landable(repo, {"one": "1\n"})
    argv = [sys.executable, "-m", "git_parallel", "merge", "--yes", "--check", f"echo $$ > '{ran}'; sleep 986"]
    with subprocess.Popen(argv, cwd=repo.path, stderr=subprocess.PIPE) as landing:
        while not lines(ran):
            time.sleep(0.02)
        landing.send_signal(number)
        said = landing.communicate(timeout=30)[1].decode()
    assert landing.returncode == 128 + number, said
    assert not psutil.pid_exists(int(ran.read_text()))
    assert "skipped   worker 1: interrupted" in said or number == signal.SIGHUP
    assert not (repo.path / ".architect-parallel-merge").exists()
    assert repo.git("rev-parse", "main") == run.base
    assert "everything is in order" in repo.parallel("doctor").stderr


def test_a_tree_is_never_checked_twice(repo, ran):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    check = f"echo ran >> '{ran}'"
    code, document, _ = run.merge("1", "--check", check)
    assert (code, lines(ran)) == (0, ["ran"])
    repo.parallel("merge", "--undo", document["merge"])
    code, document, _ = run.merge("1", "--check", check)
    assert (code, lines(ran)) == (0, ["ran"])
    assert document["branches"][0]["checks"][0]["cached"] is True
    repo.parallel("merge", "--undo", document["merge"])
    code, document, _ = run.merge("1", "--check", check, "--recheck")
    assert (code, lines(ran)) == (0, ["ran", "ran"])
    repo.parallel("merge", "--undo", document["merge"])
    code, _, _ = run.merge("1", "--check", check, "--check", f"echo other >> '{ran}'")
    assert (code, lines(ran)) == (0, ["ran", "ran", "other"])


def test_a_red_result_is_remembered_too(repo, ran):
    run = landable(repo, {"one": "1\n"})
    check = f"echo ran >> '{ran}'; false"
    assert [run.merge("--check", check)[0] for _ in range(2)] == [4, 4]
    assert lines(ran) == ["ran"]


def test_checks_of_the_run_are_frozen_when_the_landing_begins(repo, ran):
    """A branch that brings other checks along changes nothing: they are those of the run and the configuration."""
    repo.write(".git-parallel.yaml", f"parallel_runs:\n  check: [\"echo project >> '{ran}'\"]\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "project file")
    run = landable(
        repo, {".git-parallel.yaml": f"parallel_runs:\n  check: [\"echo sneaked >> '{ran}'\"]\n"}, {"two": "2\n"}
    )
    code, document, said = run.merge()
    assert (code, document) == (2, {})
    assert "have not been approved on this machine" in said
    assert f"echo project >> '{ran}'" in said
    assert not ran.exists()
    code, document, _ = run.merge("--trust")
    assert code == 0
    assert lines(ran) == ["project", "project"]
    assert [one["text"] for one in recorded(repo, document["merge"])["checks"]] == [f"echo project >> '{ran}'"]


def test_checks_of_the_run_count(repo, ran):
    run = landable(repo, {"one": "1\n"}, checks=(f"echo run >> '{ran}'",))
    assert run.merge("--check", f"echo flag >> '{ran}'")[0] == 0
    assert lines(ran) == ["run", "flag"]


def test_checks_of_a_run_of_another_clone_are_nobodys_until_they_were_seen(repo, ran):
    """A record that was fetched is somebody else's text."""
    run = landable(repo, {"one": "1\n"}, checks=(f"echo fetched >> '{ran}'",), live=False)
    code, _, said = run.merge()
    assert (code, "have not been approved on this machine" in said) == (2, True)
    assert not ran.exists()
    assert run.merge("--trust")[0] == 0
    assert lines(ran) == ["fetched"]


def test_no_checks_runs_none(repo, ran):
    run = landable(repo, {"one": "1\n"})
    assert run.merge("--no-checks", "--check", f"touch '{ran}'")[0] == 0
    assert not ran.exists()


def test_a_check_knows_where_it_is_and_has_none_of_our_variables(repo, ran, monkeypatch):
    run = landable(repo, {"one": "1\n"})
    monkeypatch.setenv("GIT_PREFIX", "src/")
    mine = "env | grep -E '^(GIT_PARALLEL|GIT_DIR|GIT_PREFIX|GIT_INDEX)' | sort"
    check = f"{{ {mine}; pwd; git rev-parse HEAD^2; }} > '{ran}'"
    code, document, _ = run.merge("--check", check)
    assert code == 0
    scratch = str(repo.path / ".architect-parallel-merge")
    assert lines(ran) == [
        f"GIT_PARALLEL_MERGE={document['merge']}",
        f"GIT_PARALLEL_ROOT={scratch}",
        f"GIT_PARALLEL_RUN={document['merge']}",
        "GIT_PARALLEL_WORKER=1",
        scratch,
        run.heads[0],
    ]


def test_the_checks_log_is_kept_and_the_note_tells_of_it(repo):
    run = landable(repo, {"one": "1\n"})
    _, document, _ = run.merge("--check", "echo all is well")
    check = document["branches"][0]["checks"][0]
    assert Path(check["log"]).read_text() == "all is well\n"
    assert "Check: green: echo all is well" in repo.git("notes", "--ref=architect", "show", "main")


# --- batches -----------------------------------------------------------------------------------------


def test_a_green_batch_is_checked_once_and_lands_in_one_step(repo, ran):
    run = landable(repo, *({f"f{number}": "x\n"} for number in range(1, 6)))
    code, document, _ = run.merge("--batch", "--check", f"ls f* | tr -d '\\n' >> '{ran}'; echo >> '{ran}'")
    assert code == 0
    assert lines(ran) == ["f1f2f3f4f5"]
    assert repo.git("reflog", "--format=%gs", "main").splitlines()[0] == (
        "parallel: land worker 1, worker 2, worker 3, worker 4, worker 5 on main"
    )
    assert [branch["commit"] for branch in document["branches"]][::-1] == repo.git(
        "log", "--first-parent", "-5", "--format=%H", "main"
    ).split()


def test_a_red_batch_is_searched_and_the_green_ones_land(repo, ran):
    run = landable(repo, *({f"f{number}": "x\n"} for number in range(1, 9)))
    code, document, _ = run.merge("--batch", "--check", f"echo $(ls f*) >> '{ran}'; ! test -e f2")
    assert code == 4
    assert run.states(document) == {number: "red" if number == 2 else "landed" for number in range(1, 9)}
    assert sorted(tree_on_disk(repo.path)) == sorted(["README", "src/a.txt", *(f"f{n}" for n in (1, 3, 4, 5, 6, 7, 8))])
    assert [len(line.split()) for line in lines(ran)] == [8, 4, 2, 1, 7], "then what was left, on what had landed"
    assert repo.git("status", "--porcelain") == ""


def test_two_red_ones_in_a_batch(repo):
    run = landable(repo, *({f"f{number}": "x\n"} for number in range(1, 7)))
    code, document, _ = run.merge("--batch", "--check", "! test -e f1 && ! test -e f4")
    assert (code, run.states(document)) == (
        4,
        {1: "red", 2: "landed", 3: "landed", 4: "red", 5: "landed", 6: "landed"},
    )


def test_two_that_are_only_red_together_in_a_batch(repo):
    run = landable(repo, *({f"f{number}": "x\n"} for number in range(1, 5)))
    code, document, _ = run.merge("--batch", "--check", "! test -e f2 -a -e f3")
    assert (code, run.states(document)) == (4, {1: "landed", 2: "landed", 3: "red", 4: "landed"})


# --- interrupted -------------------------------------------------------------------------------------


class Interrupting:
    """Presses Ctrl-C when the second check begins."""

    def __init__(self) -> None:
        self.checks = 0

    def asked(self, merge, link) -> Answer:
        return Answer("yes")

    asked_together = asked

    def told(self, merge, branch) -> None:
        pass

    def checking(self, branch, command) -> None:
        self.checks += 1
        if self.checks == 2:
            raise KeyboardInterrupt

    def noted(self, line) -> None:
        pass


def test_an_interrupted_landing_keeps_what_has_landed(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    settings = config.load(run.where, {"check": ["true"]})
    draft = prepare.prepare(run.where, prepare.Request(words=(), config=settings, argv=(), yes=True))
    landing = land.begin(run.where, draft.merge, Interrupting(), settings.worktree)
    with pytest.raises(KeyboardInterrupt):
        landing.run()
    assert [(branch.state, branch.why) for branch in landing.merge.branches] == [
        ("landed", None),
        ("skipped", "interrupted"),
    ]
    assert repo.git("status", "--porcelain") == ""
    assert not os.path.exists(repo.path / ".architect-parallel-merge")
    assert recorded(repo, landing.merge.merge)["state"] == "ended"


# --- the pure part -----------------------------------------------------------------------------------


def test_commands_are_those_of_the_runs_then_the_configured_each_once():
    runs = [(("make", "lint"), "src/"), (("make", "test"), "")]
    assert commands(runs, ["lint", "other"], "sub/") == (
        Command("make", "src/"),
        Command("lint", "src/"),
        Command("make", ""),
        Command("test", ""),
        Command("other", "sub/"),
    )
