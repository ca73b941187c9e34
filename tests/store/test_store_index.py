"""The tree of an index, made in process: the one that git makes, or none, and then git is asked."""

from __future__ import annotations

import os
import random
import shutil
import subprocess

import pytest

from git_parallel import index
from git_parallel.store import snapshots
from git_parallel.store.objects import Objects


class Indexed:
    """A repository with nested directories, and its index."""

    def __init__(self, repo, opened) -> None:
        self.repo, self.path, self.git = repo, repo.path, repo.git
        self.file = str(repo.path / ".git/index")
        self.objects = Objects(opened(repo.path))

    def write(self, name: str, text: str = "text\n") -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)

    def tree(self) -> str | None:
        return snapshots._tree(self.objects, self.file)

    def gits(self) -> str:
        """What git says, of a copy: it writes what it has found out into the index."""
        copy = shutil.copy(self.file, f"{self.file}.copy")
        env = {**os.environ, "GIT_INDEX_FILE": copy}
        asked = subprocess.run(
            ["git", "write-tree"], cwd=self.path, env=env, capture_output=True, text=True, check=True
        )
        return asked.stdout.strip()

    def is_gits(self) -> bool:
        ours = self.tree()
        if ours is None:
            return False
        self.git("cat-file", "-e", f"{ours}^{{tree}}")
        return ours == self.gits() and len(self.listed("ls-tree", "-r", ours)) == len(self.listed("ls-files"))

    def listed(self, *command: str) -> list[str]:
        return self.git(*command, "-z").split("\0")[:-1]

    def add(self, lines: str) -> None:
        self.git("update-index", "--index-info", stdin=lines.encode())


@pytest.fixture
def made(both, opened):
    names = [f"{top}/{name}{number}" for top in "ab" for name in ("", "x/", "y/", "z/") for number in range(3)]
    both.commit("nested", {name: name[:3] for name in names})
    indexed = Indexed(both, opened)
    indexed.git("write-tree")  # it knows all trees now
    with indexed.objects:
        yield indexed


@pytest.mark.parametrize(
    "changed",
    [(), ("new",), ("a/x/new",), ("a/new", "c/d/e/new"), ("a/x/0",), ("README", "b/z/2", "ab"), ("a-", "a.b", "a0")],
)
def test_it_is_gits(made, changed):
    for name in changed:
        made.write(name)
    made.git("add", "-A")
    assert made.is_gits()


def test_every_kind_of_entry(made):
    for name in ("run", "é/ü", "new\nline", 'quo"te', "a/x/" + "n" * 200, "/".join(["d" * 200] * 3 + ["f"])):
        made.write(name)
    (made.path / "run").chmod(0o755)
    (made.path / "link").symlink_to("nowhere")
    made.git("init", "-q", f"--object-format={made.git('rev-parse', '--show-object-format')}", "inner")
    made.git("commit", "--allow-empty", "-qm", "inner", cwd=made.path / "inner")
    shutil.rmtree(made.path / "a/y")
    made.git("add", "-A")
    with open(os.fsencode(made.path) + b"/\xff\xfe", "wb") as file:
        file.write(b"no text\n")
    made.git("add", "-A")
    assert "160000" in made.git("ls-files", "-s", "inner")
    assert made.is_gits()


