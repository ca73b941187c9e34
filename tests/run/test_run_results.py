"""What a run does and says: real workers in real worktrees, judged by what git shows afterwards."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

NOTE = "refs/notes/architect"


def run_json(repo, *arguments: str, code: int | None = 0, cwd: Path | None = None, **options) -> dict:
    """Run ``git parallel run --json`` with the shell program and return its document."""
    done = repo.parallel("run", "--json", "--program", "shell", *arguments, cwd=cwd, **options)
    assert code is None or done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_each_worker_works_in_its_own_worktree_and_branch(repo):
    base = repo.git("rev-parse", "HEAD")
    document = run_json(repo, "--task", "echo one > one.txt", "--task", "echo two > two.txt; echo b >> src/a.txt")

    first, second = document["workers"]
    assert document["v"] == 1
    assert document["status"] == "ended"
    assert [worker["status"] for worker in document["workers"]] == ["success", "success"]
    assert first["files_modified"] == ["one.txt"]
    assert second["files_modified"] == ["src/a.txt", "two.txt"]
    assert (second["insertions"], second["deletions"]) == (2, 0)
    assert first["branch"] == "architect/parallel-1"
    assert first["worktree_path"] == str(repo.path / ".architect-parallel-1")
    assert first["base"] == base
    assert first["cost"] is None
    assert repo.git("show", "architect/parallel-2:two.txt") == "two"
    assert repo.git("rev-parse", "architect/parallel-1^") == base
    assert repo.git("status", "--porcelain", cwd=repo.path / ".architect-parallel-1") == ""
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-parse", "HEAD") == base
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def test_uncommitted_work_is_committed_with_trailers_and_the_agents_own_commits_stay(repo):
    document = run_json(repo, "echo a > a && git add a && git commit -qm 'own commit' && echo b > b")

    worker = document["workers"][0]
    log = repo.git("log", "--format=%s", "architect/parallel-1").splitlines()
    assert log[1:] == ["own commit", "first"]
    trailers = repo.git("log", "-1", "--format=%(trailers)", worker["head"])
    assert f"Parallel-Run: {document['run']}" in trailers
    assert "Parallel-Worker: 1" in trailers
    assert "Parallel-Status: success" in trailers
    assert "Agent: shell" in trailers


def test_record_and_note_tell_the_same_story(repo):
    document = run_json(repo, "echo x > x", "--check", "test -f x")
    run, head = document["run"], document["workers"][0]["head"]

    note = repo.git("log", "-1", "--format=%N", "--notes=architect", head)
    assert f"Parallel-Worker: {run}/1" in note
    assert "Status: success (done)" in note
    assert "Check: green: test -f x" in note
    result = json.loads(repo.git("show", f"refs/architect/runs/{run}:workers/1/result.json"))
    assert result["head"] == head
    assert result["check"] == [{"command": "test -f x", "exit_code": 0, "duration": result["check"][0]["duration"]}]
    subjects = repo.git("log", "--first-parent", "--format=%s", f"refs/architect/runs/{run}").splitlines()
    assert subjects[0] == "run ended: 1 success"
    assert subjects[1].startswith("worker 1: success: 1 file, +1 -0")
    assert subjects[-1] == "run 1 worker: echo x > x"
    assert head in repo.git("log", "--format=%H", f"refs/architect/runs/{run}").split()
    assert repo.git("show", f"refs/architect/runs/{run}:version") == "1"


def test_tasks_beyond_the_workers_wait_and_none_is_dropped(repo):
    tasks = [argument for number in range(7) for argument in ("--task", f"echo {number} > file-{number}")]
    document = run_json(repo, "--workers", "2", *tasks)

    assert [worker["status"] for worker in document["workers"]] == ["success"] * 7
    assert [worker["files_modified"] for worker in document["workers"]] == [[f"file-{n}"] for n in range(7)]


def test_never_more_workers_at_once_than_asked_for(repo, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    task = f"touch {marks}/$GIT_PARALLEL_WORKER; ls {marks} | wc -l > seen; sleep 0.2; rm {marks}/$GIT_PARALLEL_WORKER"
    run_json(repo, "--workers", "2", *(["--task", task] * 5))

    seen = [int(repo.git("show", f"architect/parallel-{number}:seen")) for number in range(1, 6)]
    assert max(seen) == 2


def test_a_second_run_goes_on_after_the_first_and_touches_nothing_of_it(repo):
    run_json(repo, "echo one > one")
    kept = repo.git("rev-parse", "architect/parallel-1")
    (repo.path / ".architect-parallel-1" / "later").write_text("mine\n")
    document = run_json(repo, "echo two > two")

    assert document["workers"][0]["branch"] == "architect/parallel-2"
    assert repo.git("rev-parse", "architect/parallel-1") == kept
    assert (repo.path / ".architect-parallel-1" / "later").read_text() == "mine\n"


def test_two_runs_at_once_never_meet(repo):
    argv = [sys.executable, "-m", "git_parallel", "run", "--json", "--program", "shell"]
    tasks = [argument for number in range(4) for argument in ("--task", f"echo $GIT_PARALLEL_RUN > f{number}")]
    both = [subprocess.Popen([*argv, *tasks], cwd=repo.path, stdout=subprocess.PIPE) for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=60)[0]) for process in both]

    workers = [worker for document in documents for worker in document["workers"]]
    assert sorted(worker["worker_id"] for worker in workers) == list(range(1, 9))
    for worker in workers:
        name = worker["files_modified"][0]
        assert repo.git("show", f"{worker['branch']}:{name}") == worker["run"]
    notes = repo.git("notes", "--ref=architect", "list").splitlines()
    assert len(notes) == 8


def test_success_without_a_change_is_a_failure_unless_allowed(repo):
    failed = run_json(repo, "echo 'I fixed everything'", code=1)["workers"][0]
    assert (failed["status"], failed["reason"]) == ("failed", "no_changes")
    allowed = run_json(repo, "true", "--allow-empty")["workers"][0]
    assert allowed["status"] == "success"
    undone = run_json(repo, "echo x>x; git add x; git commit -qm x; git rm -q x; git commit -qm undone", code=1)
    assert undone["workers"][0]["reason"] == "no_changes"


def test_a_failure_keeps_the_work(repo):
    worker = run_json(repo, "echo half > half; exit 3", code=1)["workers"][0]

    assert (worker["status"], worker["reason"], worker["exit_code"]) == ("failed", "agent_error", 3)
    assert repo.git("show", "architect/parallel-1:half") == "half"
    assert "Parallel-Status: failed (agent_error)" in repo.git("log", "-1", "--format=%B", "architect/parallel-1")


def test_exit_125_means_cannot_tell(repo):
    document = run_json(repo, "--task", "exit 125", "--task", "echo x > x; exit 125", code=1)
    assert [(worker["status"], worker["reason"]) for worker in document["workers"]] == [
        ("skipped", "cannot_tell"),
        ("partial", "cannot_tell"),
    ]


def test_exit_127_stops_the_run(repo):
    document = run_json(repo, "--workers", "1", "--task", "no-such-program-anywhere", "--task", "echo x > x", code=1)
    first, second = document["workers"]
    assert (first["status"], first["reason"]) == ("failed", "command_not_found")
    assert (second["status"], second["reason"]) == ("skipped", "halted")
    assert repo.git("for-each-ref", "refs/heads/architect/parallel-2") == ""


def test_why_a_run_ends_early_is_said(repo):
    for options, task, why in (
        ((), "no-such-program-anywhere", "[1] exit code 127 (command_not_found) ends the run: 2 workers not started"),
        (("--halt", "soon,fail=1"), "exit 3", "--halt soon,fail=1 is reached: 2 workers not started"),
    ):
        tasks = ("--task", task, "--task", "echo x > x", "--task", "echo y > y")
        done = repo.parallel("run", "--program", "shell", "--workers", "1", *options, *tasks)
        assert why.replace("[1]", "") in done.stderr, done.stderr


def test_a_red_check_makes_it_partial_and_keeps_the_output(repo):
    document = run_json(repo, "echo x > x", "--check", "echo looking; grep -q y x", "--check", "true", code=1)
    worker = document["workers"][0]

    assert (worker["status"], worker["reason"]) == ("partial", "check_failed")
    assert [check["exit_code"] for check in worker["check"]] == [1, 0]
    log = repo.path / ".git/architect/runs" / document["run"] / "workers/1/check-1.log"
    assert log.read_text() == "looking\n"


def test_what_a_check_leaves_behind_is_not_committed(repo):
    run_json(repo, "echo x > x", "--check", "echo report > report.txt")
    assert repo.git("diff", "--name-only", "HEAD", "architect/parallel-1") == "x"
    assert (repo.path / ".architect-parallel-1/report.txt").exists()


@pytest.mark.parametrize(
    "task",
    [
        "--help",
        "-rf /",
        "two\nlines\n\nand a last one without end",
        'it\'s "quoted" with $HOME and `ticks` and \\ backslashes',
        "añade tests a src/auth.py 🚀 – ünïcödé",
        "x" * 200_000,
        "  leading and trailing blanks \n",
    ],
    ids=["option", "dash", "newlines", "quotes", "emoji", "200kB", "blanks"],
)
@pytest.mark.parametrize("channel", ["file", "stdin", "argv"])
def test_a_task_arrives_unchanged(repo, tmp_path, task, channel):
    dump = tmp_path / "dump.py"
    read = {
        "argv": "sys.argv[1] if sys.argv[1:] else sys.stdin.read()",
        "file": "open(sys.argv[1], newline='').read()",
        "stdin": "sys.stdin.read()",
    }[channel]
    dump.write_text(
        "import sys, io\nsys.stdin = io.TextIOWrapper(sys.stdin.buffer, newline='')\n"
        f"open('got', 'w', newline='').write({read})\n"
    )
    field = {"argv": " {task}", "file": " {task_file}", "stdin": ""}[channel]
    argv = ["run", "--json", "--program", f"{sys.executable} {dump}{field}", "--task-file", "-"]
    done = repo.parallel(*argv, stdin=task.encode())

    assert done.returncode == 0, done.stderr
    assert (repo.path / ".architect-parallel-1/got").read_bytes() == task.encode()
    run = json.loads(done.stdout)["run"]
    kept = subprocess.run(
        ["git", "show", f"refs/architect/runs/{run}:workers/1/prompt.txt"],
        cwd=repo.path,
        capture_output=True,
        check=True,
    )
    assert kept.stdout == task.encode()


def test_from_a_subdirectory_the_agent_starts_there(repo):
    repo.commit("deep", {"deep/er/file": "x"})
    run_json(repo, "pwd > where; echo $GIT_PARALLEL_ROOT >> where", cwd=repo.path / "deep/er")
    where = repo.git("show", "architect/parallel-1:deep/er/where").splitlines()
    assert where == [str(repo.path / ".architect-parallel-1/deep/er"), str(repo.path / ".architect-parallel-1")]


def test_an_agent_that_believes_pwd_works_in_its_worktree_all_the_same(repo, monkeypatch):
    repo.commit("inner", {"deep/er/file": "x\n"})
    monkeypatch.setenv("PWD", str(repo.path / "deep/er"))  # as a person's shell says; sh would put it right
    monkeypatch.setenv("OLDPWD", str(repo.path))
    code = "import os; open('seen', 'w').write(str([os.environ.get(name) for name in ('PWD', 'OLDPWD')]))"
    program = f"{sys.executable} -c {shlex.quote(code)} {{task}}"
    (worker,) = run_json(repo, "do it", "--program", program, cwd=repo.path / "deep/er")["workers"]
    assert worker["files_modified"] == ["deep/er/seen"]
    started = f"{worker['worktree_path']}/deep/er"
    assert repo.git("show", f"{worker['branch']}:deep/er/seen") == str([started, None])


def test_from_a_linked_worktree_workers_stand_at_the_top_of_the_main_one(repo, tmp_path):
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    side = repo.commit("side", {})
    (tmp_path / "linked" / "s").write_text("s")
    repo.git("add", "s", cwd=tmp_path / "linked")
    repo.git("commit", "-qm", "on side", cwd=tmp_path / "linked")
    document = run_json(repo, "echo x > x", cwd=tmp_path / "linked")

    worker = document["workers"][0]
    assert worker["worktree_path"] == str(repo.path / ".architect-parallel-1")
    assert worker["base"] == repo.git("rev-parse", "side")
    assert worker["base"] != side
    assert repo.git("status", "--porcelain") == ""


def test_a_bare_repository_a_detached_head_and_a_path_full_of_surprises(make_repo, tmp_path):
    odd = make_repo('o\'dd "näme" -x')
    odd.git("checkout", "-q", "--detach")
    assert run_json(odd, "echo x > x")["workers"][0]["status"] == "success"

    odd.git("clone", "-q", "--bare", str(odd.path), str(tmp_path / "bare.git"))
    document = run_json(odd, "echo x > x", cwd=tmp_path / "bare.git")
    assert document["workers"][0]["status"] == "success"
    assert odd.git("show", f"{document['workers'][0]['head']}:x", cwd=tmp_path / "bare.git") == "x"


def test_a_sha256_repository(make_repo):
    repo = make_repo(init=("--object-format=sha256",))
    document = run_json(repo, "echo x > x", "--check", "true")
    assert len(document["workers"][0]["head"]) == 64
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def test_called_as_git_does_it_with_git_dir_and_from_a_hook_like_environment(repo, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    env = {"GIT_DIR": str(repo.path / ".git"), "GIT_WORK_TREE": str(repo.path), "GIT_INDEX_FILE": str(repo.path / "no")}
    document = run_json(repo, "env | grep ^GIT_ | cut -d= -f1 > names", cwd=other, env=env)

    assert document["workers"][0]["status"] == "success"
    names = repo.git("show", "architect/parallel-1:names").split()
    assert "GIT_DIR" not in names
    assert "GIT_INDEX_FILE" not in names
    assert not (repo.path / "no").exists()


def test_uncommitted_changes_are_warned_about_or_taken_in(repo):
    repo.write("README", "changed\n")
    repo.write("new", "new\n")
    plain = repo.parallel("run", "--program", "shell", "cp README seen")
    assert "warning: uncommitted changes are not in the base" in plain.stderr
    assert repo.git("show", "architect/parallel-1:seen") == "hello"

    before = repo.git("status", "--porcelain")
    taken = repo.parallel("run", "--program", "shell", "--with-changes", "cat README new > seen")
    assert taken.returncode == 0, taken.stderr
    assert "warning" not in taken.stderr
    assert repo.git("show", "architect/parallel-2:seen") == "changed\nnew"
    assert repo.git("status", "--porcelain") == before


def test_json_is_alone_on_standard_output_and_quiet_is_quiet(repo):
    done = repo.parallel("run", "--json", "--program", "shell", "echo noise; echo x > x")
    assert json.loads(done.stdout)["workers"][0]["status"] == "success"
    quiet = repo.parallel("run", "-q", "--program", "shell", "echo x > y")
    assert quiet.stderr == ""
    assert "architect/parallel-2" in quiet.stdout


def test_a_merge_in_progress_is_kept_as_a_snapshot_not_committed_over(repo):
    repo.commit("other", {"src/a.txt": "theirs\n"})
    repo.git("branch", "theirs")
    repo.git("reset", "-q", "--hard", "HEAD^")
    task = "echo ours > src/a.txt; git commit -qam ours; git merge theirs; echo extra > extra; true"
    worker = run_json(repo, task, code=None)["workers"][0]

    assert worker["snapshot"] is not None
    assert repo.git("rev-parse", f"refs/architect/wip/{worker['run']}/1") == worker["snapshot"]
    assert repo.git("show", f"{worker['snapshot']}:extra") == "extra"
    assert repo.git("log", "-1", "--format=%s", "architect/parallel-1") == "ours"
    assert (repo.path / ".git/worktrees/-architect-parallel-1/MERGE_HEAD").exists() or any(
        (admin / "MERGE_HEAD").exists() for admin in (repo.path / ".git/worktrees").iterdir()
    )
    assert any("merge is in progress" in warning for warning in worker["warnings"])


def test_an_agent_that_leaves_its_branch_loses_nothing(repo):
    worker = run_json(repo, "git checkout -q --detach; echo x > x; git add x; git commit -qm x; echo y > y", code=None)
    result = worker["workers"][0]

    assert result["snapshot"] is not None
    assert repo.git("show", f"{result['snapshot']}:y") == "y"
    assert repo.git("show", f"{result['snapshot']}^:x") == "x"
    assert repo.git("rev-parse", "architect/parallel-1") == result["base"]
    assert result["head"] == result["base"]


def test_nested_repositories_are_named_as_not_captured(repo):
    task = "git init -q inner; echo x > inner/x; git init -q full; cd full; echo y > y; git add y; git commit -qm y"
    worker = run_json(repo, task + "; cd ..; echo z > z", code=None)["workers"][0]

    assert repo.git("show", "architect/parallel-1:z") == "z"
    said = " ".join(worker["warnings"])
    assert "inner" in said
    assert "full" in said


def test_one_task_with_models_and_padding(repo):
    document = run_json(repo, "echo $GIT_PARALLEL_WORKER > w", "--models", "a, b", "--workers", "3")
    assert [worker["model"] for worker in document["workers"]] == ["a", "b", None]
    document = run_json(repo, "--task", "echo 1 > w", "--task", "echo 2 > w", "--models", "a,b", "--matrix")
    assert [(worker["task"], worker["model"]) for worker in document["workers"]] == [
        ("t1", "a"),
        ("t1", "b"),
        ("t2", "a"),
        ("t2", "b"),
    ]


def test_halt_on_the_first_success_stops_the_others_and_counts_them(repo):
    document = run_json(
        repo, "--halt", "now,success=1", "--task", "echo x > x", "--task", "echo y > y; sleep 600", "--workers", "2"
    )
    first, second = document["workers"]
    assert first["status"] == "success"
    assert (second["status"], second["reason"]) == ("cancelled", "halted")
    assert repo.git("show", "architect/parallel-2:y") == "y"


def test_retries_only_for_passing_causes(repo, tmp_path):
    count = tmp_path / "count"
    killed = run_json(repo, f"echo x >> {count}; kill -9 $$", "--retries", "1", code=1)["workers"][0]
    assert (killed["status"], killed["reason"], killed["attempts"]) == ("failed", "signal", 2)
    assert count.read_text() == "x\nx\n"
    plain = run_json(repo, "exit 1", "--retries", "3", code=1)["workers"][0]
    assert plain["attempts"] == 1


def test_commands_of_the_repository_run_only_once_approved(repo):
    repo.commit("config", {".git-parallel.yaml": "parallel_runs:\n  check: [touch ran]\n"})
    refused = repo.parallel("run", "--program", "shell", "echo x > x")
    assert refused.returncode == 2
    assert "touch ran" in refused.stderr
    assert repo.git("branch", "--list", "architect/*") == ""
    assert repo.parallel("run", "--program", "shell", "--trust", "echo x > x").returncode == 0
    assert repo.parallel("run", "--program", "shell", "echo x > x").returncode == 0


def test_architect_is_driven_with_the_seeds_command_line_and_read_tolerantly(repo, tmp_path):
    stub = tmp_path / "bin" / "architect"
    stub.parent.mkdir()
    stub.write_text(
        "#!/bin/sh\nprintf '%s\\n' \"$@\" > args\necho 'LiteLLM: some noise'\n"
        'echo \'{\'\necho \'  "status": "partial", "stop_reason": "budget_exceeded", "steps": 4, "cost": "0.5",\'\n'
        'echo \'  "costs": {"total_input_tokens": 10, "total_output_tokens": 2}\'\necho \'}\'\nexit 2\n'
    )
    stub.chmod(0o755)
    env = {"PATH": f"{stub.parent}:{os.environ['PATH']}"}
    argv = ["run", "--json", "--models", "gpt-4o", "--budget-per-worker", "2", "--timeout-per-worker", "300"]
    done = repo.parallel(*argv, "- a task", env=env)

    worker = json.loads(done.stdout)["workers"][0]
    args = repo.git("show", "architect/parallel-1:args").splitlines()
    assert args[:4] == ["run", "--json", "--confirm-mode", "yolo"]
    assert args[-2:] == ["--", "- a task"]
    for option, value in (("--agent", "build"), ("--model", "gpt-4o"), ("--budget", "2"), ("--max-steps", "50")):
        assert args[args.index(option) + 1] == value
    assert (worker["status"], worker["reason"]) == ("partial", "budget")
    assert (worker["steps"], worker["cost"]) == (4, 0.5)
    assert worker["agent"] == "architect"


def test_a_run_budget_is_reserved_before_a_worker_starts(repo, tmp_path):
    stub = tmp_path / "bin" / "architect"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\ndate > d; echo \'{"status": "success", "stop_reason": "llm_done", "cost": 0.6}\'\n')
    stub.chmod(0o755)
    env = {"PATH": f"{stub.parent}:{os.environ['PATH']}"}
    tasks = ["--task", "a", "--task", "b", "--task", "c"]
    done = repo.parallel("run", "--json", "--budget", "1", "--workers", "1", *tasks, env=env)

    statuses = [(worker["status"], worker["reason"]) for worker in json.loads(done.stdout)["workers"]]
    assert statuses[0] == ("success", "done")
    assert statuses[2] == ("skipped", "run_budget")


def test_ports_and_temporary_directories_are_each_workers_own(repo):
    run_json(repo, *(["--task", "echo $GIT_PARALLEL_PORT $TMPDIR > v; echo t > $TMPDIR/t"] * 3))
    seen = [repo.git("show", f"architect/parallel-{number}:v").split() for number in (1, 2, 3)]
    assert len({port for port, _ in seen}) == 3
    assert len({directory for _, directory in seen}) == 3
    assert not any(Path(directory).exists() for _, directory in seen)


def test_work_done_in_the_wrong_place_is_not_claimed_and_named(repo):
    result = run_json(repo, f"echo wrong > {repo.path}/src/new.txt; echo fixed", code=1)["workers"][0]
    assert (result["status"], result["reason"]) == ("failed", "no_changes")
    assert any("src/new.txt" in warning and "did the agent work there" in warning for warning in result["warnings"])


def test_a_configuration_changed_under_us_is_reported(repo):
    result = run_json(repo, "git config core.bare true; echo x > x", code=None)["workers"][0]
    assert any("configuration changed" in warning for warning in result["warnings"])
    before = repo.path / ".git/architect/runs" / result["run"] / "config.before"
    assert "bare = false" in before.read_text()


def test_a_program_that_cannot_be_started_is_a_failure_with_the_systems_reason(repo, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    done = repo.parallel("run", "--json", "--program", str(broken), "task")
    worker = json.loads(done.stdout)["workers"][0]
    assert (worker["status"], worker["reason"]) == ("failed", "spawn")
    assert "No such file" in worker["detail"]
    assert worker["exit_code"] is None


def test_a_replaced_base_is_compared_as_git_shows_it(repo):
    base = repo.git("rev-parse", "HEAD")
    other = repo.commit("other", {"README": "replaced\n", "more": "x\n"})
    repo.git("reset", "-q", "--hard", base)
    repo.git("replace", base, other)
    repo.git("reset", "-q", "--hard")
    idle, busy = (
        json.loads(repo.parallel("run", "--json", "--program", "shell", task).stdout)["workers"][0]
        for task in ("true", "echo x > new")
    )
    assert (idle["status"], idle["reason"], idle["files_modified"]) == ("failed", "no_changes", [])
    assert (busy["status"], busy["files_modified"]) == ("success", ["new"])
