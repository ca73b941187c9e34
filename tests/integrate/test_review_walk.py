"""The walk at a real terminal: each key, quitting and dying in the middle, heads that move, two at once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import termios
from pathlib import Path

import pytest
from at_terminal import parallel

from git_parallel.git import Repository
from git_parallel.integrate import verdicts

NUMBERS = "".join(f"{number}\n" for number in range(1, 21))


def started(repo, *tasks: str, options: tuple[str, ...] = ()) -> str:
    arguments = [argument for task in tasks for argument in ("--task", task)]
    return json.loads(repo.parallel("run", "--json", "--program", "shell", *options, *arguments).stdout)["run"]


def given(repo, run: str, worker: int) -> list[str]:
    found = verdicts.of_run(Repository.discover(str(repo.path)), run)
    return [one.verdict for one in found.get(worker, [])]


def review(repo, *arguments: str, env: dict[str, str] | None = None, **size: int):
    return parallel("review", *arguments, cwd=repo.path, env=env, **size)


def script(path: Path, text: str) -> str:
    """An executable shell script; return how to call it."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return shlex.quote(str(path))


def tip(repo, worker: int = 1) -> str:
    return repo.git("rev-parse", f"architect/parallel-{worker}")


APPROVE = r"worker \d+: approve it"


# --- what is shown ---------------------------------------------------------------------------------


def test_the_header_says_all_that_the_decision_needs(repo):
    repo.write("n", NUMBERS)
    repo.commit("numbers")
    run = started(
        repo,
        "sed -i s/^3$/three/ n; echo new > other",
        "sed -i s/^3$/drei/ n",
        "exit 3",
        options=("--check", "grep -q three n"),
    )
    repo.commit("elsewhere", {"else": "x\n"})
    repo.write("n", NUMBERS.replace("3\n", "trois\n", 1))
    repo.commit("the target changes the same line")
    with review(repo) as person:
        first = person.wait(APPROVE)
        assert f"worker 1 of run {run}: success (1 of 3)" in first
        assert "task:      sed -i s/^3$/three/ n; echo new > other\n" in first
        assert "agent:     shell, role build\n" in first
        assert "spent:     ?, ? steps, " in first
        assert "check:     green: grep -q three n (" in first
        assert "; main has moved 2 commits since\n" in first
        assert f"head:      {tip(repo)[:12]} on architect/parallel-1, 1 commit\n" in first
        assert "conflicts: with main: n\n" in first
        assert "with worker 2: n\n" in first
        assert "verdict:   none yet\n" in first
        assert " 2 files changed, 2 insertions(+), 1 deletion(-)\n" in first
        assert "\n-3\n+three\n" in first
        person.type("s\r")
        second = person.wait(APPROVE)
        assert "worker 2 of run" in second
        assert "partial/check_failed" in second
        assert "check:     red (exit code 1): grep -q three n (" in second
        person.type("s\r")
        third = person.wait(APPROVE)
        assert "failed/exit_code" in third or "failed" in third
        assert "no commit of its own" in third
        assert "the branch changes nothing" in third
        person.type("q\r")
        assert person.end() == 0


def test_alternatives_of_one_task_are_told_from_other_branches(repo):
    repo.write("n", NUMBERS)
    repo.commit("numbers")
    repo.git("config", "parallel.models", "a,b")
    started(repo, "sed -i s/^3$/$GIT_PARALLEL_WORKER/ n")
    with review(repo, "1") as person:
        assert "with worker 2 (same task): n\n" in person.wait(APPROVE)
        person.type("q\r")
        person.end()


def test_what_lies_outside_the_task_s_paths_is_shown(repo):
    from runs_with_paths import restricted

    restricted(repo, "echo a > src/b; echo x > other", paths=("src/",))
    with review(repo) as person:
        shown = person.wait(APPROVE)
        assert "outside:   other\n             the task is limited to src/\n" in shown
        person.type("q\r")
        person.end()


