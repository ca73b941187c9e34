"""`git parallel diff`: what a worker changed, recorded or still being made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs_on_disk import RUN, LiveRun, start_run

from git_parallel.cli.diff import split


def at_work(repo, *tasks: str) -> tuple[LiveRun, Path]:
    """A running worker 1 with its worktree."""
    run = start_run(repo.path, *(tasks or ("one",))).running(1)
    worktree = repo.path / ".architect-parallel-1"
    repo.git("worktree", "add", "-q", str(worktree), "architect/parallel-1")
    return run, worktree


def ended(repo) -> LiveRun:
    """An ended worker 1 that has added new.txt and src/b.txt."""
    run = start_run(repo.path, "one")
    repo.git("checkout", "-q", "architect/parallel-1")
    head = repo.commit("work", {"new.txt": "n\n", "src/b.txt": "b\n"})
    repo.git("checkout", "-q", "main")
    return run.ended(1, head=head, files_modified=["new.txt", "src/b.txt"]).finish().record()


def test_an_ended_worker_is_compared_with_its_base(repo) -> None:
    ended(repo)
    repo.commit("main goes on", {"README": "changed\n"})
    done = repo.parallel("diff", "1")
    assert done.returncode == 0, done.stderr
    files = [line for line in done.stdout.splitlines() if line.startswith("diff --git")]
    assert files == ["diff --git a/new.txt b/new.txt", "diff --git a/src/b.txt b/src/b.txt"]


def test_options_and_paths_are_gits_own(repo) -> None:
    ended(repo)
    assert repo.parallel("diff", "1", "--name-only").stdout == "new.txt\nsrc/b.txt\n"
    assert repo.parallel("diff", "1", "--name-only", "--", "src").stdout == "src/b.txt\n"
    assert repo.parallel("diff", "--name-only").stdout == "new.txt\nsrc/b.txt\n"
    assert repo.parallel("diff", "1", "--name-only", "-z").stdout == "new.txt\0src/b.txt\0"
    assert repo.parallel("diff", "1", "--exit-code", "--quiet").returncode == 1
    assert repo.parallel("diff", "1", "--no-such-option").returncode == 129


def test_paths_are_relative_to_where_the_person_stands(repo) -> None:
    ended(repo)
    assert repo.parallel("diff", "1", "--name-only", "--", "b.txt", cwd=repo.path / "src").stdout == "src/b.txt\n"
    _, worktree = at_work_again(repo)
    (worktree / "src" / "c.txt").write_text("c\n")
    done = repo.parallel("diff", "2", "--name-only", "--", "c.txt", cwd=repo.path / "src")
    assert done.stdout == "src/c.txt\n"


def at_work_again(repo) -> tuple[LiveRun, Path]:
    run = start_run(repo.path, "two", run="20261129T170000Z-0000", first=2).running(2)
    worktree = repo.path / ".architect-parallel-2"
    repo.git("worktree", "add", "-q", str(worktree), "architect/parallel-2")
    return run, worktree


def test_the_worktree_of_a_worker_at_work_is_shown_with_its_new_files(repo) -> None:
    _, worktree = at_work(repo)
    (worktree / "README").write_text("edited\n")
    (worktree / "new").mkdir()
    (worktree / "new" / "file name").write_text("n\n")
    (worktree / "src" / "a.txt").unlink()
    done = repo.parallel("diff", "1", "--name-status")
    assert done.stdout == "M\tREADME\nA\tnew/file name\nD\tsrc/a.txt\n"
    assert "note: worker 1 is running; this is its worktree as it is now" in done.stderr


def test_looking_touches_nothing_of_the_agents(repo) -> None:
    run, worktree = at_work(repo)
    (worktree / "README").write_text("edited\n")
    (worktree / "secret").write_text("not to be stored\n")
    index = Path(repo.git("rev-parse", "--path-format=absolute", "--git-path", "index", cwd=worktree))
    (index.parent / "index.lock").touch()  # the agent is in the middle of a git command
    before = index.read_bytes(), index.stat().st_mtime_ns
    assert "README" in repo.parallel("diff", "1", "--stat").stdout
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before
    secret = repo.git("hash-object", "secret", cwd=worktree)
    assert "missing" in repo.git("cat-file", "--batch-check", stdin=f"{secret}\n".encode())
    assert (index.parent / "index.lock").exists()
    assert [name for name in os.listdir(run.files.worker(1).top) if "index" in name] == []


def test_an_interrupted_worker_is_shown_as_it_lies(repo) -> None:
    run, worktree = at_work(repo)
    (worktree / "left").write_text("x\n")
    run.crash()
    done = repo.parallel("diff", "1", "--name-only")
    assert done.stdout == "left\n"
    assert "worker 1 is interrupted" in done.stderr


def test_a_snapshot_stands_for_what_could_not_go_onto_the_branch(repo) -> None:
    run = start_run(repo.path, "one")
    repo.git("checkout", "-q", "--detach")
    snapshot = repo.commit("snapshot", {"half.txt": "h\n"})
    repo.git("checkout", "-q", "main")
    run.ended(1, "partial", "timeout", head=run.spec.base, snapshot=snapshot).finish()
    done = repo.parallel("diff", f"{RUN}/1", "--name-only")
    assert done.stdout == "half.txt\n"
    assert "could not go onto the branch" in done.stderr


def test_later_commits_on_the_branch_are_told_and_not_shown(repo) -> None:
    ended(repo)
    repo.git("checkout", "-q", "architect/parallel-1")
    repo.commit("by hand", {"by-hand.txt": "x\n"})
    done = repo.parallel("diff", "1", "--name-only")
    assert done.stdout == "new.txt\nsrc/b.txt\n"
    assert "'architect/parallel-1' has moved since" in done.stderr


def test_the_diff_of_a_removed_branch_comes_from_the_record(repo) -> None:
    ended(repo).forget()
    repo.git("branch", "-D", "architect/parallel-1")
    assert repo.parallel("diff", f"{RUN}/1", "--name-only").stdout == "new.txt\nsrc/b.txt\n"


def test_a_worker_without_work_says_so(repo) -> None:
    run = start_run(repo.path, "one", "two", "three")
    run.ended(1, "failed", "no_changes", head=run.spec.base).ended(2, "skipped", "dependency")
    done = repo.parallel("diff", "1")
    assert (done.returncode, done.stdout) == (0, "")
    assert "worker 1 changed nothing" in done.stderr
    done = repo.parallel("diff", "2")
    assert done.returncode == 128
    assert "left nothing to compare: skipped/dependency" in done.stderr
    done = repo.parallel("diff", "3")
    assert done.returncode == 128
    assert "has no worktree to compare: it is queued" in done.stderr


def test_it_works_in_a_bare_repository(repo, tmp_path) -> None:
    ended(repo)
    repo.git("clone", "-q", "--mirror", str(repo.path), str(tmp_path / "bare.git"))
    done = repo.parallel("diff", f"{RUN}/1", "--name-only", cwd=tmp_path / "bare.git")
    assert (done.returncode, done.stdout) == (0, "new.txt\nsrc/b.txt\n")


def test_gits_environment_of_a_hook_does_not_lead_astray(repo) -> None:
    _, worktree = at_work(repo)
    (worktree / "new").write_text("x\n")
    env = {"GIT_DIR": str(repo.path / ".git"), "GIT_INDEX_FILE": str(repo.path / ".git" / "index")}
    assert repo.parallel("diff", "1", "--name-only", env=env).stdout == "new\n"


@pytest.mark.parametrize(
    ("arguments", "words", "rest"),
    [
        ([], [], []),
        (["2"], ["2"], []),
        (["--stat", "2"], [], ["--stat", "2"]),
        (["2", "--", "--help"], ["2"], ["--", "--help"]),
        (["--", "src"], [], ["--", "src"]),
    ],
)
def test_the_worker_comes_first(arguments, words, rest) -> None:
    assert split(arguments) == (words, rest)


def test_help_is_its_own(repo) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "git_parallel", "diff", "-h"], cwd=repo.path, capture_output=True, text=True, check=True
    )
    assert "GIT-DIFF-OPTION" in done.stdout
