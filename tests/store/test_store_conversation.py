"""A git process that is asked many questions: it may die, and its answers are those of git asked once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from git_parallel.errors import GitError, ParallelError
from git_parallel.store import conversation, snapshots
from git_parallel.store.conversation import Conversation
from git_parallel.store.objects import COMPARING, Objects


@pytest.fixture
def where(both, opened):
    return opened(both.path)


@pytest.fixture
def odb(where):
    with Objects(where) as odb:
        yield odb


@pytest.fixture
def talk(where):
    talk = Conversation(where.common, "cat-file", "--batch-check=%(objecttype)")
    yield talk
    talk.close()


def line(output):
    said = output.readline()
    if not said:
        raise EOFError
    return said


def test_it_is_started_anew_when_it_has_died(talk):
    assert talk.ask(b"HEAD\n", line) == b"commit\n"
    first = talk._process
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert talk.ask(b"HEAD^{tree}\n", line) == b"tree\n"
    assert talk._process.pid != first.pid


def test_what_will_be_needed_is_loaded_until_it_answers(talk, monkeypatch):
    asked: list[bool] = []

    def until(ready):
        deadline = time.monotonic() + 30
        while not ready():
            asked.append(False)
            assert time.monotonic() < deadline
        asked.append(True)

    monkeypatch.setattr(conversation, "load_until", until)
    assert talk.ask(b"HEAD\n", line) == b"commit\n"
    assert asked[-1]
    assert asked.count(True) == 1


@pytest.mark.parametrize("typed", [signal.SIGINT, signal.SIGTSTP, signal.SIGHUP])
def test_what_a_person_types_at_the_terminal_is_not_for_it(talk, typed):
    assert talk.ask(b"HEAD\n", line) == b"commit\n"
    first = talk._process
    os.kill(first.pid, typed)
    assert talk.ask(b"HEAD^{tree}\n", line) == b"tree\n"
    assert talk._process is first


def test_what_never_answers_is_an_error_and_nothing_stays(where):
    with pytest.raises(ParallelError, match="git cat-file --no-such-option gives no answer"):
        Conversation(where.common, "cat-file", "--no-such-option").ask(b"HEAD\n", line)


def test_a_question_that_was_cut_short_does_not_answer_the_next(talk):
    def interrupted(_output):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        talk.ask(b"HEAD\n", interrupted)
    assert talk.ask(b"HEAD^{tree}\n", line) == b"tree\n"


def test_threads_get_their_own_answers(talk):
    wrong = []

    def ask(name, kind):
        wrong.extend(1 for _ in range(50) if talk.ask(name, line) != kind)

    asked = [(b"HEAD\n", b"commit\n"), (b"HEAD^{tree}\n", b"tree\n"), (b"HEAD:README\n", b"blob\n")] * 2
    threads = [threading.Thread(target=ask, args=one) for one in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_names_are_resolved_as_git_does(both, odb):
    head = both.git("rev-parse", "HEAD")
    names = ("refs/heads/main", "HEAD^{tree}", "refs/heads/none")
    assert odb.resolve(*names) == [head, both.git("rev-parse", "HEAD^{tree}"), None]
    assert odb.resolve("refs/heads/main\nrefs/heads/main") == [None]
    both.git("commit", "-q", "--allow-empty", "-m", "later")
    both.git("pack-refs", "--all")
    later = both.git("rev-parse", "HEAD")
    assert later != head
    assert odb.resolve("refs/heads/main") == [later]


HOSTILE = ["end", "end 0", "new\nend\nline", "tab\there", 'quo"te', "größe", " ", "-r", "a/b/c", "0" * 40]


def test_trees_are_compared_as_by_git_itself_whatever_names_are_in_them(both, odb):
    first = both.git("rev-parse", "HEAD^{tree}")
    both.commit("hostile", {name: f"{name}\nx\n" for name in HOSTILE})
    second = both.git("rev-parse", "HEAD^{tree}")
    both.write("README", b"\0binary\xff")
    both.git("rm", "-q", "src/a.txt")
    both.commit("more")
    third = both.git("rev-parse", "HEAD^{tree}")
    for before, after in ((first, second), (second, first), (second, third), (first, third), (third, third)):
        said = both.git("diff-tree", *COMPARING, before, after)
        assert os.fsdecode(odb.compare(before, after)) == said
        assert snapshots.compared(odb, before, after) == snapshots.parse_change(os.fsencode(said))
    assert set(HOSTILE) <= set(snapshots.compared(odb, first, second).paths)


def test_what_is_missing_is_said_and_the_next_question_answered(both, odb):
    tree = both.git("rev-parse", "HEAD^{tree}")
    with pytest.raises(GitError):
        odb.compare(tree, "f" * len(tree))
    other = odb.tree({"dir/x": (0o100644, odb.blob(b"x\n")), "README": (0o100644, odb.blob(b"hello\n"))})
    inner = both.git("rev-parse", f"{other}:dir")
    (both.path / ".git/objects" / inner[:2] / inner[2:]).unlink()
    with pytest.raises(GitError, match=inner):
        odb.compare(tree, other)
    both.commit("later", {"new": "1\n"})
    assert snapshots.compared(odb, tree, both.git("rev-parse", "HEAD^{tree}")).paths == ["new"]


@pytest.mark.parametrize("state", ["branch", "detached", "unborn", "elsewhere"])
def test_a_worktrees_head_is_read_as_git_reads_it(both, where, odb, tmp_path, state):
    top = tmp_path / "linked"
    both.git("worktree", "add", "-q", "-b", "work", str(top))
    commands = {"detached": ["switch", "-q", "--detach"], "unborn": ["switch", "-q", "--orphan", "new"]}
    if state in commands:
        both.git(*commands[state], cwd=top)
    if state == "elsewhere":
        both.git("symbolic-ref", "HEAD", "refs/notes/x", cwd=top)
        both.git("update-ref", "refs/notes/x", "HEAD^{commit}", where.zero)
    (top / "new").write_text("1\n")
    admin = both.git("rev-parse", "--absolute-git-dir", cwd=top)
    asked = snapshots.look(where, str(top), admin, str(tmp_path / "one.index"))
    known = snapshots.look(where, str(top), admin, str(tmp_path / "one.index"), objects=odb)
    assert known == asked
    assert (known.head is None) is (state == "unborn")