def test_hostile_names_and_texts_do_not_drive_the_terminal(repo):
    evil = "\x1b[2J\x1b]0;owned\x07"
    name = f'new\nline "{evil}\u202e'
    task = f"# {evil}\u202e\nprintf 'a%sb\\n' '{evil}' > {shlex.quote(name)}"
    repo.write("file", "x\n")
    repo.commit("file")
    started(repo, task, f"printf 'y{evil}\\n' > file")
    with review(repo, env={"GIT_PAGER": "true"}) as person:
        for _ in range(2):
            person.answer(APPROVE, "h")
            person.answer("take this", "q")
            person.answer(APPROVE, "s")
        person.end()
    shown = person.everything
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown
    assert "\\x1b[2J" in shown


def test_the_persons_colours_are_git_s(repo):
    started(repo, "echo a > a; rm README")
    repo.git("config", "color.diff.new", "magenta")
    repo.git("config", "color.interactive.prompt", "yellow")
    with review(repo, env={"TERM": "xterm"}) as person:
        shown = person.wait(APPROVE)
        assert "\x1b[35m" in shown
        assert "a      | 1 \x1b[35m+\x1b[m" in shown
        assert "\x1b[33m(1/1) worker 1: approve it" in shown
        person.type("h\r")
        assert "\x1b[31m-hello\x1b[m\n" in person.wait("take this deletion")
        person.type("n\r")
        assert "\x1b[35m+a\x1b[m\n" in person.wait("take this new file")
        person.type("q\r")
        person.answer(APPROVE, "q")
        person.end()


# --- keys ------------------------------------------------------------------------------------------


def test_approve_reject_and_the_exit_code(repo):
    run = started(repo, "echo a > a", "echo b > b")
    with review(repo) as person:
        person.answer(APPROVE, "y")
        person.wait("worker 1: approved at " + tip(repo)[:12])
        person.answer(APPROVE, "n")
        person.wait("worker 2: rejected at " + tip(repo, 2)[:12])
        assert person.end() == 1
    assert "1 approved, 1 rejected" in person.everything
    assert (given(repo, run, 1), given(repo, run, 2)) == (["approved"], ["rejected"])
    explicit = [one.explicit for one in verdicts.of_run(Repository.discover(str(repo.path)), run)[1]]
    assert explicit == [False]
    with review(repo) as person:
        person.wait("all of them have a verdict already")
        assert person.end() == 0
    with review(repo, "2") as person:
        assert "verdict:   rejected by C O Mitter" in person.wait(APPROVE)
        person.type("y\r")
        assert person.end() == 0
    assert given(repo, run, 2) == ["rejected", "approved"]


def test_single_keys(repo):
    run = started(repo, "echo a > a", "echo b > b", "echo c > c")
    repo.git("config", "interactive.singleKey", "true")
    with review(repo) as person:
        before = person.modes()
        person.wait(APPROVE + r".*\]\? $")
        assert not person.modes()[3] & termios.ICANON
        person.type("\x1b[B")  # an arrow, whose last byte alone would be a key
        person.wait("none of")
        person.wait(APPROVE + r".*\]\? $")
        person.type("ä")
        person.wait("'ä' is none of")
        person.wait(APPROVE + r".*\]\? $")
        person.type("y")
        person.wait("approved")
        person.wait(APPROVE + r".*\]\? $")
        person.type("n")
        person.wait("rejected")
        person.wait(APPROVE + r".*\]\? $")
        person.type("\x04")
        assert person.end() == 1
        assert person.everything.count("one letter") == 0
    assert before[3] & termios.ICANON
    assert [given(repo, run, worker) for worker in (1, 2, 3)] == [["approved"], ["rejected"], []]


def test_a_signal_finds_the_terminal_as_it_was(repo):
    started(repo, "echo a > a")
    repo.git("config", "interactive.singleKey", "true")
    with review(repo) as person:
        person.wait(APPROVE + r".*\]\? $")
        person.signal(signal.SIGTERM)
        assert person.code() == 143
        assert person.modes()[3] & termios.ICANON


def test_keys_typed_before_the_question_answer_nothing(repo, tmp_path):
    run = started(repo, "echo a > a")
    pager = script(tmp_path / "pager", 'cat; echo ready; while ! test -e "$0.go"; do sleep 0.05; done')
    with review(repo, env={"GIT_PAGER": pager}) as person:
        person.wait("ready")
        person.type("y\r")
        person.wait("y\n")  # the terminal has it
        (tmp_path / "pager.go").touch()
        person.wait(APPROVE + r".*\]\? $")
        assert person.silent() == ""
        person.type("q\r")
        assert person.end() == 0
    assert given(repo, run, 1) == []


