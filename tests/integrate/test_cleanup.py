"""cleanup removes what has ended and loses nothing of it: real runs, the program as a subprocess."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ended_runs import (
    cleanup,
    ended_run,
    files_of,
    kept_commits,
    kept_contents,
    only,
    ref,
    refs,
    trashed,
)


@pytest.fixture
def worker(repo):
    """A worker that has committed one file."""
    return ended_run(repo)[0]


def gone(worker) -> bool:
    """Whether worktree, entry and branch of a worker are gone."""
    entries = worker.repo.git("worktree", "list", "--porcelain")
    return not worker.path.exists() and str(worker.path) not in entries and ref(worker.repo, worker.branch) is None


# --- what is removed, and how it is kept -----------------------------------------------------------


def test_removes_worktree_and_branch_and_keeps_the_tip(repo, worker) -> None:
    outcome = only(cleanup(repo))
    assert gone(worker)
    assert ref(repo, worker.kept) == worker.head
    assert ref(repo, worker.wip) is None
    assert outcome["action"] == "removed"
    assert outcome["restore"] == f"git parallel restore {worker.handle}"
    assert (outcome["head"], outcome["snapshot"], outcome["files"]) == (worker.head, None, 0)
    assert (Path(outcome["trash"]) / "work.txt").read_text() == "done\n"


def test_says_in_the_record_what_it_removed(repo, worker) -> None:
    before = ref(repo, f"refs/architect/runs/{worker.run}")
    worker.write("loose.txt", "loose\n")
    cleanup(repo)
    record = f"refs/architect/runs/{worker.run}"
    assert ref(repo, f"{record}^") == before
    message = repo.git("log", "-1", "--format=%B", record)
    assert message.startswith("cleanup: worktree and branch of worker 1 removed\n")
    for trailer in (
        "Architect-Event: cleanup",
        "Architect-Worker: 1",
        f"Architect-Branch: {worker.branch}",
        f"Architect-Head: {worker.head}",
        f"Architect-Snapshot: {ref(repo, worker.wip)}",
        "Architect-State: ended",
    ):
        assert trailer in message.splitlines()
    kept = json.loads(repo.git("cat-file", "blob", f"{record}:workers/1/cleanup.json"))
    assert (kept["branch"], kept["head"], kept["snapshot"]) == (worker.branch, worker.head, ref(repo, worker.wip))


def test_prints_what_it_kept_and_how_to_get_it_back(repo, worker) -> None:
    worker.write("loose.txt", "loose\n")
    (repo.path / ".git/info/exclude").open("a").write("*.cache\n")
    worker.write("a.cache", "x" * 2000)
    done = repo.parallel("cleanup")
    snapshot = ref(repo, worker.wip)
    assert done.stdout.splitlines() == [
        f"removed  {worker.handle}: worktree and branch {worker.branch} (was {worker.head[:10]})",
        f"         kept in snapshot {snapshot[:10]}: 1 uncommitted file",
        "         ignored: 1 file, 2.0 KiB (a.cache); in the trash for 7 days",
        "1 worker removed",
    ]
    assert f"git parallel restore {worker.handle}" in done.stderr


def test_everything_of_all_ended_runs_without_words(repo) -> None:
    workers = [*ended_run(repo, "echo 1 > a", "echo 2 > b"), *ended_run(repo, "echo 3 > c")]
    assert len({one.run for one in workers}) == 2
    document = cleanup(repo)
    assert [one["action"] for one in document["workers"]] == ["removed"] * 3
    assert all(gone(one) for one in workers)
    assert cleanup(repo) == {"v": 1, "dry_run": False, "workers": [], "purged": []}


def test_only_what_is_named(repo) -> None:
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    assert only(cleanup(repo, "2"))["worker"] == 2
    assert gone(two)
    assert not gone(one)
    assert only(cleanup(repo, one.branch))["worker"] == 1
    assert only(cleanup(repo, one.handle))["action"] == "nothing"
    assert "no run, worker or branch" in repo.parallel("cleanup", "elsewhere").stderr


def test_the_seeds_own_command_does_the_same(repo, worker) -> None:
    script = "from git_parallel.__main__ import cleanup; cleanup()"
    done = subprocess.run([sys.executable, "-c", script], cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert gone(worker)


@pytest.mark.parametrize("place", ["subdirectory", "linked worktree"])
def test_works_from_anywhere_in_the_repository(repo, worker, tmp_path, place) -> None:
    here = repo.path / "src"
    if place == "linked worktree":
        here = tmp_path / "linked"
        repo.git("worktree", "add", "-q", "--detach", str(here))
    cleanup(repo, cwd=here)
    assert gone(worker)


def test_works_in_a_bare_repository_of_the_other_hash(make_repo, tmp_path) -> None:
    bare = make_repo("bare.git", commit=False, init=("--bare", "--object-format=sha256"))
    tree = bare.git("mktree", stdin=b"")
    bare.git("update-ref", "refs/heads/main", bare.git("commit-tree", "-m", "first", tree))
    worker = ended_run(bare)[0]
    worker.write("loose.txt", "loose\n")
    cleanup(bare)
    assert gone(worker)
    assert ref(bare, worker.kept) == worker.head
    assert worker.snapshot()["loose.txt"] == "loose"


# --- work that no commit holds ---------------------------------------------------------------------


def test_keeps_changed_new_and_deleted_files(repo, worker) -> None:
    worker.write("README", "changed\n")
    worker.write("new/file.txt", "new\n")
    (worker.path / "src/a.txt").unlink()
    outcome = only(cleanup(repo))
    assert worker.snapshot() == {"README": "changed", "new/file.txt": "new", "work.txt": "done"}
    assert repo.git("rev-parse", f"{worker.wip}^") == worker.head
    assert (outcome["files"], outcome["snapshot"]) == (3, ref(repo, worker.wip))


def test_keeps_what_is_staged_apart_from_what_lies_in_the_files(repo, worker) -> None:
    worker.write("README", "staged\n")
    worker.git("add", "README")
    worker.write("README", "later\n")
    cleanup(repo)
    (staged,) = [line[17:] for line in trailers(repo, worker.wip) if line.startswith("Architect-Index: ")]
    assert files_of(repo, staged)["README"] == "staged"
    assert worker.snapshot()["README"] == "later"
    assert staged in repo.git("rev-parse", f"{worker.wip}^@").split()


def test_keeps_what_is_staged_even_when_the_file_is_gone(repo, worker) -> None:
    worker.write("staged-only.txt", "only in the index\n")
    worker.git("add", "staged-only.txt")
    (worker.path / "staged-only.txt").unlink()
    cleanup(repo)
    assert b"only in the index\n" in kept_contents(repo)
    assert only_restorable(repo)["staged"] is True


@pytest.mark.parametrize("mark", ["--assume-unchanged", "--skip-worktree"])
def test_keeps_changes_that_git_was_told_not_to_look_at(repo, worker, mark) -> None:
    worker.git("update-index", mark, "README")
    worker.write("README", "hidden change\n")
    assert worker.git("status", "--porcelain") == ""
    cleanup(repo)
    assert worker.snapshot()["README"] == "hidden change"


def test_keeps_commits_that_only_the_reflog_knows(repo, worker) -> None:
    amended = worker.commit("first thought", "thought.txt", "first thought\n")
    worker.write("thought.txt", "second thought\n")
    worker.git("commit", "-q", "-a", "--amend", "-m", "second thought")
    dropped = worker.commit("dropped", "dropped.txt", "dropped\n")
    worker.git("reset", "-q", "--hard", "HEAD^")
    tip = worker.git("rev-parse", "HEAD")
    outcome = only(cleanup(repo))
    assert ref(repo, worker.kept) == tip
    assert set(outcome["lost"]) == {amended, dropped}
    assert {amended, dropped} <= kept_commits(repo)


def test_keeps_commits_on_a_detached_head(repo, worker) -> None:
    worker.git("checkout", "-q", "--detach")
    away = worker.commit("away from the branch", "away.txt", "away\n")
    cleanup(repo)
    assert ref(repo, worker.kept) == worker.head
    assert away in kept_commits(repo)
    assert f"Architect-Head: {away}" in trailers(repo, worker.wip)


def test_keeps_a_branch_without_commits_that_the_worktree_was_switched_to(repo, worker) -> None:
    worker.git("switch", "-q", "--orphan", "fresh")
    worker.write("fresh.txt", "fresh\n")
    cleanup(repo)
    assert gone(worker)
    assert worker.snapshot()["fresh.txt"] == "fresh"
    assert ref(repo, worker.kept) == worker.head


def test_keeps_the_worktrees_own_refs(repo, worker) -> None:
    tree = worker.git("rev-parse", "HEAD^{tree}")
    own = worker.git("commit-tree", "-m", "mine alone", tree)
    worker.git("update-ref", "refs/worktree/mine", own)
    cleanup(repo)
    assert own in kept_commits(repo)


def test_keeps_the_tip_that_is_there_now_not_the_recorded_one(repo, worker) -> None:
    later = worker.commit("by the person, after the run", "later.txt", "later\n")
    cleanup(repo)
    assert ref(repo, worker.kept) == later


def test_an_earlier_snapshot_stays_reachable_behind_the_new_one(repo) -> None:
    # The agent leaves its branch with uncommitted work: the run's end makes the first snapshot.
    worker = ended_run(repo, "git switch -q --detach; echo first > first.txt")[0]
    first = ref(repo, worker.wip)
    assert first is not None
    worker.write("second.txt", "second\n")
    cleanup(repo)
    assert set(worker.snapshot()) >= {"first.txt", "second.txt"}
    assert first in repo.git("rev-parse", f"{worker.wip}^@").split()
    assert f"Architect-Previous: {first}" in trailers(repo, worker.wip)


def test_an_earlier_snapshot_that_says_all_is_used_again(repo) -> None:
    worker = ended_run(repo, "git switch -q --detach; echo first > first.txt")[0]
    first = ref(repo, worker.wip)
    assert only(cleanup(repo))["snapshot"] == first == ref(repo, worker.wip)


def test_ignored_files_are_counted_named_and_in_the_trash(repo, worker) -> None:
    (repo.path / ".git/info/exclude").open("a").write("*.log\n/data/\n")
    worker.write("data/rows.db", "x" * 1000)
    worker.write("data/deep/more.db", "y" * 500)
    worker.write("run.log", "log\n")
    outcome = only(cleanup(repo))
    assert outcome["ignored"] == {"files": 3, "bytes": 1504, "more": False, "names": ["data/", "run.log"]}
    assert (Path(outcome["trash"]) / "data/rows.db").read_text() == "x" * 1000


def test_what_cannot_be_captured_is_named_and_never_expires(repo, worker) -> None:
    nested = worker.path / "vendor"
    repo.git("init", "-q", str(nested))
    (nested / "file").write_text("nested\n")
    repo.git("add", "file", cwd=nested)
    repo.git("commit", "-q", "-m", "nested", cwd=nested)
    repo.git("init", "-q", str(worker.path / "empty"))
    (worker.path / "empty/file").write_text("no commit yet\n")
    outcome = only(cleanup(repo))
    assert sorted(reason.split(":")[0] for reason in outcome["uncaptured"]) == ["empty/", "vendor"]
    grow_old(repo)
    assert cleanup(repo)["purged"] == []
    assert {b"nested\n", b"no commit yet\n"} <= kept_contents(repo)


def test_a_repository_whose_commit_the_branch_names_is_named_and_never_expires(repo) -> None:
    task = "git init -q sub && cd sub && echo inner > f && git add f && git commit -q -m inner"
    worker = ended_run(repo, task)[0]
    said = "sub: a repository of its own"
    assert only(cleanup(repo, "--dry-run"))["uncaptured"] == [said]
    assert f"not captured, stays in the trash: {said}" in repo.parallel("cleanup").stdout
    assert f"kept until you take it out: {said}" in repo.parallel("restore", "--list").stdout
    grow_old(repo)
    assert cleanup(repo)["purged"] == []
    assert b"inner\n" in kept_contents(repo)
    assert ref(repo, worker.kept) == worker.head


def test_submodules_with_commits_of_their_own_are_named_and_never_expire(make_repo, tmp_path) -> None:
    library = make_repo("library")
    repo = make_repo("repo")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library.path), "lib")
    repo.git("commit", "-q", "-m", "with a submodule")
    worker = ended_run(repo, "cd lib && echo agent > by-agent.txt && git add . && git commit -q -m agent")[0]
    commit = repo.git("rev-parse", "HEAD", cwd=worker.path / "lib")
    outcome = only(cleanup(repo))
    assert [reason.split(":")[0] for reason in outcome["uncaptured"]] == ["lib"]
    grow_old(repo)
    cleanup(repo)
    (kept,) = (repo.path / ".git/architect/trash").glob("*/admin/modules/lib")
    assert repo.git("--git-dir", str(kept), "--work-tree", str(kept), "cat-file", "-t", commit) == "commit"


def test_links_out_of_the_worktree_are_not_followed(repo, worker, tmp_path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious\n")
    (worker.path / "link").symlink_to(outside)
    cleanup(repo)
    grow_old(repo)
    assert len(cleanup(repo)["purged"]) == 1
    assert (outside / "precious").read_text() == "precious\n"


# --- the branch ------------------------------------------------------------------------------------


def test_a_branch_of_the_persons_own_that_fits_the_pattern_is_never_touched(repo, worker) -> None:
    repo.git("branch", "architect/parallel-7")
    cleanup(repo)
    repo.git("branch", worker.branch)  # and one made after the removal is the person's, too
    assert cleanup(repo)["workers"] == []
    assert ref(repo, worker.branch) == ref(repo, "architect/parallel-7") == worker.base


def test_a_new_branch_under_an_old_name_stays_when_it_does_not_hold_the_work(repo, worker) -> None:
    repo.git("worktree", "remove", "--force", "--force", str(worker.path))
    repo.git("branch", "-q", "-D", worker.branch)
    mine = repo.git("commit-tree", "-m", "mine", "-p", "main", "main^{tree}")
    repo.git("branch", worker.branch, mine)
    outcome = only(cleanup(repo, code=5))
    assert (outcome["action"], outcome["reason"]) == ("refused", "not_ours")
    assert ref(repo, worker.branch) == mine


def test_a_number_used_again_belongs_to_the_newest_run(repo, worker) -> None:
    cleanup(repo)
    again = ended_run(repo, "echo again > again.txt")[0]
    assert (again.branch, again.path) == (worker.branch, worker.path)
    assert only(cleanup(repo, worker.handle))["action"] == "nothing"
    assert not gone(again)
    assert only(cleanup(repo))["run"] == again.run
    assert (ref(repo, worker.kept), ref(repo, again.kept)) == (worker.head, again.head)


def test_a_run_has_no_claim_to_a_branch_that_a_later_run_was_given(repo) -> None:
    older = ended_run(repo, "true", options=("--allow-empty",))[0]
    repo.git("worktree", "remove", "--force", "--force", str(older.path))
    repo.git("branch", "-q", "-D", older.branch)
    newer = ended_run(repo)[0]
    assert newer.branch == older.branch
    assert only(cleanup(repo, older.handle))["action"] == "nothing"
    assert ref(repo, newer.branch) == newer.head
    assert only(cleanup(repo))["run"] == newer.run


def test_a_branch_that_the_person_stands_on_stays(repo, worker) -> None:
    repo.git("worktree", "remove", "--force", "--force", str(worker.path))
    repo.git("switch", "-q", worker.branch)
    outcome = only(cleanup(repo, code=5))
    assert (outcome["action"], outcome["reason"]) == ("refused", "checked_out")
    assert ref(repo, worker.branch) == worker.head


def test_a_branch_that_is_being_rebased_elsewhere_stays(repo, worker, tmp_path) -> None:
    worker.git("switch", "-q", "--detach")
    other = tmp_path / "other"
    repo.git("worktree", "add", "-q", str(other), worker.branch)
    (other / "work.txt").write_text("rebased\n")
    repo.git("commit", "-q", "-a", "-m", "more", cwd=other)
    repo.git("-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "HEAD^", cwd=other)
    outcome = only(cleanup(repo, code=5))
    assert (outcome["action"], outcome["reason"]) == ("removed", "in_use")
    assert (outcome["worktree_removed"], outcome["branch_removed"]) == (True, False)
    assert ref(repo, worker.branch) is not None
    repo.git("rebase", "--continue", cwd=other)


def test_the_branchs_settings_go_with_it(repo, worker) -> None:
    repo.git("config", f"branch.{worker.branch}.remote", "origin")
    repo.git("config", f"branch.{worker.branch}.merge", "refs/heads/theirs")
    repo.git("config", "branch.main.remote", "origin")
    cleanup(repo)
    assert repo.git("config", "--get-regexp", r"^branch\.") == "branch.main.remote origin"
    assert repo.parallel("restore", worker.handle).returncode == 0
    assert repo.git("config", f"branch.{worker.branch}.merge") == "refs/heads/theirs"


def test_keep_branches_removes_worktrees_only(repo, worker) -> None:
    worker.write("loose.txt", "loose\n")
    outcome = only(cleanup(repo, "--keep-branches"))
    assert (outcome["worktree_removed"], outcome["branch_removed"]) == (True, False)
    assert not worker.path.exists()
    assert ref(repo, worker.branch) == worker.head
    assert worker.snapshot()["loose.txt"] == "loose"
    assert only(cleanup(repo, "--keep-branches"))["action"] == "kept"
    snapshot = ref(repo, worker.wip)
    assert only(cleanup(repo))["branch_removed"] is True
    assert ref(repo, worker.wip) == snapshot
    assert only_restorable(repo)["snapshot"] == snapshot


# --- what was removed by hand ----------------------------------------------------------------------


def test_a_directory_removed_by_hand_leaves_its_index_and_reflog_to_keep(repo, worker) -> None:
    amended = worker.commit("first thought", "thought.txt", "first thought\n")
    worker.git("commit", "-q", "--amend", "-m", "second thought")
    worker.write("staged.txt", "staged\n")
    worker.git("add", "staged.txt")
    shutil.rmtree(worker.path)
    outcome = only(cleanup(repo))
    assert gone(worker)
    assert outcome["trash"] is None
    assert worker.snapshot()["staged.txt"] == "staged"
    assert amended in kept_commits(repo)


def test_a_worktree_removed_with_git_leaves_its_branch_and_that_ones_reflog(repo, worker) -> None:
    amended = worker.commit("first thought", "thought.txt", "first thought\n")
    worker.git("commit", "-q", "--amend", "-m", "second thought")
    tip = worker.git("rev-parse", "HEAD")
    repo.git("worktree", "remove", "--force", "--force", str(worker.path))
    outcome = only(cleanup(repo))
    assert (outcome["branch_removed"], outcome["worktree_removed"]) == (True, False)
    assert ref(repo, worker.kept) == tip
    assert outcome["lost"] == [amended]
    assert amended in kept_commits(repo)


def test_no_other_entry_goes_even_when_its_directory_is_not_there(repo, tmp_path) -> None:
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    volume = tmp_path / "volume"
    volume.mkdir()
    theirs = volume / "theirs"
    repo.git("worktree", "add", "-q", str(theirs))
    os.rename(volume, tmp_path / "unmounted")
    os.rename(two.path, tmp_path / "away")
    cleanup(repo, one.handle)
    assert gone(one)
    os.rename(tmp_path / "unmounted", volume)
    os.rename(tmp_path / "away", two.path)
    assert repo.git("status", "--porcelain", cwd=theirs) == ""
    assert two.git("status", "--porcelain") == ""


def test_a_branch_deleted_by_hand_is_kept_from_the_reflog(repo, worker) -> None:
    repo.git("update-ref", "-d", f"refs/heads/{worker.branch}")
    worker.write("loose.txt", "loose\n")
    cleanup(repo)
    assert gone(worker)
    assert worker.head in kept_commits(repo)
    assert worker.snapshot()["loose.txt"] == "loose"


# --- other outcomes --------------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(repo, worker) -> None:
    worker.write("loose.txt", "loose\n")
    before = refs(repo), repo.git("count-objects", "-v"), repo.git("worktree", "list", "--porcelain")
    outcome = only(cleanup(repo, "--dry-run"))
    assert (outcome["action"], outcome["files"], outcome["head"]) == ("removed", 1, worker.head)
    assert (refs(repo), repo.git("count-objects", "-v"), repo.git("worktree", "list", "--porcelain")) == before
    assert repo.parallel("cleanup", "-n").stdout.startswith("would remove ")
    assert (worker.path / "loose.txt").exists()
    assert trashed(repo) == []


def test_porcelain_has_a_line_a_worker(repo) -> None:
    one, two = ended_run(repo, "echo 1 > a", "echo 2 > b")
    two.write("loose.txt", "loose\n")
    repo.git("worktree", "unlock", str(one.path))
    repo.git("worktree", "lock", "--reason", "mine", str(one.path))
    done = repo.parallel("cleanup", "-z")
    rows = [row.split("\t") for row in done.stdout.split("\0")[:-1]]
    assert rows[0] == ["refused", one.run, "1", "locked", one.branch, one.head, "-", str(one.path), "-"]
    assert rows[1][:8] == ["removed", two.run, "2", "-", two.branch, two.head, ref(repo, two.wip), str(two.path)]
    assert Path(rows[1][8]) == trashed(repo)[0]
    assert done.returncode == 5


def test_expired_trash_is_deleted_and_named(repo, worker) -> None:
    cleanup(repo)
    assert cleanup(repo)["purged"] == []
    grow_old(repo)
    assert "1 expired worktree would be deleted" in repo.parallel("cleanup", "-n").stderr
    assert len(trashed(repo)) == 1
    repo.git("config", "parallel.trashExpire", "never")
    assert cleanup(repo)["purged"] == []
    repo.git("config", "parallel.trashExpire", "1h")
    (purged,) = cleanup(repo)["purged"]
    assert (purged["run"], purged["was"], purged["error"]) == (worker.run, str(worker.path), None)
    assert purged["bytes"] > 0
    assert trashed(repo) == []
    assert ref(repo, worker.kept) == worker.head


def test_a_wrong_setting_does_not_stop_a_cleanup_but_keeps_the_trash(repo, worker) -> None:
    cleanup(repo)
    grow_old(repo)
    repo.git("config", "parallel.trashExpire", "soon")
    done = repo.parallel("cleanup")
    assert done.returncode == 0
    assert "warning: the trash is left as it is" in done.stderr
    assert len(trashed(repo)) == 1


def test_two_at_once_remove_everything_once(repo) -> None:
    workers = ended_run(repo, *(f"echo {n} > f{n}" for n in range(6)))
    for one in workers:
        one.write("loose.txt", f"loose {one.number}\n")
    command = [sys.executable, "-m", "git_parallel", "cleanup", "--json"]
    both = [subprocess.Popen(command, cwd=repo.path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=60)[0]) for process in both]
    assert all(gone(one) for one in workers)
    assert {f"loose {one.number}\n".encode() for one in workers} <= kept_contents(repo)
    assert all(ref(repo, one.kept) == one.head for one in workers)
    removed = [one for document in documents for one in document["workers"] if one["action"] == "removed"]
    assert sorted(one["worker"] for one in removed if one["trash"]) == [one.number for one in workers]


def test_uses_no_command_of_git_that_destroys(repo, worker, tmp_path) -> None:
    worker.write("loose.txt", "loose\n")
    trace = tmp_path / "trace"
    done = repo.parallel("cleanup", env={"GIT_TRACE2_EVENT": str(trace)})
    assert done.returncode == 0
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    commands = [event["argv"] for event in events if event["event"] == "start"]
    assert any("update-ref" in argv for argv in commands)
    words = {word for argv in commands for word in argv}
    assert not words & {"prune", "--force", "-f", "-D", "stash", "reset", "clean", "checkout", "gc", "branch"}


def grow_old(repo) -> None:
    """Make everything in the trash thirty days older."""
    for path in (repo.path / ".git/architect/trash").glob("*/info.json"):
        info = json.loads(path.read_text())
        path.write_text(json.dumps({**info, "time": time.time() - 30 * 86400}))


def trailers(repo, commit: str) -> list[str]:
    """The trailers of a commit."""
    return repo.git("log", "-1", "--format=%(trailers:only)", commit).splitlines()


def only_restorable(repo) -> dict[str, object]:
    """The one worker that can be restored."""
    return only(json.loads(repo.parallel("restore", "--list", "--json").stdout))
