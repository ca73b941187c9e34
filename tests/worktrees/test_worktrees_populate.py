"""A worktree is filled from what is on this machine: files, sparse patterns, LFS content, submodules."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from repository import Repo
from workers_on_disk import worker

from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import Features, features, populate


def discover(path) -> Repository:
    return Repository.discover(str(path))


def count_calls(monkeypatch) -> list[tuple[str, ...]]:
    calls: list[tuple[str, ...]] = []
    begin = Git.begin
    monkeypatch.setattr(Git, "begin", lambda self, *words, **more: calls.append(words) or begin(self, *words, **more))
    return calls


def test_a_plain_repository_costs_one_git_process(repo, monkeypatch):
    made = worker(repo.path, fill=False)
    needs = features(made.repo, "HEAD")
    assert needs == Features()
    calls = count_calls(monkeypatch)
    assert populate(made.repo, made.place.path, needs) == []
    assert [words[0] for words in calls] == ["read-tree"]
    monkeypatch.undo()
    assert made.git("status", "--porcelain", "--branch") == "## architect/parallel-1"
    assert (made.path / "src/a.txt").read_text() == "a\n"


def test_what_a_base_needs_is_one_question_in_a_plain_repository(repo, monkeypatch):
    repository = discover(repo.path)
    calls = count_calls(monkeypatch)
    features(repository, "HEAD")
    assert len(calls) == 1


def test_filling_again_after_an_interruption_works(repo):
    made = worker(repo.path)
    Path(made.admin, "index").unlink()
    (made.path / "README").unlink()
    assert populate(made.repo, made.place.path) == []
    assert made.git("status", "--porcelain") == ""


def test_no_file_system_monitor_is_started(repo):
    repo.git("config", "core.fsmonitor", "true")
    made = worker(repo.path)
    listing = subprocess.run(
        ["git", "-c", "core.fsmonitor=false", "-C", made.place.path, "ls-files", "-f"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "src/a.txt" in listing.stdout
    assert not Path(made.admin, "fsmonitor--daemon.ipc").exists()


def test_a_filter_that_fails_is_an_error_that_says_what_is_kept(repo):
    repo.commit("filtered", {".gitattributes": "*.x filter=broken\n", "a.x": "x\n"})
    repo.git("config", "filter.broken.smudge", "false")
    repo.git("config", "filter.broken.required", "true")
    made = worker(repo.path, fill=False)
    with pytest.raises(ParallelError) as caught:
        populate(made.repo, made.place.path)
    assert "cannot fill worktree" in caught.value.message
    assert "broken" in caught.value.message
    assert "kept" in caught.value.hints[0]
    assert made.path.exists()


def test_a_full_disk_is_named_where_git_does_not(repo, monkeypatch):
    made = worker(repo.path, fill=False)
    run = Git.run

    def full(self, *words, **more):
        if words[0] == "read-tree":
            raise GitError(words, 128, b"error: unable to write file src/a.txt\nfatal: Could not reset index file")
        return run(self, *words, **more)

    monkeypatch.setattr(Git, "run", full)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_files=0, f_favail=0))
    with pytest.raises(ParallelError, match="no space left on device"):
        populate(made.repo, made.place.path)


def test_submodule_recursion_in_the_configuration_does_not_reach_for_the_network(repo):
    repo.git("config", "submodule.recurse", "true")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    repo.write(".gitmodules", '[submodule "lib"]\n\tpath = lib\n\turl = https://nowhere.invalid/lib\n')
    repo.git("add", ".gitmodules")
    repo.git("commit", "-q", "-m", "submodule")
    made = worker(repo.path)
    assert made.warnings == []
    assert os.listdir(made.path / "lib") == []


# --- sparse checkout -------------------------------------------------------------------------------


@pytest.fixture
def monorepo(make_repo):
    repo = make_repo("mono")
    repo.commit("all", {"a/x": "1\n", "b/c/y": "2\n", "b/z": "3\n", "top": "4\n"})
    return repo


def files(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and file.name != ".git")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--cone", "a"), ["README", "a/x", "top"]),
        (("--cone", "--sparse-index", "b/c"), ["README", "b/c/y", "b/z", "top"]),
        (("--no-cone", "/b/*", "!/b/z"), ["b/c/y"]),
    ],
)
def test_sparse_patterns_are_those_of_the_main_worktree(monorepo, arguments, expected):
    monorepo.git("sparse-checkout", "set", *arguments)
    made = worker(monorepo.path)
    assert files(made.path) == expected
    assert made.git("status", "--porcelain") == ""
    assert made.git("sparse-checkout", "list") == monorepo.git("sparse-checkout", "list")


def test_sparse_patterns_are_those_of_the_linked_worktree_that_the_person_stands_in(monorepo, tmp_path):
    linked = tmp_path / "linked"
    monorepo.git("worktree", "add", "-q", "--detach", str(linked))
    monorepo.git("sparse-checkout", "set", "--cone", "a", cwd=linked)
    assert files(worker(linked).path) == ["README", "a/x", "top"]
    assert "b/z" in files(worker(monorepo.path).path)


def test_sparse_patterns_of_old_without_configuration_per_worktree(monorepo):
    monorepo.git("config", "core.sparseCheckout", "true")
    monorepo.write(".git/info/sparse-checkout", "/a/\n")
    monorepo.git("read-tree", "-mu", "HEAD")
    assert files(worker(monorepo.path).path) == ["a/x"]


def test_configuration_of_the_worktree_is_taken_over_but_not_where_it_lies(monorepo):
    monorepo.git("config", "extensions.worktreeConfig", "true")
    monorepo.git("config", "--worktree", "user.name", "Only Here")
    monorepo.git("config", "--worktree", "core.worktree", str(monorepo.path))
    made = worker(monorepo.path)
    assert made.git("config", "user.name") == "Only Here"
    assert made.git("rev-parse", "--show-toplevel") == str(made.path)


# --- LFS -------------------------------------------------------------------------------------------


@pytest.fixture
def lfs(make_repo):
    repo = make_repo("large")
    repo.git("lfs", "install", "--local", "--skip-repo")
    repo.git("remote", "add", "origin", "https://nowhere.invalid/repo.git")
    repo.git("config", "lfs.url", "https://nowhere.invalid/lfs")
    repo.commit("large files", {".gitattributes": "*.bin filter=lfs -text\n", "a.bin": "large a\n", "n/b.bin": "b\n"})
    assert repo.git("cat-file", "-p", "HEAD:a.bin").startswith("version https://git-lfs")
    return repo


def test_content_in_the_local_store_is_there_without_a_download(lfs):
    made = worker(lfs.path)
    assert made.warnings == []
    assert (made.path / "a.bin").read_text() == "large a\n"
    assert (made.path / "n/b.bin").read_text() == "b\n"
    assert made.git("status", "--porcelain") == ""


def test_content_that_is_not_there_stays_a_pointer_with_a_warning(lfs):
    oid = lfs.git("cat-file", "-p", "HEAD:a.bin").split("sha256:")[1].split()[0]
    (lfs.path / ".git/lfs/objects" / oid[:2] / oid[2:4] / oid).unlink()
    made = worker(lfs.path)
    assert (made.path / "a.bin").read_text().startswith("version https://git-lfs")
    assert (made.path / "n/b.bin").read_text() == "b\n"
    (warning,) = made.warnings
    assert "1 LFS file is a pointer" in warning
    assert made.git("status", "--porcelain") == ""


def without_lfs(tmp_path: Path) -> str:
    """Return a PATH on which there is everything that git needs, but no git-lfs."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in ("git", "sh", "cat", "sed", "uname"):
        os.symlink(str(shutil.which(name)), place / name)
    return str(place)