def test_unknown_keys_and_help(repo):
    started(repo, "echo a > a")
    with review(repo) as person:
        person.answer(APPROVE, "z")
        person.wait("'z' is none of")
        person.answer(APPROVE, "yes")
        person.wait("one letter is expected, and not 'yes'")
        person.answer(APPROVE, "")
        person.answer(APPROVE, "?")
        shown = person.wait(APPROVE)
        assert "y - approve this head\n" in shown
        assert "D - show the diff with git difftool\n" in shown
        person.type("\x04")
        assert person.end() == 0


def test_skip_back_and_quit(repo):
    run = started(repo, "echo a > a", "echo b > b")
    with review(repo) as person:
        person.answer(r"\(1/2\) worker 1: approve it", "b")
        person.wait("this is the first one")
        person.answer(r"\(1/2\) worker 1: approve it", "s")
        person.answer(r"\(2/2\) worker 2: approve it", "b")
        shown = person.answer(r"\(1/2\) worker 1: approve it", "y")
        assert "diff --git" not in shown  # it was shown before, and d shows it again
        person.answer(r"\(2/2\) worker 2: approve it", "q")
        assert person.end() == 0
    assert "1 approved; 1 worker without a verdict" in person.everything
    assert (given(repo, run, 1), given(repo, run, 2)) == (["approved"], [])


def test_diff_again_difftool_and_log(repo, tmp_path):
    run = started(repo, "echo a > a; echo said by the agent")
    tool = script(tmp_path / "tool", 'echo TOOL; ls "$1" "$2"')
    repo.git("config", "diff.tool", "mine")
    repo.git("config", "difftool.mine.cmd", f'{tool} "$LOCAL" "$REMOTE"')
    with review(repo) as person:
        person.answer(APPROVE, "d")
        assert "diff --git a/a b/a" in person.answer(APPROVE, "D")
        assert "TOOL" in person.answer(APPROVE, "l")
        assert "said by the agent" in person.answer(APPROVE, "i")
        person.wait("not reviewed at another head")
        log = repo.path / f".git/architect/runs/{run}/workers/1/output.log"
        log.write_bytes(b"")
        person.answer(APPROVE, "l")
        person.wait("note: worker 1 has written nothing")
        person.answer(APPROVE, "q")
        assert person.end() == 0


def test_a_pager_that_is_left_early_leaves_nothing_behind(repo, tmp_path):
    started(repo, "echo a > a; seq 1 200000")
    with review(repo, env={"GIT_PAGER": script(tmp_path / "pager", "head -n 3")}) as person:
        person.answer(APPROVE, "l")
        shown = person.answer(APPROVE, "q")
        assert "\n1\n2\n3\n" in shown
        assert "\n4\n" not in shown
        assert person.end() == 0


def test_ctrl_c_in_the_pager_is_the_pager_s(repo, tmp_path):
    started(repo, "echo a > a")
    heard = "trap 'echo the pager heard it; kill $sleeper' INT"
    pager = script(tmp_path / "pager", f"{heard}; cat; sleep 30 & sleeper=$!; echo ready; wait")
    with review(repo, env={"GIT_PAGER": pager}) as person:
        person.wait("ready")
        person.type("\x03")
        person.wait("the pager heard it")
        person.answer(APPROVE, "q")
        assert person.end() == 0


def test_ctrl_c_at_the_question_leaves_with_130_and_keeps_what_was_decided(repo):
    run = started(repo, "echo a > a", "echo b > b")
    with review(repo) as person:
        person.answer(APPROVE, "y")
        person.wait(r"worker 2: approve it.*\]\? $")
        person.type("\x03")
        assert person.end() == 130
    assert "1 approved; 1 worker without a verdict" in person.everything
    assert given(repo, run, 1) == ["approved"]


def test_kill_9_in_the_middle_loses_no_verdict(repo):
    run = started(repo, "echo a > a", "echo b > b", "echo c > c")
    with review(repo) as person:
        person.answer(APPROVE, "y")
        person.answer(r"worker 2: approve it", "n")
        person.wait(r"worker 3: approve it")
        person.signal(signal.SIGKILL)
        assert person.code() == -signal.SIGKILL
    assert [given(repo, run, worker) for worker in (1, 2, 3)] == [["approved"], ["rejected"], []]
    with review(repo) as person:
        person.answer(r"\(3/3\) worker 3: approve it", "y")
        assert person.end() == 0
    assert given(repo, run, 3) == ["approved"]


