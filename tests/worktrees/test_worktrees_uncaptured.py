"""Whether anything in a worktree is left out is known without asking git, or else git is asked."""

from __future__ import annotations

import os
import socket

import pytest
from workers_on_disk import worker

from git_parallel.worktrees import uncaptured


@pytest.fixture
def made(repo):
    repo.commit("rules", {".gitignore": "*.log\nbuild/\n", "dir/b.txt": "b\n"})
    return worker(repo.path)


def nothing(made) -> bool:
    made.git("add", "-A")
    return uncaptured.nothing(str(made.path), os.path.join(made.admin, "index"))


def test_a_worktree_with_tracked_files_alone(made):
    (made.path / "new file").write_text("x\n")
    (made.path / "README").unlink()
    (made.path / "link").symlink_to("nowhere")
    (made.path / "dir/deep").mkdir()
    (made.path / "dir/deep/c").write_text("c\n")
    assert nothing(made)
    assert uncaptured.ignored(made.repo.at(made.place.path), made.place.path).names == ()


@pytest.mark.parametrize("name", ["x.log", "dir/x.log", "build/out"])
def test_an_ignored_file(made, name):
    (made.path / name).parent.mkdir(exist_ok=True)
    (made.path / name).write_text("x\n")
    assert not nothing(made)


def test_as_many_ignored_files_as_entries_without_a_file(made):
    """Equal numbers must not hide what differs."""
    (made.path / "x.log").write_text("x\n")
    made.git("update-index", "--skip-worktree", "README")
    (made.path / "README").unlink()
    assert not nothing(made)


@pytest.mark.parametrize("what", ["empty", "fifo", "socket", "repository", "submodule"])
def test_what_git_has_no_object_for(made, what, monkeypatch):
    if what == "empty":
        (made.path / "empty").mkdir()
    elif what == "fifo":
        os.mkfifo(made.path / "fifo")
    elif what == "socket":
        monkeypatch.chdir(made.path)  # its path has to be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    else:
        inner = made.path / "inner"
        inner.mkdir()
        made.git("init", "-q", "inner")
        made.git("-C", "inner", "commit", "-q", "--allow-empty", "-m", "x")
        if what == "submodule":
            (made.path / "x.log").write_text("an entry without a file, and a file without an entry\n")
    assert not nothing(made)


@pytest.mark.parametrize("version", ["3", "4"])
def test_other_kinds_of_index_are_left_to_git(made, version):
    if version == "4":
        made.git("update-index", "--index-version", "4")
    else:
        (made.path / "later").write_text("x\n")
        made.git("add", "-N", "later")
    assert not uncaptured.nothing(str(made.path), os.path.join(made.admin, "index"))


def test_a_split_index_and_an_ignored_file(made):
    (made.path / "x.log").write_text("x\n")
    made.git("update-index", "--split-index")
    assert not nothing(made)


def test_no_index_and_a_broken_one(made, tmp_path):
    assert not uncaptured.nothing(str(made.path), str(tmp_path / "none"))
    (tmp_path / "short").write_bytes(b"DIRC")
    assert not uncaptured.nothing(str(made.path), str(tmp_path / "short"))
