"""Git's entries: made under the lock, whole or not at all, and told apart by what they name."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from workers_on_disk import RUN, one_worker, places, worker

from git_parallel.errors import ParallelError, RaceError, RefusedError, UsageError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import Place, entries, opened, paired, populate, register


def discover(path) -> Repository:
    return Repository.discover(str(path))


def admin_names(repo) -> list[str]:
    top = Path(discover(repo.path).common_dir, "worktrees")
    return sorted(os.listdir(top)) if top.exists() else []


def test_a_registered_worktree_is_locked_with_its_reason_and_has_no_files(repo):
    made = worker(repo.path, fill=False)
    assert os.listdir(made.path) == [".git"]
    main, entry = entries(made.repo)
    assert (main.main, main.path, main.branch, main.ours) == (True, str(repo.path), "refs/heads/main", False)
    assert (entry.path, entry.branch) == (made.place.path, "refs/heads/architect/parallel-1")
    assert entry.locked == f"git parallel {RUN}/1"
    assert entry.ours
    assert (entry.main, entry.bare, entry.prunable, entry.head) == (False, False, None, repo.git("rev-parse", "HEAD"))
    assert made.admin == paired(made.repo, made.place.path)
    assert os.path.dirname(made.admin) == os.path.join(made.repo.common_dir, "worktrees")


def test_no_tracking_is_set_up(repo):
    repo.git("config", "branch.autoSetupMerge", "always")
    worker(repo.path)
    assert repo.git("config", "--get-regexp", "^branch\\.architect", check=False) == ""


def test_hooks_of_the_person_do_not_run(repo, tmp_path):
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repo.path / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >>'{tmp_path}/ran'\n")
        hook.chmod(0o755)
    worker(repo.path)
    assert not (tmp_path / "ran").exists()


def test_the_entry_is_found_by_what_it_names_not_by_its_name(repo):
    # Git calls the entry of worktree 1 at another place the same, with a digit added: like that of 11.
    repo.git("worktree", "add", "-q", "--detach", str(repo.path / "x" / ".architect-parallel-1"))
    made = worker(repo.path)
    assert os.path.basename(made.admin) == "-architect-parallel-11"
    assert paired(made.repo, made.place.path) == made.admin


@pytest.mark.parametrize(
    "name", ["with space", "quo'te\"s", "new\nline", "größe-🚀", "-dash", "back\\slash", "colon:x", "end ", "$(x)"]
)
def test_odd_paths(make_repo, name):
    repo = make_repo(name)
    made = worker(repo.path, worktree=f"../{name}-trees/{name}{{n}}")
    assert (made.path / "src/a.txt").read_text() == "a\n"
    assert made.path == repo.path.parent / f"{name}-trees/{name}1"
    assert made.git("status", "--porcelain") == ""
    assert entries(made.repo)[1].path == made.place.path


def test_bytes_that_are_no_text_in_a_path(make_repo, tmp_path):
    repo = make_repo()
    name = os.fsdecode(b"tr\xff")
    made = worker(repo.path, worktree=f"../{name}/{{n}}")
    assert paired(made.repo, made.place.path) == made.admin
    assert (made.path / "README").exists()


@pytest.mark.parametrize("init", [("--object-format=sha256",), ("--bare",), ("--separate-git-dir", "../elsewhere.git")])
def test_kinds_of_repositories(make_repo, tmp_path, init):
    repo = make_repo("kind", commit=False, init=init)
    if "--bare" in init:
        seed = make_repo("seed")
        seed.git("push", "-q", str(repo.path), "main")
    else:
        repo.commit("first", {"src/a.txt": "a\n"})
    made = worker(repo.path)
    assert (made.path / "src/a.txt").read_text() == "a\n"
    assert made.git("status", "--porcelain") == ""
    if "--bare" not in init:
        assert made.path == repo.path / ".architect-parallel-1"
        assert repo.git("status", "--porcelain") == ""


def test_a_separate_git_directory_does_not_know_its_main_worktree(make_repo, tmp_path):
    repo = make_repo(init=("--separate-git-dir", "../elsewhere.git"))
    made = worker(repo.path)
    with pytest.raises(UsageError, match="does not record where the main worktree"):
        places(discover(made.path), 1)
    assert places(discover(made.path), 1, worktree=f"{tmp_path}/trees/{{n}}")[0].worker == 2


def test_a_submodule_as_the_main_repository(make_repo, tmp_path):
    inner, outer = make_repo("inner"), make_repo("outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "lib")
    made = worker(outer.path / "lib")
    assert made.path == outer.path / "lib/.architect-parallel-1"
    assert made.git("rev-parse", "--show-toplevel") == str(made.path)
    assert (made.path / "src/a.txt").exists()
    assert outer.git("status", "--porcelain", cwd=outer.path / "lib") == ""


@pytest.mark.parametrize("where", ["src", ".git", "../linked", ".architect-parallel-1"])
def test_from_wherever_the_person_stands(repo, tmp_path, where):
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    if where.startswith(".arch"):
        worker(repo.path)
    made = worker((repo.path / where).resolve())
    assert made.path.parent == repo.path
    assert (made.path / "src/a.txt").exists()


def test_with_a_detached_head(repo):
    repo.git("switch", "-q", "--detach")
    assert worker(repo.path).git("rev-parse", "HEAD") == repo.git("rev-parse", "HEAD")


# --- failures leave nothing ------------------------------------------------------------------------


def fresh(repo, branch="architect/parallel-1", path=".architect-parallel-1") -> Place:
    repo.git("branch", branch)
    return Place(1, branch, str(repo.path / path))


@pytest.mark.parametrize("kind", ["directory", "file", "link"])
def test_a_path_taken_meanwhile_is_a_race_and_is_left_alone(repo, kind):
    place = fresh(repo)
    path = Path(place.path)
    if kind == "directory":
        path.mkdir()
        (path / "work").write_text("mine")
    elif kind == "file":
        path.write_text("mine")
    else:
        path.symlink_to("nowhere")
    with pytest.raises(RaceError, match="taken meanwhile"):
        register(discover(repo.path), place, reason="x")
    assert os.path.lexists(path)
    if kind == "directory":
        assert (path / "work").read_text() == "mine"
    assert admin_names(repo) == []


def test_an_empty_directory_of_somebody_else_is_not_taken_over(repo):
    place = fresh(repo)
    os.mkdir(place.path)
    with pytest.raises(RaceError):
        register(discover(repo.path), place, reason="x")
    assert os.listdir(place.path) == []


def test_a_branch_checked_out_elsewhere_says_where(repo, tmp_path):
    place = fresh(repo, path="deep/er/1")
    repo.git("worktree", "add", "-q", str(tmp_path / "other"), place.branch)
    before = admin_names(repo)
    with pytest.raises(ParallelError) as caught:
        register(discover(repo.path), place, reason="x")
    assert str(tmp_path / "other") in caught.value.message
    assert "git worktree list" in caught.value.hints[0]
    assert not (repo.path / "deep").exists()
    assert admin_names(repo) == before


def test_an_entry_of_a_missing_worktree_says_what_to_type(repo):
    place = fresh(repo)
    repo.git("worktree", "add", "-q", "--detach", place.path)
    Path(place.path).rename(repo.path.parent / "away")
    before = admin_names(repo)
    with pytest.raises(ParallelError) as caught:
        register(discover(repo.path), place, reason="x")
    assert "still has an entry" in caught.value.message
    assert f"git worktree remove '{place.path}'" in caught.value.hints[0]
    assert admin_names(repo) == before
    assert not os.path.lexists(place.path)


def test_a_branch_that_does_not_exist(repo):
    with pytest.raises(ParallelError, match="cannot create worktree"):
        register(discover(repo.path), Place(1, "nothing", str(repo.path / "a/b")), reason="x")
    assert not (repo.path / "a").exists()


def test_a_parent_that_is_a_file(repo):
    place = fresh(repo, path="README/1")
    with pytest.raises(ParallelError, match="not a directory"):
        register(discover(repo.path), place, reason="x")


def test_a_parent_that_is_not_writable(repo, tmp_path):
    place = Place(1, "architect/parallel-1", str(tmp_path / "sealed/1"))
    repo.git("branch", place.branch)
    (tmp_path / "sealed").mkdir()
    (tmp_path / "sealed").chmod(0o500)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from git_parallel.errors import ParallelError; from workers_on_disk import *\n"
        "here = Repository.discover('.')\n"
        "for act in (lambda: places(here, 1, worktree=sys.argv[2] + '/{n}'),"
        "            lambda: register(here, Place(1, sys.argv[3], sys.argv[2] + '/1'), reason='x')):\n"
        "    try: print(act())\n"
        "    except ParallelError as error: print(error.message)\n"
    )
    argv = [sys.executable, "-c", program, os.path.dirname(__file__), str(tmp_path / "sealed"), place.branch]
    if os.geteuid() == 0:  # root may write anywhere
        argv = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", *argv]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"cannot create worktrees in '{tmp_path / 'sealed'}': it is not writable",
        f"cannot create worktree '{place.path}': permission denied",
    ]
    assert admin_names(repo) == []


def test_git_killed_in_the_middle_leaves_nothing(repo, monkeypatch):
    place = fresh(repo)
    repo.git("pack-refs", "--all")  # then git makes the entry
    repository = discover(repo.path)
    run = Git.run

    def killed(self, *words, **more):
        done = run(self, *words, **more)
        if words[:2] == ("worktree", "add"):
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Git, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        register(repository, place, reason="git parallel x/1")
    monkeypatch.undo()
    assert not os.path.lexists(place.path)
    assert admin_names(repo) == []
    assert [entry.path for entry in entries(repository)] == [str(repo.path)]


def test_a_failed_call_never_removes_what_somebody_put_there(repo, monkeypatch):
    place = fresh(repo)
    repo.git("pack-refs", "--all")
    run = Git.run

    def interfered(self, *words, **more):
        done = run(self, *words, **more)
        if words[:2] == ("worktree", "add"):
            Path(place.path, "work").write_text("mine")
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Git, "run", interfered)
    with pytest.raises(KeyboardInterrupt):
        register(discover(repo.path), place, reason="git parallel x/1")
    monkeypatch.undo()
    assert Path(place.path, "work").read_text() == "mine"
    assert paired(discover(repo.path), place.path)


# --- pairs -----------------------------------------------------------------------------------------


def test_only_a_true_pair_is_a_pair(repo, tmp_path):
    made = worker(repo.path)
    assert paired(made.repo, str(repo.path)) is None
    assert paired(made.repo, str(tmp_path / "nothing")) is None
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / ".git").write_bytes((made.path / ".git").read_bytes())
    assert paired(made.repo, str(copy)) is None
    link = tmp_path / "link"
    link.symlink_to(made.path)
    assert paired(made.repo, str(link)) is None
    (made.path / ".git").unlink()
    assert paired(made.repo, made.place.path) is None


def test_a_relative_link_between_the_two_is_understood(repo):
    # As git 2.48 writes it with worktree.useRelativePaths.
    made = worker(repo.path)
    (made.path / ".git").write_text(f"gitdir: {os.path.relpath(made.admin, made.path)}\n")
    Path(made.admin, "gitdir").write_text(f"{os.path.relpath(made.path / '.git', made.admin)}\n")
    assert paired(made.repo, made.place.path) == made.admin


def test_filling_a_worktree_without_its_link_does_not_touch_the_repository_around_it(repo):
    made = worker(repo.path, fill=False)
    (made.path / ".git").unlink()
    repo.write("README", "not committed yet\n")
    with pytest.raises(RefusedError, match="do not name each other"):
        populate(made.repo, made.place.path)
    with pytest.raises(RefusedError):
        opened(made.repo, made.place.path)
    assert (repo.path / "README").read_text() == "not committed yet\n"


# --- many at once ----------------------------------------------------------------------------------


def test_24_threads_get_24_worktrees(repo):
    repository = discover(repo.path)
    found: list[Place] = []
    threads = [threading.Thread(target=lambda: found.append(one_worker(repository))) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(place.worker for place in found) == list(range(1, 25))
    assert all(Path(place.path, "src/a.txt").exists() for place in found)
    assert len(entries(repository)) == 25


def test_24_processes_get_24_worktrees(repo):
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1])\n"
        "from workers_on_disk import Repository, one_worker\n"
        "for _ in range(24):\n"
        "    if os.fork() == 0:\n"
        "        try: os.write(1, b'%d\\n' % one_worker(Repository.discover('.')).worker)\n"
        "        except BaseException as error: os.write(2, repr(error).encode())\n"
        "        finally: os._exit(0)\n"
        "for _ in range(24): os.wait()\n"
    )
    argv = [sys.executable, "-c", program, os.path.dirname(__file__)]
    done = subprocess.run(argv, cwd=repo.path, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    assert sorted(map(int, done.stdout.split())) == list(range(1, 25))
    assert all((repo.path / f".architect-parallel-{n}" / "src/a.txt").exists() for n in range(1, 25))
