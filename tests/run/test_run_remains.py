"""What a worker leaves that is on no branch and in no file of it: named in the record, kept where it can be."""

from __future__ import annotations

import json
import os
import socket
import stat

import pytest

from git_parallel.worktrees.uncaptured import Ignored, Size, fitting, unusual


def worker(repo, task: str, *options: str) -> dict:
    done = repo.parallel("run", "--json", "--program", "shell", *options, task)
    return json.loads(done.stdout)["workers"][0]


def wip(result: dict) -> str:
    return f"refs/architect/wip/{result['run']}/{result['worker_id']}"


RESET = "echo x > x; git add x; git commit -qm 'lost: x'; git rev-parse HEAD > ../id; git reset -q --hard HEAD~1"
DETACHED = (
    "git checkout -q --detach; echo x > x; git add x; git commit -qm 'lost: x'; git rev-parse HEAD > ../id; "
    "git checkout -q architect/parallel-1"
)
AMENDED = (
    "echo x > x; git add x; git commit -qm 'lost: x'; git rev-parse HEAD > ../id; git commit -q --amend -m 'kept: x'"
)


@pytest.mark.parametrize("ways", [RESET, DETACHED, AMENDED], ids=["reset", "detached", "amended"])
def test_a_commit_that_only_a_reflog_knows_is_kept_and_named(repo, ways):
    result = worker(repo, f"{ways}; echo y > y")
    lost = (repo.path / "id").read_text().strip()
    assert result["lost"] == [lost]
    assert result["snapshot"] is None  # of the worktree's state nothing is missing on the branch
    assert f"no branch has commit {lost[:12]} (lost: x)" in repo.parallel("show", "1").stdout
    assert f"{lost[:10]} lost: x (no branch had it)" in repo.parallel("restore", "--list", "1").stdout
    listed = json.loads(repo.parallel("restore", "--list", "1", "--json").stdout)["workers"][0]
    assert listed["lost"] == [{"commit": lost, "subject": "lost: x"}]

    back = repo.parallel("restore", "1", "--worktree=back", "--branch", "again")
    assert f"commits that no branch had, for git branch NAME: {lost[:10]}" in back.stderr
    assert "warning" not in back.stderr
    assert repo.git("status", "--porcelain", cwd=repo.path / "back") == ""
    assert (repo.path / "back/y").read_text() == "y\n"

    repo.parallel("cleanup")
    repo.git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("show", f"{lost}:x") == "x"
    assert repo.git("merge-base", "--is-ancestor", lost, wip(result)) == ""


def test_commits_that_the_branch_has_are_not_called_lost(repo):
    result = worker(
        repo,
        "for n in 1 2 3; do echo $n > $n; git add $n; git commit -qm $n; done; git checkout -q HEAD~1; "
        "git checkout -q architect/parallel-1; git checkout -q --detach main; git checkout -q -",
    )
    assert (result["status"], result["lost"], result["warnings"]) == ("success", None, [])
    assert repo.git("for-each-ref", "refs/architect/wip") == ""


def test_a_later_round_keeps_what_an_earlier_one_lost_and_names_only_its_own(repo):
    first = worker(repo, f"if [ -e y ]; then echo z > z; else {RESET}; echo y > y; fi")
    repo.parallel("retry", "1", "-m", "again")
    second = json.loads(repo.parallel("status", "--json").stdout)["workers"][0]
    assert (second["attempts"], second["lost"]) == (2, None)
    assert repo.git("merge-base", "--is-ancestor", first["lost"][0], wip(first)) == ""


# --- ignored ---------------------------------------------------------------------------------------


def test_ignored_files_are_listed_with_their_sizes(repo):
    repo.commit("ignore", {".gitignore": "*.log\nbuild/\n"})
    result = worker(repo, "printf 12345 > a.log; mkdir -p build/deep; printf 12 > build/deep/o; echo x > x")
    assert result["ignored"] == {
        "files": 2,
        "size": 7,
        "more": False,
        "paths": [
            {"path": "a.log", "files": 1, "size": 5, "more": False},
            {"path": "build/", "files": 1, "size": 2, "more": False},
        ],
        "kept": None,
    }
    shown = repo.parallel("show", "1").stdout
    assert "ignored:   2 files, 7 bytes" in shown
    assert "build/ (1 file, 2 bytes)" in shown
    assert worker(repo, "echo y > y")["ignored"] is None


def test_ignored_files_are_kept_on_request_up_to_a_size_and_come_back(repo, tmp_path):
    repo.commit("ignore", {".gitignore": ".env\nbuild/\n"})
    task = "echo secret > .env; mkdir build; head -c 5000 /dev/zero > build/big; echo x > x"
    result = worker(repo, task, "--keep-ignored", "1k")
    kept = result["ignored"]["kept"]
    assert repo.git("ls-tree", "-r", "--name-only", kept) == ".env"
    assert any(one.startswith("not kept: build/: ignored, and 4.9 KiB") for one in result["warnings"])
    assert repo.git("ls-tree", "-r", "--name-only", "architect/parallel-1").split() == [
        ".gitignore",
        "README",
        "src/a.txt",
        "x",
    ]
    # A snapshot holds it, and a run that is shared does not bring it along.
    assert repo.git("merge-base", "--is-ancestor", kept, wip(result)) == ""
    assert kept not in repo.git("rev-list", f"refs/architect/runs/{result['run']}")

    repo.parallel("cleanup")
    assert "files that git ignores: with --worktree or --to DIR" in repo.parallel("restore", "--list", "1").stdout
    repo.parallel("restore", "1", "--to", str(tmp_path / "back"))
    assert (tmp_path / "back/.env").read_text() == "secret\n"
    assert repo.parallel("restore", "1", "--worktree").returncode == 0
    assert (repo.path / ".architect-parallel-1/.env").read_text() == "secret\n"
    assert repo.git("status", "--porcelain", cwd=repo.path / ".architect-parallel-1") == ""


