"""Records that are shared: two clones of one remote, two people at work at once, and nothing lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from git_parallel.store import merging

RUNS = "refs/architect/runs"
A = {"GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.com"}
B = {"GIT_COMMITTER_NAME": "Bob", "GIT_COMMITTER_EMAIL": "bob@example.com"}


class Clone:
    """One person's clone."""

    def __init__(self, repo, who: dict[str, str]) -> None:
        self.repo = repo
        self.who = who

    def do(self, *arguments: str, code: int | None = 0) -> str:
        done = self.repo.parallel(*arguments, env=self.who)
        assert code is None or done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    def json(self, *arguments: str, code: int | None = 0) -> dict[str, Any]:
        done = self.repo.parallel(*arguments, "--json", env=self.who)
        assert code is None or done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    def run(self, *tasks: str, options: tuple[str, ...] = ()) -> str:
        words = [word for task in tasks for word in ("--task", task)]
        return self.json("run", "--program", "shell", *options, *words)["run"]

    def refs(self, below: str = "refs") -> dict[str, str]:
        lines = self.repo.git("for-each-ref", "--format=%(refname) %(objectname)", below).splitlines()
        return dict(line.split(" ") for line in lines)

    def verdicts(self, run: str) -> dict[int, str]:
        """What the record says was decided, asked of git alone."""
        found = {}
        for path in self.repo.git("ls-tree", "-r", "--name-only", f"{RUNS}/{run}").splitlines():
            if "/verdicts/" in path:
                verdict = json.loads(self.repo.git("cat-file", "blob", f"{RUNS}/{run}:{path}"))
                found[verdict["worker"]] = f"{verdict['verdict']} by {verdict['by'].split(' ')[0]}"
        return found

    def note(self, commit: str) -> str:
        return self.repo.git("notes", "--ref=architect", "show", commit)

    def head(self, run: str, worker: int) -> str:
        return json.loads(self.repo.git("cat-file", "blob", f"{RUNS}/{run}:workers/{worker}/result.json"))["head"]


@pytest.fixture
def remote(tmp_path, repo) -> Path:
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", path], check=True)
    repo.git("remote", "add", "origin", str(path))
    repo.git("push", "-q", "-u", "origin", "main")
    return path


@pytest.fixture
def ann(repo, remote) -> Clone:
    return Clone(repo, A)


@pytest.fixture
def bob(repo, remote, tmp_path) -> Clone:
    subprocess.run(["git", "clone", "-q", remote, tmp_path / "bob"], check=True)
    return Clone(type(repo)(tmp_path / "bob"), B)


def refs_of(path: Path) -> list[str]:
    """The names of a repository's refs."""
    asked = ["git", "for-each-ref", "--format=%(refname)"]
    return subprocess.run(asked, cwd=path, capture_output=True, text=True, check=True).stdout.split()


def give(clone: Clone, *arguments: str) -> None:
    clone.do("review", *arguments)


@pytest.mark.parametrize("first", ["ann", "bob"])
def test_two_people_review_different_workers_at_once_and_nothing_is_lost(ann, bob, first):
    run = ann.run("echo one > one", "echo two > two")
    ann.do("push")
    bob.do("fetch")
    give(ann, "--approve", "1")
    give(bob, "--reject", f"{run}/2", "-m", "not needed")
    before, ahead = (ann, bob) if first == "ann" else (bob, ann)

    before.do("push")
    ahead.do("push")  # is refused at first, fetches, joins and pushes
    before.do("fetch")
    ahead.do("fetch")

    decided = {1: "approved by Ann", 2: "rejected by Bob"}
    for clone in (ann, bob):
        assert clone.verdicts(run) == decided
        assert "Review: approved by Ann <ann@example.com>" in clone.note(clone.head(run, 1))
        assert "Review: rejected by Bob <bob@example.com>" in clone.note(clone.head(run, 2))
        assert "Parallel-Worker: " in clone.note(clone.head(run, 2))
        assert "rejected by Bob" in clone.do("show", f"{run}/2")
        assert clone.repo.git("fsck", "--strict", "--no-dangling") == ""
    shared = ("refs/architect/runs", "refs/notes")
    assert [ann.refs(below) for below in shared] == [bob.refs(below) for below in shared]
    trace = ahead.repo.git("log", "--format=%s", f"{RUNS}/{run}")
    assert trace.splitlines()[0].startswith("joined with origin: worker ")
    assert "everything is there already" in ann.do("push")
    assert "nothing new" in bob.do("fetch")


