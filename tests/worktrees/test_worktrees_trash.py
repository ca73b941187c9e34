"""Removal moves, is exact, goes on where it was interrupted, and refuses what is not certain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from workers_on_disk import RUN, Worker, worker

from git_parallel.errors import GitError, ParallelError, RefusedError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import entries, paired, purge, removal, retire, trashed

DAY = 86400.0


def remove(made: Worker) -> str:
    return retire(made.repo, made.place.path, made.admin, run=RUN, worker=made.place.worker)


def paths(repo: Repository) -> list[str]:
    return [entry.path for entry in entries(repo)[1:]]


@pytest.fixture
def made(repo) -> Worker:
    """A worker's worktree with every kind of work in it."""
    made = worker(repo.path)
    (made.path / "untracked").write_text("untracked\n")
    (made.path / "README").write_text("changed\n")
    (made.path / "staged").write_text("staged\n")
    made.git("add", "staged")
    return made


def test_the_files_are_moved_with_what_says_whose_they_were(repo, made):
    inode = (made.path / "untracked").stat().st_ino
    files = remove(made)
    assert not os.path.lexists(made.path)
    assert Path(files, "untracked").stat().st_ino == inode
    assert Path(files, "README").read_text() == "changed\n"
    (item,) = trashed(made.repo)
    assert (item.run, item.worker, item.path) == (RUN, 1, made.place.path)
    assert (item.branch, item.files) == ("refs/heads/architect/parallel-1", files)
    assert item.present
    assert Path(item.top).parent == repo.path / ".git/architect/trash"
    assert Path(item.top).name.endswith(f"-{RUN}-1")


def test_a_detached_head_and_refs_that_are_no_files(repo, made, monkeypatch):
    made.git("switch", "-q", "--detach")
    assert removal._branch(made.repo, made.place.path, made.admin) is None
    made.git("switch", "-q", "architect/parallel-1")
    head = Path(made.admin, "HEAD")
    head.write_text("ref: refs/heads/.invalid\n")  # as with reftable
    listed = [replace(entries(made.repo)[1], branch="refs/heads/from git")]
    monkeypatch.setattr(removal, "entries", lambda _: listed)
    assert removal._branch(made.repo, made.place.path, made.admin) == "refs/heads/from git"


def test_the_entry_goes_and_a_copy_of_it_stays(repo, made):
    made.git("commit", "-q", "--allow-empty", "-m", "work")
    head = Path(made.admin, "logs/HEAD").read_text()
    index = Path(made.admin, "index").read_bytes()
    remove(made)
    assert paths(made.repo) == []
    assert not os.path.exists(made.admin)
    kept = Path(trashed(made.repo)[0].top, "admin")
    assert (kept / "index").read_bytes() == index
    assert (kept / "logs/HEAD").read_text() == head
    assert repo.git("rev-parse", "--verify", "architect/parallel-1")


def test_only_this_entry_goes(repo, tmp_path, made):
    """A bare prune would take the worktree whose disk is not there now, too."""
    other = tmp_path / "on a disk"
    repo.git("worktree", "add", "-q", "--detach", str(other))
    other.rename(tmp_path / "not mounted")
    second = worker(repo.path)
    remove(made)
    assert paths(made.repo) == [str(other), second.place.path]
    (tmp_path / "not mounted").rename(other)
    assert repo.git("status", "--porcelain", cwd=other) == ""


def test_neither_prune_nor_force_is_ever_used(made, monkeypatch):
    calls: list[tuple[str, ...]] = []
    begin = Git.begin
    monkeypatch.setattr(Git, "begin", lambda self, *words, **more: calls.append(words) or begin(self, *words, **more))
    remove(made)
    words = {word for call in calls for word in call}
    assert ("worktree", "remove", made.place.path) in calls
    assert not words & {"prune", "--force", "-f", "-ff", "-D"}