def test_of_many_ignored_files_all_are_counted_and_kept_and_some_are_listed(repo):
    repo.commit("ignore", {".gitignore": "*.o\nz*/\n"})
    result = worker(repo, "touch $(seq -f %g.o 70); mkdir zz; mkfifo zz/pipe; echo z > zz/z", "--keep-ignored", "1k")
    assert (result["ignored"]["files"], len(result["ignored"]["paths"])) == (72, 50)
    assert len(repo.git("ls-tree", "-r", "--name-only", result["ignored"]["kept"]).splitlines()) == 71
    assert [one for one in result["warnings"] if "pipe" in one] == []  # ignored, and so not looked at


def test_no_room_for_what_is_kept_is_an_error(repo):
    assert "--keep-ignored must be" in repo.parallel("run", "--keep-ignored", "0", "x").stderr


def test_the_smallest_are_kept_first():
    paths = (("big/", Size(3, 100)), ("a", Size(1, 10)), ("huge/", Size(9, 1, True)), ("b", Size(1, 20)))
    found = Ignored(Size(14, 131, True), paths)
    assert [name for name, _ in fitting(found, 35)[0]] == ["a", "b"]
    assert [name for name, _ in fitting(found, 130)[1]] == ["huge/"]
    assert fitting(found, 9)[0] == []


# --- what git has no object for --------------------------------------------------------------------


def test_fifos_sockets_and_empty_directories_are_named(repo):
    repo.commit("ignore", {".gitignore": "ignored/\n"})
    make = "import socket; socket.socket(socket.AF_UNIX).bind('s.sock')"
    result = worker(
        repo, f'mkfifo src/pipe; python3 -c "{make}"; mkdir -p empty ignored; mkfifo ignored/pipe; echo x > x'
    )
    assert sorted(result["warnings"]) == [
        "not captured: empty/: an empty directory",
        "not captured: s.sock: a socket",
        "not captured: src/pipe: a fifo",
    ]
    assert "warning:   not captured: src/pipe: a fifo" in repo.parallel("show", "1").stdout


def test_the_empty_place_of_a_submodule_is_not_named(repo, make_repo):
    other = make_repo("other")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.path), "sub")
    repo.commit("a submodule")
    result = worker(repo, "git submodule --quiet deinit -f sub; mkdir sub2; echo x > x; ls -A sub")
    assert [one for one in result["warnings"] if "empty" in one] == ["not captured: sub2/: an empty directory"]


def test_only_what_is_unusual_is_found(tmp_path):
    (tmp_path / "nested/.git").mkdir(parents=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "skipped/deep").mkdir(parents=True)
    os.mkfifo(tmp_path / "full/pipe")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(os.path.relpath(tmp_path / "end"))
        assert stat.S_ISSOCK((tmp_path / "end").stat().st_mode)
        assert dict(unusual(str(tmp_path), {"skipped/", "tmp/", "home/"})) == {"full/pipe": "fifo", "end": "socket"}


# --- submodules ------------------------------------------------------------------------------------


@pytest.fixture
def with_submodule(make_repo, repo):
    """``repo`` with a submodule ``sub``, filled in; other.git is its remote."""
    other = make_repo("other")
    repo.git("config", "--global", "protocol.file.allow", "always")
    repo.git("submodule", "--quiet", "add", str(other.path), "sub")
    repo.commit("a submodule")
    return other


INSIDE = "cd sub && echo n > n && git add n && git commit -qm n && cd .. && git add sub && git commit -qm 'move sub'"


def test_a_submodules_commit_that_only_the_worker_has_is_warned_of(repo, with_submodule):
    result = worker(repo, INSIDE)
    inner = repo.git("rev-parse", "architect/parallel-1:sub")
    said = f"submodule sub is at commit {inner[:12]}, which only the worktree"
    assert any(one.startswith(said) for one in result["warnings"])
    assert f"warning: {said}" in repo.parallel("review", "--approve", "1").stderr
    assert f"warning: {said}" in repo.parallel("merge", "--dry-run").stderr
    assert f"warning: {said}" in repo.parallel("merge", "--yes").stderr

    worktree = repo.path / ".architect-parallel-1/sub"
    repo.git("push", "-q", "origin", "HEAD:refs/heads/shared", cwd=worktree)
    assert said not in repo.parallel("review", "--approve", "1").stderr


def test_a_repository_that_the_branch_has_only_a_commits_id_of_is_warned_of(repo):
    worker(repo, "git init -q sub && cd sub && echo x > f && git add f && git commit -q -m inner")
    inner = repo.git("rev-parse", "architect/parallel-1:sub")
    said = f"warning: sub is a repository of its own: the branch names its commit {inner[:12]}, which this repository"
    assert said in repo.parallel("review", "--approve", "1").stderr
    assert said in repo.parallel("merge", "--dry-run").stderr
    assert said in repo.parallel("merge", "--yes").stderr

    worker(repo, "git init -q sub && cd sub && echo y > g && git add g && git commit -q -m inner")
    repo.git("fetch", "-q", str(repo.path / ".architect-parallel-2/sub"), "HEAD")  # the commit is here now
    assert "sub is a repository" not in repo.parallel("review", "--approve", "2").stderr


def test_a_submodules_commit_that_others_have_is_not_warned_of(repo, with_submodule):
    with_submodule.commit("second", {"second": "2\n"})
    result = worker(repo, "git -C sub fetch -q && git -C sub checkout -q FETCH_HEAD && git commit -qam 'move sub'")
    assert result["warnings"] == []
    assert "submodule" not in repo.parallel("review", "--approve", "1").stderr