def test_checks_run_now_as_the_worktree_is(repo):
    started(repo, "echo a > a", options=("--check", "echo looking; test ! -e broken"))
    with review(repo) as person:
        shown = person.answer(APPROVE, "t")
        assert "green" in shown
        person.wait("looking\n")
        person.wait(r"green: echo looking; test ! -e broken")
        (repo.path / ".architect-parallel-1" / "broken").touch()
        person.answer(APPROVE, "t")
        person.wait("the worktree is not what the branch has")
        person.wait(r"red \(exit code 1\): echo looking")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert not [name for name in os.listdir(repo.path / ".git" / "architect") if name.startswith("review-")]


def test_a_check_that_hangs_is_ended_by_ctrl_c_with_its_children(repo, tmp_path):
    gate = tmp_path / "hang"
    started(repo, "echo a > a", options=("--check", f"if test -e {gate}; then echo begun; sleep 998877 & wait; fi"))
    gate.touch()
    with review(repo) as person:
        person.answer(APPROVE, "t")
        person.wait("begun")
        person.type("\x03")
        person.wait("the check was ended")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert "998877" not in "".join(command_lines())


def command_lines() -> list[str]:
    lines = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                lines.append(Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return [line for line in lines if line.startswith("sleep")]


def test_a_run_without_checks_uses_the_configured_one(repo):
    started(repo, "echo a > a")
    with review(repo) as person:
        person.answer(APPROVE, "t")
        person.wait("the run has no check")
        person.answer(APPROVE, "q")
        person.end()
    repo.git("config", "parallel.check", "test -e a")
    with review(repo) as person:
        person.answer(APPROVE, "t")
        person.wait("green: test -e a")
        person.answer(APPROVE, "q")
        person.end()


def test_a_run_of_another_clone_runs_no_command_unasked(repo):
    run = started(repo, "echo a > a; echo said by the agent", options=("--check", "echo checking > ran"))
    (repo.path / ".architect-parallel-1" / "ran").unlink()
    shutil.rmtree(repo.path / ".git" / "architect" / "runs" / run)
    with review(repo) as person:
        assert "said by the agent" in person.answer(APPROVE, "l") + person.answer(APPROVE, "t")
        shown = person.answer("run them here", "n")
        assert "this run was not started in this repository; its checks are:\n    echo checking > ran\n" in shown
        person.answer(APPROVE, "q")
        assert person.end() == 0
        assert not (repo.path / ".architect-parallel-1" / "ran").exists()
    with review(repo) as person:
        person.answer(APPROVE, "t")
        person.answer("run them here", "y")
        person.wait("green: echo checking")
        person.answer(APPROVE, "q")
        assert person.end() == 0


def test_the_others_of_a_task_are_compared(repo):
    started(repo, "echo a > a")
    with review(repo) as person:
        person.answer(APPROVE, "x")
        person.wait("no other worker has this task")
        person.answer(APPROVE, "q")
        person.end()
    repo.git("config", "parallel.models", "a,b")
    started(repo, "echo $GIT_PARALLEL_WORKER > a")
    with review(repo) as person:
        person.answer(APPROVE, "x")
        compared = person.answer(APPROVE, "q")
        assert "2" in compared
        assert "3" in compared
        assert "no other worker" not in compared
        person.end()


# --- comments --------------------------------------------------------------------------------------


def test_comments_are_written_in_the_editor_and_anchored(repo, tmp_path):
    repo.write("n", NUMBERS)
    repo.commit("numbers")
    run = started(repo, "sed -i s/^3$/three/ n")
    editor = script(tmp_path / "editor", r"""sed -i -e '1i Please use digits.' -e '/+three$/a why a word?' "$1" """)
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer(APPROVE, "c")
        person.wait("worker 1: changes at ")
        assert person.end() == 0
    one = verdicts.of_run(Repository.discover(str(repo.path)), run)[1][0]
    assert (one.verdict, one.message) == ("changes", "Please use digits.")
    assert one.comments == (verdicts.Comment("why a word?", "n", 3, "new"),)
    assert os.listdir(repo.path / ".git" / "architect" / "review") == []
    with review(repo, "1") as person:
        shown = person.wait(APPROVE)
        assert "Please use digits.\n" in shown
        assert "n:3: why a word?\n" in shown
        person.type("q\r")
        person.end()


def test_no_comment_is_no_verdict(repo, tmp_path):
    run = started(repo, "echo a > a")
    with review(repo, env={"GIT_EDITOR": "true"}) as person:
        person.answer(APPROVE, "c")
        person.wait("no comment was written; nothing was recorded")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert os.listdir(repo.path / ".git" / "architect" / "review") == []
    with review(repo, env={"GIT_EDITOR": "false"}) as person:
        person.answer(APPROVE, "c")
        person.wait("the editor failed")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert given(repo, run, 1) == []


def test_comments_survive_the_death_of_the_review(repo, tmp_path):
    run = started(repo, "echo a > a")
    editor = script(
        tmp_path / "editor",
        'if ! test -e "$0.second"; then sed -i "1i half a thought" "$1"; echo written; exec sleep 30; fi',
    )
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer(APPROVE, "c")
        person.wait("written")
        person.signal(signal.SIGKILL)
        person.code()
    (tmp_path / "editor.second").touch()
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer(APPROVE, "c")
        person.wait("going on with the comments of an interrupted review")
        person.wait("worker 1: changes at")
        assert person.end() == 0
    one = verdicts.of_run(Repository.discover(str(repo.path)), run)[1][0]
    assert one.message == "half a thought"


# --- edit ------------------------------------------------------------------------------------------


def test_edit_in_the_shell_commits_with_the_person_s_hooks_and_shows_the_difference(repo, tmp_path):
    run = started(repo, "echo a > a")
    old = tip(repo)
    script(repo.path / ".git" / "hooks" / "pre-commit", "echo the hook ran >&2")
    shell = script(tmp_path / "shell", "pwd; echo better > a; echo more > b")
    with review(repo, env={"SHELL": str(tmp_path / "shell"), "GIT_EDITOR": "true"}) as person:
        assert shell
        person.answer(APPROVE, "e")
        person.answer(r"edit with your \[e\]ditor", "s")
        person.wait(str(repo.path / ".architect-parallel-1"))
        shown = person.answer("commit all of this", "y")
        assert " M a\n?? b\n" in shown
        person.wait("the hook ran")
        shown = person.wait(APPROVE)
        new = tip(repo)
        assert f"from {old[:12]} to {new[:12]}, commit by commit (git range-diff)" in shown
        assert "-a\n+better\n" in shown
        assert "1 commit since the worker ended" in shown
        assert "and not of this head" not in shown  # there was no check
        person.type("y\r")
        assert person.end() == 0
    assert repo.git("log", "-1", "--format=%s|%(trailers:key=Parallel-Worker,valueonly)", new) == (
        "review: echo a > a|1\n"
    ).rstrip("\n")
    assert given(repo, run, 1) == ["approved"]
    assert verdicts.of_run(Repository.discover(str(repo.path)), run)[1][0].head == new


def test_edit_with_the_editor_and_not_committing(repo, tmp_path):
    started(repo, "echo a > a; echo x > -dash")
    old = tip(repo)
    editor = script(tmp_path / "editor", 'for file; do echo "opened $file"; echo edited >> "$file"; done')
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "e")
        person.wait(r"opened ./-dash\nopened ./a")
        person.answer("commit all of this", "n")
        person.wait("not committed; it stays in")
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "n")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert tip(repo) == old
    assert (repo.path / ".architect-parallel-1" / "a").read_text() == "a\nedited\n"


