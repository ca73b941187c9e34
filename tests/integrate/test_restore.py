"""restore brings back everything that cleanup removed, and overwrites nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ended_runs import cleanup, ended_run, only, ref, refs, trashed


@pytest.fixture
def worker(repo):
    """A worker that has committed one file."""
    return ended_run(repo)[0]


def restore(repo, *arguments: str, code: int = 0, cwd: Path | None = None) -> dict[str, Any]:
    """Run ``git parallel restore --json``, hold it to its exit code, return its only worker."""
    done = repo.parallel("restore", "--json", *arguments, cwd=cwd)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return only(json.loads(done.stdout)) if done.stdout else {}


def complaint(repo, *arguments: str, code: int, cwd: Path | None = None) -> str:
    """Run a restore that is refused; return what it says."""
    before = refs(repo)
    done = repo.parallel("restore", *arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (code, ""), (done.returncode, done.stdout, done.stderr)
    assert refs(repo) == before
    return done.stderr


def state(worker) -> dict[str, Any]:
    """All that a person can see of a worktree: files, their modes, index, HEAD and what is said to be changed."""
    files = {}
    for directory, names, entries in os.walk(worker.path):
        for name in [*names, *entries]:
            path = Path(directory) / name
            if path.is_symlink():
                files[str(path.relative_to(worker.path))] = f"link to {path.readlink()}"
            elif path.is_file() and name != ".git":
                mode = "x" if os.access(path, os.X_OK) else "-"
                files[str(path.relative_to(worker.path))] = f"{mode} {path.read_text()}"
    return {
        "files": files,
        "status": worker.git("status", "--porcelain=v2", "--branch", "--untracked-files=all"),
        "index": worker.git("write-tree"),
        "head": worker.git("rev-parse", "HEAD"),
    }


# --- branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["number", "handle", "run", "branch", "last"])
def test_brings_the_branch_back_by_any_name(repo, worker, word) -> None:
    cleanup(repo)
    words = {"number": "1", "handle": worker.handle, "run": worker.run, "branch": worker.branch, "last": "last"}
    done = restore(repo, words[word])
    assert (done["branch"], done["created"], done["head"]) == (worker.branch, True, worker.head)
    assert ref(repo, worker.branch) == ref(repo, worker.kept) == worker.head


def test_says_it_in_the_record(repo, worker) -> None:
    cleanup(repo)
    before = ref(repo, f"refs/architect/runs/{worker.run}")
    restore(repo, "1")
    record = f"refs/architect/runs/{worker.run}"
    assert ref(repo, f"{record}^") == before
    message = repo.git("log", "-1", "--format=%B", record).splitlines()
    assert message[0] == f"restore: branch {worker.branch} of worker 1"
    assert {"Architect-Event: restore", "Architect-Worker: 1", f"Architect-Head: {worker.head}"} <= set(message)


def test_a_number_means_the_newest_run_that_had_it(repo, worker) -> None:
    cleanup(repo)
    again = ended_run(repo, "echo again > again.txt")[0]
    cleanup(repo)
    assert restore(repo, "1")["run"] == again.run
    said = complaint(repo, worker.handle, code=5)
    assert f"branch {worker.branch} exists and does not hold the work of {worker.handle}" in said
    assert f"git parallel restore {worker.handle} --branch NAME" in said
    assert restore(repo, worker.handle, "--branch", "older")["head"] == worker.head
    assert (ref(repo, "older"), ref(repo, worker.branch)) == (worker.head, again.head)


def test_all_workers_of_a_run_at_once(repo) -> None:
    workers = ended_run(repo, "echo 1 > a", "echo 2 > b")
    cleanup(repo)
    done = repo.parallel("restore", workers[0].run)
    assert done.stdout.splitlines() == [
        f"{one.handle}: branch {one.branch} restored at {one.head[:10]}" for one in workers
    ]


def test_a_branch_that_is_there_is_left_as_it_is(repo, worker) -> None:
    assert restore(repo, "1")["created"] is False
    cleanup(repo)
    restore(repo, "1")
    later = repo.git("commit-tree", "-m", "later", "-p", worker.branch, f"{worker.branch}^{{tree}}")
    repo.git("update-ref", f"refs/heads/{worker.branch}", later)
    done = restore(repo, worker.handle)
    assert (done["created"], done["head"]) == (False, later)


def test_a_branch_that_holds_only_what_the_worker_had_at_its_end_is_not_its_branch(repo, worker) -> None:
    later = worker.commit("more", "more.txt", "more\n")
    repo.git("merge", "-q", "--ff-only", worker.head)
    said = complaint(repo, "1", "--branch", "main", code=5)
    assert f"branch main exists and does not hold the work of {worker.handle} ({later[:10]})" in said
    assert f"git parallel restore {worker.handle} --branch NAME" in said
    assert restore(repo, "1", "--branch", "copy")["head"] == ref(repo, "copy") == later


def test_any_branch_holds_a_worker_that_left_its_own_without_a_commit(repo) -> None:
    task = "git checkout -q --detach; echo x > x; git add x; git commit -q -m x; git rev-parse HEAD > ../id"
    worker = ended_run(repo, task)[0]
    away = (worker.path.parent / "id").read_text()[:10]
    said = complaint(repo, "1", "--branch", "main", code=5)
    assert f"does not hold the work of {worker.handle}, whose HEAD was at {away}" in said
    assert f"git branch NAME {away}" in said


@pytest.mark.parametrize("name", ["main", "bad..name", "main/below", ""])
def test_a_name_that_cannot_be_is_refused(repo, worker, name) -> None:
    cleanup(repo)
    repo.commit("main goes on", {"other.txt": "other\n"})
    codes = {"main": 5, "main/below": 128}
    complaint(repo, "1", "--branch", name, code=codes.get(name, 2))


def test_restored_cleaned_and_restored_again(repo, worker) -> None:
    cleanup(repo)
    restore(repo, "1", "--worktree")
    second = worker.commit("more", "more.txt", "more\n")
    outcome = only(cleanup(repo))
    assert (outcome["action"], outcome["head"]) == ("removed", second)
    assert restore(repo, "1")["head"] == second
    rewritten = repo.git("commit-tree", "-m", "rewritten", "-p", worker.base, f"{worker.branch}^{{tree}}")
    repo.git("update-ref", f"refs/heads/{worker.branch}", rewritten)
    outcome = only(cleanup(repo, code=5))
    assert outcome["reason"] == "not_ours"
    repo.git("branch", "-q", "-D", worker.branch)
    assert restore(repo, worker.handle)["head"] == second


def test_a_tip_that_was_kept_and_then_rewritten_stays_reachable(repo, worker) -> None:
    cleanup(repo)
    restore(repo, "1", "--worktree")
    worker.git("commit", "-q", "--amend", "-m", "in other words")
    outcome = only(cleanup(repo))
    assert worker.head in outcome["lost"]
    assert worker.head in repo.git("rev-list", worker.wip).split()
    listed = only(json.loads(repo.parallel("restore", "--list", "--json").stdout))
    assert [one["commit"] for one in listed["lost"]] == [worker.head]


# --- worktrees -------------------------------------------------------------------------------------


def leave_nothing(worker) -> None:
    pass


def leave_changes(worker) -> None:
    worker.write("README", "changed\n")
    worker.write("new/deep/file.txt", "new\n")
    (worker.path / "src/a.txt").unlink()
    (worker.path / "run.sh").write_text("#!/bin/sh\n")
    (worker.path / "run.sh").chmod(0o755)
    (worker.path / "link").symlink_to("README")


def leave_a_staged_half(worker) -> None:
    worker.write("README", "staged\n")
    worker.write("added.txt", "added\n")
    worker.git("add", "README", "added.txt")
    worker.write("README", "later\n")
    worker.git("rm", "-q", "--cached", "src/a.txt")


def leave_a_directory_for_a_file(worker) -> None:
    (worker.path / "work.txt").unlink()
    worker.write("work.txt/now/a/directory.txt", "inside\n")
    (worker.path / "src/a.txt").unlink()
    (worker.path / "src").rmdir()
    worker.write("src", "now a file\n")


def leave_a_detached_head(worker) -> None:
    worker.git("checkout", "-q", "--detach")
    worker.commit("away", "away.txt", "away\n")
    worker.write("README", "changed away\n")


def leave_odd_names(worker) -> None:
    worker.write("-dash", "dash\n")
    worker.write('with space/ünï "quoted"\n.txt', "odd\n")
    worker.write("tab\tname", "tab\n")


@pytest.mark.parametrize(
    "leave",
    [
        leave_nothing,
        leave_changes,
        leave_a_staged_half,
        leave_a_directory_for_a_file,
        leave_a_detached_head,
        leave_odd_names,
    ],
)
def test_a_worktree_comes_back_as_it_was(repo, worker, leave) -> None:
    leave(worker)
    before = state(worker)
    cleanup(repo)
    done = restore(repo, "1", "--worktree")
    assert state(worker) == before
    assert done["path"] == str(worker.path)
    assert done["warnings"] == []
    assert f"locked git parallel {worker.handle}" in repo.git("worktree", "list", "--porcelain")
    assert only(cleanup(repo))["action"] == "removed"
    restore(repo, "1", "--worktree")
    assert state(worker) == before


def test_a_worktree_of_a_branch_that_stayed(repo, worker) -> None:
    worker.write("loose.txt", "loose\n")
    before = state(worker)
    cleanup(repo, "--keep-branches")
    restore(repo, "1", "--worktree")
    assert state(worker) == before


def test_a_worktree_elsewhere(repo, worker, tmp_path) -> None:
    worker.write("loose.txt", "loose\n")
    cleanup(repo)
    place = tmp_path / "else where" / "tree"
    done = restore(repo, "1", f"--worktree={place}")
    assert done["path"] == str(place)
    assert (place / "loose.txt").read_text() == "loose\n"
    assert only(cleanup(repo))["worktree"] == str(place)
    assert not place.exists()


def test_a_relative_path_counts_from_where_the_person_stands(repo, worker) -> None:
    cleanup(repo)
    done = restore(repo, "1", "--worktree=tree", cwd=repo.path / "src")
    assert done["path"] == str(repo.path / "src/tree")
    assert repo.git("status", "--porcelain") == ""


def test_a_path_that_is_taken_is_refused(repo, worker) -> None:
    cleanup(repo)
    worker.path.mkdir()
    said = complaint(repo, "1", "--worktree", code=5)
    assert f"'{worker.path}' exists" in said
    assert "--worktree=PATH" in said
    assert list(worker.path.iterdir()) == []


def test_a_branch_checked_out_elsewhere_keeps_its_place(repo, worker) -> None:
    cleanup(repo)
    restore(repo, "1")
    repo.git("switch", "-q", worker.branch)
    done = repo.parallel("restore", "1", "--worktree")
    assert done.returncode == 128
    assert not worker.path.exists()
    assert repo.git("symbolic-ref", "HEAD") == f"refs/heads/{worker.branch}"


def test_a_state_of_before_the_branch_went_on_is_offered_not_put_back(repo, worker) -> None:
    worker.write("loose.txt", "loose\n")
    cleanup(repo)
    restore(repo, "1")
    later = repo.git("commit-tree", "-m", "later", "-p", worker.branch, f"{worker.branch}^{{tree}}")
    repo.git("update-ref", f"refs/heads/{worker.branch}", later)
    cleanup(repo)
    done = restore(repo, "1", "--worktree")
    assert worker.git("status", "--porcelain") == ""
    assert done["snapshot"] is None
    assert "earlier state of the branch" in done["warnings"][0]


def test_sparse_worktrees_come_back_whole(repo, worker) -> None:
    worker.git("sparse-checkout", "set", "--cone", "src")
    worker.write("other/new.txt", "outside the cone\n")
    worker.write("src/new.txt", "inside\n")
    cleanup(repo)
    restore(repo, "1", "--worktree")
    assert (worker.path / "other/new.txt").read_text() == "outside the cone\n"
    assert (worker.path / "src/new.txt").read_text() == "inside\n"


# --- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exists", [True, False])
def test_files_into_a_new_or_an_empty_directory(repo, worker, tmp_path, exists) -> None:
    worker.write("loose.txt", "loose\n")
    cleanup(repo)
    target = tmp_path / "files"
    if exists:
        target.mkdir()
    before = refs(repo)
    done = restore(repo, "1", "--to", str(target))
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert found == ["README", "loose.txt", "src/a.txt", "work.txt"]
    assert done["snapshot"] == ref(repo, worker.wip)
    assert refs(repo) == before
    assert repo.git("worktree", "list").count("\n") == 0
    assert repo.git("status", "--porcelain") == ""


def test_files_never_go_into_a_directory_that_has_some(repo, worker, tmp_path) -> None:
    cleanup(repo)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("mine\n")
    assert "is not empty" in complaint(repo, "1", "--to", str(tmp_path / "full"), code=5)
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine"]


def test_ignored_files_come_back_from_the_trash(repo, worker, tmp_path) -> None:
    (repo.path / ".git/info/exclude").open("a").write("*.env\n")
    worker.write("secret.env", "secret\n")
    cleanup(repo)
    target = tmp_path / "taken out"
    assert f"'{repo.path}' exists" in complaint(repo, "1", "--from-trash", str(repo.path), code=5)
    done = restore(repo, "1", "--from-trash", str(target))
    assert done["path"] == str(target)
    assert (target / "secret.env").read_text() == "secret\n"
    assert not (target / ".git").exists()
    assert trashed(repo) == []
    assert "is not in the trash" in complaint(repo, "1", "--from-trash", str(tmp_path / "again"), code=128)


# --- what there is ---------------------------------------------------------------------------------


def test_lists_what_can_be_restored(repo, worker) -> None:
    amended = worker.commit("first thought", "thought.txt", "first thought\n")
    worker.git("commit", "-q", "--amend", "-m", "second thought")
    tip = worker.git("rev-parse", "HEAD")
    worker.write("loose.txt", "loose\n")
    assert repo.parallel("restore", "--list").stderr == "nothing was removed that could be restored\n"
    cleanup(repo)
    snapshot = ref(repo, worker.wip)
    lines = repo.parallel("restore", "--list").stdout.splitlines()
    assert lines[0] == f"{worker.handle}  {worker.branch}  (branch removed)  success"
    assert lines[1] == f"    tip       {tip[:10]} second thought"
    assert lines[2].startswith(f"    snapshot  {snapshot[:10]}, ")
    assert lines[2].endswith(" ago: 1 uncommitted file")
    assert lines[3] == f"    commit    {amended[:10]} first thought (no branch had it)"
    assert lines[4].startswith("    trash     ")
    assert lines[4].endswith("expires in 7 days")
    item = only(json.loads(repo.parallel("restore", "--list", "--json").stdout))
    assert (item["head"], item["snapshot"], item["files"], item["branch_exists"]) == (tip, snapshot, 1, False)
    assert item["lost"] == [{"commit": amended, "subject": "first thought"}]
    assert [one["was"] for one in item["trash"]] == [str(worker.path)]


def test_lists_only_what_is_named(repo) -> None:
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    cleanup(repo)
    assert two.handle not in repo.parallel("restore", "--list", one.handle).stdout
    assert two.handle in repo.parallel("restore", "--list", one.run).stdout


def test_works_from_a_linked_worktree_and_in_a_bare_repository(make_repo, tmp_path) -> None:
    bare = make_repo("bare.git", commit=False, init=("--bare",))
    bare.git("update-ref", "refs/heads/main", bare.git("commit-tree", "-m", "first", bare.git("mktree", stdin=b"")))
    worker = ended_run(bare)[0]
    worker.write("loose.txt", "loose\n")
    before = state(worker)
    cleanup(bare)
    linked = tmp_path / "linked"
    bare.git("worktree", "add", "-q", "--detach", str(linked), "main")
    restore(bare, "1", "--worktree", cwd=linked)
    assert state(worker) == before
    restore(bare, "1", "--to", str(tmp_path / "files"))
    assert (tmp_path / "files/loose.txt").read_text() == "loose\n"


def test_a_clone_without_records_says_where_they_are(repo, worker, tmp_path) -> None:
    cleanup(repo)
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
    said = complaint(type(repo)(tmp_path / "clone"), worker.handle, code=128)
    assert said.startswith("fatal: this repository has no record of any run\n")
    assert "git parallel fetch <remote>" in said


def test_a_clone_with_the_records_alone_has_the_recorded_heads(repo, worker, tmp_path) -> None:
    cleanup(repo)
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
    clone = type(repo)(tmp_path / "clone")
    clone.git("fetch", "-q", "origin", "refs/architect/runs/*:refs/architect/runs/*")
    assert restore(clone, worker.handle)["head"] == worker.head
    assert ref(clone, worker.branch) == worker.head


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "which worker?"),
        (("1", "--worktree", "--to", "dir"), 2, "exclude each other"),
        (("1", "--branch", "x", "--list"), 2, "exclude each other"),
        (("1", "2", "--branch", "x"), 2, "for one worker, not for 2"),
        (("nonsense",), 2, "no run, worker or branch"),
        (("9",), 2, "no worker 9"),
    ],
)
def test_wrong_words_change_nothing(repo, worker, arguments, code, says) -> None:
    cleanup(repo)
    assert says in complaint(repo, *arguments, code=code)


def test_nothing_of_a_run_that_was_never_cleaned(repo, worker) -> None:
    said = complaint(repo, worker.run, code=128)
    assert f"nothing of run {worker.run} was removed" in said
