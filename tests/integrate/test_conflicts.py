"""What `git parallel conflicts` foresees, on real runs, and that looking changes nothing."""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
from pathlib import Path

import pytest
from ended_runs import Worker, ended_run
from going_runs import going_run, until
from msgspec.structs import replace

from git_parallel.git import Repository
from git_parallel.integrate import mergetree, workers
from git_parallel.integrate.conflicts import Forecast, foresee
from git_parallel.integrate.heads import present

KEPT = ("a", "b", "c", "d/one", "d/two")


@pytest.fixture
def project(repo):
    """A repository with some files that workers can collide in."""
    repo.commit("files", {path: "".join(f"{path} {number}\n" for number in range(12)) for path in KEPT})
    return repo


def forecast(repo, *words: str, **options) -> Forecast:
    here = Repository.discover(str(repo.path))
    return foresee(here, workers.gather(here, words), **options)


def colliding(found: Forecast) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """Conflicts by pair of workers' numbers, 0 for the target."""
    numbers = [head.candidate.worker for head in found.heads]
    by_pair = {(numbers[one], numbers[other]): what for (one, other), what in found.pairs.items()}
    by_pair |= {(0, numbers[head]): what for head, what in found.against.items()}
    return {
        pair: [(conflict.path, conflict.kind) for conflict in what.conflicts]
        for pair, what in by_pair.items()
        if not what.clean
    }


def said(repo, *arguments: str) -> tuple[int, dict]:
    done = repo.parallel("conflicts", "--json", *arguments)
    return done.returncode, json.loads(done.stdout)


# --- what is found ---------------------------------------------------------------------------------


def test_every_pair_and_the_target_are_compared(project):
    one, two, three, four = ended_run(project, "echo 1 > a", "echo 2 > a", "echo 3 > b", "echo 4 > new")
    project.commit("on main", {"b": "main\n"})
    assert colliding(forecast(project)) == {
        (one.number, two.number): [("a", "content")],
        (0, three.number): [("b", "content")],
    }
    found = forecast(project)
    assert [found.files[index] for index in range(4)] == [1, 1, 1, 1]
    assert four.number not in {number for pair in colliding(found) for number in pair}


def test_findings_are_those_of_merging_every_pair(project):
    tasks = [
        "echo 1 > a; echo 1 > b",
        "echo 2 > a; chmod +x c",
        "git mv d e; git commit -qm 'move d'",
        "echo new > d/three",
        "echo file > notes",
        "mkdir notes; echo below > notes/one",
        "git rm -q b; git commit -qm 'no b'",
        "ln -s a link",
        "echo file > link; chmod -x c",
        "git mv a renamed; git commit -qm 'rename a'",
        "true",
    ]
    run = ended_run(project, *tasks)
    found = colliding(forecast(project))
    expected = {}
    for one, other in itertools.combinations(run, 2):
        argv = ["git", "merge-tree", "--write-tree", "-z", "--messages", one.head or one.base, other.head or other.base]
        done = subprocess.run(argv, cwd=project.path, capture_output=True, check=False)
        if done.returncode:
            outcome = mergetree.parse(b"0\0" + done.stdout + b"\0", [(argv[-2], argv[-1])])[0]
            expected[one.number, other.number] = [(conflict.path, conflict.kind) for conflict in outcome.conflicts]
    assert found == expected
    assert {kind for conflicts in found.values() for _, kind in conflicts} >= {"file location", "file/directory"}
    assert forecast(project).merged < len(expected) + 8, "merging most pairs is what the filter is there to avoid"


def test_pairs_that_share_a_path_and_merge_are_told_apart_from_those_that_share_none(project):
    ended_run(project, "sed -i '1s/.*/first/' a", "sed -i '12s/.*/last/' a", "echo 3 > b")
    found = forecast(project)
    assert (found.collisions, found.merged) == (0, 1)
    assert [found.between(0, 1).shared, found.between(0, 2).shared] == [1, 0]