def test_a_hook_that_refuses_leaves_the_work_in_the_worktree(repo, tmp_path):
    started(repo, "echo a > a")
    old = tip(repo)
    script(repo.path / ".git" / "hooks" / "pre-commit", "echo no >&2; exit 1")
    script(tmp_path / "shell", "echo better > a")
    with review(repo, env={"SHELL": str(tmp_path / "shell"), "GIT_EDITOR": "true"}) as person:
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "s")
        person.answer("commit all of this", "y")
        person.wait("not committed; it stays in")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert tip(repo) == old
    assert (repo.path / ".architect-parallel-1" / "a").read_text() == "better\n"


def test_a_shell_that_leaves_the_branch_is_told(repo, tmp_path):
    started(repo, "echo a > a")
    script(tmp_path / "shell", "git switch -q --detach; echo better > a")
    with review(repo, env={"SHELL": str(tmp_path / "shell")}) as person:
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "s")
        person.wait("HEAD of the worktree is at no branch now, not on architect/parallel-1")
        person.answer(APPROVE, "q")
        assert person.end() == 0


def test_a_shell_killed_in_raw_mode_gives_the_terminal_back(repo, tmp_path):
    started(repo, "echo a > a")
    script(tmp_path / "shell", "stty raw -echo; kill -9 $$")
    with review(repo, env={"SHELL": str(tmp_path / "shell")}) as person:
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "s")
        person.wait(APPROVE + r".*\]\? $")
        assert person.modes()[3] & termios.ICANON
        assert person.modes()[3] & termios.ECHO
        person.type("q\r")
        assert person.end() == 0


