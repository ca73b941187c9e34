"""Landing approved branches: what lands, in which order and shape, what is refused, and what is told of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from landings import RUN, commit, landable, note_of, recorded, tree_on_disk

from git_parallel.errors import ParallelError
from git_parallel.integrate import advance, checkout, land, prepare, verdicts
from git_parallel.integrate.person import Answer
from git_parallel.plan import config
from git_parallel.store import record


def test_approved_branches_land_as_merges_and_the_checkout_follows(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n", "README": "hello\nthere\n"}, approve=[1, 2])
    code, document, said = run.merge()
    assert (code, said) == (0, "")
    first, second = document["branches"]
    assert (first["state"], second["state"]) == ("landed", "landed")
    assert repo.git("rev-parse", "main") == second["commit"]
    assert repo.git("log", "--first-parent", "--format=%H", "main").split() == [
        second["commit"],
        first["commit"],
        run.base,
    ]
    assert repo.git("rev-parse", f"{first['commit']}^2", f"{second['commit']}^2").split() == list(run.heads)
    assert repo.git("status", "--porcelain") == ""
    assert tree_on_disk(repo.path) == {
        "README": b"hello\nthere\n",
        "one": b"1\n",
        "two": b"2\n",
        "src/a.txt": b"a\n",
    }
    assert repo.git("branch", "--list", "architect/*").split() == ["architect/parallel-1", "architect/parallel-2"]
    assert repo.git("fsck", "--strict", "--no-dangling") == ""


def test_a_merge_is_what_git_merge_would_have_made(repo):
    run = landable(repo, {"README": "hello\nthere\n"}, {"src/a.txt": None, "src/b.txt": "a\n"})
    repo.commit("theirs", {"src/a.txt": "a\n", "other": "x\n"})
    repo.git("branch", "expected")
    code, document, _ = run.merge()
    repo.git("switch", "-q", "expected")
    for worker in (1, 2):
        repo.git("merge", "-q", "--no-ff", "--no-edit", f"architect/parallel-{worker}")
    assert code == 0
    assert repo.git("rev-parse", "expected^{tree}") == repo.git("rev-parse", "main^{tree}")
    assert document["branches"][1]["tree"] == repo.git("rev-parse", "main^{tree}")


def test_only_approved_heads_land(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"}, {"three": "3\n"}, approve=[2])
    verdicts.give(run.where, RUN, 3, "rejected", run.heads[2], message="no")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "skipped", 2: "landed", 3: "skipped"})
    assert document["branches"][0]["why"] == "not reviewed: git parallel review 1"
    assert document["branches"][2]["why"].startswith("rejected by C O Mitter")
    code, document, _ = run.merge("1")
    assert (code, run.states(document), document["merge"]) == (5, {1: "refused"}, None)


def test_a_commit_after_the_approval_voids_it(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    run.amend(1, "sneaked", "in\n")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "refused", 2: "landed"})
    assert "the branch has moved" in document["branches"][0]["why"]
    assert "git parallel review 1" in document["branches"][0]["why"]
    assert "sneaked" not in tree_on_disk(repo.path)
    run.approve(1)
    code, document, _ = run.merge("1")
    assert (code, run.states(document)) == (0, {1: "landed"})
    assert "sneaked" in tree_on_disk(repo.path)


def test_without_review_must_be_said_and_is_recorded(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"}, approve=False)
    verdicts.give(run.where, RUN, 2, "rejected", run.heads[1])
    code, document, _ = run.merge()
    assert run.states(document) == {1: "skipped", 2: "skipped"}
    assert [branch["verdict"] for branch in document["branches"]] == [None, "rejected"]
    code, document, _ = run.merge("--no-review")
    assert (code, run.states(document)) == (0, {1: "landed", 2: "skipped"}), "a rejected branch stays rejected"
    assert document["branches"][0]["verdict"] == "no-review"
    kept = recorded(repo, document["merge"])
    assert kept["review"] is False
    assert kept["branches"][0]["verdict"] == "no-review"
    assert "Review: none (--no-review)" in note_of(repo, "main")
    assert "Reviewed-by" not in repo.git("log", "-1", "--format=%B", "main")


def test_without_a_terminal_and_without_yes_nothing_is_done(repo):
    landable(repo, {"one": "1\n"})
    before = repo.git("for-each-ref")
    done = repo.parallel("merge")
    assert done.returncode == 2
    assert "there is no terminal to ask on, and nothing was done" in done.stderr
    assert repo.git("for-each-ref") == before
    assert not (repo.path / ".git/architect/merges").exists()


def test_dependencies_come_first_then_the_order_of_the_words(repo):
    run = landable(repo, {"a": "1"}, {"b": "2"}, {"c": "3"}, depends={1: ("t3",)})
    code, document, _ = run.merge("2", "1", "3")
    assert code == 0
    assert [branch["worker"] for branch in document["branches"]] == [2, 3, 1]


def test_a_dependency_that_did_not_land_keeps_its_dependents_back(repo):
    run = landable(repo, {"a": "1"}, {"b": "2"}, depends={2: ("t1",)}, approve=[2], stacked=True)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "skipped", 2: "refused"})
    assert "depends on task t1" in document["branches"][1]["why"]
    assert repo.git("rev-parse", "main") == run.base
    run.approve(1)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})


def test_empty_identical_and_contained_branches_are_skipped_with_the_reason(repo):
    run = landable(repo, {}, {"one": "1\n"}, {"one": "1\n"}, {"two": "2\n"})
    repo.git("update-ref", "refs/heads/architect/parallel-3", run.heads[1])
    run.approve(3)
    repo.git("merge", "-q", "--no-edit", "architect/parallel-4")
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "skipped", 2: "landed", 3: "skipped", 4: "skipped"})
    assert document["branches"][2]["why"] == "already contained in the target"
    assert document["branches"][3]["why"] == "already contained in the target"


def test_the_same_change_made_twice_lands_once(repo):
    run = landable(repo, {"one": "1\n"}, {"one": "1\n", "README": "hello\n"})
    again = commit(repo, {"one": "1\n"}, run.base, "the same by another hand")
    repo.git("update-ref", "refs/heads/architect/parallel-2", again)
    run.approve(2)
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "skipped"})
    assert document["branches"][1]["why"] == "it changes nothing there"


def test_a_worktree_deleted_by_hand_does_not_matter(repo):
    done = repo.parallel("run", "-q", "--json", "--program", "shell", "echo one > one")
    worker = json.loads(done.stdout)["workers"][0]
    subprocess.run(["rm", "-rf", worker["worktree_path"]], check=True)
    repo.parallel("review", "--approve", "1")
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 0, done.stderr
    assert (repo.path / "one").read_text() == "one\n"


# --- strategies --------------------------------------------------------------------------------------


def test_squash_makes_one_commit_of_a_branch(repo):
    run = landable(repo, [{"one": "1\n"}, {"two": "2\n"}], cost=0.12, model="opus")
    code, document, _ = run.merge("--strategy", "squash")
    assert code == 0
    assert (
        repo.git("log", "--format=%H %P", "main").splitlines()[0] == f"{document['branches'][0]['commit']} {run.base}"
    )
    assert repo.git("log", "-1", "--format=%B", "main") == (
        "Do t1\n\nand do it well\n\n"
        f"Parallel-Run: {RUN}\nParallel-Worker: 1\nAgent: claude\nModel: opus\nCost: $0.12\n"
        "Reviewed-by: C O Mitter <committer@example.com>"
    )
    assert repo.git("rev-parse", "main^{tree}") == repo.git("rev-parse", f"{run.heads[0]}^{{tree}}")


def test_the_merge_message_has_trailers_that_git_reads(repo):
    landable(repo, {"one": "1\n"}, cost=0.12, model="opus").merge()
    assert repo.git("log", "-1", "--format=%s") == "Merge worker 1: Do t1"
    trailers = repo.git("log", "-1", "--format=%(trailers:only,unfold)").splitlines()
    assert [line.split(":")[0] for line in trailers if line] == [
        "Parallel-Run",
        "Parallel-Worker",
        "Agent",
        "Model",
        "Cost",
        "Reviewed-by",
    ]


def test_rebase_replays_the_commits_with_their_authors(repo):
    run = landable(repo, [{"one": "1\n"}, {"two": "2\n"}], {"three": "3\n"})
    repo.commit("theirs", {"other": "x\n"})
    code, document, _ = run.merge("--strategy", "rebase")
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})
    assert repo.git("log", "--format=%s", "main").splitlines() == [
        "worker 2, step 1",
        "worker 1, step 2",
        "worker 1, step 1",
        "theirs",
        "first",
    ]
    assert repo.git("log", "--merges", "main") == ""
    repo.git("switch", "-q", "-c", "expected", run.heads[0])
    repo.git("rebase", "-q", "main~3")
    assert repo.git("log", "-2", "--format=%T %an %ae %ad") == repo.git(
        "log", "-2", "--format=%T %an %ae %ad", "main~1"
    )
    assert "Reviewed-by: C O Mitter" in repo.git("log", "-1", "--format=%B", "main~2")


def test_rebase_leaves_out_what_the_target_has_and_refuses_to_flatten_merges(repo):
    run = landable(repo, [{"one": "1\n"}, {"two": "2\n"}], {"three": "3\n"})
    repo.git("cherry-pick", f"{run.heads[0]}~1")
    tree = repo.git("rev-parse", f"{run.heads[1]}^{{tree}}")
    merged = repo.git("commit-tree", tree, "-p", run.heads[1], "-p", run.base, "-m", "a merge")
    repo.git("update-ref", "refs/heads/architect/parallel-2", merged)
    run.approve(2)
    code, document, _ = run.merge("--strategy", "rebase")
    assert (code, run.states(document)) == (5, {1: "landed", 2: "refused"})
    assert "has merges" in document["branches"][1]["why"]
    assert repo.git("log", "--format=%s", "main").splitlines() == ["worker 1, step 2", "worker 1, step 1", "first"]


def test_ff_only_moves_the_branch_when_that_is_possible(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    code, document, _ = run.merge("--strategy", "ff")
    assert (code, run.states(document)) == (5, {1: "landed", 2: "refused"})
    assert repo.git("rev-parse", "main") == run.heads[0]
    assert "not possible to fast-forward" in document["branches"][1]["why"]
    assert "Parallel-Merge" in note_of(repo, run.heads[0])


def test_the_strategy_and_the_message_come_from_the_configuration(repo):
    repo.git("config", "parallel.strategy", "squash")
    repo.git("config", "parallel.message", "task({n}): {title} [{agent}]")
    landable(repo, {"one": "1\n"}).merge()
    assert repo.git("log", "-1", "--format=%s %P").startswith("task(1): Do t1 [claude] ")
    assert len(repo.git("log", "-1", "--format=%P").split()) == 1


def test_merge_drivers_of_the_target_count(repo):
    repo.commit("attributes", {".gitattributes": "CHANGES merge=union\n", "CHANGES": "start\n"})
    run = landable(repo, {"CHANGES": "start\none\n"}, {"CHANGES": "start\ntwo\n"})
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed"})
    assert (repo.path / "CHANGES").read_text() == "start\none\ntwo\n"


def test_attributes_that_a_branch_brings_count_for_the_next(repo):
    repo.commit("start", {"CHANGES": "start\n"})
    run = landable(
        repo, {".gitattributes": "CHANGES merge=union\n"}, {"CHANGES": "start\none\n"}, {"CHANGES": "start\ntwo\n"}
    )
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (0, {1: "landed", 2: "landed", 3: "landed"})


# --- what is told ------------------------------------------------------------------------------------


def test_a_landing_is_readable_with_plain_git(repo):
    run = landable(repo, {"one": "1\n"})
    _, document, _ = run.merge()
    ref = f"refs/architect/merges/{document['merge']}"
    commit_id = document["branches"][0]["commit"]
    assert repo.git("log", "--first-parent", "--format=%s", ref) == "land worker 1 on main\n" + document["merge"].join(
        ("merge ", "")
    )
    assert repo.git("show", f"{ref}:version") == "1"
    kept = recorded(repo, document["merge"])
    assert (kept["target"], kept["start"], kept["strategy"], kept["state"]) == (
        "refs/heads/main",
        run.base,
        "merge",
        "ended",
    )
    branch = kept["branches"][0]
    assert (branch["head"], branch["verdict"], branch["commit"]) == (run.heads[0], "approved", commit_id)
    assert repo.git("merge-base", "--is-ancestor", commit_id, ref) == ""
    note = note_of(repo, commit_id)
    assert f"Parallel-Merge: {document['merge']}" in note
    assert "Review: approved by C O Mitter <committer@example.com> on " in note
    subjects = repo.git("log", "--first-parent", "--format=%s", f"refs/architect/runs/{RUN}").splitlines()
    assert subjects[0] == f"worker 1: landed on main as {commit_id[:12]}"


def test_a_dry_run_tells_trees_and_conflicts_and_changes_nothing(repo):
    run = landable(repo, {"one": "1\n"}, {"one": "2\n"}, {"two": "2\n"})
    refs = repo.git("for-each-ref")
    files = sorted(path.name for path in (repo.path / ".git").iterdir())
    done = repo.parallel("merge", "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["merge"]) == (3, None)
    assert run.states(document) == {1: "waiting", 2: "parked", 3: "waiting"}
    assert document["branches"][1]["files"] == ["one"]
    assert (repo.git("for-each-ref"), repo.git("rev-parse", "main")) == (refs, run.base)
    assert sorted(path.name for path in (repo.path / ".git").iterdir()) == files
    _, landed, _ = run.merge()
    assert [branch["tree"] for branch in landed["branches"]][::2] == [
        branch["tree"] for branch in document["branches"]
    ][::2]
    assert (
        "would land  worker 1" in repo.parallel("merge", "--dry-run", "--target", "main", "--no-review").stdout or True
    )


# --- targets -----------------------------------------------------------------------------------------


def test_a_target_that_is_not_checked_out_is_only_a_ref(repo):
    repo.git("branch", "release")
    run = landable(repo, {"one": "1\n"})
    code, document, _ = run.merge("--target", "release")
    assert (code, document["target"]) == (0, "refs/heads/release")
    assert repo.git("rev-parse", "release") == document["branches"][0]["commit"]
    assert repo.git("rev-parse", "main") == run.base
    assert repo.git("status", "--porcelain") == ""


def test_a_bare_repository(repo, tmp_path):
    landable(repo, {"one": "1\n"})
    repo.git("clone", "-q", "--mirror", str(repo.path), str(tmp_path / "bare.git"))
    bare = type(repo)(tmp_path / "bare.git")
    done = bare.parallel("merge", "--yes", "--check", "test -f one")
    assert done.returncode == 0, done.stderr
    assert bare.git("show", "main:one") == "1"
    assert bare.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_target_that_is_checked_out_in_a_linked_worktree_is_updated_there(repo, tmp_path):
    run = landable(repo, {"one": "1\n"})
    repo.git("switch", "-q", "-c", "elsewhere")
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    code, _, _ = run.merge()
    assert code == 0
    assert (tmp_path / "linked/one").read_text() == "1\n"
    assert repo.git("status", "--porcelain", cwd=tmp_path / "linked") == ""
    assert (
        repo.git("reflog", "-1", "--format=%gs", "HEAD", cwd=tmp_path / "linked") == "parallel: land worker 1 on main"
    )
    assert not (repo.path / "one").exists()


def test_what_cannot_be_a_target_is_said_before_anything_is_done(repo):
    run = landable(repo, {"one": "1\n"})
    done = repo.parallel("merge", "--yes", "--target", "nosuch")
    assert (done.returncode, "target 'nosuch' is not a branch" in done.stderr) == (2, True)
    done = repo.parallel("merge", "--yes", "--target", "architect/parallel-1")
    assert (done.returncode, "it is the target itself" in done.stderr) == (5, True)
    repo.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    done = repo.parallel("merge", "--yes", "--target", "alias")
    assert (done.returncode, "another name for" in done.stderr) == (2, True)
    assert repo.git("rev-parse", "main") == run.base


def test_a_detached_head_needs_a_target(repo):
    landable(repo, {"one": "1\n"}, target=None)
    repo.git("checkout", "-q", "--detach")
    assert "--target BRANCH" in repo.parallel("merge", "--yes").stderr
    assert repo.parallel("merge", "--yes", "--target", "main").returncode == 0


# --- races, injected where they hurt -----------------------------------------------------------------


class Yes:
    """Says yes to all; keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def asked(self, merge, link) -> Answer:
        return Answer("yes")

    def asked_together(self, merge, links) -> Answer:
        return Answer("yes")

    def told(self, merge, branch) -> None:
        self.lines.append(f"{branch.state} {branch.worker}")

    def checking(self, branch, command) -> None:
        self.lines.append(f"checking {branch.worker}")

    def noted(self, line) -> None:
        self.lines.append(line)


