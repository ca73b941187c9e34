"""The second of some worktrees that begin alike is what git would have made of it, or git makes it."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest
from repository import Repo
from workers_on_disk import Worker, worker

from git_parallel import index as indexes
from git_parallel import worktrees
from git_parallel.errors import ParallelError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import Features, Filler, alike, features, populate


class Alike:
    """Registered worktrees on branches at the same commit, and who fills them."""

    def __init__(self, repo: Repo) -> None:
        self.repo = Repository.discover(str(repo.path))
        self.commit = self.repo.git.text("rev-parse", "HEAD")
        self.filler = Filler(self.repo, self.commit, features(self.repo, self.commit))

    def fill(self, made: Worker) -> list[str]:
        return self.filler.fill(made.place.path, made.place.branch, self.scratch(made))

    def scratch(self, made: Worker) -> str:
        return os.path.join(self.repo.common_dir, f"filling-{made.place.worker}")

    def worker(self) -> Worker:
        return worker(self.repo, fill=False)

    def next(self) -> Worker:
        made = self.worker()
        assert self.fill(made) == []
        return made


@pytest.fixture
def filled_by_git(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The worktrees that git fills, by name."""
    filled: list[str] = []
    fill = alike.populate

    def populated(repo: Repository, path: str, needs: Features | None = None) -> list[str]:
        filled.append(os.path.basename(path).rpartition("-")[2])
        return fill(repo, path, needs)

    monkeypatch.setattr(alike, "populate", populated)
    return filled


@pytest.fixture(params=["sha1", "sha256"])
def rich(make_repo, request) -> Repo:
    """A repository with all that a tree has but submodules, and with files that git changes on their way out."""
    repo = make_repo("rich", init=(f"--object-format={request.param}",))
    os.symlink("src/a.txt", repo.path / "link")
    os.symlink(b"nowhere\n\xff", os.fsencode(repo.path / "broken link"))
    attributes = "*.crlf text eol=crlf\n*.id ident\n*.wide text working-tree-encoding=UTF-16LE\n"
    files = {
        ".gitattributes": attributes,
        "dos.crlf": "one\ntwo\n",
        "who.id": "$Id$\n",
        "empty": "",
        "a/b/c/deep": "deep\n",
        "a/b.txt": "b\n",
        "a-b": "between\n",
        "with\nnewline": "x\n",
        "-dash": "x\n",
    }
    for name, text in files.items():
        repo.write(name, text)
    repo.write("binary", bytes(range(256)))
    Path(os.fsdecode(os.fsencode(repo.path) + b"/latin-\xe9")).write_text("x\n")
    repo.write("wide.wide", "wide\n".encode("utf-16le"))
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "rich")
    return repo