def test_hooks_that_the_branch_brings_along_do_not_run(repo, tmp_path):
    hook = repo.write(".githooks/pre-commit", "#!/bin/sh\necho the hook of the person >&2\n")
    hook.chmod(0o755)
    repo.commit("hooks")
    repo.git("config", "core.hooksPath", ".githooks")
    started(repo, "echo a > a; echo 'echo the hook of the agent >&2' >> .githooks/pre-commit")
    script(tmp_path / "shell", "echo better > a")
    with review(repo, env={"SHELL": str(tmp_path / "shell"), "GIT_EDITOR": "true", "GIT_PAGER": "true"}) as person:
        person.answer(APPROVE, "e")
        person.answer(r"edit with your", "s")
        person.answer("commit all of this", "y")
        person.wait("the hook of the person")
        person.answer(APPROVE, "q")
        assert person.end() == 0
    assert "\nthe hook of the agent\n" not in person.everything


def test_without_its_worktree_a_worker_can_be_decided_but_not_edited(repo):
    run = started(repo, "echo a > a")
    repo.parallel("cleanup", "--keep-branches", "1")
    with review(repo) as person:
        person.answer(APPROVE, "e")
        person.wait("is no worktree of this repository")
        person.answer(APPROVE, "t")
        person.answer(APPROVE, "y")
        assert person.end() == 0
    assert given(repo, run, 1) == ["approved"]


# --- heads that move, and others at work -------------------------------------------------------------


def test_a_branch_that_moves_between_the_showing_and_the_key_is_not_approved(repo):
    run = started(repo, "echo a > a")
    old = tip(repo)
    with review(repo) as person:
        person.wait(APPROVE + r".*\]\? $")
        worktree = repo.path / ".architect-parallel-1"
        (worktree / "a").write_text("sneaked in\n")
        repo.git("commit", "-q", "-am", "late", cwd=worktree)
        new = tip(repo)
        person.type("y\r")
        shown = person.wait(APPROVE + r".*\]\? $")
        assert f"error: 'architect/parallel-1' is at {new[:12]} now, and not at {old[:12]} as it was shown" in shown
        assert "nothing was recorded" in shown
        assert f"from {old[:12]} to {new[:12]}, commit by commit (git range-diff)" in shown
        assert "+sneaked in\n" in shown
        assert given(repo, run, 1) == []
        person.type("y\r")
        assert person.end() == 0
    assert [one.head for one in verdicts.of_run(Repository.discover(str(repo.path)), run)[1]] == [new]


def test_a_void_verdict_is_said_and_the_difference_shown(repo):
    started(repo, "echo a > a")
    old = tip(repo)
    repo.parallel("review", "--approve", "1")
    worktree = repo.path / ".architect-parallel-1"
    (worktree / "a").write_text("later\n")
    repo.git("commit", "-q", "-am", "late", cwd=worktree)
    with review(repo) as person:
        shown = person.wait(APPROVE)
        assert "verdict:   void: approved by C O Mitter" in shown
        assert "and the branch has moved since" in shown
        assert f"from {old[:12]} to {tip(repo)[:12]}, commit by commit" in shown
        assert "-a\n+later\n" in shown
        person.type("i\r")
        assert "-a\n+later\n" in person.answer(APPROVE, "q")
        person.end()