def test_names_that_differ_only_in_case_are_a_warning_and_no_conflict(project):
    one, two = ended_run(project, "echo 1 > New.txt", "echo 2 > new.txt")
    done = project.parallel("conflicts")
    assert done.returncode == 0
    assert (
        f"warning: {one.number} and {two.number} add names that differ only in case: New.txt and new.txt" in done.stderr
    )


def test_the_targets_attributes_count_as_they_will_when_a_branch_lands(project):
    project.commit("union", {".gitattributes": "a merge=union\n", "d/.gitattributes": "one merge=binary\n"})
    one, two = ended_run(
        project, "echo 1 >> a; sed -i '1s/.*/first/' d/one", "echo 2 >> a; sed -i '12s/.*/last/' d/one"
    )
    expected = {(one.number, two.number): [("d/one", "binary")]}
    assert colliding(forecast(project)) == expected
    project.git("checkout", "-q", "--orphan", "elsewhere")
    project.git("rm", "-qrf", ".")
    assert colliding(forecast(project)) == expected, "what is checked out where the person stands does not matter"


def test_identical_branches_do_not_collide(project):
    ended_run(project, "echo same > a", "echo same > a")
    assert forecast(project).collisions == 0


def test_workers_that_bring_nothing_are_told_and_have_no_place_in_the_order(project):
    one, two, three = ended_run(project, "echo 1 > a", "true", "echo 3 > b")
    project.git("merge", "-q", "--no-edit", three.branch)
    found = forecast(project)
    assert {found.heads[index].candidate.worker for index in found.idle} == {two.number, three.number}
    assert [found.heads[step.item].candidate.worker for step in found.order()] == [one.number]


def test_a_branch_that_is_gone_is_left_out_and_told(project):
    one, two = ended_run(project, "echo 1 > a", "echo 2 > a")
    project.git("update-ref", "-d", f"refs/heads/{two.branch}")
    code, document = said(project)
    assert code == 0
    assert document["absent"] == [{"handle": two.handle, "reason": "its branch is gone"}]
    assert [worker["handle"] for worker in document["workers"]] == [one.handle]


def test_workers_of_several_runs_are_compared_by_name_of_their_run(project):
    [one] = ended_run(project, "echo 1 > a")
    project.commit("on main", {"other": "main\n"})
    [two] = ended_run(project, "echo 2 > a")
    code, document = said(project, one.run, two.run)
    assert code == 3
    assert [pair["workers"] for pair in document["pairs"]] == [[one.handle, two.handle]]
    assert document["against_target"] == []


def test_an_unrelated_history_is_a_conflict_with_gits_reason(project):
    one, _ = ended_run(project, "echo 1 > a", "echo 2 > b")
    strange = project.git("commit-tree", "-m", "strange", project.git("rev-parse", "HEAD^{tree}"))
    project.git("update-ref", f"refs/heads/{one.branch}", strange)
    code, document = said(project)
    assert code == 3
    assert [found["failed"] for found in document["against_target"]] == ["refusing to merge unrelated histories"]


def test_the_target_can_be_named(project):
    [one] = ended_run(project, "echo 1 > a")
    project.git("checkout", "-qb", "other")
    project.commit("elsewhere", {"a": "elsewhere\n"})
    assert said(project)[0] == 0
    code, document = said(project, "--target", "other")
    [found] = document["against_target"]
    assert (code, found["worker"], found["target"]) == (3, one.handle, "other")
    sides = [found["conflicts"][0]["stages"][stage]["id"] for stage in ("2", "3")]
    assert sides == [project.git("rev-parse", f"{side}:a") for side in ("other", one.branch)], "the target is ours"
    assert project.parallel("conflicts", "--target", "no-such").returncode == 2


def test_without_a_target_only_pairs_are_compared(project):
    project.git("checkout", "-q", "--detach")
    one, two = ended_run(project, "echo 1 > a", "echo 2 > a")
    found = forecast(project)
    assert found.targets == [None, None]
    assert list(colliding(found)) == [(one.number, two.number)]
    assert found.files == [1, 1]


