"""The checked-out target: local changes are never touched, and files, index and ref agree whatever happens."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from landings import landable, recorded, tree_on_disk

from git_parallel.git import Repository
from git_parallel.integrate import checkout
from git_parallel.integrate.local import overlapping, parse_status


def state_of(repo) -> tuple[object, ...]:
    """Everything of the checkout that a refused landing must leave as it is."""
    return (
        tree_on_disk(repo.path),
        repo.git("ls-files", "-s", "-t"),
        repo.git("status", "--porcelain=v2", "--ignored", "--untracked-files=all", "--", ":!.architect-*"),
        repo.git("rev-parse", "HEAD", "main"),
    )


# --- overlapping: refused, named, untouched ----------------------------------------------------------


def unstaged(repo) -> str:
    repo.write("README", "mine\n")
    return "README"


def staged(repo) -> str:
    repo.write("README", "mine\n")
    repo.git("add", "README")
    return "README"


def staged_the_very_same(repo) -> str:
    repo.write("README", "theirs\n")
    repo.git("add", "README")
    return "README"


def deleted(repo) -> str:
    (repo.path / "README").unlink()
    return "README"


def staged_deletion(repo) -> str:
    repo.git("rm", "-q", "README")
    return "README"


def made_executable(repo) -> str:
    (repo.path / "README").chmod(0o755)
    return "README"


def untracked(repo) -> str:
    repo.write("new/file", "mine\n")
    return "new/file"


def untracked_the_very_same(repo) -> str:
    repo.write("new/file", "n\n")
    return "new/file"


def ignored(repo) -> str:
    repo.write(".git/info/exclude", "new/\n")
    repo.write("new/file", "mine\n")
    return "new/file"


def staged_new(repo) -> str:
    repo.write("new/file", "mine\n")
    repo.git("add", "new/file")
    return "new/file"


def intended_to_add(repo) -> str:
    repo.write("new/file", "mine\n")
    repo.git("add", "-N", "new/file")
    return "new/file"


def staged_without_a_file(repo) -> str:
    staged_new(repo)
    (repo.path / "new/file").unlink()
    return "new/file"


def staged_without_a_file_in_a_directory_that_becomes_a_file(repo) -> str:
    repo.write("src/mine", "mine\n")
    repo.git("add", "src/mine")
    (repo.path / "src/mine").unlink()
    return "src/mine"


def staged_without_a_file_where_a_directory_will_be(repo) -> str:
    repo.write("new", "mine\n")
    repo.git("add", "new")
    (repo.path / "new").unlink()
    return "new"


def file_where_a_directory_will_be(repo) -> str:
    repo.write("new", "mine\n")
    return "new"


def link_where_a_directory_will_be(repo) -> str:
    (repo.path / "elsewhere").mkdir()
    (repo.path / "new").symlink_to("elsewhere")
    return "new"


def directory_where_a_file_will_be(repo) -> str:
    repo.write("new/file/mine", "mine\n")
    return "new/file/mine"


def ignored_file_in_a_directory_that_becomes_a_file(repo) -> str:
    repo.write(".git/info/exclude", "*.o\n")
    repo.write("src/a.o", "mine\n")
    return "src/a.o"


def dangling_link(repo) -> str:
    (repo.path / "new").mkdir()
    (repo.path / "new/file").symlink_to("nowhere")
    return "new/file"


def hidden_from_status(repo) -> str:
    repo.write("README", "mine\n")
    repo.git("update-index", "--assume-unchanged", "README")
    return "README"


OVERLAPPING = [
    unstaged,
    staged,
    staged_the_very_same,
    deleted,
    staged_deletion,
    made_executable,
    untracked,
    untracked_the_very_same,
    ignored,
    staged_new,
    intended_to_add,
    staged_without_a_file,
    staged_without_a_file_in_a_directory_that_becomes_a_file,
    staged_without_a_file_where_a_directory_will_be,
    file_where_a_directory_will_be,
    link_where_a_directory_will_be,
    directory_where_a_file_will_be,
    ignored_file_in_a_directory_that_becomes_a_file,
    dangling_link,
    hidden_from_status,
]


@pytest.mark.parametrize("local", OVERLAPPING, ids=lambda local: local.__name__)
def test_overlapping_local_changes_refuse_the_landing_and_stay(repo, local):
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n", "src/a.txt": None, "src": "a file now\n"})
    path = local(repo)
    before = state_of(repo)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused"})
    assert state_of(repo) == before
    branch = document["branches"][0]
    assert path in branch["files"] or path in branch["why"], branch
    assert "could not" not in branch["why"], "it was seen before anything moved"
    assert not (repo.path / ".git/index.lock").exists()
    assert repo.git("notes", "--ref=architect", "list").count("\n") == 0, "no note of what did not land"


def test_one_branch_in_the_way_does_not_hold_up_the_others(repo):
    run = landable(repo, {"one": "1\n"}, {"README": "theirs\n"}, {"three": "3\n"})
    repo.write("README", "mine\n")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "landed", 2: "refused", 3: "landed"})
    assert document["branches"][1]["files"] == ["README"]
    assert (repo.path / "README").read_text() == "mine\n"
    assert repo.git("diff", "--name-only") == "README"
    assert (repo.path / "three").read_text() == "3\n"
    again = repo.parallel("merge", "--yes", "2")
    assert "hint: commit or move what is in the way, and run the command again" in again.stderr


# --- all others: left exactly alone ------------------------------------------------------------------


def test_other_local_changes_of_every_kind_stay_as_they_are(repo):
    names = ("unstaged", "staged", "both", "deleted", "removed", "mode", "hidden")
    repo.commit("more", {name: f"{name}\n" for name in names})
    repo.write(".git/info/exclude", "*.o\n")
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n", "src/a.txt": None})
    repo.write("unstaged", "mine\n")
    repo.write("staged", "mine\n")
    repo.write("both", "mine, staged\n")
    repo.git("add", "staged", "both")
    repo.write("both", "mine, unstaged\n")
    (repo.path / "deleted").unlink()
    repo.git("rm", "-q", "removed")
    (repo.path / "mode").chmod(0o755)
    repo.write("hidden", "mine\n")
    repo.git("update-index", "--assume-unchanged", "hidden")
    repo.write("untracked", "mine\n")
    repo.write("ignored.o", "mine\n")
    repo.write("added", "mine\n")
    repo.git("add", "added")
    repo.write("intended", "mine\n")
    repo.git("add", "-N", "intended")
    (repo.path / "link").symlink_to("nowhere")
    files, index = tree_on_disk(repo.path), repo.git("ls-files", "-s", "-t", "--", ":!README", ":!new", ":!src")
    status = repo.git("status", "--porcelain=v2", "--ignored", "--", ":!.architect-*")
    code, _, _ = run.merge()
    assert code == 0
    assert repo.git("status", "--porcelain=v2", "--ignored", "--", ":!.architect-*") == status
    assert repo.git("ls-files", "-s", "-t", "--", ":!README", ":!new", ":!src") == index
    assert tree_on_disk(repo.path) == {
        **{path: data for path, data in files.items() if path != "src/a.txt"},
        "README": b"theirs\n",
        "new/file": b"n\n",
    }
    assert repo.git("stash", "list") == ""


def test_a_change_that_only_touches_time_stamps_is_none(repo):
    run = landable(repo, {"README": "theirs\n"})
    os.utime(repo.path / "README", (1, 1))
    assert run.merge()[0] == 0
    assert (repo.path / "README").read_text() == "theirs\n"


# --- operations in progress --------------------------------------------------------------------------


def conflicting(repo) -> None:
    repo.git("switch", "-q", "-c", "side", "main")
    repo.commit("side", {"README": "side\n"})
    repo.git("switch", "-q", "main")
    repo.commit("main", {"README": "main\n"})


def paused_merge(repo) -> str:
    repo.git("merge", "side", check=False)
    return "merge"


def paused_merge_with_a_clean_index(repo) -> str:
    repo.git("merge", "side", check=False)
    repo.write("README", "resolved\n")
    repo.git("add", "README")
    return "merge"


def paused_cherry_pick(repo) -> str:
    repo.git("cherry-pick", "side", check=False)
    return "cherry-pick"


def paused_cherry_pick_with_a_clean_index(repo) -> str:
    repo.git("cherry-pick", "side", check=False)
    repo.git("reset", "-q", "--merge", check=False)
    head = repo.git("rev-parse", "side")
    repo.write(".git/CHERRY_PICK_HEAD", f"{head}\n")
    return "cherry-pick"


def paused_revert(repo) -> str:
    repo.commit("again", {"README": "again\n"})
    repo.git("revert", "--no-edit", "HEAD~1", check=False)
    return "revert"


def paused_am(repo) -> str:
    patch = repo.git("format-patch", "--stdout", "-1", "side")
    repo.git("am", check=False, stdin=patch.encode())
    return "am"


def paused_rebase(repo) -> str:
    repo.git("rebase", "side", check=False)
    return "rebase"


def paused_rebase_by_apply(repo) -> str:
    repo.git("rebase", "--apply", "side", check=False)
    return "rebase"


def bisect(repo) -> str:
    repo.git("bisect", "start")
    return "bisect"


def bisect_that_has_moved(repo) -> str:
    repo.git("bisect", "start", "HEAD", "HEAD~2")
    return "bisect"


OPERATIONS = [
    paused_merge,
    paused_merge_with_a_clean_index,
    paused_cherry_pick,
    paused_cherry_pick_with_a_clean_index,
    paused_revert,
    paused_am,
    paused_rebase,
    paused_rebase_by_apply,
    bisect,
    bisect_that_has_moved,
]


@pytest.mark.parametrize("pause", OPERATIONS, ids=lambda pause: pause.__name__)
def test_an_operation_in_progress_is_never_touched(repo, pause):
    repo.commit("second", {"second": "2\n"})
    run = landable(repo, {"one": "1\n"})
    conflicting(repo)
    name = pause(repo)
    before = state_of(repo), sorted(os.listdir(repo.path / ".git"))
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 5, done.stderr
    assert f"a {name} " in done.stderr
    assert "is in progress in" in done.stderr
    assert (state_of(repo), sorted(os.listdir(repo.path / ".git"))) == before
    assert run.base in repo.git("rev-list", "main")
    assert repo.git("for-each-ref", "refs/architect/merges") == ""


def test_an_operation_elsewhere_that_will_come_back_to_the_target_counts(repo, tmp_path):
    landable(repo, {"one": "1\n"})
    conflicting(repo)
    repo.git("switch", "-q", "side")
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    repo.git("rebase", "side", cwd=tmp_path / "linked", check=False)
    done = repo.parallel("merge", "--yes")
    assert (done.returncode, "a rebase of main is in progress" in done.stderr) == (5, True)
    repo.git("rebase", "--abort", cwd=tmp_path / "linked")
    assert repo.parallel("merge", "--yes").returncode == 0


def test_unresolved_conflicts_without_an_operation_refuse(repo):
    run = landable(repo, {"one": "1\n"})
    conflicting(repo)
    repo.git("merge", "side", check=False)
    (repo.path / ".git/MERGE_HEAD").unlink()
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused"})
    assert "unresolved conflicts" in document["branches"][0]["why"]


def test_an_operation_in_another_worktree_is_no_obstacle(repo, tmp_path):
    run = landable(repo, {"one": "1\n"})
    conflicting(repo)
    repo.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"), "side")
    repo.git("merge", "main", cwd=tmp_path / "linked", check=False)
    assert run.merge()[0] == 0
    assert "README" in repo.git("diff", "--name-only", "--diff-filter=U", cwd=tmp_path / "linked")


def test_a_lock_of_another_git_process_is_respected(repo):
    run = landable(repo, {"one": "1\n"})
    lock = repo.write(".git/index.lock", "")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused"})
    assert "another git process is at work" in document["branches"][0]["why"]
    assert "exists); nothing was changed" in document["branches"][0]["why"]
    assert lock.exists()
    lock.unlink()
    assert run.merge()[0] == 0


def test_a_target_whose_worktree_is_gone_refuses(repo, tmp_path):
    landable(repo, {"one": "1\n"})
    repo.git("switch", "-q", "-c", "elsewhere")
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    (tmp_path / "linked").rename(tmp_path / "away")
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 5
    assert "which is not there" in done.stderr
    (tmp_path / "away").rename(tmp_path / "linked")
    assert repo.parallel("merge", "--yes").returncode == 0
    assert (tmp_path / "linked/one").exists()


# --- kinds of change ---------------------------------------------------------------------------------


def test_files_links_modes_and_directories_follow(repo):
    repo.commit("start", {"a/x": "x\n", "b": "b\n", "run": "#!/bin/sh\n", "gone/deep/file": "g\n"})
    run = landable(
        repo,
        {
            "a/x": None,
            "a": "a file now\n",
            "b": None,
            "b/y": "a directory now\n",
            "run": ("100755", "#!/bin/sh\n"),
            "link": ("120000", "run"),
            "gone/deep/file": None,
            "bin": "\0\1\2",
        },
    )
    assert run.merge()[0] == 0
    assert repo.git("status", "--porcelain") == ""
    assert (repo.path / "a").read_text() == "a file now\n"
    assert (repo.path / "b/y").exists()
    assert os.access(repo.path / "run", os.X_OK)
    assert os.readlink(repo.path / "link") == "run"
    assert not (repo.path / "gone").exists()
    assert (repo.path / "bin").read_bytes() == b"\0\1\2"


def test_line_endings_and_filters_are_those_of_the_checkout(repo):
    repo.git("config", "filter.upper.smudge", "tr a-z A-Z")
    repo.git("config", "filter.upper.clean", "tr A-Z a-z")
    repo.commit("attributes", {".gitattributes": "*.txt text eol=crlf\n*.up filter=upper\n", "w.txt": "one\n"})
    repo.git("rm", "-q", "--cached", "-r", ".")
    repo.git("reset", "-q", "--hard")
    run = landable(repo, {"w.txt": "one\ntwo\n", "v.up": "loud\n"})
    assert run.merge()[0] == 0
    assert (repo.path / "w.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (repo.path / "v.up").read_text() == "LOUD\n"
    assert repo.git("status", "--porcelain") == ""


def test_a_submodule_moves_in_the_index_and_its_files_are_nobodys(repo, make_repo):
    inner = make_repo("inner")
    first = inner.git("rev-parse", "HEAD")
    second = inner.commit("second", {"more": "m\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.git("checkout", "-q", first, cwd=repo.path / "sub")
    repo.commit("with a submodule")
    run = landable(repo, {"sub": ("160000", second)}, {"one": "1\n"})
    repo.write("sub/README", "mine, inside\n")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})
    assert repo.git("ls-files", "-s", "sub").split()[1] == second
    assert repo.git("rev-parse", "HEAD", cwd=repo.path / "sub") == first
    assert (repo.path / "sub/README").read_text() == "mine, inside\n"


def test_a_submodule_at_another_commit_is_a_local_change(repo, make_repo):
    inner = make_repo("inner")
    first = inner.git("rev-parse", "HEAD")
    second = inner.commit("second", {"more": "m\n"})
    third = inner.commit("third", {"more": "n\n"})
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.git("checkout", "-q", first, cwd=repo.path / "sub")
    repo.commit("with a submodule")
    run = landable(repo, {"sub": ("160000", second)})
    repo.git("checkout", "-q", third, cwd=repo.path / "sub")
    code, document, _ = run.merge()
    assert (code, document["branches"][0]["files"]) == (5, ["sub"])
    assert "git submodule update" in document["branches"][0]["why"]


def test_a_checked_out_submodule_is_not_replaced_by_a_file(repo, make_repo):
    inner = make_repo("inner")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "sub")
    repo.commit("with a submodule")
    run = landable(repo, {"sub": "a file now\n"})
    code, _, _ = run.merge()
    assert code == 5
    assert (repo.path / "sub/README").exists()
    assert repo.git("status", "--porcelain") == ""


def test_a_sparse_checkout_stays_sparse(repo):
    repo.commit("start", {"in/a": "a\n", "out/b": "b\n"})
    repo.git("sparse-checkout", "set", "in")
    run = landable(repo, {"in/a": "aa\n", "out/b": "bb\n", "out/c": "c\n"})
    assert run.merge()[0] == 0
    assert (repo.path / "in/a").read_text() == "aa\n"
    assert not (repo.path / "out").exists()
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("show", "HEAD:out/b") == "bb"


def test_names_of_all_kinds(repo):
    names = ["with space", 'quo"te', "-dash", "ünïcode/ñ", "tab\there", "back\\slash"]
    run = landable(repo, dict.fromkeys(names, "x\n"))
    assert run.merge()[0] == 0
    assert repo.git("status", "--porcelain") == ""
    assert all((repo.path / name).exists() for name in names)


def test_names_that_are_no_text(repo):
    """Bytes that are not UTF-8: in what lands, in what conflicts and in what is in the way."""
    name = os.fsdecode(b"caf\xe9")
    run = landable(repo, {name: "1\n"}, {name: "2\n"})
    code, document, said = run.merge("--check", "true")
    assert (code, run.states(document)) == (3, {1: "landed", 2: "parked"}), said
    assert document["branches"][1]["files"] == [name]
    assert (repo.path / name).read_text() == "1\n"
    other = landable(repo, {name: "3\n"}, run="20261129T170000Z-0000", first=5)
    repo.write(name, "mine\n")
    done = repo.parallel("merge", "--yes", other.run)
    assert done.returncode == 5
    assert "caf\\xe9" in done.stderr
    assert (repo.path / name).read_text() == "mine\n"


def test_the_same_branch_in_two_worktrees(repo, tmp_path):
    run = landable(repo, {"one": "1\n", "README": "theirs\n"})
    repo.git("worktree", "add", "-q", "--force", str(tmp_path / "linked"), "main")
    assert run.merge()[0] == 0
    for top in (repo.path, tmp_path / "linked"):
        assert (top / "one").read_text() == "1\n"
        assert repo.git("status", "--porcelain", cwd=top) == ""


def test_local_changes_in_the_second_worktree_count_as_well(repo, tmp_path):
    run = landable(repo, {"README": "theirs\n"})
    repo.git("worktree", "add", "-q", "--force", str(tmp_path / "linked"), "main")
    (tmp_path / "linked/README").write_text("mine\n")
    before = state_of(repo)
    code, _, _ = run.merge()
    assert code == 5
    assert state_of(repo) == before
    assert (tmp_path / "linked/README").read_text() == "mine\n"


# --- when the files cannot be updated ----------------------------------------------------------------


def test_files_that_cannot_be_written_take_the_target_back(repo):
    repo.git("config", "filter.never.smudge", "false")
    repo.git("config", "filter.never.clean", "cat")
    repo.git("config", "filter.never.required", "true")
    repo.git("config", "core.attributesFile", str(repo.write(".git/attributes", "zzz filter=never\n")))
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n", "src/a.txt": None, "zzz": "z\n"})
    repo.write("untracked", "mine\n")
    before = state_of(repo)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused"})
    assert "could not be updated" in document["branches"][0]["why"]
    assert state_of(repo) == before
    assert not (repo.path / ".git/index.lock").exists()
    kept = recorded(repo, document["merge"])
    assert kept["branches"][0]["state"] == "refused"
    trace = repo.git("log", "--first-parent", "--format=%s", f"refs/architect/runs/{run.run}").splitlines()
    assert trace[0] == "worker 1: not landed after all"
    assert "landed:" not in repo.parallel("show", f"{run.run}/1").stdout
    repo.git("config", "--unset", "filter.never.required")
    repo.git("config", "filter.never.smudge", "cat")
    assert run.merge()[0] == 0


@pytest.mark.parametrize("how", ["doctor", "continue", "merge"])
def test_a_target_that_cannot_be_taken_back_either_is_brought_on_later(repo, how):
    """As on a full disk: git can write neither the files nor the ref."""
    lock = repo.path / ".git/refs/heads/main.lock"
    repo.git("config", "filter.never.smudge", f"touch '{lock}'; false")
    repo.git("config", "filter.never.clean", "cat")
    repo.git("config", "filter.never.required", "true")
    repo.git("config", "core.attributesFile", str(repo.write(".git/attributes", "zzz filter=never\n")))
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n", "src/a.txt": None, "zzz": "z\n"})
    repo.write("staged", "mine\n")
    repo.git("add", "staged")
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 128
    assert "main has moved, but the files in" in done.stderr, done.stderr
    assert "skipped" not in done.stderr
    assert repo.git("rev-parse", "main") != run.base

    lock.unlink()
    repo.git("config", "filter.never.smudge", "cat")
    wanted = {"doctor": ("doctor", "--repair"), "continue": ("merge", "--continue"), "merge": ("merge", "--yes")}
    done = repo.parallel(*wanted[how])
    assert done.returncode == 0, done.stderr
    assert repo.git("status", "--porcelain") == "A  staged"
    assert ((repo.path / "README").read_text(), (repo.path / "zzz").read_text()) == ("theirs\n", "z\n")
    (merge,) = repo.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/architect/merges").splitlines()[:1]
    assert recorded(repo, merge)["branches"][0]["state"] == "landed"
    assert repo.parallel("merge", "--undo", "last").returncode == 0
    assert repo.git("rev-parse", "main") == run.base
    assert repo.git("status", "--porcelain") == "A  staged"


def test_two_worktrees_of_which_the_second_cannot_follow(repo, tmp_path):
    """The second one's own configuration has a filter that fails: the first, already updated, goes back."""
    repo.git("config", "extensions.worktreeConfig", "true")
    run = landable(repo, {"README": "theirs\n", "zzz": "z\n"})
    repo.git("worktree", "add", "-q", "--force", str(tmp_path / "linked"), "main")
    linked: Path = tmp_path / "linked"
    attributes = repo.write(".git/attributes", "zzz filter=never\n")
    for name, value in (
        ("filter.never.smudge", "false"),
        ("filter.never.required", "true"),
        ("core.attributesFile", str(attributes)),
    ):
        repo.git("config", "--worktree", name, value, cwd=linked)
    before = state_of(repo)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused"})
    assert state_of(repo) == before
    assert repo.git("status", "--porcelain", cwd=linked) == ""
    assert not (linked / "zzz").exists()