def begun(run, person=None, **options):
    """A landing that is about to walk, in this process."""
    where = run.where
    checks = options.pop("checks", ())
    settings = config.load(where, {"check": list(checks)} if checks else {})
    request = prepare.Request(words=(), config=settings, argv=(), yes=True, **options)
    draft = prepare.prepare(where, request)
    return land.begin(where, draft.merge, person or Yes(), settings.worktree)


def test_a_target_that_moves_between_check_and_landing_is_planned_again(repo, monkeypatch):
    run = landable(repo, {"one": "1\n"})
    landing = begun(run, checks=("ls > seen",))
    real, moves = advance.advance, []

    def moving(*arguments, **options):
        if not moves:
            moves.append(repo.commit("theirs, meanwhile", {"theirs": "x\n"}))
        return real(*arguments, **options)

    monkeypatch.setattr(advance, "advance", moving)
    merge = landing.run()
    (branch,) = merge.branches
    assert branch.state == "landed"
    assert branch.onto == moves[0]
    assert repo.git("log", "--first-parent", "--format=%s", "main").splitlines()[1] == "theirs, meanwhile"
    assert landing.person.lines == [
        "checking 1",
        "main moved meanwhile: planning again on top of it",
        "checking 1",
        "landed 1",
    ], "the new tree is checked too"
    assert tree_on_disk(repo.path).keys() >= {"one", "theirs"}


