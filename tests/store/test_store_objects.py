"""objects: what is written in process is what git reads, in both object formats; failures are said plainly."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from git_parallel.errors import ParallelError
from git_parallel.store import objects
from git_parallel.store.objects import FILE, Objects, batch, identity

RUN_OUT_OF_SPACE = """
import resource, sys
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.store.objects import Objects
repo = Repository.discover(sys.argv[1])
with Objects(repo) as odb:
    odb.blob(b"before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        odb.blob(b"after")
    except ParallelError as error:
        print(error.message)
"""


@pytest.fixture
def where(both, opened):
    return opened(both.path)


@pytest.fixture
def odb(where):
    with Objects(where) as odb:
        yield odb


def fsck(repo):
    return repo.git("fsck", "--strict", "--no-dangling", "--no-progress")


def test_git_reads_what_was_written(both, where, odb):
    one, two = odb.blob(b"one\n"), odb.blob(bytes(range(256)))
    tree = odb.tree({"a": (FILE, one), "d/e/f": (FILE, two), "d.x": (FILE, one), "d/ünï \\ \x01": (FILE, one)})
    base = both.git("rev-parse", "HEAD")
    commit = odb.commit(tree, [base], "subject\n\nbody\n\n", when=1_700_000_000)
    both.git("update-ref", "refs/x", commit)
    assert both.git("ls-tree", "-r", "-z", "refs/x").split("\0")[:-1] == [
        f"100644 blob {one}\ta",
        f"100644 blob {one}\td.x",
        f"100644 blob {two}\td/e/f",
        f"100644 blob {one}\td/ünï \\ \x01",
    ]
    assert both.git("log", "-1", "--format=%P %at %ct %B", "refs/x") == (
        f"{base} 1700000000 1700000000 subject\n\nbody"
    )
    assert fsck(both) == ""


@pytest.mark.parametrize("packed", [False, True])
def test_reads_what_git_wrote(both, odb, packed):
    both.write("dir/sub/b", b"\0b")
    head = both.commit("second")
    if packed:
        both.git("gc", "-q")
    tree, parents, message = odb.read_commit(head)
    assert (tree, parents) == (both.git("rev-parse", "HEAD^{tree}"), [both.git("rev-parse", "HEAD^")])
    assert message == "second\n"
    assert sorted(odb.read_tree(tree)) == ["README", "dir/sub/b", "src/a.txt"]
    assert odb.read_blob(odb.read_tree(tree)["dir/sub/b"][1]) == b"\0b"
    assert odb.path_blob(head, "dir/sub/b") == b"\0b"
    assert [odb.path_blob(head, path) for path in ("dir", "dir/no", "README/x", "no/no")] == [None] * 4


def test_reads_through_alternates(make_repo, opened, tmp_path, both):
    borrower = tmp_path / "borrower"
    both.git("clone", "-q", "--shared", "--bare", str(both.path), str(borrower))
    with Objects(opened(borrower)) as odb:
        assert odb.path_blob(both.git("rev-parse", "HEAD"), "README") == b"hello\n"


def test_finds_objects_that_arrive_after_it_was_opened(both, odb):
    assert odb.path_blob(both.git("rev-parse", "HEAD"), "README") == b"hello\n"
    head = both.commit("second", {"new": "new\n"})
    both.git("gc", "-q")
    assert odb.path_blob(head, "new") == b"new\n"


def test_a_missing_object_is_named(where, odb):
    with pytest.raises(ParallelError, match=f"object 1{where.zero[1:]} is missing"):
        odb.read_blob("1" + where.zero[1:])


def test_an_object_of_another_type_is_named(both, odb):
    with pytest.raises(ParallelError, match="is a commit, not a tree"):
        odb.read_tree(both.git("rev-parse", "HEAD"))


NAMES = st.sampled_from(["a", "b", "a.x", "dir", "ab"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


def _clean(paths):
    """Drop every path that another one would have to be a directory for."""
    return [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.sets(PATHS), after=st.sets(PATHS), removed=st.sets(PATHS))
def test_an_edit_equals_the_tree_written_whole(repo, opened, before, after, removed):
    with Objects(opened(repo.path)) as odb:
        old, new = (FILE, odb.blob(b"old")), (FILE, odb.blob(b"new"))
        first = dict.fromkeys(_clean(before), old)
        placements = dict.fromkeys(_clean(after), new)
        changes = placements | {path: None for path in removed if path not in placements}
        gone = {path for path, entry in changes.items() if entry is None}
        placed = {path for path, entry in changes.items() if entry}

        def survives(path):
            replaced = any(path == p or path.startswith(f"{p}/") or p.startswith(f"{path}/") for p in placed)
            return not replaced and not any(path == p or path.startswith(f"{p}/") for p in gone)

        expected = {path: old for path in first if survives(path)} | dict.fromkeys(placed, new)
        assert odb.read_tree(odb.edit(odb.tree(first), changes)) == expected
        assert odb.edit(odb.tree(first), changes) == odb.tree(expected)


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", ".", "../a", "a/.git/b", "a\0b"])
def test_refuses_paths_that_no_tree_may_hold(odb, path):
    with pytest.raises(ValueError, match="not a path"):
        odb.tree({path: (FILE, odb.blob(b""))})


def test_refuses_a_file_that_is_a_directory(odb):
    blob = (FILE, odb.blob(b""))
    with pytest.raises(ValueError, match="both a file and a directory"):
        odb.tree({"a": blob, "a/b": blob})


def test_the_empty_tree_is_a_tree(both, odb):
    assert odb.tree({}) == both.git("hash-object", "-t", "tree", "--stdin", stdin=b"")
    assert odb.edit(odb.tree({"a/b": (FILE, odb.blob(b""))}), {"a/b": None}) == odb.tree({})
    assert both.git("cat-file", "-t", odb.tree({})) == "tree"


# --- failures


def test_a_full_disk_is_said_plainly(both):
    done = subprocess.run(
        [sys.executable, "-c", RUN_OUT_OF_SPACE, str(both.path)], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("cannot write objects: File too large\n", "")
    assert both.git("count-objects", "-v").splitlines()[-2:] == ["garbage: 0", "size-garbage: 0"]


def test_an_object_written_again_is_new_to_gc(both, odb):
    oid = odb.blob(b"written twice\n")
    path = both.path / ".git/objects" / oid[:2] / oid[2:]
    os.utime(path, (0, 0))
    assert odb.blob(b"written twice\n") == oid
    assert path.stat().st_mtime > 0
    both.git("prune", "--expire=1.hour.ago")
    assert both.git("cat-file", "-p", oid) == "written twice"


def test_a_read_only_repository_is_said_plainly(where, odb, monkeypatch):
    def refuse(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(objects.os, "open", refuse)
    with pytest.raises(ParallelError, match="cannot write objects: Read-only file system"):
        odb.blob(b"anything")


def test_a_directory_that_gc_removes_at_that_moment_is_made_again(both, odb, monkeypatch):
    real, removed = os.open, []

    def overtaken(path, *rest):
        if "tmp_obj_" in path and len(removed) < 3:
            removed.append(os.path.dirname(path))
            os.rmdir(removed[-1])
        return real(path, *rest)

    monkeypatch.setattr(objects.os, "open", overtaken)
    oid = odb.blob(b"written while git prune-packed ran\n")
    assert len(removed) == 3
    assert both.git("cat-file", "-p", oid) == "written while git prune-packed ran"


def test_objects_of_a_shared_repository_can_be_written_by_the_group(make_repo, opened, monkeypatch):
    repo = make_repo("shared", init=("--shared=group",))
    with Objects(opened(repo.path)) as odb:
        oid = odb.blob(b"for all of us\n")
    directory = repo.path / ".git/objects" / oid[:2]
    assert oct(directory.stat().st_mode)[-3:] == "775"


# --- who writes


def stamp(repo, odb, **options):
    commit = odb.commit(odb.tree({}), [], "x", **options)
    return repo.git("show", "-s", "--format=%an <%ae> %ad, %cn <%ce> %cd", "--date=raw", commit)


def test_the_identity_is_gits_own(repo, opened, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    with Objects(opened(repo.path)) as odb:
        assert stamp(repo, odb, when=1.9) == (
            "A U Thor <author@example.com> 1 +0530, C O Mitter <committer@example.com> 1 +0530"
        )
        for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
            monkeypatch.delenv(name)
        repo.git("config", "user.name", "Ü Name")
        repo.git("config", "user.email", "u@example.com")
        assert identity(opened(repo.path)) == ("Ü Name <u@example.com>",) * 2
        assert stamp(repo, odb, when=2) == "Ü Name <u@example.com> 2 +0530, Ü Name <u@example.com> 2 +0530"


def test_dates_from_the_environment_count(repo, opened, monkeypatch):
    monkeypatch.setenv("GIT_AUTHOR_DATE", "1000000000 -0130")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "1100000000 +0000")
    with Objects(opened(repo.path)) as odb:
        assert stamp(repo, odb) == (
            "A U Thor <author@example.com> 1000000000 -0130, C O Mitter <committer@example.com> 1100000000 +0000"
        )


def test_without_an_identity_the_tool_signs_and_git_accepts_it(repo, opened, monkeypatch):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    repo.git("config", "user.useConfigOnly", "true")
    where = opened(repo.path)
    assert identity(where) == (f"git parallel <git-parallel@{os.uname().nodename}>",) * 2
    with Objects(where) as odb:
        repo.git("update-ref", "refs/x", odb.commit(odb.tree({}), [], "x"))
    assert fsck(repo) == ""


def test_another_worktree_keeps_its_own_identity(repo, opened, monkeypatch, tmp_path):
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.delenv(f"GIT_{role}_NAME")
        monkeypatch.delenv(f"GIT_{role}_EMAIL")
    repo.git("config", "user.name", "Main")
    repo.git("config", "user.email", "main@example.com")
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    repo.git("config", "--worktree", "user.name", "Other", cwd=tmp_path / "other")
    assert identity(opened(tmp_path / "other"))[0] == "Other <main@example.com>"
    assert identity(opened(repo.path))[0] == "Main <main@example.com>"
    # The caller's worktree may be gone when a record is written: its repository still knows somebody.
    where = opened(tmp_path / "other")
    repo.git("worktree", "remove", str(tmp_path / "other"))
    objects._people.cache_clear()
    assert identity(where)[0] == "Main <main@example.com>"


@pytest.mark.parametrize("who", ["Name", "<mail>", "A <b> <c>", "A\nB <c>", "A<b>"])
def test_refuses_identities_that_git_would_not_parse(odb, who):
    with pytest.raises(ValueError, match="not an identity"):
        odb.commit(odb.tree({}), [], "x", author=who)


# --- many at once, without dulwich


def test_a_batch_answers_each_name_in_order(both, where, odb):
    content = b"1234567890123456789012345678901234567890 blob 3\nabc\nx missing\n"
    oid = odb.blob(content)
    answers = batch(where, [oid, "no such name", "HEAD:README", "with\nnewline", "HEAD:src", "HEAD", ""])
    assert [answer and (answer.kind, answer.oid) for answer in answers] == [
        ("blob", oid),
        None,
        ("blob", both.git("rev-parse", "HEAD:README")),
        None,
        ("tree", both.git("rev-parse", "HEAD:src")),
        ("commit", both.git("rev-parse", "HEAD")),
        None,
    ]
    assert answers[0].data == content
    assert answers[2].data == b"hello\n"
    assert batch(where, []) == []


def test_looking_up_does_not_import_dulwich(repo):
    code = (
        "import sys; from git_parallel.git import Repository;"
        "from git_parallel.store.objects import batch, identity; from git_parallel.store import refs;"
        "where = Repository.discover(sys.argv[1]); batch(where, ['HEAD']); identity(where);"
        "print([name for name in sys.modules if name.startswith(('dulwich', 'rich', 'yaml', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(repo.path)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