# --- live runs -------------------------------------------------------------------------------------


def state_of(top: Path) -> dict[str, str]:
    """Every file below a directory, by content."""
    return {
        str(path.relative_to(top)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in top.rglob("*")
        if path.is_file() and "architect" not in path.parts
    }


def test_what_a_live_worker_has_not_committed_counts_and_nothing_is_written(project):
    tasks = (
        "echo 1 > a; git commit -qam committed; touch ready; sleep 600",
        "echo 2 > a; echo new > untracked; touch ready; sleep 600",
        "echo 3 > b; git add b; touch ready; sleep 600",
        "echo 4 > untracked; rm b; touch ready; sleep 600",
    )
    with going_run(project, *tasks, states=dict.fromkeys((1, 2, 3, 4), "running")):
        tops = [project.path / f".architect-parallel-{number}" for number in (1, 2, 3, 4)]
        until(lambda: all((top / "ready").exists() for top in tops), "the workers' edits")
        before = state_of(project.path)
        code, document = said(project)
        after = state_of(project.path)
        committed = said(project, "--committed")
    assert before == after, "looking must not write: no index, no lock, no object, no ref"
    assert code == 3
    found = {
        tuple(handle[-1] for handle in pair["workers"]): sorted((one["path"], one["kind"]) for one in pair["conflicts"])
        for pair in document["pairs"]
        if not pair["clean"]
    }
    assert found == {
        ("1", "2"): [("a", "content")],
        ("2", "4"): [("untracked", "add/add")],
        ("3", "4"): [("b", "modify/delete")],
    }
    assert [worker["uncommitted"] for worker in document["workers"]] == [True] * 4
    assert [worker["commit"] for worker in document["workers"]] == [None] * 4
    assert (committed[0], committed[1]["pairs"]) == (0, [])


def test_a_clean_live_worktree_counts_with_its_commit(project):
    with going_run(project, "echo 1 > a; git commit -qam one; sleep 600", states={1: "running"}):
        until(lambda: project.git("log", "-1", "--format=%s", "architect/parallel-1") == "one", "the commit")
        found = forecast(project)
        assert found.heads[0].commit == project.git("rev-parse", "architect/parallel-1")
        assert not found.heads[0].uncommitted


def test_a_worktree_on_another_branch_does_not_stand_for_the_worker(project):
    with going_run(project, "touch ready; sleep 600", states={1: "running"}):
        worktree = project.path / ".architect-parallel-1"
        until((worktree / "ready").exists, "the edit")
        project.git("checkout", "-qb", "own", cwd=worktree)
        found = forecast(project)
        assert found.heads[0].note == "its worktree is on another branch, own"
        assert found.heads[0].commit == project.git("rev-parse", "architect/parallel-1")


def test_a_worktree_that_is_not_filled_yet_is_not_looked_at(project, monkeypatch):
    """Its files are still to come: every one of them would look deleted."""
    [worker] = ended_run(project, "echo 1 > a")
    here = Repository.discover(str(project.path))
    [candidate] = workers.gather(here, [])
    (worker.path / "b").unlink()
    for state, looked_at in (("preparing", False), ("queued", False), ("ended", False), ("running", True)):
        changed = replace(candidate, state=state)
        with mergetree.scratch_objects(here) as env:
            [head], _ = present(here, [changed], env)
        assert head.uncommitted == looked_at, state


def test_a_live_worktree_that_is_gone_leaves_its_branch(project):
    [worker] = ended_run(project, "echo 1 > a")
    here = Repository.discover(str(project.path))
    [candidate] = workers.gather(here, [])
    changed = replace(candidate, state="running")
    (worker.path / ".git").unlink()
    with mergetree.scratch_objects(here) as env:
        [head], _ = present(here, [changed], env)
    assert (head.commit, head.uncommitted) == (worker.head, False)
    assert "is no worktree of this repository" in (head.note or "")


# --- the command -----------------------------------------------------------------------------------


def collide(project) -> list[Worker]:
    return ended_run(project, "echo 1 > a; echo 1 > b", "echo 2 > a; echo 2 > b", "echo 3 > c")


def test_a_person_sees_the_matrix_the_paths_and_the_order(project):
    collide(project)
    done = project.parallel("conflicts")
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        "worker  main 1 2 3",
        "     1     . \\ 2 .  echo 1 > a; echo 1 > b",
        "     2     . 2 \\ .  echo 2 > a; echo 2 > b",
        "     3     . . . \\  echo 3 > c",
        "",
        "1 and 2: 2 paths conflict",
        "    content  a",
        "    content  b",
        "",
        "suggested order, fewest conflicts first:",
        "   1. 3  conflicts with nothing",
        "   2. 1  conflicts with 2 (2 paths), after it",
        "   3. 2  conflicts with 1 (2 paths), before it",
        "",
        "3 workers: 1 of 6 pairs conflicts",
    ]


