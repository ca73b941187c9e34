"""notes: git shows what was written, however the tree was filed before; no paragraph is lost or doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_parallel.store import notes
from git_parallel.store.notes import build, merged, read
from git_parallel.store.objects import FILE, Objects
from git_parallel.store.refs import Update, transaction

REF = "refs/notes/architect"


@pytest.fixture
def where(both, opened):
    return opened(both.path)


@pytest.fixture
def head(both):
    return both.git("rev-parse", "HEAD")


def add(where, wanted):
    """Build notes on top of the ref and move it, as the record does."""
    current = notes_tip(where)
    new = build(where, wanted, current)
    transaction(where, [Update(REF, new, current or where.zero)])
    return new


def notes_tip(where):
    return where.common.run("rev-parse", "-q", "--verify", REF, ok=(0, 1)).text or None


def show(repo, commit):
    return repo.git("notes", f"--ref={REF}", "show", commit)


def many_commits(repo, count):
    """Make ``count`` commits quickly; return their ids."""
    script = "".join(
        f"commit refs/heads/many\nmark :{n}\ncommitter A <a@example.com> {n} +0000\ndata 1\nx\n"
        for n in range(1, count + 1)
    )
    repo.git("fast-import", "--quiet", stdin=script.encode())
    return repo.git("rev-list", "many").split()


# --- the text


def test_a_paragraph_takes_the_place_of_the_one_with_its_first_line():
    note = merged("run 1\nrunning\n\nby hand\n", "run 2\nsuccess\n")
    assert note == "run 1\nrunning\n\nby hand\n\nrun 2\nsuccess\n"
    assert merged(note, "run 1\nfailed\nno_changes") == "run 1\nfailed\nno_changes\n\nby hand\n\nrun 2\nsuccess\n"
    assert merged("", "a\n\n \nb") == "a\n\nb\n"
    assert merged("a\n", "\n") == "a\n"
    assert merged("", "") == ""


LINES = st.sampled_from(["a", "b", "  c", "", " "])
TEXTS = st.lists(LINES, max_size=8).map("\n".join)


@given(existing=TEXTS, added=TEXTS)
def test_merging_twice_is_merging_once_and_keeps_every_other_paragraph(existing, added):
    once = merged(existing, added)
    assert merged(once, added) == once
    firsts = {part.partition("\n")[0].strip() for part in notes._paragraphs(added)}
    for paragraph in notes._paragraphs(existing):
        assert paragraph in notes._paragraphs(once) or paragraph.partition("\n")[0].strip() in firsts
    assert set(notes._paragraphs(once)) <= set(notes._paragraphs(existing)) | set(notes._paragraphs(added))


# --- the tree


def test_git_shows_the_first_note_and_the_next(both, where, head):
    second = both.commit("second")
    add(where, {head: "ünï\n"})
    assert both.git("log", "--notes=architect", "-1", "--format=%N", head) == "ünï"
    add(where, {second: "two\n", head: "more\n"})
    assert (show(both, head), show(both, second)) == ("ünï\n\nmore", "two")
    assert read(where, [head, second, "1" * len(head)]) == {head: "ünï\n\nmore\n", second: "two\n"}
    assert both.git("log", "--format=%s", REF) == "Notes added by 'git parallel'\nNotes added by 'git parallel'"
    assert both.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_a_head_that_two_workers_share_tells_of_both(where, head, both):
    add(where, [(head, "worker 1\n"), (head, "worker 2\n")])
    assert show(both, head) == "worker 1\n\nworker 2"


def test_what_is_there_already_makes_no_commit(where, head):
    first = add(where, {head: "same\n"})
    assert build(where, {head: "same"}, first) == first
    assert build(where, {}, first) == first


def test_reads_nothing_where_there_are_no_notes(where, head):
    assert read(where, [head]) == {}
    assert read(where, []) == {}


@pytest.mark.parametrize("count", [1, 100, 200, 300, 1000])
def test_joins_notes_that_git_filed_in_its_own_way(both, where, count):
    commits = many_commits(both, count + 1)
    both.git("notes", f"--ref={REF}", "add", "-m", "by git", commits[0])
    pairs = "".join(f"{commits[0]} {commit}\n" for commit in commits[1:count])
    both.git("notes", f"--ref={REF}", "copy", "--stdin", stdin=pairs.encode())
    before = both.git("notes", f"--ref={REF}", "list").count("\n") + 1
    add(where, {commits[0]: "ours\n", commits[count // 2]: "ours\n", commits[-1]: "ours\n"})
    assert show(both, commits[0]) == "by git\n\nours"
    assert show(both, commits[-1]) == "ours"
    assert both.git("notes", f"--ref={REF}", "list").count("\n") + 1 == before + 1
    assert both.git("ls-tree", "-r", REF).count("\n") + 1 == before + 1
    # git goes on from there, and files everything anew as it likes.
    both.git("notes", f"--ref={REF}", "append", "-m", "by git again", commits[-1])
    assert show(both, commits[-1]) == "ours\n\nby git again"
    assert read(where, commits) == {
        **dict.fromkeys(commits[:count], "by git\n"),
        commits[0]: "by git\n\nours\n",
        commits[count // 2]: "by git\n\nours\n",
        commits[-1]: "ours\n\nby git again\n",
    }


def test_directories_of_the_tree_stay_small(both, where, monkeypatch):
    monkeypatch.setattr(notes, "_CROWDED", 4)
    commits = many_commits(both, 60)
    for commit in commits:
        add(where, {commit: f"note of {commit}\n"})
    assert {read(where, commits)[commit] for commit in commits} == {f"note of {commit}\n" for commit in commits}
    assert sorted(both.git("notes", f"--ref={REF}", "list").split()[1::2]) == sorted(commits)
    assert both.git("ls-tree", REF).count(" blob ") <= 4
    assert show(both, commits[7]) == f"note of {commits[7]}"


def test_a_note_filed_twice_is_read_as_git_reads_it_and_becomes_one(both, where, head):
    with Objects(where) as odb:
        one, two = odb.blob(b"one\n"), odb.blob(b"two\n")
        tree = odb.tree({head: (FILE, one), f"{head[:2]}/{head[2:]}": (FILE, two), "other": (FILE, one)})
        transaction(where, [Update(REF, odb.commit(tree, [], "x"), where.zero)])
    by_git = show(both, head)
    assert {by_git, read(where, [head])[head].rstrip("\n")} <= {"one\n\ntwo", "two\n\none"}
    add(where, {head: "three\n"})
    assert both.git("ls-tree", "-r", "--name-only", REF).splitlines() == [head, "other"]
    assert sorted(show(both, head).split("\n\n")) == ["one", "three", "two"]


def test_notes_that_are_not_utf8_stay_as_they_are(both, where, head):
    both.write("note", b"\xff\xfe\n")
    both.git("notes", f"--ref={REF}", "add", "-F", "note", head)
    add(where, {head: "ours\n"})
    blob = both.git("notes", f"--ref={REF}", "list", head)
    with Objects(where) as odb:
        assert odb.read_blob(blob) == b"\xff\xfe\n\nours\n"
