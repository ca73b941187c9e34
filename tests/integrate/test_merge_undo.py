"""A landing taken back: by moving the target where nothing came after it, by reverts where something did."""

from __future__ import annotations

import json

import pytest
from landings import landable, note_of, recorded, tree_on_disk


@pytest.fixture
def landed(repo):
    run = landable(repo, {"one": "1\n"}, {"README": "theirs\n"})
    code, document, _ = run.merge()
    assert code == 0
    return run, document["merge"]


def test_the_target_moves_back_when_nothing_came_after(repo, landed):
    run, merge = landed
    repo.write("mine", "untracked\n")
    tip = repo.git("rev-parse", "main")
    done = repo.parallel("merge", "--undo", merge)
    assert done.returncode == 0, done.stderr
    assert repo.git("rev-parse", "main") == run.base
    assert repo.git("status", "--porcelain") == "?? mine"
    assert tree_on_disk(repo.path)["README"] == b"hello\n"
    assert recorded(repo, merge)["state"] == "undone"
    assert repo.git("merge-base", "--is-ancestor", tip, f"refs/architect/merges/{merge}") == "", "it stays reachable"
    assert f"Undone: {merge}" in note_of(repo, tip)
    subject = repo.git("log", "-1", "--format=%s", f"refs/architect/runs/{run.run}")
    assert subject.startswith("worker 1, 2: undo: main moved back")


def test_it_is_undone_once(repo, landed):
    _, merge = landed
    repo.parallel("merge", "--undo", merge)
    done = repo.parallel("merge", "--undo", merge)
    assert (done.returncode, "is undone already" in done.stderr) == (5, True)


def test_what_was_undone_can_land_again(repo, landed):
    run, merge = landed
    repo.parallel("merge", "--undo", merge)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})


def test_reverts_are_made_when_something_came_after(repo, landed):
    _, merge = landed
    repo.commit("theirs", {"other": "x\n"})
    done = (
        repo.parallel("merge", "--undo", merge, "--json")
        if False
        else repo.parallel("merge", "--json", "--undo", merge)
    )
    document = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert len(document["reverts"]) == 2
    assert repo.git("log", "-3", "--format=%s").splitlines() == [
        'Revert "Merge worker 1: Do t1"',
        'Revert "Merge worker 2: Do t2"',
        "theirs",
    ]
    found = tree_on_disk(repo.path)
    assert (found["README"], "one" in found, found["other"]) == (b"hello\n", False, b"x\n")
    assert repo.git("status", "--porcelain") == ""


def test_a_revert_is_what_git_revert_would_have_made(repo, landed):
    _, merge = landed
    commit = repo.git("rev-parse", "main")
    repo.commit("theirs", {"other": "x\n"})
    repo.git("branch", "expected")
    repo.parallel("merge", "--undo", merge)
    repo.git("switch", "-q", "expected")
    repo.git("revert", "-m", "1", "--no-edit", commit)
    assert repo.git("rev-parse", "expected^{tree}") == repo.git("rev-parse", "main~1^{tree}")
    assert repo.git("log", "-1", "--format=%B", "expected") == repo.git("log", "-1", "--format=%B", "main~1")


def test_a_revert_that_does_not_merge_changes_nothing(repo, landed):
    _, merge = landed
    tip = repo.commit("on top", {"README": "theirs, and mine\n"})
    done = repo.parallel("merge", "--undo", merge)
    assert done.returncode == 3
    assert "README" in done.stderr
    assert repo.git("rev-parse", "main") == tip
    assert repo.git("status", "--porcelain") == ""


def test_local_changes_in_the_way_refuse(repo, landed):
    _, merge = landed
    tip = repo.git("rev-parse", "main")
    repo.write("README", "mine\n")
    done = repo.parallel("merge", "--undo", merge)
    assert (done.returncode, "README" in done.stderr) == (5, True)
    assert repo.git("rev-parse", "main") == tip
    assert (repo.path / "README").read_text() == "mine\n"
    assert recorded(repo, merge)["state"] == "ended"


def test_what_the_target_does_not_contain_any_more_cannot_be_taken_back(repo, landed):
    run, merge = landed
    repo.git("reset", "-q", "--hard", run.base)
    done = repo.parallel("merge", "--undo", merge)
    assert (done.returncode, "does not contain any more" in done.stderr) == (5, True)


def test_what_somebody_has_reverted_already_is_passed_over(repo, landed):
    _, merge = landed
    repo.git("revert", "-m", "1", "--no-edit", "main")
    done = repo.parallel("merge", "--undo", merge)
    assert done.returncode == 0, done.stderr
    assert repo.git("log", "-1", "--format=%s") == 'Revert "Merge worker 1: Do t1"'
    assert tree_on_disk(repo.path).keys() == {"README", "src/a.txt"}


def test_a_rebased_branch_is_reverted_as_a_whole(repo):
    run = landable(repo, [{"one": "1\n"}, {"two": "2\n"}])
    _, document, _ = run.merge("--strategy", "rebase")
    repo.commit("theirs", {"other": "x\n"})
    done = repo.parallel("merge", "--undo", document["merge"])
    assert done.returncode == 0, done.stderr
    assert tree_on_disk(repo.path).keys() == {"README", "src/a.txt", "other"}
    assert "This reverts the commits" in repo.git("log", "-1", "--format=%B")


def test_the_beginning_of_an_id_will_do_and_an_unknown_one_is_said(repo, landed):
    _, merge = landed
    done = repo.parallel("merge", "--undo", "1999")
    assert (done.returncode, "there is no landing '1999'" in done.stderr) == (2, True)
    assert repo.parallel("merge", "--undo", merge[:12]).returncode == 0


def test_an_undo_works_from_the_record_alone(repo, landed):
    import shutil

    run, merge = landed
    shutil.rmtree(repo.path / ".git/architect/merges")
    assert repo.parallel("merge", "--undo", merge).returncode == 0
    assert repo.git("rev-parse", "main") == run.base