def test_without_git_lfs_pointers_stay_with_a_warning(lfs, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", without_lfs(tmp_path))
    made = worker(lfs.path)
    assert features(made.repo, "HEAD").lfs == "missing"
    assert (made.path / "a.bin").read_text().startswith("version https://git-lfs")
    assert made.warnings == ["git-lfs is not installed: files kept by LFS are pointers in the worktrees"]


def test_lfs_configured_for_everybody_but_not_used_here_costs_nothing_per_worktree(repo):
    repo.git("lfs", "install", "--skip-repo")
    assert features(discover(repo.path), "HEAD") == Features()


def test_lfs_attributes_in_a_subdirectory_or_outside_the_tree_count(repo):
    repo.git("lfs", "install", "--local", "--skip-repo")
    repository = discover(repo.path)
    (repo.path / ".git/info").mkdir(exist_ok=True)
    repo.write(".git/info/attributes", "*.iso filter=lfs\n")
    assert features(repository, "HEAD").lfs == "yes"
    (repo.path / ".git/info/attributes").unlink()
    assert features(repository, "HEAD").lfs == "no"
    repo.commit("deep", {"src/deep/.gitattributes": "*.iso filter=lfs\n"})
    assert features(discover(repo.path / "src"), "HEAD").lfs == "yes"


# --- submodules ------------------------------------------------------------------------------------


_made: list[tuple[Path, Path]] = []  # the clone of `nested`, made once by each process, and where its remotes were


@pytest.fixture
def nested(make_repo, tmp_path, tmp_path_factory):
    """A clone with a submodule ``libs/sub`` that has one of its own, ``inner``; the remotes are gone."""
    if not _made:
        kept = tmp_path_factory.mktemp("nested") / "clone"
        make_nested(make_repo, kept)
        (tmp_path / "remotes").rename(tmp_path / "remotes are away")
        _made.append((kept, tmp_path / "remotes"))
    shutil.copytree(_made[0][0], tmp_path / "clone", symlinks=True)
    return Repo(tmp_path / "clone")


def make_nested(make_repo, path: Path) -> None:
    allow = ("-c", "protocol.file.allow=always")
    inner = make_repo("remotes/inner")
    sub = make_repo("remotes/sub")
    sub.git(*allow, "submodule", "--quiet", "add", str(inner.path), "inner")
    sub.commit("with inner")
    top = make_repo("remotes/top")
    top.git(*allow, "submodule", "--quiet", "add", str(sub.path), "libs/sub")
    top.git(*allow, "submodule", "--quiet", "add", str(inner.path), "not initialised")
    top.commit("with sub")
    top.git("clone", "-q", str(top.path), str(path))
    Repo(path).git(*allow, "submodule", "--quiet", "update", "--init", "--recursive", "libs/sub")


def test_initialised_submodules_come_from_the_local_modules(nested):
    made = worker(nested.path)
    assert made.warnings == []
    assert (made.path / "libs/sub/src/a.txt").read_text() == "a\n"
    assert (made.path / "libs/sub/inner/src/a.txt").read_text() == "a\n"
    assert os.listdir(made.path / "not initialised") == []
    assert made.git("status", "--porcelain") == ""
    # The worker's own repositories, which fetch from the real remote and not from ours.
    assert made.git("-C", "libs/sub", "remote", "get-url", "origin") == str(_made[0][1] / "sub")
    assert made.git("-C", "libs/sub/inner", "remote", "get-url", "origin") == str(_made[0][1] / "inner")
    assert made.git("submodule", "status", "--recursive").count("\n") == 2


def test_submodules_leave_the_repositorys_configuration_alone(nested):
    before = (nested.path / ".git/config").read_bytes()
    made = worker(nested.path)
    assert (nested.path / ".git/config").read_bytes() == before
    (made.path / "libs/sub/new").write_text("new\n")
    made.git("-C", "libs/sub", "add", "-A")
    made.git("-C", "libs/sub", "commit", "-q", "-m", "in the worker's copy")
    assert nested.git("-C", "libs/sub", "log", "--format=%s", "-1") == "with inner"
    assert nested.git("status", "--porcelain") == ""


def test_submodules_of_a_linked_worktree_come_from_there_or_from_the_main_one(nested, tmp_path):
    nested.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    made = worker(tmp_path / "linked")
    assert (made.path / "libs/sub/src/a.txt").exists()


def test_a_commit_that_is_not_here_leaves_the_submodule_empty_with_a_warning(nested):
    nested.git("update-index", "--cacheinfo", f"160000,{'1' * 40},libs/sub")
    nested.git("commit", "-q", "-m", "newer sub")
    made = worker(nested.path)
    (warning,) = made.warnings
    assert "libs/sub" in warning
    assert "111111111111" in warning
    assert os.listdir(made.path / "libs/sub") == []
    assert made.git("status", "--porcelain") == ""


def test_submodule_recursion_in_the_configuration_is_no_obstacle(nested):
    nested.git("config", "submodule.recurse", "true")
    made = worker(nested.path)
    assert made.warnings == []
    assert (made.path / "libs/sub/src/a.txt").exists()
    assert made.git("status", "--porcelain") == ""


def test_a_submodule_whose_commit_does_not_come_with_a_clone_is_left_empty_and_is_no_change(nested):
    # A shallow store gives away only what its refs reach, not all that lies in it.
    sub = nested.path / "libs/sub"
    old = nested.git("rev-parse", "HEAD", cwd=sub)
    nested.git("commit", "-q", "--allow-empty", "-m", "on no branch", cwd=sub)
    nested.git("commit", "-q", "-m", "newer sub", "libs/sub")
    nested.git("switch", "-q", "--detach", old, cwd=sub)
    nested.write(".git/modules/libs/sub/shallow", f"{old}\n")
    made = worker(nested.path)
    (warning,) = made.warnings
    assert "submodule 'libs/sub' is left empty" in warning
    assert os.listdir(made.path / "libs/sub") == []
    assert made.git("status", "--porcelain") == ""


def test_a_submodule_that_cannot_be_cloned_is_a_warning_and_no_change(nested, tmp_path):
    repository = discover(nested.path)
    needs = features(repository, "HEAD")
    shutil.rmtree(nested.path / ".git/modules/libs/sub/objects")
    made = worker(repository, needs=needs)
    assert "submodule 'libs/sub' is left empty" in made.warnings[0]
    assert made.git("status", "--porcelain") == ""


def test_a_submodule_kept_the_old_way_in_its_own_directory(make_repo, tmp_path):
    repo = make_repo("old")
    lib = make_repo("old/lib")
    repo.write(".gitmodules", '[submodule "lib"]\n\tpath = lib\n\turl = https://nowhere.invalid/lib\n')
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "old way")
    repo.git("config", "submodule.lib.url", "https://nowhere.invalid/lib")
    made = worker(repo.path)
    assert made.warnings == []
    assert (made.path / "lib/src/a.txt").exists()
    assert made.git("-C", "lib", "remote", "get-url", "origin") == "https://nowhere.invalid/lib"
    assert lib.git("status", "--porcelain") == ""