def test_a_bare_number_names_a_fetched_worker_when_it_is_the_only_one(ann, bob):
    run = ann.run("echo one > one", "echo two > two")
    ann.do("push")
    bob.do("fetch")
    give(bob, "--approve", "2")
    assert bob.verdicts(run) == {2: "approved by Bob"}
    assert "there is no worker 3" in bob.do("show", "3", code=2)
    bob.run("echo mine > mine")  # his own come first
    give(bob, "--reject", "1", "-m", "no")
    assert bob.verdicts(run) == {2: "approved by Bob"}


def test_a_bare_number_of_several_fetched_runs_is_ambiguous(ann, bob):
    runs = [ann.run("echo one > one"), ann.run("echo two > two")]
    ann.repo.git("branch", "-m", "architect/parallel-2", "x")
    ann.do("cleanup", code=None)
    runs.append(ann.run("echo three > three"))
    ann.do("push")
    bob.do("fetch")
    said = bob.do("review", "--approve", "1", code=None)
    numbers = {run: ann.repo.git("ls-tree", "--name-only", f"{RUNS}/{run}:workers") for run in runs}
    alike = [run for run in runs if numbers[run] == "1"]
    assert len(alike) == 2
    assert "worker 1 is ambiguous: 2 fetched runs have one" in said
    assert all(f"{run}/1" in said for run in alike)


def test_a_fetched_run_is_reviewed_and_merged_without_a_branch_of_its_own(ann, bob):
    run = ann.run("echo one > one", "echo two > two", options=("--check", "true"))
    head = ann.head(run, 1)
    (ann.repo.path / ".architect-parallel-1" / "secret").write_text("draft\n")
    ann.do("push")
    # Bob has workers of his own, whose branches have the same names.
    bob.run("echo mine > mine")
    before = bob.refs("refs/heads")

    assert f"run {run}: new" in bob.do("fetch")

    assert bob.refs("refs/heads") == before
    assert bob.repo.git("rev-parse", "architect/parallel-1") != head
    give(bob, "--approve", f"{run}/1")
    listed = bob.json("review", "--list", run)["workers"]
    assert [one["worker"] if "worker" in one else one["worker_id"] for one in listed] == [1, 2]
    assert bob.verdicts(run) == {1: "approved by Bob"}
    assert "have not been approved" in bob.do("merge", "--yes", run, code=2)
    landed = bob.json("merge", "--yes", "--trust", run, code=None)["branches"]
    assert [(one["worker"], one["state"], one["branch"]) for one in landed if one["state"] == "landed"] == [
        (1, "landed", "architect/parallel-1")
    ]
    assert bob.repo.git("show", "main:one") == "one"
    assert not (bob.repo.path / "two").exists()

    bob.repo.git("push", "-q", "origin", "main")
    bob.do("push")
    ann.do("fetch")
    assert ann.verdicts(run) == {1: "approved by Bob"}
    assert ann.refs("refs/architect/merges") == bob.refs("refs/architect/merges") != {}
    assert ann.refs(f"refs/architect/heads/{run}") == {}