def described(made: Worker) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything in a worktree but its link."""
    found = {}
    for place, directories, names in os.walk(os.fsencode(made.place.path)):
        for name in (*directories, *names):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            content = os.readlink(path) if stat.S_ISLNK(mode) else b""
            if stat.S_ISREG(mode):
                content = Path(os.fsdecode(path)).read_bytes()
            found[os.fsdecode(os.path.relpath(path, os.fsencode(made.place.path)))] = mode, content
    del found[".git"]
    return found


def as_git_sees(made: Worker) -> str:
    """What git takes for changed by the index alone: no content is looked at, as files are older than the index."""
    index = os.path.join(made.admin, "index")
    later = os.stat(index).st_mtime + 10
    os.utime(index, (later, later))
    return made.git("diff-files", "--raw")


def test_the_second_one_has_the_same_files_and_an_index_that_is_true_of_them(rich, filled_by_git):
    both = Alike(rich)
    first, second = both.next(), both.next()
    by_git = worker(both.repo)
    assert filled_by_git == ["1"]
    assert described(second) == described(first) == described(by_git)
    assert b"\r\n" in described(second)["dos.crlf"][1]
    assert as_git_sees(second) == as_git_sees(by_git) == ""
    assert second.git("status", "--porcelain", "--ignored") == ""
    assert second.git("ls-files", "-s", "-v") == by_git.git("ls-files", "-s", "-v")
    assert second.git("fsck") == ""
    assert not os.path.exists(both.scratch(second))


def test_the_index_is_gits_but_for_what_the_system_says_of_the_files(rich):
    both = Alike(rich)
    made, by_git = both.next() and both.next(), worker(both.repo)
    ours, gits = (Path(one.admin, "index").read_bytes() for one in (made, by_git))
    length = len(both.commit) // 2
    assert len(ours) == len(gits)
    assert indexes.parse(ours, length) == indexes.parse(gits, length)
    found = [os.lstat(made.path / path) for path, _, _ in indexes.parse(gits, length).entries]
    assert indexes.renewed(gits, both.repo.object_format, found) == ours
    assert stat.S_IMODE(os.stat(os.path.join(made.admin, "index")).st_mode) == stat.S_IMODE(
        os.stat(os.path.join(by_git.admin, "index")).st_mode
    )


def test_a_change_of_the_same_length_right_afterwards_is_seen(repo):
    both = Alike(repo)
    both.next()
    made = both.next()
    (made.path / "src/a.txt").write_text("b\n")
    assert made.git("status", "--porcelain") == " M src/a.txt"


def test_the_mask_of_the_caller_counts(repo, filled_by_git):
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "tool")
    before = os.umask(0o077)
    try:
        both = Alike(repo)
        both.next()
        made = both.next()
    finally:
        os.umask(before)
    assert filled_by_git == ["1"]
    modes = {path: stat.S_IMODE(mode) for path, (mode, _) in described(made).items()}
    assert (modes["tool"], modes["README"], modes["src"]) == (0o700, 0o600, 0o700)


def test_many_at_once_need_git_only_once(repo, filled_by_git):
    both = Alike(repo)
    made = [both.worker() for _ in range(8)]
    threads = [threading.Thread(target=both.fill, args=(one,)) for one in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(filled_by_git) == 1
    assert [as_git_sees(one) for one in made] == [""] * 8
    assert all(described(one) == described(made[0]) for one in made)


def many_files(repo: Repo) -> None:
    repo.commit("many", {f"many/{number}": "x\n" for number in range(70)})


def many_files_elsewhere(repo: Repo) -> None:
    many_files(repo)
    repo.git("update-ref", "refs/many", "HEAD")
    repo.git("reset", "-q", "--hard", "HEAD^")


def much(repo: Repo) -> None:
    repo.commit("much", {"much": "x" * (1 << 20)})


def submodule(repo: Repo) -> None:
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.git('rev-parse', 'HEAD').strip()},module")
    repo.git("commit", "-q", "-m", "module")


def a_filter(repo: Repo) -> None:
    repo.git("config", "filter.place.smudge", "sh -c 'cat; pwd'")
    repo.git("config", "filter.place.clean", "head -n 1")
    repo.commit("filtered", {".gitattributes": "*.place filter=place\n", "a.place": "a\n"})


def shared(repo: Repo) -> None:
    repo.git("config", "core.sharedRepository", "group")


def sparse(repo: Repo) -> None:
    repo.commit("other", {"other/x": "x\n"})
    repo.git("sparse-checkout", "set", "src")


def new_version(repo: Repo) -> None:
    repo.git("config", "index.version", "4")


def untracked_cache(repo: Repo) -> None:
    repo.git("config", "core.untrackedCache", "true")


def split_index(repo: Repo) -> None:
    repo.git("config", "core.splitIndex", "true")


@pytest.mark.parametrize(
    "special",
    [many_files, much, submodule, a_filter, shared, sparse, new_version, untracked_cache, split_index],
)
def test_what_is_not_plain_and_small_is_gits(repo, filled_by_git, special):
    special(repo)
    both = Alike(repo)
    first, second = both.next(), both.next()
    assert filled_by_git == ["1", "2"]
    assert not both.filler.expects_few
    assert second.git("status", "--porcelain") == first.git("status", "--porcelain") == ""
    if special is not a_filter:
        assert described(second) == described(first)


def test_a_commit_of_more_files_than_the_callers_own_is_gits(repo, filled_by_git):
    many_files_elsewhere(repo)
    both = Alike(repo)
    both.commit = both.repo.git.text("rev-parse", "refs/many")
    both.filler = Filler(both.repo, both.commit, Features())
    assert both.filler.expects_few
    made = [worker(both.repo, base="refs/many", fill=False) for _ in range(2)]
    assert [both.fill(one) for one in made] == [[], []]
    assert filled_by_git == ["1", "2"]
    assert [one.git("status", "--porcelain") for one in made] == ["", ""]


@pytest.mark.parametrize("which", [1, 2])
def test_a_branch_that_is_elsewhere_gets_what_it_names(repo, filled_by_git, which):
    both = Alike(repo)
    other = repo.commit("other", {"other": "x\n"})
    made = [both.worker(), both.worker()]
    for one, wanted in zip(made, (other, both.commit) if which == 1 else (both.commit, other), strict=True):
        repo.git("update-ref", f"refs/heads/{one.place.branch}", wanted)
        assert both.fill(one) == []
        assert one.git("status", "--porcelain") == ""
        assert (one.path / "other").exists() == (wanted == other)
    assert filled_by_git == ["1", "2"]


def test_what_somebody_changed_in_the_first_one_meanwhile_is_not_handed_on(repo, monkeypatch):
    fill = populate

    def disturbed(of: Repository, path: str, needs: Features | None = None) -> list[str]:
        warnings = fill(of, path, needs)
        if not os.path.exists(os.path.join(path, "..", "disturbed")):
            Path(path, "..", "disturbed").touch()
            time.sleep(0.02)  # the clock that files get their times from goes in steps
            Path(path, "README").write_text("theirs\n")
        return warnings

    monkeypatch.setattr(alike, "populate", disturbed)
    both = Alike(repo)
    first, second = both.next(), both.next()
    assert (first.path / "README").read_text() == "theirs\n"
    assert described(second)["README"] == described(worker(both.repo))["README"]


def test_what_lies_in_the_way_is_gits_to_write_over(repo, filled_by_git):
    both = Alike(repo)
    both.next()
    made = both.worker()
    (made.path / "src").mkdir()
    (made.path / "src/a.txt").write_text("half writ")  # as a death amid it leaves it
    assert both.fill(made) == []
    assert filled_by_git == ["1", "2"]
    assert made.git("status", "--porcelain") == ""
    assert (made.path / "src/a.txt").read_text() == "a\n"


@pytest.mark.parametrize("room", [None, 100])
def test_an_index_is_there_whole_or_not_at_all(repo, filled_by_git, monkeypatch, room):
    """A disk may take less than it was given, and then nothing more."""
    both = Alike(repo)
    both.next()
    made = both.worker()
    write, written = os.write, 0

    def little(descriptor: int, data: bytes) -> int:
        nonlocal written
        if os.readlink(f"/proc/self/fd/{descriptor}") != both.scratch(made):
            return write(descriptor, data)
        if room is not None and written >= room:
            raise OSError(28, "No space left on device")
        written += write(descriptor, data[:50])
        return len(data[:50])

    monkeypatch.setattr(os, "write", little)
    assert both.fill(made) == []
    assert written > 0
    assert filled_by_git == (["1"] if room is None else ["1", "2"])
    assert made.git("status", "--porcelain") == ""
    assert not os.path.exists(both.scratch(made))


def test_on_a_full_disk_git_says_so(repo, monkeypatch):
    both = Alike(repo)
    both.next()
    made = both.worker()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(alike, "_write", full)
    monkeypatch.setattr(Git, "run", full_git(Git.run))
    with pytest.raises(ParallelError, match=r"cannot fill worktree .*No space left on device"):
        both.fill(made)
    assert not os.path.exists(os.path.join(made.admin, "index"))


def full_git(run):
    from git_parallel.errors import GitError

    def ran(self, *words, **more):
        if words[0] == "read-tree":
            raise GitError(words, 128, b"error: No space left on device\n")
        return run(self, *words, **more)

    return ran


def test_without_a_checksum_there_is_none(repo):
    """git 2.40 and later write none with index.skipHash; older ones take it for none."""
    both = Alike(repo)
    first = both.next()
    path = Path(first.admin, "index")
    data = path.read_bytes()[:-20] + bytes(20)
    found = [os.lstat(first.path / name) for name, _, _ in indexes.parse(data, 20).entries]
    assert indexes.renewed(data, "sha1", found)[-20:] == bytes(20)
    assert indexes.renewed(data[:-20] + b"x" * 20, "sha1", found) == path.read_bytes()


def test_a_bare_repository_has_no_index_to_go_by(repo, tmp_path, filled_by_git):
    subprocess.run(["git", "clone", "-q", "--bare", str(repo.path), str(tmp_path / "bare.git")], check=True)
    both = Alike(Repo(tmp_path / "bare.git"))
    made = [worker(both.repo, worktree=str(tmp_path / "w-{n}"), fill=False) for _ in range(2)]
    assert [both.fill(one) for one in made] == [[], []]
    assert filled_by_git == ["1", "2"]


@pytest.mark.parametrize("words", [("-q",), ()])
def test_a_run_asks_git_once_for_all_its_worktrees(repo, tmp_path, words):
    log = tmp_path / "trace"
    env = {**os.environ, "GIT_TRACE": str(log)}
    done = repo.parallel("run", *words, "--program", "shell", "--workers", "4", *tasks(6), env=env)
    assert done.returncode == 0, done.stderr
    assert log.read_text().count("git read-tree") == 1
    heads = repo.git("for-each-ref", "--format=%(objectname)", "refs/heads/architect").split()
    assert len(heads) == 6
    assert {repo.git("diff", "--stat", f"{head}^", head).splitlines()[-1] for head in heads} == {
        " 1 file changed, 1 insertion(+)"
    }
    assert worktrees.entries(Repository.discover(str(repo.path)))[0].main


def tasks(count: int) -> list[str]:
    return [word for number in range(count) for word in ("--task", f"echo {number} > new-{number}")]