def test_a_verdict_that_becomes_void_in_the_walk_comes_up_again(repo):
    run = started(repo, "echo a > a", "echo b > b")
    with review(repo) as person:
        person.answer("worker 1: approve it", "y")
        person.wait(r"worker 2: approve it.*\]\? $")
        repo.git("commit", "-q", "--allow-empty", "-m", "late", cwd=repo.path / ".architect-parallel-1")
        person.type("y\r")
        shown = person.answer("worker 1: approve it", "n")
        assert "verdict:   void: approved by" in shown
        assert person.end() == 1
    assert (given(repo, run, 1), given(repo, run, 2)) == (["approved", "rejected"], ["approved"])


def test_a_branch_that_is_deleted_meanwhile(repo):
    run = started(repo, "echo a > a")
    with review(repo) as person:
        person.wait(APPROVE + r".*\]\? $")
        repo.git("update-ref", "-d", "refs/heads/architect/parallel-1")
        person.type("y\r")
        person.wait("'architect/parallel-1' is gone, and not at")
        person.wait("can no longer be reviewed")
        assert person.end() == 0
    assert given(repo, run, 1) == []


def test_two_reviews_at_once_do_not_overrule_each_other_unseen(repo):
    run = started(repo, "echo a > a", "echo b > b")
    with review(repo) as one, review(repo) as other:
        one.wait(r"worker 1: approve it.*\]\? $")
        other.wait(r"worker 1: approve it.*\]\? $")
        one.type("y\r")
        one.wait("worker 1: approved")
        other.type("n\r")
        shown = other.wait(r"worker 1: approve it.*\]\? $")
        assert "worker 1 got a verdict meanwhile: approved by C O Mitter" in shown
        assert "verdict:   approved by" in shown
        assert given(repo, run, 1) == ["approved"]
        other.type("n\r")
        other.wait("worker 1: rejected")
        one.answer("worker 2: approve it", "y")
        other.wait(r"worker 2: approve it.*\]\? $")
        assert one.end() == 0
        other.type("q\r")
        assert other.end() == 1
    assert given(repo, run, 1) == ["approved", "rejected"]
    assert given(repo, run, 2) == ["approved"]


def test_follow_waits_for_the_next_worker(repo, tmp_path):
    gate = tmp_path / "gate"
    slow = f"echo b > b; while ! test -e {gate}; do sleep 0.05; done"
    run = repo.parallel("run", "--detach", "--program", "shell", "--task", "echo a > a", "--task", slow).stdout.strip()
    try:
        with review(repo, "--follow") as person:
            person.answer("worker 1: approve it", "y")
            person.wait("waiting for 1 worker")
            gate.touch()
            person.answer("worker 2: approve it", "y")
            assert person.end() == 0
    finally:
        gate.touch()
        repo.parallel("wait")
    assert (given(repo, run, 1), given(repo, run, 2)) == (["approved"], ["approved"])


def test_follow_can_be_left_and_without_it_nothing_is_waited_for(repo, tmp_path):
    gate = tmp_path / "gate"
    run = repo.parallel(
        "run", "--detach", "--program", "shell", "--task", f"while ! test -e {gate}; do sleep 0.05; done"
    ).stdout.strip()
    try:
        with review(repo, "--follow") as person:
            person.wait("waiting for 1 worker")
            person.type("q\r")
            assert person.end() == 0
        with review(repo, run) as person:
            person.wait("1 worker still at work; --follow waits")
            assert person.end() == 0
    finally:
        gate.touch()
        repo.parallel("wait")


@pytest.mark.parametrize("init", [("--object-format=sha256",), ("--bare",)])
def test_it_works_in_other_repositories(make_repo, tmp_path, init):
    if init == ("--bare",):
        make_repo("origin").git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
        repo = type(make_repo("other"))(tmp_path / "bare")
    else:
        repo = make_repo("repo", init=init)
    run = started(repo, "printf 'a\\nb\\n' > a; echo b > b")
    with review(repo) as person:
        person.answer(APPROVE, "h")
        person.answer("take this new file", "y")
        person.answer("take this new file", "n")
        person.answer("put 1 of 2 hunks", "y")
        person.answer(APPROVE, "y")
        assert person.end() == 0
    assert given(repo, run, 1) == ["approved"]
    assert repo.git("diff", "--name-only", "HEAD...architect/parallel-1") == "a"