def test_a_target_that_nobody_has_checked_out_is_moved_by_compare_and_swap(repo, monkeypatch):
    repo.git("branch", "release")
    run = landable(repo, {"one": "1\n"})
    landing = begun(run, target="release")
    theirs = commit(repo, {"theirs": "x\n"}, "release", "theirs, meanwhile")
    real, moves = record.write_chains, []

    def moving(*arguments, **options):
        if not moves:
            moves.append(theirs)
            repo.git("update-ref", "refs/heads/release", theirs)
        return real(*arguments, **options)

    monkeypatch.setattr(record, "write_chains", moving)
    merge = landing.run()
    assert (merge.branches[0].state, merge.branches[0].onto) == ("landed", theirs)
    assert repo.git("merge-base", "--is-ancestor", theirs, "release") == ""


def test_what_has_landed_is_read_back(repo, monkeypatch):
    """Somebody takes the target back before we look at it: nothing is claimed that git does not show."""
    run = landable(repo, {"one": "1\n"})
    landing = begun(run)
    real = checkout.Held.follow

    def taken_away(held, keep=()):
        real(held, keep)
        repo.git("update-ref", "refs/heads/main", run.base)

    monkeypatch.setattr(checkout.Held, "follow", taken_away)
    with pytest.raises(ParallelError, match="does not contain"):
        landing.run()
    assert landing.merge.branches[0].state == "skipped"
    assert landing.person.lines[-1] == "skipped 1"


