"""Branches that do not merge: parked with their files, or left to the person, who resolves them as anywhere in git."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from landings import landable, recorded, tree_on_disk

SCRATCH = ".architect-parallel-merge"


def kinds(repo, make_repo) -> dict[str, tuple[dict, dict, dict, set[str]]]:
    """For each kind: what is there before, what one worker did, what another did, and the paths that conflict."""
    return {
        "content": ({"f": "a\n"}, {"f": "b\n"}, {"f": "c\n"}, {"f"}),
        "add/add": ({}, {"f": "b\n"}, {"f": "c\n"}, {"f"}),
        "modify/delete": ({"f": "a\n"}, {"f": None}, {"f": "c\n"}, {"f"}),
        "rename/rename": (
            {"f": "a\nb\nc\nd\n"},
            {"f": None, "g": "a\nb\nc\nd\n"},
            {"f": None, "h": "a\nb\nc\nd\n"},
            {"f"},
        ),
        "rename/add": ({"f": "a\nb\nc\nd\n"}, {"f": None, "g": "a\nb\nc\nd\n"}, {"g": "other\n"}, {"g"}),
        "mode": ({"f": "a\n"}, {"f": ("100755", "a\n")}, {"f": ("120000", "README")}, {"f"}),
        "symlink": ({"f": ("120000", "a")}, {"f": ("120000", "b")}, {"f": ("120000", "c")}, {"f"}),
        "binary": ({"f": "\0a"}, {"f": "\0b"}, {"f": "\0c"}, {"f"}),
        "line endings": ({"f": "a\nb\n"}, {"f": "a\r\nb\r\n"}, {"f": "a\nbb\n"}, {"f"}),
        "file/directory": ({}, {"f": "b\n"}, {"f/x": "c\n"}, {"f"}),
        "case": ({}, {"Read": "b\n"}, {"READ": "c\n"}, {"Read", "READ"}),
        "case of a directory": ({}, {"Lib/a": "b\n"}, {"lib/b": "c\n"}, {"Lib", "lib"}),
        "submodule": (
            {"f": ("160000", "1" * 40)},
            {"f": ("160000", "2" * 40)},
            {"f": ("160000", "3" * 40)},
            {"f"},
        ),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "content",
        "add/add",
        "modify/delete",
        "rename/rename",
        "rename/add",
        "mode",
        "symlink",
        "binary",
        "line endings",
        "file/directory",
        "case",
        "case of a directory",
        "submodule",
    ],
)
def test_a_conflict_of_any_kind_is_parked_with_its_files_and_the_rest_lands(repo, make_repo, kind):
    before, first, second, paths = kinds(repo, make_repo)[kind]
    start = landable(repo, before, run="20261129T165000Z-0000", first=10)
    repo.git("read-tree", "-m", "-u", "HEAD", start.heads[0])
    repo.git("update-ref", "refs/heads/main", start.heads[0])
    run = landable(repo, first, second, {"fine": "fine\n"})
    code, document, said = run.merge("1", "2", "3")
    assert (code, run.states(document)) == (3, {1: "landed", 2: "parked", 3: "landed"}), said
    branch = document["branches"][1]
    assert set(branch["files"]) >= paths, branch
    assert branch["commit"] is None
    assert (repo.path / "fine").exists()
    clean = repo.git("status", "--porcelain", "--ignore-submodules=all")
    assert clean == ""
    assert repo.git("rev-parse", "architect/parallel-2") == run.heads[1], "its branch is kept"


def test_both_cases_in_one_branch_are_how_its_people_want_it(repo):
    run = landable(repo, {"Read": "b\n", "READ": "c\n"}, {"fine": "fine\n"})
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})


# --- stop, continue, skip, abort ---------------------------------------------------------------------


@pytest.fixture
def stopped(repo):
    """A landing of three branches that has stopped at the second."""
    run = landable(repo, {"f": "one\n"}, {"f": "two\n", "g": "g\n"}, {"h": "h\n"})
    code, document, said = run.merge("--stop")
    assert code == 3, said
    assert document["state"] == "stopped"
    assert run.states(document) == {1: "landed", 2: "waiting", 3: "waiting"}
    assert document["branches"][1]["files"] == ["f"]
    return run


def test_a_stopped_landing_waits_in_a_worktree_as_git_would_leave_it(repo, stopped):
    scratch = repo.path / SCRATCH
    assert repo.git("diff", "--name-only", "--diff-filter=U", cwd=scratch) == "f"
    assert repo.git("rev-parse", "MERGE_HEAD", cwd=scratch) == stopped.heads[1]
    assert repo.git("rev-parse", "HEAD", cwd=scratch) == repo.git("rev-parse", "main")
    assert "<<<<<<<" in (scratch / "f").read_text()
    assert repo.git("status", "--porcelain") == ""
    done = repo.parallel("merge", "--yes")
    assert (done.returncode, "has stopped at a conflict" in done.stderr) == (5, True)


def test_continue_refuses_while_something_is_unresolved(repo, stopped):
    code, _, said = stopped.merge("--continue")
    assert (code, "  f" in said) == (5, True)
    (repo.path / SCRATCH / "f").write_text("both\n")
    assert stopped.merge("--continue")[0] == 5, "not added yet"
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    (repo.path / SCRATCH / "g").write_text("changed, and not added\n")
    code, _, said = stopped.merge("--continue")
    assert (code, "are not staged" in said) == (5, True)
    repo.git("add", "g", cwd=repo.path / SCRATCH)
    assert stopped.merge("--continue")[0] == 0


def test_continue_lands_the_resolution_and_goes_on(repo, stopped):
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    code, document, said = stopped.merge("--continue")
    assert (code, stopped.states(document)) == (0, {1: "landed", 2: "landed", 3: "landed"}), said
    assert tree_on_disk(repo.path)["f"] == b"both\n"
    assert repo.git("rev-parse", "main~1^2") == stopped.heads[1]
    assert repo.git("log", "-1", "--format=%s", "main~1") == "Merge worker 2: Do t2"
    assert not (repo.path / SCRATCH).exists()
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    assert recorded(repo, document["merge"])["state"] == "ended"


def test_the_person_may_commit_the_resolution_themselves(repo, stopped):
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("commit", "-q", "-a", "-m", "resolved by me", cwd=repo.path / SCRATCH)
    code, _, said = stopped.merge("--continue")
    assert code == 0, said
    assert repo.git("log", "-1", "--format=%s", "main~1") == "resolved by me"
    assert repo.git("rev-parse", "main~1^2") == stopped.heads[1]


def test_mergetool_works_there(repo, stopped):
    repo.git("config", "mergetool.mine.cmd", 'cat "$LOCAL" "$REMOTE" > "$MERGED"')
    repo.git("config", "mergetool.mine.trustExitCode", "true")
    repo.git("mergetool", "--tool=mine", "--no-prompt", cwd=repo.path / SCRATCH)
    (repo.path / SCRATCH / "f.orig").unlink(missing_ok=True)
    code, _, said = stopped.merge("--continue")
    assert code == 0, said
    assert tree_on_disk(repo.path)["f"] == b"one\ntwo\n"


def test_skip_leaves_the_branch_out(repo, stopped):
    code, document, _ = stopped.merge("--skip")
    assert (code, stopped.states(document)) == (0, {1: "landed", 2: "skipped", 3: "landed"})
    assert not (repo.path / SCRATCH).exists()
    assert "g" not in tree_on_disk(repo.path)


def test_abort_ends_it_and_what_has_landed_stays(repo, stopped):
    at = repo.git("rev-parse", "main")
    code, document, _ = stopped.merge("--abort")
    assert (code, document["state"]) == (0, "aborted")
    assert stopped.states(document) == {1: "landed", 2: "skipped", 3: "skipped"}
    assert repo.git("rev-parse", "main") == at
    assert not (repo.path / SCRATCH).exists()
    assert stopped.merge("--continue")[0] == 2


@pytest.mark.parametrize("how", ["--continue", "--skip", "--abort"])
def test_a_new_file_that_was_not_added_does_not_go_with_the_worktree(repo, stopped, how):
    scratch = repo.path / SCRATCH
    (scratch / "f").write_text("both\n")
    (scratch / "f.orig").write_text("as git mergetool leaves it\n")
    (scratch / "moved").write_text("a part of the resolution\n")
    repo.git("add", "f", cwd=scratch)
    done = repo.parallel("merge", how, "--yes")
    assert done.returncode == 5
    assert "  moved\n" in done.stderr
    assert "f.orig" not in done.stderr
    assert (scratch / "moved").read_text() == "a part of the resolution\n"
    repo.git("add", "moved", cwd=scratch)
    done = repo.parallel("merge", how, "--yes")
    assert done.returncode == 0, done.stderr
    assert (repo.path / "moved").exists() == (how == "--continue")
    assert not scratch.exists()


def test_a_resolution_that_does_not_land_is_kept(repo, stopped):
    scratch = repo.path / SCRATCH
    (scratch / "f").write_text("both\n")
    repo.git("add", "f", cwd=scratch)
    repo.write("f", "mine, and in the way\n")
    done = repo.parallel("merge", "--continue", "--yes")
    assert done.returncode == 5, done.stderr
    assert "refused   worker 2" in done.stderr
    kept = re.search(r"is kept: git show (\S+)", done.stderr)
    assert kept, done.stderr
    repo.git("gc", "-q", "--prune=now")
    repo.git("checkout", "-q", "f")
    assert repo.parallel("merge", "--yes", "--stop", "2").returncode == 3
    repo.git("checkout", kept[1], "--", "f", cwd=scratch)
    assert repo.parallel("merge", "--continue", "--yes").returncode == 0
    assert (repo.path / "f").read_text() == "both\n"


def test_the_resolution_is_checked_as_well(repo):
    run = landable(repo, {"f": "one\n"}, {"f": "two\n"})
    run.merge("--stop", "--check", "! grep both f")
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    code, document, _ = run.merge("--continue")
    assert (code, run.states(document)) == (4, {1: "landed", 2: "red"})
    assert tree_on_disk(repo.path)["f"] == b"one\n"


def test_a_target_that_moved_while_the_person_resolved(repo, stopped):
    theirs = repo.commit("theirs", {"theirs": "x\n"})
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    code, document, said = stopped.merge("--continue")
    assert code == 0, said
    assert document["branches"][1]["commit"] == repo.git("rev-parse", "main~1")
    assert repo.git("rev-parse", "main~1^1", "main~1^2").split() == [theirs, stopped.heads[1]]
    assert tree_on_disk(repo.path)["f"] == b"both\n"


def test_a_worktree_removed_by_hand_is_no_dead_end(repo, stopped):
    subprocess.run(["rm", "-rf", str(repo.path / SCRATCH)], check=True)
    code, _, said = stopped.merge("--continue")
    assert (code, "git parallel merge --skip" in said) == (5, True), said
    code, document, _ = stopped.merge("--skip")
    assert (code, stopped.states(document)) == (0, {1: "landed", 2: "skipped", 3: "landed"})
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_squash_is_resolved_in_the_same_way(repo):
    run = landable(repo, {"f": "one\n"}, {"f": "two\n"})
    assert run.merge("--stop", "--strategy", "squash")[0] == 3
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    assert run.merge("--continue")[0] == 0
    assert repo.git("log", "--format=%s %P", "main").splitlines()[0].startswith("Do t2 ")
    assert len(repo.git("log", "-1", "--format=%P").split()) == 1
    assert tree_on_disk(repo.path)["f"] == b"both\n"


def test_a_rebase_is_resolved_commit_by_commit(repo):
    run = landable(repo, {"f": "one\n"}, [{"f": "two\n"}, {"g": "g\n"}, {"f": "three\n"}])
    assert run.merge("--stop", "--strategy", "rebase")[0] == 3
    scratch: Path = repo.path / SCRATCH
    (scratch / "f").write_text("one and two\n")
    repo.git("add", "f", cwd=scratch)
    code, _, said = run.merge("--continue")
    assert (code, "  f" in said) == (5, True), "the third commit conflicts as well"
    (scratch / "f").write_text("one and three\n")
    repo.git("add", "f", cwd=scratch)
    code, document, said = run.merge("--continue")
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"}), said
    assert repo.git("log", "--format=%s", "main").splitlines() == [
        "worker 2, step 3",
        "worker 2, step 2",
        "worker 2, step 1",
        "worker 1, step 1",
        "first",
    ]
    assert repo.git("show", "main~2:f") == "one and two"
    assert "Reviewed-by" in repo.git("log", "-1", "--format=%B", "main")


def test_rerere_is_honoured_and_learns(repo, stopped):
    repo.git("config", "rerere.enabled", "true")
    stopped.merge("--abort")
    stopped.merge("--stop")
    (repo.path / SCRATCH / "f").write_text("both\n")
    repo.git("add", "f", cwd=repo.path / SCRATCH)
    _, document, _ = stopped.merge("--continue")
    repo.parallel("merge", "--undo", document["merge"])
    repo.git("config", "rerere.autoUpdate", "true")
    code, document, said = stopped.merge("--stop")
    assert (code, stopped.states(document)[2]) == (0, "landed"), said
    assert tree_on_disk(repo.path)["f"] == b"both\n"


def test_a_conflict_with_earlier_branches_of_the_same_landing_stops_after_they_have_landed(repo):
    run = landable(repo, {"a": "1\n"}, {"f": "one\n"}, {"f": "two\n"})
    code, document, _ = run.merge("--stop")
    assert (code, run.states(document)) == (3, {1: "landed", 2: "landed", 3: "waiting"})


def test_what_conflicts_only_with_a_branch_that_is_refused_lands(repo):
    run = landable(repo, {"a": "1\n", "README": "1\n"}, {"a": "2\n"}, {"other": "3\n"})
    repo.write("README", "mine\n")
    code, document, said = run.merge("--yes")
    assert (code, run.states(document)) == (5, {1: "refused", 2: "landed", 3: "landed"}), said
    assert tree_on_disk(repo.path)["a"] == b"2\n"
    assert tree_on_disk(repo.path)["README"] == b"mine\n"
    assert recorded(repo, document["merge"])["state"] == "ended"


def test_what_conflicts_only_with_a_branch_that_is_red_lands(repo):
    run = landable(repo, {"ok": "0\n"}, {"a": "1\n", "bad": "1\n"}, {"a": "2\n"}, {"a": "3\n"})
    code, document, said = run.merge("--yes", "--batch", "--check", "test ! -e bad")
    assert (code, run.states(document)) == (4, {1: "landed", 2: "red", 3: "landed", 4: "parked"}), said
    assert tree_on_disk(repo.path)["a"] == b"2\n"
    assert recorded(repo, document["merge"])["state"] == "ended"