# --- the pure parts ----------------------------------------------------------------------------------


def test_what_overlaps():
    changed = ["a/b", "c", "d/e/f"]
    assert overlapping(["a/b", "a", "a/b/c", "a/c", "d", "d/e", "d/x", "x"], changed) == [
        "a/b",
        "a",
        "a/b/c",
        "d",
        "d/e",
    ]
    assert overlapping([], changed) == []


def test_status_lines_are_read_whatever_the_names(repo):
    repo.write("with space", "x")
    repo.git("add", "with space")
    repo.write("README", "y")
    fields = subprocess.run(
        ["git", "status", "--porcelain=v2", "-z", "--no-renames"], cwd=repo.path, capture_output=True, check=True
    ).stdout.decode()
    assert parse_status(fields.split("\0")) == (["README", "with space"], [])


def test_a_look_that_is_cut_short_leaves_nothing_behind(repo, tmp_path):
    place = checkout.find(Repository.discover(str(repo.path)), "refs/heads/main")[0]
    files = tmp_path / "landing"
    files.mkdir()
    held = checkout.hold(place, str(place.head), str(place.head), [], index=str(files / "index"), marker="ours")
    (files / "index.lock").touch()  # what git has made when it is killed
    held.release()
    assert list(files.iterdir()) == []
    assert not os.path.exists(place.lock)


def test_a_lock_that_cannot_say_whose_it_is_is_not_left_behind(repo, monkeypatch):
    place = checkout.find(Repository.discover(str(repo.path)), "refs/heads/main")[0]

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkout.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        checkout.lock_index(place, "ours")
    assert not os.path.exists(place.lock)