def test_a_later_attempt_counts_and_voids_the_verdict_of_somebody_else(ann, bob):
    run = ann.run("echo one > one", "echo two > two")
    old = ann.head(run, 1)
    ann.do("push")
    bob.do("fetch")
    give(bob, "--approve", f"{run}/1", f"{run}/2")
    ann.do("retry", "1", "-m", "echo more >> one")
    ann.do("push")

    bob.do("push")
    ann.do("fetch")

    for clone in (ann, bob):
        result = json.loads(clone.repo.git("cat-file", "blob", f"{RUNS}/{run}:workers/1/result.json"))
        assert (result["attempts"], result["head"] != old) == (2, True)
        assert clone.verdicts(run) == {1: "approved by Bob", 2: "approved by Bob"}
        rows = [line.split("\t") for line in clone.do("review", "--porcelain", run).splitlines()]
        assert [row[5] for row in rows] == ["void", "approved"]
        events = clone.repo.git("cat-file", "blob", f"{RUNS}/{run}:events.jsonl").splitlines()
        assert sum(json.loads(line)["event"] == "round" for line in events) == 1
    assert bob.repo.git("rev-parse", f"refs/architect/heads/{run}/architect/parallel-1") == ann.head(run, 1)


def test_snapshots_never_move_and_output_only_when_asked(ann, bob, remote):
    run = ann.run("echo loud; git commit -q --allow-empty -m one; git checkout -q --detach; echo draft > draft")
    assert ann.refs("refs/architect/wip") != {}
    assert ann.refs("refs/architect/logs") != {}

    ann.do("push")
    bob.do("fetch", "--logs")
    there = refs_of(remote)
    assert set(there) == {"refs/heads/main", f"{RUNS}/{run}", "refs/notes/architect"}
    wip = next(iter(ann.refs("refs/architect/wip").values()))
    gone = subprocess.run(["git", "cat-file", "-e", wip], cwd=bob.repo.path, check=False, capture_output=True)
    assert gone.returncode != 0

    ann.do("push", "--logs")
    assert bob.refs("refs/architect/logs") == {}
    bob.do("fetch")
    assert bob.refs("refs/architect/logs") == {}
    bob.do("fetch", "--logs")
    assert bob.refs("refs/architect/logs") == ann.refs("refs/architect/logs")


def test_notes_that_people_wrote_by_hand_stay(ann, bob):
    run = ann.run("echo one > one")
    head = ann.head(run, 1)
    ann.do("push")
    bob.do("fetch")
    ann.repo.git("notes", "--ref=architect", "append", "-m", "Ann: looks good", head)
    bob.repo.git("notes", "--ref=architect", "append", "-m", "Bob: needs a test", head)
    for clone in (ann, bob):
        clone.repo.git("notes", "--ref=architect", "append", "-m", f"To do:\n{clone.who['GIT_COMMITTER_NAME']}", head)
    bob.repo.git("notes", "--ref=architect", "add", "-m", "Bob: the start", "main")
    ann.do("push")
    bob.do("push")
    ann.do("fetch")
    for clone in (ann, bob):
        note = clone.note(head)
        assert "Ann: looks good" in note
        assert "Bob: needs a test" in note
        assert "To do:\nAnn" in note
        assert "To do:\nBob" in note
        assert note.count("Parallel-Worker: ") == 1
        assert clone.note("main") == "Bob: the start"


def test_notes_without_a_common_beginning_come_together(ann, bob):
    mine, other = ann.run("echo one > one"), bob.run("echo two > two")
    heads = ann.head(mine, 1), bob.head(other, 1)
    ann.do("push")
    bob.do("push")
    ann.do("fetch")
    for clone in (ann, bob):
        assert f"Parallel-Worker: {mine}/1" in clone.note(heads[0])
        assert f"Parallel-Worker: {other}/1" in clone.note(heads[1])


