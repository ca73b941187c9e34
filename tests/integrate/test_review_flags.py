"""Reviews without a terminal: verdicts by flags, the list, and never a silent approval."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from at_terminal import terminal

from git_parallel.cli.review import split
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts


def started(repo, *tasks: str, options: tuple[str, ...] = ()) -> dict:
    arguments = [argument for task in tasks for argument in ("--task", task)]
    return json.loads(repo.parallel("run", "--json", "--program", "shell", *options, *arguments).stdout)


def given(repo, run: str) -> dict[int, list[tuple[str, str | None]]]:
    found = verdicts.of_run(Repository.discover(str(repo.path)), run)
    return {worker: [(one.verdict, one.message) for one in all_of_it] for worker, all_of_it in found.items()}


def test_words_belong_to_the_verdict_before_them():
    rest, orders = split(["--approve", "1", "3", "--reject", "2", "-m", "why", "--json", "4", "--changes=5", "-Fx"])
    assert rest == ["--json"]
    assert [(order.word, order.words, order.message, order.file) for order in orders] == [
        ("approved", ["1", "3"], None, None),
        ("rejected", ["2", "4"], "why", None),
        ("changes", ["5"], None, "x"),
    ]
    assert split(["1", "--list", "-m", "x"]) == (["1", "--list", "-m", "x"], [])
    assert split(["--approve", "1", "--", "-2"])[1][0].words == ["1", "-2"]
    assert split(["--reject", "1", "--message=a=b"])[1][0].message == "a=b"
    with pytest.raises(UsageError):
        split(["--reject", "1", "-m"])
    with pytest.raises(UsageError):
        split(["--reject", "1", "-m", "x", "-F", "y"])


def test_without_a_terminal_it_is_an_error_and_nothing_is_approved(repo):
    run = started(repo, "echo x > x")["run"]
    for stdin in (None, b"y\ny\n"):
        done = repo.parallel("review", stdin=stdin)
        assert done.returncode == 2
        assert "there is no terminal" in done.stderr
        assert done.stdout == ""
    assert given(repo, run) == {}


def test_only_one_way_leads_to_a_terminal(repo):
    run = started(repo, "echo x > x")["run"]
    for redirection in ("< /dev/null", "| cat"):
        with terminal(
            "sh", "-c", f"{sys.executable} -m git_parallel review {redirection}; echo code $?", cwd=repo.path
        ) as shell:
            assert "there is no terminal" in shell.wait(r"code \d")
    assert given(repo, run) == {}


def test_git_s_own_pager_in_front_is_named(repo):
    done = repo.parallel("review", env={"GIT_PAGER_IN_USE": "true"})
    assert done.returncode == 2
    assert "git --no-pager parallel review" in done.stderr


def test_verdicts_by_flags(repo, tmp_path):
    run = started(repo, "echo a > a", "echo b > b", "echo c > c", "echo d > d")["run"]
    reasons = tmp_path / "reasons"
    reasons.write_text("# a heading stays\n\nDo it again.\n")
    done = repo.parallel(
        "review", "--approve", "1", "3", "--reject", "2", "-m", "why", "--changes", "4", "-F", str(reasons)
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert [line.split(" at ")[0] for line in done.stderr.splitlines()] == [
        "worker 1: approved",
        "worker 3: approved",
        "worker 2: rejected",
        "worker 4: changes",
    ]
    assert given(repo, run) == {
        1: [("approved", None)],
        2: [("rejected", "why")],
        3: [("approved", None)],
        4: [("changes", "# a heading stays\n\nDo it again.")],
    }
    here = Repository.discover(str(repo.path))
    assert all(one.explicit for of_worker in verdicts.of_run(here, run).values() for one in of_worker)
    note = repo.git("log", "-1", "--format=%N", "--notes=architect", "architect/parallel-2")
    assert "Review: rejected by C O Mitter <committer@example.com> on" in note
    assert "(by a flag, without a terminal): why" in note


def test_a_message_from_standard_input(repo):
    run = started(repo, "echo a > a")["run"]
    assert repo.parallel("review", "--changes", "1", "-F", "-", stdin=b"from \xff here\n").returncode == 0
    assert given(repo, run) == {1: [("changes", "from \ufffd here")]}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--approve"], "needs a worker"),
        (["--approve", "last"], "is a run of 2 workers"),
        (["--approve", "1", "--reject", "1"], "named twice"),
        (["--approve", "1", "9"], "no worker 9"),
        (["--approve", "1", "--changes", "2"], "needs to say which"),
        (["--approve", "1", "--changes", "2", "-m", "  "], "needs to say which"),
        (["--approve", "1", "--changes", "2", "-F", "missing"], "cannot read 'missing'"),
        (["1", "--approve", "2"], "do not go with --approve"),
        (["--approve", "1", "--list"], "do not go with --approve"),
        (["--approve", "1", "--follow"], "do not go with --approve"),
        (["-m", "why"], "behind the verdict"),
        (["--list", "--follow"], "--follow is for the walk"),
        (["--json", "--porcelain"], "exclude each other"),
    ],
)
def test_what_is_wrong_records_nothing(repo, arguments, complaint):
    run = started(repo, "echo a > a", "echo b > b")["run"]
    done = repo.parallel("review", *arguments)
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert given(repo, run) == {}


def test_a_worker_that_cannot_be_decided_keeps_the_others_from_it(repo):
    run = started(repo, "echo a > a", "echo b > b")["run"]
    repo.parallel("cleanup", "2")
    done = repo.parallel("review", "--approve", "1", f"{run}/2")
    assert done.returncode == 2
    assert "worker 2 has no branch to review" in done.stderr
    assert f"git parallel restore {run}/2" in done.stderr
    assert given(repo, run) == {}


def test_a_worker_at_work_cannot_be_approved(repo, tmp_path):
    gate = tmp_path / "gate"
    task = f"echo a > a; while ! test -e {gate}; do sleep 0.05; done"
    run = repo.parallel("run", "--detach", "--program", "shell", "--task", task).stdout.strip()
    try:
        for flag in (["--approve", "1"], ["--reject", "1"], ["--changes", "1", "-m", "x"]):
            done = repo.parallel("review", *flag)
            assert done.returncode == 2
            assert "its head may still move" in done.stderr
        assert given(repo, run) == {}
    finally:
        gate.write_text("")
        repo.parallel("wait")
    assert repo.parallel("review", "--approve", "1").returncode == 0
    assert given(repo, run) == {1: [("approved", None)]}


def test_approving_what_failed_is_said_aloud(repo):
    run = started(repo, "echo a > a; exit 3", "true", options=("--check", "true"))["run"]
    done = repo.parallel("review", "--approve", "1", "2")
    assert done.returncode == 0
    assert "warning: worker 1 ended as failed" in done.stderr
    assert "warning: worker 2 ended as failed/no_changes" in done.stderr
    assert "warning: the branch of worker 2 has no commit of its own" in done.stderr
    assert given(repo, run) == {1: [("approved", None)], 2: [("approved", None)]}


def test_the_list_and_its_forms(repo):
    run = started(repo, "echo a > a", "true", options=("--check", "true"))["run"]
    repo.commit("the target moves")
    repo.parallel("review", "--approve", "1")
    head = repo.git("rev-parse", "architect/parallel-1")
    base = repo.git("rev-parse", "HEAD^")

    table = repo.parallel("review", "--list").stdout
    lines = [line.split() for line in table.splitlines()]
    assert lines[0][:6] == ["worker", "status", "verdict", "changes", "check", "behind"]
    assert lines[1][:8] == ["1", "success", "approved", "1", "file,", "+1", "-0", "ok"]
    assert lines[2][:4] == ["2", "failed/no_changes", "-", "-"]

    document = json.loads(repo.parallel("review", "--json").stdout)
    assert document["v"] == 1
    one, two = document["workers"]
    assert (one["run"], one["worker"], one["head"], one["base"]) == (run, 1, head, base)
    assert (one["verdict"], one["void"], one["behind"], one["files"]) == ("approved", None, 1, ["a"])
    assert one["verdicts"][0]["explicit"] is True
    assert one["verdicts"][0]["terminal"] is False
    assert (two["verdict"], two["verdicts"]) == (None, [])

    fields = repo.parallel("review", "--porcelain").stdout.splitlines()[0].split("\t")
    assert fields[:8] == [run, "1", "ended", "success", "done", "approved", head, head]
    assert fields[9:] == ["1", "1", "architect/parallel-1", "C O Mitter <committer@example.com>"]
    assert repo.parallel("review", "-z").stdout.count("\0") == 2


def test_a_verdict_that_is_void_is_listed_as_void(repo):
    started(repo, "echo a > a")
    repo.parallel("review", "--approve", "1")
    repo.git("commit", "-q", "--allow-empty", "-m", "more", cwd=repo.path / ".architect-parallel-1")
    one = json.loads(repo.parallel("review", "--json").stdout)["workers"][0]
    assert (one["verdict"], one["void"]) == (None, "approved")
    assert repo.parallel("review", "--porcelain").stdout.split("\t")[5] == "void"


def test_a_verdict_stays_what_it_was_when_the_branch_is_gone(repo):
    document = started(repo, "echo a > a", "echo b > b")
    run, head = document["run"], document["workers"][0]["head"]
    repo.parallel("review", "--reject", "1", "--approve", "2")
    repo.parallel("review", "--approve", "1")
    assert repo.parallel("merge", "--yes").returncode == 0
    assert repo.parallel("cleanup", f"{run}/1").returncode == 0
    gone, there = repo.parallel("review", "--list", run).stdout.splitlines()[1:]
    assert ("approved" in gone, gone.endswith(" architect/parallel-1 (gone)")) == (True, True)
    assert ("approved" in there, there.endswith(" architect/parallel-2")) == (True, True)
    listed = json.loads(repo.parallel("review", "--json", run).stdout)["workers"][0]
    assert (listed["verdict"], listed["void"], listed["head"]) == ("approved", None, None)
    fields = repo.parallel("review", "--porcelain", run).stdout.splitlines()[0].split("\t")
    assert fields[5:8] == ["approved", "-", head]
    shown = repo.parallel("show", f"{run}/1").stdout
    assert shown.count("void") == 0
    assert shown.count("(a later one counts)") == 1
    started(repo, "echo new > new")
    assert "architect/parallel-1 (given away)" in repo.parallel("review", "--list", run).stdout


def test_json_of_verdicts_just_given_has_only_those_workers(repo):
    started(repo, "echo a > a", "echo b > b")
    document = json.loads(repo.parallel("review", "--reject", "2", "-m", "no", "--json").stdout)
    assert [(one["worker"], one["verdict"]) for one in document["workers"]] == [(2, "rejected")]


def test_show_tells_the_same_story_as_the_notes(repo):
    run = started(repo, "echo a > a")["run"]
    repo.parallel("review", "--changes", "1", "-m", "first this\nthen that")
    repo.parallel("review", "--approve", "1")
    shown = repo.parallel("show", "1").stdout
    head = repo.git("rev-parse", "architect/parallel-1")[:12]
    who = "C O Mitter <committer@example.com>"
    lines = [line.strip() for line in shown.splitlines()]
    first = next(index for index, line in enumerate(lines) if line.startswith("review:"))
    assert lines[first].startswith(f"review:    changes by {who} on ")
    assert lines[first].endswith(f" for {head} (by a flag, without a terminal) (a later one counts)")
    assert lines[first + 1 : first + 3] == ["first this", "then that"]
    assert lines[first + 3].startswith(f"review:    approved by {who} on ")
    repo.git("commit", "-q", "--allow-empty", "-m", "more", cwd=repo.path / ".architect-parallel-1")
    assert "(void: the branch is at " in repo.parallel("show", "1").stdout
    document = json.loads(repo.parallel("show", run, "--json").stdout)
    assert [one["verdict"] for one in document["verdicts"]] == ["changes", "approved"]


def test_files_outside_the_task_s_paths_are_named(repo):
    from runs_with_paths import restricted

    restricted(repo, "echo a > src/b; echo x > other; echo y > 'od\td'", paths=("src/",))
    one = json.loads(repo.parallel("review", "--json").stdout)["workers"][0]
    assert one["outside"] == ["od\td", "other"]


def test_it_needs_no_run(repo):
    done = repo.parallel("review", "--list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no run yet" in done.stderr


def test_it_works_in_a_bare_clone_that_fetched_the_run(repo, tmp_path):
    run = started(repo, "echo a > a")["run"]
    bare = tmp_path / "bare.git"
    subprocess.run(["git", "clone", "-q", "--mirror", str(repo.path), str(bare)], check=True)
    done = repo.parallel("review", "--approve", f"{run}/1", cwd=bare)
    assert done.returncode == 0, done.stderr
    listed = json.loads(repo.parallel("review", "--json", run, cwd=bare).stdout)["workers"][0]
    assert listed["verdict"] == "approved"


def test_a_flag_typed_at_a_terminal_is_recorded_as_that(repo):
    run = started(repo, "echo a > a")["run"]
    with terminal(sys.executable, "-m", "git_parallel", "review", "--approve", "1", cwd=repo.path) as shell:
        shell.wait("worker 1: approved")
    (verdict,) = verdicts.of_run(Repository.discover(str(repo.path)), run)[1]
    assert (verdict.explicit, verdict.terminal) == (True, True)
    assert "(by a flag)" in repo.parallel("show", "1").stdout


def test_inside_a_worker_nothing_is_approved_or_landed(repo):
    run = started(repo, "echo a > a")["run"]
    parallel = f"{sys.executable} -m git_parallel"
    tasks = (f"{parallel} review --approve {run}/1; {parallel} merge --no-review --yes {run}/1", "echo b > b")
    before = repo.git("rev-parse", "main")
    second = started(repo, *tasks, options=("--allow-empty",))["run"]
    log = repo.parallel("log", f"{second}/2").stdout
    assert f"error: a verdict is a person's, and this is worker 2 of run {second}" in log
    assert "error: a landing is a person's" in log
    assert given(repo, run) == {}
    assert repo.git("rev-parse", "main") == before


def test_no_detour_out_of_a_worker_leads_to_an_approval(repo):
    """Not with another directory, a cleared environment, a session or a terminal of its own, or no parent."""
    run = started(repo, "echo a > a")["run"]
    approve = f"{sys.executable} -m git_parallel review --approve {run}/1"
    bare = f'cd "{repo.path}" && env -i PATH="$PATH" HOME="$HOME" PYTHONPATH="$PYTHONPATH"'
    gone = f"{repo.path}/.git/gone"
    orphan = f"(setsid sh -c 'sleep 0.2; {approve}; touch {gone}' &); until test -e {gone}; do sleep 0.05; done"
    spawned = f"{sys.executable} -c 'import pty; pty.spawn(\"{approve}\".split())'"
    detours = (approve, f"setsid {approve}", spawned, f'sh -c "{orphan}"')
    second = started(repo, *(f"{bare} {detour}" for detour in detours), options=("--allow-empty", "--workers", "4"))
    for number in range(2, 2 + len(detours)):
        log = repo.parallel("log", f"{second['run']}/{number}").stdout
        assert f"error: a verdict is a person's, and this is a process of run {second['run']}" in log
    assert given(repo, run) == {}


def test_in_a_workers_worktree_only_a_terminal_approves(repo):
    run = started(repo, "echo a > a")["run"]
    inside = repo.path / ".architect-parallel-1"
    done = repo.parallel("review", "--approve", "1", cwd=inside)
    assert done.returncode == 2
    assert f"this is the worktree of worker {run}/1" in done.stderr
    assert given(repo, run) == {}
    assert repo.parallel("merge", "--yes", cwd=inside).returncode == 2
    assert repo.parallel("review", "--list", cwd=inside).returncode == 0
    assert repo.parallel("merge", "--dry-run", cwd=inside).returncode == 0
    with terminal(sys.executable, "-m", "git_parallel", "review", "--approve", "1", cwd=inside) as shell:
        shell.wait("worker 1: approved")
    assert given(repo, run) == {1: [("approved", None)]}
