"""A decision becomes a verdict on what was seen, or none; and what is seen is the branch's own change."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts, workers
from git_parallel.integrate.review import decide, facts
from git_parallel.integrate.review.decide import MovedError, OvertakenError
from git_parallel.integrate.verdicts import Comment
from git_parallel.store import objects


@pytest.fixture
def run(repo) -> str:
    return json.loads(repo.parallel("run", "--json", "--program", "shell", "--task", "echo a > a").stdout)["run"]


@pytest.fixture
def here(repo) -> Repository:
    return Repository.discover(str(repo.path))


def candidate(here: Repository, run: str) -> workers.Candidate:
    return workers.gather(here, [f"{run}/1"])[0]


def test_a_branch_that_moves_after_the_last_look_gets_no_verdict(repo, here, run, monkeypatch):
    """The race at its seam: the branch is looked at, then somebody moves it without our lock, then we write."""
    seen = candidate(here, run)
    real = objects.identity

    def meanwhile(repository):
        repo.git("update-ref", "refs/heads/architect/parallel-1", seen.base)
        return real(repository)

    monkeypatch.setattr(objects, "identity", meanwhile)
    before = repo.git("rev-parse", f"refs/architect/runs/{run}")
    with pytest.raises(MovedError) as caught:
        decide.give(here, seen, "approved")
    assert caught.value.now == seen.base
    assert repo.git("rev-parse", f"refs/architect/runs/{run}") == before
    assert "Review:" not in repo.git("log", "-1", "--format=%N", "--notes=architect", str(seen.tip))


def test_a_verdict_that_came_meanwhile_is_not_passed_over(here, run):
    seen = candidate(here, run)
    first = decide.give(here, seen, "approved")
    with pytest.raises(OvertakenError) as caught:
        decide.give(here, seen, "rejected")
    assert caught.value.verdict == first
    decide.give(here, seen, "rejected", seen=first)
    decide.give(here, seen, "changes", explicit=True, message="by a flag")
    assert [one.verdict for one in verdicts.of_run(here, run)[1]] == ["approved", "rejected", "changes"]


def test_who_cannot_be_decided(here, run):
    seen = candidate(here, run)
    assert decide.refusal(seen) is None
    for cannot in (replace(seen, state="running"), replace(seen, state="interrupted"), replace(seen, tip=None)):
        with pytest.raises(UsageError):
            decide.give(here, cannot, "approved", explicit=True)
    assert verdicts.of_run(here, run) == {}


def test_what_was_typed_reaches_the_record_whatever_its_bytes(here, run):
    seen = candidate(here, run)
    comment = Comment("caf\udce9\n", "dir/\udcff", 3, "new")
    decide.give(here, seen, "changes", message="  \udcfe well\n\n", comments=[comment])
    found = verdicts.of_run(here, run)[1][0]
    assert found.message == "\ufffd well"
    assert found.comments == (Comment("caf\ufffd\n", "dir/\\xff", 3, "new"),)


def test_the_change_is_the_branch_s_own_after_it_took_in_the_target(repo, here, run):
    worktree = repo.path / ".architect-parallel-1"
    landed = repo.commit("of others", {"others": "x\n"})
    repo.git("merge", "-q", "--no-edit", "main", cwd=worktree)
    seen = facts.gather(here, candidate(here, run), [])
    assert (seen.fork, seen.change.paths) == (landed, ["a"])
    assert seen.age == 1
    assert seen.later == 2


def test_the_change_of_a_branch_that_has_landed_is_still_shown(repo, here, run):
    base = repo.git("rev-parse", "HEAD")
    repo.git("merge", "-q", "--no-ff", "--no-edit", "architect/parallel-1")
    seen = facts.gather(here, candidate(here, run), [])
    assert (seen.fork, seen.change.paths) == (base, ["a"])


def test_a_branch_of_unrelated_history_is_compared_with_the_base(repo, here, run):
    empty = repo.git("hash-object", "-t", "tree", "--stdin", stdin=b"")
    orphan = repo.git("commit-tree", "-m", "orphan", empty)
    repo.git("update-ref", "refs/heads/architect/parallel-1", orphan)
    seen = facts.gather(here, candidate(here, run), [])
    assert seen.fork == seen.candidate.base
    assert seen.change.paths == ["README", "src/a.txt"]
    assert seen.later is None


def test_a_target_that_is_gone_has_no_age(repo, here, run):
    repo.git("switch", "-q", "-c", "other")
    repo.git("branch", "-q", "-D", "main")
    seen = facts.gather(here, candidate(here, run), [])
    assert (seen.target, seen.age) == ("main", None)