def test_what_cannot_be_merged_is_left_and_said(ann, bob):
    run = ann.run("echo one > one")
    ann.do("push")
    bob.do("fetch")
    give(bob, "--approve", f"{run}/1")
    # A newer version of the program wrote to the record, and somebody pushed what is no record.
    git = ann.repo.git
    tree = git("ls-tree", f"{RUNS}/{run}").replace(
        git("rev-parse", f"{RUNS}/{run}:version"), git("hash-object", "-w", "--stdin", stdin=b"9\n")
    )
    tip = git("rev-parse", f"{RUNS}/{run}")
    newer = git("commit-tree", git("mktree", stdin=tree.encode()), "-p", tip, "-m", "newer")
    git("update-ref", f"{RUNS}/{run}", newer)
    git("update-ref", f"{RUNS}/20200101T000000Z-aaaa", "main")
    git("push", "-q", "origin", "refs/architect/runs/*:refs/architect/runs/*")
    before = bob.refs("refs/architect/runs")

    said = bob.do("fetch")

    assert f"run {run} is left as it is: a newer git parallel wrote what 'origin' has" in said
    assert "20200101T000000Z-aaaa is left as it is: what 'origin' has is no record" in said
    assert bob.refs("refs/architect/runs") == before


def test_names_that_come_from_elsewhere_are_not_trusted(ann, bob):
    run = ann.run("echo one > one", "echo two > two")
    git = ann.repo.git
    spec = json.loads(git("cat-file", "blob", f"{RUNS}/{run}:run.json"))
    spec["jobs"][0]["branch"] = "../../../heads/main"
    blob = git("hash-object", "-w", "--stdin", stdin=json.dumps(spec).encode())
    tree = git("ls-tree", f"{RUNS}/{run}").replace(git("rev-parse", f"{RUNS}/{run}:run.json"), blob)
    made = git("commit-tree", git("mktree", stdin=tree.encode()), "-p", f"{RUNS}/{run}", "-m", "bad")
    git("update-ref", f"{RUNS}/{run}", made)
    ann.do("push")
    main = bob.repo.git("rev-parse", "main")
    bob.do("fetch")
    assert bob.repo.git("rev-parse", "main") == main
    assert list(bob.refs("refs/architect/heads")) == [f"refs/architect/heads/{run}/architect/parallel-2"]


def test_a_ref_that_moves_while_it_is_merged_is_merged_again(ann, bob, monkeypatch):
    from git_parallel.git import Repository
    from git_parallel.store import refs, sharing

    run = ann.run("echo one > one", "echo two > two")
    ann.do("push")
    bob.do("fetch")
    give(bob, "--approve", f"{run}/1")
    bob.do("push")
    give(ann, "--approve", "2")
    moved = []
    whole = refs.transaction

    def overtaken(repo, updates, **options):
        if not moved:  # somebody without our lock is first
            tip = ann.repo.git("rev-parse", f"{RUNS}/{run}")
            tree = ann.repo.git("rev-parse", f"{tip}^{{tree}}")
            moved.append(ann.repo.git("commit-tree", tree, "-p", tip, "-m", "meanwhile"))
            ann.repo.git("update-ref", f"{RUNS}/{run}", moved[0])
        whole(repo, updates, **options)

    monkeypatch.setattr(refs, "transaction", overtaken)
    sharing.fetch(Repository.discover(str(ann.repo.path)), "origin")

    assert ann.verdicts(run) == {1: "approved by Bob", 2: "approved by Ann"}
    assert ann.repo.git("merge-base", "--is-ancestor", moved[0], f"{RUNS}/{run}") == ""


def test_a_refusal_of_the_remote_is_told_as_it_is(ann, remote):
    ann.run("echo one > one")
    hook = remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho no records here >&2\nexit 1\n")
    hook.chmod(0o755)
    assert "'origin' refused: remote rejected pre-receive hook declined" in ann.do("push", code=128)