@pytest.mark.parametrize("where", ["src", ".architect-parallel-1", ".git"])
def test_it_works_from_anywhere_in_the_repository(repo, where):
    run = started(repo, "echo a > a")
    with parallel("review", cwd=repo.path / where) as person:
        assert "+a\n" in person.answer(APPROVE, "y")
        assert person.end() == 0
    assert given(repo, run, 1) == ["approved"]


# --- another round -----------------------------------------------------------------------------------

AGENT = """
case "$1" in
*"digits, please"*) echo 2 > two; echo "$1" > "$TMPDIR/told"; cat "$TMPDIR/told" ;;
*"say two"*) echo two > two ;;
*) echo "$1" > "${1%% *}" ;;
esac
"""


def with_agent(repo, tmp_path: Path, *tasks: str) -> str:
    program = script(tmp_path / "agent", AGENT) + " {task}"
    arguments = [argument for task in tasks for argument in ("--task", task)]
    done = repo.parallel("run", "--json", "--program", program, *arguments)
    return json.loads(done.stdout)["run"]


def test_one_approved_one_rejected_one_sent_back_and_approved_in_round_2(repo, tmp_path):
    run = with_agent(repo, tmp_path, "one thing", "say two", "three things")
    editor = script(tmp_path / "editor", r"""sed -i -e '1i digits, please' -e '/+two$/a here' "$1" """)
    with review(repo, "--follow", env={"GIT_EDITOR": editor}) as person:
        person.answer("worker 1: approve it", "y")
        person.answer("worker 2: approve it", "c")
        person.answer("send it back to the agent now", "y")
        person.wait("worker 2 goes on; it comes up again when it has ended")
        person.answer("worker 3: approve it", "n")
        shown = person.wait(r"worker 2: approve it.*\]\? $", 60)
        assert "attempt 2" in shown
        assert "verdict:   void: changes by C O Mitter" in shown
        assert "digits, please\n" in shown
        assert "two:1: here\n" in shown
        assert "-two\n+2\n" in shown
        person.type("l\r")
        told = person.answer("worker 2: approve it", "y")
        assert "two:1" in told
        assert "here" in told
        assert person.end() == 1
    assert "2 approved, 1 rejected" in person.everything
    assert [given(repo, run, worker) for worker in (1, 2, 3)] == [["approved"], ["changes", "approved"], ["rejected"]]
    assert repo.git("show", "architect/parallel-2:two") == "2"


def test_a_round_that_changes_nothing_comes_up_again_too(repo, tmp_path):
    run = with_agent(repo, tmp_path, "say two")
    editor = script(tmp_path / "editor", 'sed -i 1i"say two" "$1"')
    with review(repo, "--follow", env={"GIT_EDITOR": editor}) as person:
        person.answer("approve it", "c")
        person.answer("send it back to the agent now", "y")
        shown = person.answer("approve it", "q")
        assert "failed/no_changes" in shown
        assert "verdict:   changes by C O Mitter" in shown
        assert person.end() == 0
    assert given(repo, run, 1) == ["changes"]


def test_a_worker_need_not_be_sent_back(repo, tmp_path):
    run = with_agent(repo, tmp_path, "say two")
    editor = script(tmp_path / "editor", 'sed -i 1i"digits, please" "$1"')
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer("approve it", "c")
        person.answer("send it back to the agent now", "n")
        person.wait("hint: send worker 1 back with: git parallel retry 1")
        assert person.end() == 0
    assert given(repo, run, 1) == ["changes"]
    assert repo.git("show", "architect/parallel-1:two") == "two"


def test_no_review_is_put_into_a_command_line(repo, tmp_path):
    started(repo, "echo a > a")
    editor = script(tmp_path / "editor", 'sed -i 1i"; echo pwned" "$1"')
    with review(repo, env={"GIT_EDITOR": editor}) as person:
        person.answer(APPROVE, "c")
        person.wait("its task is a command line: git parallel retry 1 -m COMMAND")
        assert person.end() == 0
    assert "send it back to the agent now" not in person.everything
    assert "send worker 1 back with" not in person.everything, "it would be refused"