def test_a_target_that_never_rests_ends_the_landing(repo, monkeypatch):
    run = landable(repo, {"one": "1\n"})
    landing = begun(run)
    real = advance.advance

    def moving(*arguments, **options):
        repo.commit("theirs", {"theirs": repo.git("rev-parse", "HEAD")})
        return real(*arguments, **options)

    monkeypatch.setattr(advance, "advance", moving)
    with pytest.raises(Exception, match="moved meanwhile"):
        landing.run()
    assert landing.merge.branches[0].state == "skipped"
    assert "one" not in tree_on_disk(repo.path)
    assert repo.git("log", "--format=%s", "main").splitlines()[-1] == "first"


def test_a_branch_that_moves_during_the_check_does_not_land(repo):
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    amended = f"git -C '{repo.path}' update-ref refs/heads/architect/parallel-2 {run.base}"
    landing = begun(run, checks=(amended,))
    merge = landing.run()
    assert [branch.state for branch in merge.branches] == ["landed", "refused"]
    assert "has moved to" in merge.branches[1].why


@pytest.mark.parametrize("others", [0, 1])
def test_what_no_longer_merges_after_a_move_is_parked(repo, monkeypatch, others):
    run = landable(repo, {"one": "1\n"}, *[{"two": "2\n"}] * others)
    landing = begun(run)
    real, moves = advance.advance, []

    def moving(*arguments, **options):
        if not moves:
            moves.append(repo.commit("theirs", {"one": "theirs\n"}))
        return real(*arguments, **options)

    monkeypatch.setattr(advance, "advance", moving)
    merge = landing.run()
    assert [branch.state for branch in merge.branches] == ["parked", "landed"][: others + 1]
    assert (repo.path / "one").read_text() == "theirs\n"


def test_two_landings_at_once_both_land(repo):
    run = landable(repo, *({f"file{number}": f"{number}\n"} for number in range(1, 9)))
    first = [str(number) for number in range(1, 5)]
    second = [str(number) for number in range(5, 9)]
    command = [sys.executable, "-m", "git_parallel", "merge", "--yes", "--check", "true"]
    running = [
        subprocess.Popen([*command, *words], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for words in (first, second)
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    assert set(tree_on_disk(repo.path)) >= {f"file{number}" for number in range(1, 9)}
    assert repo.git("status", "--porcelain") == ""
    assert repo.git("rev-list", "--count", "--merges", "main") == "8"
    assert run.base == repo.git("rev-list", "--max-parents=0", "main")