def test_a_remote_may_be_a_url_and_must_be_named_when_there_are_several(ann, bob, remote, tmp_path):
    run = ann.run("echo one > one")
    ann.do("push", str(remote))
    document = bob.json("fetch", str(remote))
    assert document["fetched"][0] == {"kind": "run", "name": run, "how": "new", "note": None}
    bob.repo.git("remote", "remove", "origin")
    assert "there is no remote to share with" in bob.do("fetch", code=2)
    bob.repo.git("remote", "add", "x", str(remote))
    bob.repo.git("remote", "add", "y", str(remote))
    assert "which remote? there are x, y" in bob.do("fetch", code=2)


def test_a_worker_may_not_push(ann, remote):
    ann.run(f"{sys.executable} -m git_parallel push; echo one > one")
    there = refs_of(remote)
    assert there == ["refs/heads/main"]


# --- the merge itself ------------------------------------------------------------------------------


def event(second: int, name: str) -> bytes:
    return json.dumps({"time": f"2026-11-29T16:50:{second:02}.000Z", "event": name}).encode() + b"\n"


def test_events_are_united_by_time_and_each_side_keeps_its_order():
    common = event(1, "run-started")
    ours = common + event(4, "ours") + event(3, "ours, after the clock was set back")
    theirs = common + event(2, "theirs") + event(5, "theirs") + b"torn"
    united = merging.united(ours, theirs)
    assert united.splitlines() == [
        event(1, "run-started").strip(),
        event(2, "theirs").strip(),
        event(4, "ours").strip(),
        event(3, "ours, after the clock was set back").strip(),
        event(5, "theirs").strip(),
        b"torn",
    ]
    assert merging.united(ours, ours) == ours


def result(attempts: int, ended: str) -> bytes:
    fields = {
        "worker_id": 1,
        "branch": "b",
        "model": None,
        "status": "success",
        "steps": None,
        "cost": None,
        "duration": None,
        "files_modified": [],
        "worktree_path": "/w",
        "run": "r",
        "task": "t1",
        "agent": "shell",
        "role": "build",
        "base": "0" * 40,
        "head": None,
        "reason": "done",
        "attempts": attempts,
        "ended": ended,
    }
    return json.dumps(fields).encode()


PATH, PROMPT = "workers/1/result.json", "workers/1/prompt.txt"


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        (result(1, "b"), result(2, "a"), "theirs"),
        (result(2, "a"), result(1, "b"), "ours"),
        (result(2, "a"), result(2, "b"), "theirs"),
        (result(2, "b"), result(2, "a"), "ours"),
        (None, result(1, "b"), "ours"),  # ours is at its second attempt
        (result(1, "b"), None, "theirs"),
        (None, result(2, "b"), "theirs"),
    ],
)
def test_of_two_results_the_newer_attempts_counts_with_its_prompt(ours, theirs, wanted):
    blobs = {"base": result(1, "a"), "ours": ours, "theirs": theirs, "p0": b"0", "p1": b"1", "p2": b"2"}
    sides = []
    for name, prompt in (("base", "p0"), ("ours", "p1"), ("theirs", "p2")):
        side = {PROMPT: (0o100644, prompt)}
        if blobs[name] is not None:
            side[PATH] = (0o100644, name)
        sides.append(side)
    merged = merging.paths(*sides, lambda oid: blobs[oid])
    chosen = {"ours": sides[1], "theirs": sides[2]}[wanted]
    assert merged.get(PATH) == chosen.get(PATH)
    assert merged[PROMPT] == chosen[PROMPT]


def test_what_one_side_changed_or_removed_is_taken():
    def entries(**files: str) -> dict[str, tuple[int, str]]:
        return {name: (0o100644, oid) for name, oid in files.items()}

    base = entries(kept="a", ours="a", theirs="a", gone="a", both="a")
    ours = entries(kept="a", ours="b", theirs="a", gone="a", both="b", new="c")
    theirs = entries(kept="a", ours="a", theirs="b", both="d", other="e")
    merged = merging.paths(base, ours, theirs, lambda oid: b"")
    assert merged == entries(kept="a", ours="b", theirs="b", both="b", new="c", other="e")
