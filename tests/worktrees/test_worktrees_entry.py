"""Entries made without git are git's own, and whatever is not simple is left to git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from workers_on_disk import RUN, worker

from git_parallel.errors import ParallelError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import Others, Place, entries, entry, paired, register, take_back

REASON = f"git parallel {RUN}/1"


def discover(repo) -> Repository:
    return Repository.discover(str(repo.path))


def fresh(repo, path: str = ".architect-parallel-1") -> Place:
    repo.git("branch", "architect/parallel-1")
    return Place(1, "architect/parallel-1", str(repo.path / path))


def content(top: str) -> dict[str, bytes]:
    """The files of an entry; git also begins the reflog of HEAD, which the first commit does otherwise."""
    files = [path for path in Path(top).rglob("*") if path.is_file() and "logs" not in path.parts]
    return {str(path.relative_to(top)): path.read_bytes() for path in files}


@pytest.fixture
def worktree_adds(monkeypatch) -> list[str]:
    """The paths for which git is asked to make the entry."""
    asked: list[str] = []
    run = Git.run

    def counted(self, *words, **more):
        if words[:2] == ("worktree", "add"):
            asked.append(words[-2])
        return run(self, *words, **more)

    monkeypatch.setattr(Git, "run", counted)
    return asked


def test_it_is_byte_for_byte_the_one_that_git_makes(repo, worktree_adds):
    place = fresh(repo)
    ours = register(discover(repo), place, reason=REASON)
    assert worktree_adds == []
    found, link = content(ours), Path(place.path, ".git").read_bytes()
    repo.git("worktree", "remove", "-f", "-f", place.path)
    repo.git("worktree", "add", "-q", "--no-checkout", "--lock", "--reason", REASON, place.path, place.branch)
    theirs = paired(discover(repo), place.path)
    assert (ours, found, link) == (theirs, content(theirs), Path(place.path, ".git").read_bytes())


def test_git_works_in_it(repo):
    made = worker(repo.path)
    (made.path / "new").write_text("x\n")
    made.git("add", "new")
    made.git("commit", "-q", "-m", "work")
    assert made.git("log", "-1", "--format=%s %D") == "work HEAD -> architect/parallel-1"
    assert "work" in made.git("reflog")
    repo.git("worktree", "prune", "-v")
    repo.git("worktree", "remove", "-f", "-f", made.place.path)
    assert [one.path for one in entries(made.repo)] == [str(repo.path)]


def test_a_name_that_is_taken_gets_a_number_as_with_git(repo, worktree_adds):
    place = fresh(repo, "a/.architect-parallel-1")
    for other in ("b", "c"):
        repo.git("worktree", "add", "-q", "--detach", str(repo.path / other / ".architect-parallel-1"))
    assert os.path.basename(register(discover(repo), place, reason=REASON)) == "-architect-parallel-12"
    assert worktree_adds == []


@pytest.mark.parametrize(
    "settings",
    [
        {"core.sharedRepository": "group"},
        {"core.sparseCheckout": "true"},
        {"extensions.worktreeConfig": "true"},
        {"worktree.useRelativePaths": "true"},
    ],
)
def test_where_git_does_more_git_is_asked(repo, worktree_adds, settings):
    place = fresh(repo)
    for key, value in settings.items():
        repo.git("config", key, value)
    assert paired(discover(repo), place.path) is None
    assert register(discover(repo), place, reason=REASON) == paired(discover(repo), place.path)
    assert worktree_adds == [place.path]


def test_a_packed_branch_and_an_odd_name_are_gits(repo, worktree_adds):
    place = fresh(repo, "odd name")
    register(discover(repo), place, reason=REASON)
    repo.git("branch", "other")
    repo.git("pack-refs", "--all")
    register(discover(repo), Place(2, "other", str(repo.path / "two")), reason=REASON)
    assert len(worktree_adds) == 2


def test_several_at_once_are_looked_for_once_and_exclude_each_other(repo, worktree_adds):
    where = discover(repo)
    places = [Place(n, f"branch-{n}", str(repo.path / f"tree-{n}")) for n in (1, 2, 3)]
    for place in places:
        repo.git("branch", place.branch)
    repo.git("worktree", "add", "-q", places[2].path, places[2].branch)
    others = Others(where)
    for place in places[:2]:
        register(where, place, reason=REASON, others=others)
    assert worktree_adds == []
    assert all(others.may_use(place) for place in places)
    for branch, path in (("branch-1", "new"), ("branch-3", "new"), ("free", "tree-2")):
        assert others.may_use(Place(4, branch, str(repo.path / path)))
    assert not others.may_use(Place(4, "free", str(repo.path / "new")))
    with pytest.raises(ParallelError, match="branch-1"):
        register(where, Place(4, "branch-1", str(repo.path / "new")), reason=REASON, others=others)


def test_a_branch_that_is_being_rebased_elsewhere_is_refused(repo, tmp_path):
    place = fresh(repo)
    repo.git("branch", "-f", place.branch, repo.commit("theirs", {"README": "theirs\n"}))
    repo.git("worktree", "add", "-q", str(tmp_path / "other"), place.branch)
    repo.git("switch", "-q", "--detach", "HEAD~1")
    onto = repo.commit("ours", {"README": "ours\n"})
    assert "CONFLICT" in repo.git("rebase", onto, cwd=tmp_path / "other", check=False)
    with pytest.raises(ParallelError) as caught:
        register(discover(repo), place, reason=REASON)
    assert str(tmp_path / "other") in caught.value.message
    assert not os.path.lexists(place.path)


def test_a_full_disk_leaves_nothing(repo, monkeypatch):
    place = fresh(repo, "deep/er/1")
    write = entry._write

    def full(path, line, made):
        write(path, line, made)
        if path.endswith("/.git"):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(entry, "_write", full)
    with pytest.raises(ParallelError, match="no space left on device") as caught:
        register(discover(repo), place, reason=REASON)
    assert "nothing was created" in caught.value.hints[0]
    assert os.listdir(repo.path / ".git/worktrees") == []
    assert not (repo.path / "deep").exists()


@pytest.mark.parametrize("before", ["mkdir", "locked", "commondir", "HEAD", ".git", "gitdir"])
def test_what_a_death_leaves_is_no_worktree_and_can_be_taken_back(repo, before):
    place = fresh(repo)
    repository = discover(repo)
    _ = repository.settings  # no git after the fork
    child = os.fork()
    if child == 0:
        try:
            die_before(before)
            register(repository, place, reason=REASON)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -9
    assert os.path.isdir(place.path)
    assert paired(repository, place.path) is None
    subprocess.run(["git", "worktree", "prune", "--expire=now"], cwd=repo.path, check=True)
    take_back(repository, place.path)
    assert not os.path.lexists(place.path)
    top = repo.path / ".git/worktrees"
    assert not top.exists() or os.listdir(top) == []
    assert register(repository, place, reason=REASON) == paired(repository, place.path)


def die_before(step: str) -> None:
    """Be killed before this file of the entry is written, or its directory made."""
    directory, write = entry._directory, entry._write

    def fatal_directory(top, name):
        if step == "mkdir":
            os.kill(os.getpid(), 9)
        return directory(top, name)

    def fatal_write(path, line, made):
        if os.path.basename(path) == step:
            os.kill(os.getpid(), 9)
        write(path, line, made)

    entry._directory, entry._write = fatal_directory, fatal_write
