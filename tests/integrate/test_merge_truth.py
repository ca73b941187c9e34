"""What a landing says must be what the target's tree shows."""

from __future__ import annotations

import json


def ran(repo, *tasks: str, options: tuple[str, ...] = ()) -> dict:
    arguments = [argument for task in tasks for argument in ("--task", task)]
    return json.loads(repo.parallel("run", "--json", "--program", "shell", *options, *arguments).stdout)


def merged(repo, *arguments: str) -> tuple[int, dict[int, dict]]:
    done = repo.parallel("merge", "--yes", "--json", *arguments)
    return done.returncode, {branch["worker"]: branch for branch in json.loads(done.stdout)["branches"]}


def test_what_was_landed_and_reverted_is_not_called_contained(repo):
    ran(repo, "echo a > a", "echo b > b")
    repo.parallel("review", "--approve", "1", "2")
    code, _ = merged(repo, "1")
    assert code == 0
    first = repo.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/architect/merges")
    assert merged(repo, "2")[0] == 0
    undone = repo.parallel("merge", "--undo", first)
    assert undone.returncode == 0, undone.stderr
    assert repo.git("ls-tree", "--name-only", "main", "a") == ""

    code, branches = merged(repo, "1")
    assert (code, branches[1]["state"]) == (5, "refused")
    assert "taken back" in branches[1]["why"]
    kept = json.loads(repo.parallel("cleanup", "--merged", "--json").stdout)
    removed = {one["worker"] for one in kept["workers"] if one["action"] == "removed"}
    assert removed == {2}


def test_what_was_rebased_and_reverted_is_not_called_contained_either(repo):
    ran(repo, "echo a > a", "echo b > b")
    repo.parallel("review", "--approve", "1", "2")
    assert merged(repo, "2")[0] == 0  # so that 1 is not only moved forward
    assert merged(repo, "--strategy", "rebase", "1")[0] == 0
    repo.write("later", "l\n")
    repo.git("add", "later")
    repo.git("commit", "-qm", "later")
    undone = repo.parallel("merge", "--undo", "last")
    assert undone.returncode == 0, undone.stderr
    assert repo.git("ls-tree", "--name-only", "main", "a") == ""

    code, branches = merged(repo, "--strategy", "rebase", "1")
    assert (code, branches[1]["state"]) == (5, "refused")
    assert "taken back" in branches[1]["why"]
    kept = json.loads(repo.parallel("cleanup", "--merged", "--json").stdout)
    removed = {one["worker"] for one in kept["workers"] if one["action"] == "removed"}
    assert removed == {2}


def test_a_branch_without_a_commit_of_its_own_lands_nothing(repo):
    repo.write("README", "mine, not committed\n")
    ran(repo, "true", options=("--with-changes", "--allow-empty"))
    repo.parallel("review", "--approve", "1")
    repo.git("checkout", "-q", "README")
    tip = repo.git("rev-parse", "main")
    code, branches = merged(repo)
    assert branches[1]["state"] == "skipped"
    assert code == 0
    assert repo.git("rev-parse", "main") == tip


def test_show_tells_what_the_notes_tell_of_a_landing(repo):
    ran(repo, "echo a > a", "echo b > b")
    repo.parallel("review", "--approve", "1", "2")
    assert "landed:" not in repo.parallel("show").stdout
    assert merged(repo, "1")[0] == 0
    first, at = repo.git("rev-parse", "main"), "refs/architect/merges"
    name = repo.git("for-each-ref", "--format=%(refname:lstrip=3)", at)
    assert f"landed:    on main as {first[:12]} by landing {name}\n" in repo.parallel("show", "1").stdout
    assert "landed:" not in repo.parallel("show", "2").stdout
    assert json.loads(repo.parallel("show", "--json").stdout)["landed"] == [
        {"worker": 1, "commit": first, "target": "main", "merge": name, "undone": False}
    ]
    assert repo.parallel("merge", "--undo", "last").returncode == 0
    assert merged(repo, "2", "1")[0] == 0
    shown = repo.parallel("show", "1").stdout
    assert f"as {first[:12]} by landing {name} (undone since)\n" in shown
    assert shown.count("landed:") == 2


def test_the_last_landing_has_a_name(repo):
    ran(repo, "echo a > a")
    repo.parallel("review", "--approve", "1")
    tip = repo.git("rev-parse", "main")
    assert merged(repo)[0] == 0
    assert merged(repo)[1][1]["state"] == "skipped", "a landing of nothing, which is not what there is to take back"
    assert repo.parallel("merge", "--undo", "last").returncode == 0
    assert repo.git("rev-parse", "main") == tip
    again = repo.parallel("merge", "--undo", "last")
    assert (again.returncode, repo.git("rev-parse", "main")) == (5, tip)