def test_other_numbers_can_be_used_again(repo, made):
    remove(made)
    repo.git("branch", "-D", "architect/parallel-1")
    again = worker(repo.path)
    assert again.place.worker == 1
    remove(again)
    assert [item.worker for item in trashed(made.repo)] == [1, 1]


def test_a_worktree_of_odd_name(make_repo):
    repo = make_repo("o'd\nrepo")
    made = worker(repo.path, worktree='../-o d\n"x"/{n}-é')
    files = remove(made)
    assert Path(files, "README").exists()
    assert paths(made.repo) == []
    assert trashed(made.repo)[0].path == made.place.path


def test_from_within_the_worktree_that_goes(made):
    inside = Repository.discover(made.place.path)
    files = retire(inside, made.place.path, made.admin, run=RUN, worker=1)
    assert Path(files, "untracked").exists()
    assert paths(inside) == []


def test_initialised_submodules_are_no_obstacle_and_their_commits_are_kept(make_repo):
    inner, outer = make_repo("inner"), make_repo("outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "lib")
    outer.commit("with lib")
    made = worker(outer.path)
    made.git("-C", "lib", "commit", "-q", "--allow-empty", "-m", "only here")
    commit = made.git("-C", "lib", "rev-parse", "HEAD")
    remove(made)
    assert paths(made.repo) == []
    kept = Path(trashed(made.repo)[0].top, "admin/modules/lib")
    shown = subprocess.run(
        ["git", f"--git-dir={kept}", "--work-tree=/", "log", "-1", "--format=%s", commit],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "only here\n"


def test_a_rebase_in_progress_is_kept(repo, made):
    made.git("commit", "-q", "-am", "mine")
    repo.commit("theirs", {"README": "theirs\n"})
    subprocess.run(["git", "-C", made.place.path, "rebase", "-q", "main"], capture_output=True, check=False)
    assert Path(made.admin, "rebase-merge").is_dir()
    remove(made)
    assert Path(trashed(made.repo)[0].top, "admin/rebase-merge/onto").exists()


def test_a_bare_repository(make_repo):
    bare = make_repo("bare.git", commit=False, init=("--bare",))
    make_repo("seed").git("push", "-q", str(bare.path), "main")
    made = worker(bare.path)
    assert Path(remove(made), "README").exists()
    assert paths(made.repo) == []


# --- interrupted anywhere --------------------------------------------------------------------------


STEPS = ["_describe", "_copy_entry", "_move", "_keep_modules", "forget"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_interrupted_anywhere_a_second_call_finishes(repo, made, monkeypatch, step, when):
    original = getattr(removal, step)

    def interrupted(*arguments, **more):
        if when == "after":
            original(*arguments, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(removal, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove(made)
    monkeypatch.undo()
    files = remove(made)
    assert Path(files, "untracked").read_text() == "untracked\n"
    assert paths(made.repo) == []
    assert not os.path.lexists(made.path)
    assert [item.present for item in trashed(made.repo)] == [True]
    assert remove(made) == files


def test_interrupted_between_unlocking_and_removing(made, monkeypatch):
    run = Git.run

    def interrupted(self, *words, **more):
        if words[:2] == ("worktree", "remove"):
            raise KeyboardInterrupt
        return run(self, *words, **more)

    monkeypatch.setattr(Git, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        remove(made)
    monkeypatch.undo()
    assert remove(made) == trashed(made.repo)[0].files
    assert paths(made.repo) == []


def test_a_directory_removed_by_hand(repo, made):
    shutil.rmtree(made.path)
    assert remove(made) == ""
    assert paths(made.repo) == []
    assert trashed(made.repo) == []
    assert remove(made) == ""


def test_an_empty_directory_at_the_path_counts_as_none(made):
    shutil.rmtree(made.path)
    made.path.mkdir()
    assert remove(made) == ""
    assert not made.path.exists()
    assert paths(made.repo) == []


def test_an_entry_removed_by_hand(made):
    shutil.rmtree(made.admin)
    files = remove(made)
    assert Path(files, "untracked").exists()
    assert not os.path.lexists(made.path)


# --- refusals --------------------------------------------------------------------------------------


def refused(made: Worker, words: str) -> None:
    """Removing is refused, and nothing has changed."""
    listing, before = sorted(os.listdir(made.path)) if made.path.is_dir() else [], paths(made.repo)
    with pytest.raises(RefusedError) as caught:
        remove(made)
    assert words in caught.value.message
    assert caught.value.exit_code == 5
    assert caught.value.hints
    assert (sorted(os.listdir(made.path)) if made.path.is_dir() else []) == listing
    assert paths(made.repo) == before
    assert trashed(made.repo) == []


def test_a_directory_of_somebody_else_at_the_path(made, tmp_path):
    made.path.rename(tmp_path / "away")
    made.path.mkdir()
    (made.path / "mine").write_text("mine")
    refused(made, "is no worktree (it has no .git file)")


def test_a_repository_of_its_own_at_the_path(made, make_repo, tmp_path):
    made.path.rename(tmp_path / "away")
    make_repo("other").path.rename(made.path)
    refused(made, "is no worktree")


def test_a_plain_file_at_the_path(made, tmp_path):
    made.path.rename(tmp_path / "away")
    made.path.write_text("mine")
    refused(made, "is no worktree")
    assert made.path.read_text() == "mine"


def test_a_link_at_the_path_is_not_followed(made, tmp_path):
    made.path.rename(tmp_path / "away")
    made.path.symlink_to(tmp_path / "away")
    refused(made, "is no worktree")
    assert (tmp_path / "away/untracked").exists()


def test_a_worktree_that_the_person_moved(repo, made, tmp_path):
    repo.git("worktree", "unlock", made.place.path)
    repo.git("worktree", "move", made.place.path, str(tmp_path / "elsewhere"))
    refused(made, f"is that of the worktree '{tmp_path / 'elsewhere'}'")
    assert (tmp_path / "elsewhere/untracked").exists()


def test_a_directory_that_names_another_entry(repo, made):
    other = worker(repo.path)
    (made.path / ".git").write_bytes((other.path / ".git").read_bytes())
    refused(made, f"belongs to '{other.admin}'")


def test_an_entry_of_another_repository(made, make_repo):
    stranger = worker(make_repo("stranger").path)
    with pytest.raises(RefusedError, match="no worktree entry of this repository"):
        retire(made.repo, stranger.place.path, stranger.admin, run=RUN, worker=1)
    assert stranger.path.exists()


def test_the_main_worktree(repo, made):
    with pytest.raises(RefusedError):
        retire(made.repo, str(repo.path), made.admin, run=RUN, worker=1)
    with pytest.raises(RefusedError):
        retire(made.repo, str(repo.path), made.repo.common_dir, run=RUN, worker=1)
    assert (repo.path / "README").exists()


@pytest.mark.parametrize("reason", ["on a stick", ""])
def test_a_lock_of_the_person_holds(repo, made, reason):
    repo.git("worktree", "unlock", made.place.path)
    repo.git("worktree", "lock", "--reason", reason, made.place.path)
    refused(made, "is locked" + (f": {reason}" if reason else ""))
    assert Path(made.admin, "locked").exists()


def test_another_worktree_inside(repo, made):
    repo.git("worktree", "add", "-q", "--detach", str(made.path / "deep/inside"))
    refused(made, "another worktree lies inside")


def test_two_entries_for_one_path(repo, made):
    copy = Path(made.admin).parent / "twin"
    shutil.copytree(made.admin, copy)
    refused(made, "two entries name")


def test_a_move_that_fails_leaves_everything_as_it_was(made, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(removal.os, "rename", full)
    with pytest.raises(ParallelError) as caught:
        remove(made)
    monkeypatch.undo()
    assert "no space left on device" in caught.value.message
    assert caught.value.hints == ("nothing was removed",)
    assert paired(made.repo, made.place.path) == made.admin
    assert (made.path / "untracked").exists()
    assert trashed(made.repo) == []


def test_an_entry_that_cannot_be_removed_says_where_the_files_are(made, monkeypatch):
    def broken(*_):
        raise GitError(("git",), 128, b"fatal: failed to delete")

    monkeypatch.setattr(removal, "forget", broken)
    with pytest.raises(ParallelError) as caught:
        remove(made)
    assert trashed(made.repo)[0].files in caught.value.hints[0]


# --- another file system ---------------------------------------------------------------------------


@pytest.fixture
def two_disks(monkeypatch):
    """Renaming between the repository's directory and anything else fails, as between file systems."""
    rename = os.rename

    def crossing(source, target):
        if ("/.git/" in os.fspath(source)) != ("/.git/" in os.fspath(target)):
            raise OSError(18, "Invalid cross-device link")
        rename(source, target)

    monkeypatch.setattr(removal.os, "rename", crossing)


def test_on_another_file_system_the_trash_is_beside_the_worktree(repo, made, two_disks):
    files = remove(made)
    (item,) = trashed(made.repo)
    assert files == str(repo.path / ".architect-parallel-trash" / os.path.basename(item.top) / "worktree")
    assert Path(files, "untracked").exists()
    assert paths(made.repo) == []
    assert remove(made) == files
    repo.git("add", "-A")
    assert repo.git("diff", "--cached", "--name-only") == ""
    (done,) = purge(made.repo, 0, now=item.time + 1)
    assert done.error is None
    assert not (repo.path / ".architect-parallel-trash").exists()
    assert trashed(made.repo) == []


def test_on_a_real_other_file_system(repo, tmp_path):
    here = os.stat(tmp_path).st_dev
    other = next(place for place in map(Path, ("/dev/shm", "/var/tmp", "/")) if os.stat(place).st_dev != here)
    place = other / f"git-parallel-test-{os.getpid()}"
    try:
        made = worker(repo.path, worktree=f"{place}/{{n}}")
        files = remove(made)
        assert files.startswith(f"{place}/.architect-parallel-trash/")
        assert Path(files, "README").exists()
        assert [done.error for done in purge(made.repo, -1)] == [None]
        assert os.listdir(place) == []
    finally:
        shutil.rmtree(place, ignore_errors=True)


# --- purge -----------------------------------------------------------------------------------------


def test_only_what_has_expired_is_deleted(repo, made):
    remove(made)
    second = worker(repo.path)
    remove(second)
    first, last = trashed(made.repo)
    assert purge(made.repo, DAY, now=first.time + DAY) == []
    (done,) = purge(made.repo, DAY, now=(first.time + last.time) / 2 + DAY)
    assert done.item == first
    assert done.size >= len("untracked\nchanged\nstaged\n")
    assert done.error is None
    assert not os.path.exists(first.top)
    assert trashed(made.repo) == [last]
    assert os.path.exists(last.files)


def test_what_is_nowhere_else_never_expires(made):
    retire(made.repo, made.place.path, made.admin, run=RUN, worker=1, hold=["lib: commits on no branch"])
    (item,) = trashed(made.repo)
    assert item.hold == ("lib: commits on no branch",)
    assert purge(made.repo, -1) == []
    assert Path(item.files, "untracked").exists()


def test_submodules_in_the_trash_outlive_a_second_removal_of_the_same_worktree(repo, made):
    modules = Path(made.admin, "modules/lib")
    modules.mkdir(parents=True)
    (modules / "objects").write_text("the only copy\n")
    remove(made)
    (first,) = trashed(made.repo)
    shutil.rmtree(first.files)  # by hand
    repo.git("branch", "-D", "architect/parallel-1")
    remove(worker(repo.path))
    assert Path(first.top, "admin/modules/lib/objects").read_text() == "the only copy\n"


def test_links_are_removed_and_never_followed(repo, made, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    (made.path / "link").symlink_to(outside)
    (made.path / "deep").mkdir()
    (made.path / "deep/file").symlink_to(outside / "precious")
    remove(made)
    assert [done.error for done in purge(made.repo, -1)] == [None]
    assert (outside / "precious").read_text() == "mine"


def test_what_is_not_ours_in_the_trash_stays(repo, made, tmp_path):
    remove(made)
    top = repo.path / ".git/architect/trash"
    (top / "a file").write_text("x")
    (top / "no description").mkdir()
    (top / "wrong description").mkdir()
    (top / "wrong description/info.json").write_text("[]")
    (top / "link").symlink_to(trashed(made.repo)[0].top)
    assert len(purge(made.repo, -1)) == 1
    assert sorted(os.listdir(top)) == ["a file", "link", "no description", "wrong description"]


def test_a_description_cannot_point_deletion_elsewhere(repo, made, tmp_path):
    remove(made)
    info = Path(trashed(made.repo)[0].top, "info.json")
    (tmp_path / "precious").mkdir()
    info.write_text(info.read_text().replace(trashed(made.repo)[0].files, str(tmp_path / "precious")))
    assert purge(made.repo, -1) == []
    assert (tmp_path / "precious").exists()


def test_a_link_in_place_of_the_files_is_not_followed(repo, made, tmp_path):
    remove(made)
    item = trashed(made.repo)[0]
    os.rename(item.files, tmp_path / "away")
    os.symlink(tmp_path / "away", item.files)
    (done,) = purge(made.repo, -1)
    assert done.error is not None
    assert "link" in done.error
    assert (tmp_path / "away/untracked").exists()


def test_a_link_on_the_way_to_the_files_is_not_followed(repo, made, tmp_path, two_disks):
    remove(made)
    os.rename(repo.path / ".architect-parallel-trash", tmp_path / "away")
    os.symlink(tmp_path / "away", repo.path / ".architect-parallel-trash")
    (done,) = purge(made.repo, -1)
    assert "link" in (done.error or "")
    assert list((tmp_path / "away").glob("*/worktree/untracked"))


def test_a_trash_that_is_a_link_is_refused(repo, made, tmp_path):
    (repo.path / ".git/architect").mkdir(exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (repo.path / ".git/architect/trash").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="link to another place"):
        purge(made.repo, -1)
    with pytest.raises(RefusedError):
        remove(made)
    assert made.path.exists()


def test_read_only_directories_are_deleted_for_a_person_without_privileges(repo, made):
    cache = made.path / "cache/deep"
    cache.mkdir(parents=True)
    (cache / "file").write_text("x")
    for directory in (cache, cache.parent):
        directory.chmod(0o500)
    sealed = made.path / "sealed"
    (sealed / "in").mkdir(parents=True)
    sealed.chmod(0)
    remove(made)
    item = trashed(made.repo)[0]
    # Root may do everything: drop what makes the difference, as a person would run it.
    program = (
        "import sys; from git_parallel.git import Repository; from git_parallel.worktrees import purge;"
        "print(purge(Repository.discover(sys.argv[1]), -1)[0].error)"
    )
    argv = [sys.executable, "-c", program, str(repo.path)]
    if os.geteuid() == 0:
        argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "None\n", done.stderr
    assert not os.path.exists(item.top)


def test_a_deletion_that_was_interrupted_is_taken_up(made, monkeypatch):
    remove(made)
    item = trashed(made.repo)[0]

    whole = shutil.rmtree

    def interrupted(path):
        whole(os.path.join(path, "src"))
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        purge(made.repo, -1)
    monkeypatch.undo()
    assert trashed(made.repo) == [item]
    assert [done.error for done in purge(made.repo, -1)] == [None]
    assert not os.path.exists(item.top)