def test_names_that_an_index_has_no_length_for(made):
    """Longer than any path of a system, but git takes it: the name ends where zeros follow."""
    oid = made.git("rev-parse", "HEAD:README")
    for length in (4094, 4095, 4096, 5000):
        name = "/".join(["n" * 99] * (length // 100) + ["n" * (length % 100)]).rstrip("/")
        made.git("update-index", "--add", "--cacheinfo", f"100644,{oid},{name}")
    assert made.is_gits()


def test_an_empty_one(made):
    made.git("rm", "-rq", "--cached", ".")
    assert made.listed("ls-files") == []
    assert made.tree() == made.gits()


def test_any_edits(made):
    """What git knows of trees after one edit or another is not always the same: all of it, parts, nothing."""
    chance = random.Random(1)
    for _ in range(40):
        for _ in range(chance.randrange(4)):
            name = "/".join(chance.choice(["a", "b", "x", "y", "zz"]) for _ in range(chance.randrange(1, 4)))
            if chance.random() < 0.3:
                made.git("rm", "-rqf", "--ignore-unmatch", "--", name)
            elif not (made.path / name).is_dir() and not any(one.is_file() for one in (made.path / name).parents):
                made.write(name, str(chance.random()))
        if chance.random() < 0.3:
            made.git("write-tree")
        made.git("add", "-A")
        assert made.is_gits()


@pytest.mark.parametrize(
    "arguments",
    [
        ("update-index", "--index-version=4"),
        ("update-index", "--split-index"),
        ("add", "-N", "later"),
        ("update-index", "--skip-worktree", "README"),
        ("sparse-checkout", "set", "--cone", "--sparse-index", "a"),
    ],
)
def test_another_index_is_left_to_git(made, arguments):
    made.write("later")
    made.git(*arguments)
    assert made.tree() is None
    assert made.gits()


def test_so_is_a_conflict(made):
    oid = made.git("rev-parse", "HEAD:README")
    stages = "".join(f"100644 {oid} {stage}\tREADME\n" for stage in (1, 2, 3))
    made.add(f"0 {'0' * len(oid)}\tREADME\n{stages}")
    assert made.git("ls-files", "-u")
    assert made.tree() is None


def test_so_is_a_large_one_and_very_deep_directories(made):
    oid = made.git("rev-parse", "HEAD:README")
    made.add(f"100644 {oid}\t{'d/' * 150}f\n")
    assert made.tree() is None
    made.add(f"0 {'0' * len(oid)}\t{'d/' * 150}f\n")
    assert made.is_gits()
    made.add("".join(f"100644 {oid}\tmany/{n:050}\n" for n in range(600)))
    assert made.tree() is None


def test_so_is_an_index_with_an_object_that_is_missing(made):
    made.write("a/new", "lost\n")
    made.git("add", "-A")
    oid = made.git("rev-parse", ":a/new")
    os.unlink(made.path / ".git/objects" / oid[:2] / oid[2:])
    assert made.tree() is None
    with pytest.raises(subprocess.CalledProcessError):
        made.gits()


def test_and_one_whose_tree_is_missing(made):
    made.add(f"100644 {made.git('rev-parse', 'HEAD:README')}\ta/new\n")
    assert made.is_gits()
    oid = made.git("rev-parse", "HEAD:b")
    os.unlink(made.path / ".git/objects" / oid[:2] / oid[2:])
    assert made.tree() is None


def test_and_none_at_all(made):
    os.unlink(made.file)
    assert made.tree() is None


def test_a_broken_one_is_no_index(made):
    made.write("a/new")
    made.git("add", "-A")
    with open(made.file, "rb") as file:
        whole = file.read()
    length = made.objects.oid_length
    assert index.parse(whole, length) is not None
    cut = [found for end in range(len(whole)) if (found := index.parse(whole[:end], length)) is not None]
    assert cut == [index.Index(index.parse(whole, length).entries, {}, False)]  # just after the entries
    assert index.parse(whole + b"\0", length) is None
    assert index.parse(b"DIRX" + whole[4:], length) is None
    optional, needed = (name + (4).to_bytes(4, "big") + b"data" for name in (b"XTRA", b"xtra"))
    extended = index.parse(whole[:-length] + optional + whole[-length:], length)
    assert (extended._replace(more=False), extended.more) == (index.parse(whole, length), True)
    assert index.parse(whole[:-length] + needed + whole[-length:], length) is None


def test_no_tree_with_a_path_that_no_tree_may_have(made):
    made.write("a/xgit/config")
    made.git("add", "-A")
    with open(made.file, "rb") as file:
        whole = file.read()
    with open(made.file, "wb") as file:
        file.write(whole.replace(b"a/xgit/config", b"a/.git/config"))
    assert made.tree() is None