def test_the_json_names_everything_by_full_handles(project):
    one, two, three = collide(project)
    code, document = said(project)
    assert code == 3
    assert (document["v"], document["conflicts"], document["pairs_possible"], document["merges_made"]) == (1, 1, 6, 1)
    [pair] = document["pairs"]
    assert (pair["workers"], pair["clean"], pair["shared_paths"]) == ([one.handle, two.handle], False, 2)
    a, _ = pair["conflicts"]
    assert (a["path"], a["kind"], sorted(a["stages"])) == ("a", "content", ["1", "2", "3"])
    assert a["stages"]["2"]["id"] == project.git("rev-parse", f"{one.branch}:a")
    assert [step["worker"] for step in document["order"]] == [three.handle, one.handle, two.handle]
    assert document["order"][1]["conflicts_after"] == {two.handle: 2}


def test_porcelain_has_a_line_for_each_conflict_and_each_place(project):
    one, two, three = collide(project)
    done = project.parallel("conflicts", "-z")
    assert [record.split("\t") for record in done.stdout.split("\0")[:-1]] == [
        ["conflict", one.handle, two.handle, "content", "a"],
        ["conflict", one.handle, two.handle, "content", "b"],
        ["order", three.handle, "-", "1", "conflicts with nothing"],
        ["order", one.handle, "-", "2", f"conflicts with {two.number} (2 paths), after it"],
        ["order", two.handle, "-", "3", f"conflicts with {one.number} (2 paths), before it"],
    ]


def test_without_conflicts_it_exits_with_0(project):
    ended_run(project, "echo 1 > a", "echo 2 > b")
    assert project.parallel("conflicts").returncode == 0


def test_without_a_run_it_says_how_to_start_one(repo):
    done = repo.parallel("conflicts")
    assert (done.returncode, done.stdout) == (0, "")
    assert "hint: no run yet" in done.stderr
    assert said(repo) == (0, {**said(repo)[1], "workers": [], "pairs": [], "order": []})


def test_it_works_in_a_bare_repository_and_from_a_linked_worktree(project, tmp_path):
    one, _, _ = collide(project)
    inside = project.parallel("conflicts", "--json", cwd=one.path)
    assert inside.returncode == 3
    project.git("config", "core.bare", "true")
    bare = project.parallel("conflicts", "--json", cwd=project.path / ".git")
    project.git("config", "core.bare", "false")
    assert (bare.returncode, json.loads(bare.stdout)) == (3, json.loads(inside.stdout))


def test_it_works_with_sha256(make_repo):
    repo = make_repo("sha256", init=("--object-format=sha256",))
    one, two = ended_run(repo, "echo 1 > README", "echo 2 > README")
    code, document = said(repo)
    assert code == 3
    assert [pair["workers"] for pair in document["pairs"]] == [[one.handle, two.handle]]
