"""refs: the lock keeps processes and threads apart; a transaction is all or nothing and notices every race."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from git_parallel.errors import GitError, ParallelError, RaceError
from git_parallel.layout import State
from git_parallel.store import refs
from git_parallel.store.refs import Transactions, Update, locked, read, read_below

HOLD = """
import sys
from git_parallel.git import Repository
from git_parallel.store.refs import locked
with locked(Repository.discover(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

COUNT = """
import sys
from git_parallel.git import Repository
from git_parallel.store.refs import locked
repo = Repository.discover(sys.argv[1])
for _ in range(20):
    with locked(repo):
        with open(sys.argv[2]) as file:
            value = int(file.read())
        with open(sys.argv[2], "w") as file:
            file.write(str(value + 1))
"""


# --- the lock


def test_no_two_processes_are_inside_the_lock_at_once(repo, tmp_path, start_python):
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [start_python(COUNT, str(repo.path), str(counter)) for _ in range(6)]
    for process in processes:
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
    assert counter.read_text() == "120"


def test_threads_of_one_process_exclude_each_other(repo, opened):
    where = opened(repo.path)
    inside, most = [0], [0]

    def work():
        for _ in range(20):
            with locked(where):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)  # let another thread in if it can get in
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_the_thread_that_holds_the_lock_goes_straight_on(repo, opened, start_python):
    where = opened(repo.path)
    with locked(where), locked(opened(repo.path), timeout=0):
        pass
    # Leaving the inner block must not have let go of the outer one, nor leaving both have kept it.
    with locked(where):
        with locked(where):
            pass
        with pytest.raises(ParallelError):
            _take_elsewhere(where)
    _take_elsewhere(where)


def _take_elsewhere(where):
    """Take the lock in another thread, without waiting."""
    caught: list[BaseException] = []

    def take():
        try:
            with locked(where, timeout=0.05):
                pass
        except ParallelError as error:
            caught.append(error)

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    if caught:
        raise caught[0]


def test_a_lock_that_stays_held_names_its_holder(repo, opened, start_python):
    holder = start_python(HOLD, str(repo.path))
    assert holder.stdout.readline() == "held\n"
    where = opened(repo.path)
    with pytest.raises(ParallelError, match=f"held by process {holder.pid}$"), locked(where, timeout=0.05):
        pass


def test_a_killed_holder_frees_the_lock(repo, opened, start_python):
    holder = start_python(HOLD, str(repo.path))
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    with locked(opened(repo.path), timeout=10):
        assert Path(State(opened(repo.path).common_dir).lock).read_text() == f"{os.getpid()}\n"


def test_linked_worktrees_share_one_lock(repo, opened, tmp_path):
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    with locked(opened(tmp_path / "other")), pytest.raises(ParallelError, match="held by process"):
        _take_elsewhere(opened(repo.path))


def test_a_lock_file_replaced_while_waiting_is_not_taken_for_the_lock(repo, opened, monkeypatch):
    where = opened(repo.path)
    path = State(where.common_dir).lock
    really_try, swapped = refs._try, []

    def swap_once(fd, name):
        if not swapped:
            swapped.append(os.unlink(path))
        return really_try(fd, name)

    monkeypatch.setattr(refs, "_try", swap_once)
    with locked(where):
        assert Path(path).read_text() == f"{os.getpid()}\n"


def test_a_forked_child_does_not_hold_its_parents_lock(repo, opened):
    where = opened(repo.path)
    ready, go = os.pipe()
    with locked(where):
        child = os.fork()
        if child == 0:
            os.read(ready, 1)  # stays alive, with copies of the descriptors
            os._exit(0)
    try:
        _take_elsewhere(where)
    finally:
        os.write(go, b"x")
        os.waitpid(child, 0)
        os.close(ready)
        os.close(go)


def test_a_directory_that_cannot_be_made_is_said_plainly(repo, opened):
    where = opened(repo.path)
    (repo.path / ".git" / "architect").write_text("in the way")
    with pytest.raises(ParallelError, match=r"cannot lock '.*/architect/lock': Not a directory"), locked(where):
        pass


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_disk_that_takes_nothing_is_said_plainly(repo, opened, monkeypatch, code):
    where = opened(repo.path)

    def refuse(*arguments, **options):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(refs.os, "open", refuse)
    with pytest.raises(ParallelError, match=os.strerror(code)), locked(where):
        pass


# --- transactions


@pytest.fixture
def where(both, opened):
    return opened(both.path)


@pytest.fixture
def head(both):
    return both.git("rev-parse", "HEAD")


@pytest.fixture(params=["alone", "through one git"])
def transaction(request, where):
    """A transaction, by a git of its own or by one that makes many."""
    if request.param == "alone":
        yield refs.transaction
    else:
        through: list[Transactions] = []  # made by the first, when the test has set the scene

        def transaction(repo, updates):
            if not through:
                through.append(Transactions(where, "parallel"))
            refs.transaction(repo, updates, through=through[0])

        yield transaction
        for one in through:
            one.close()


def test_creates_moves_and_deletes_in_one_step(both, where, transaction, head):
    second = both.commit("second")
    transaction(where, [Update("refs/heads/a", head, where.zero), Update("refs/heads/b", head, where.zero)])
    transaction(where, [Update("refs/heads/a", second, head), Update("refs/heads/b", None, head)])
    assert read(where, "refs/heads/a", "refs/heads/b", "refs/heads/c") == {"refs/heads/a": second}


@pytest.mark.parametrize("packed", [False, True])
def test_a_ref_that_is_elsewhere_is_a_race_and_nothing_moves(both, where, transaction, head, packed):
    second = both.commit("second")
    both.git("update-ref", "refs/x/taken", second)
    if packed:
        both.git("pack-refs", "--all")
    wrong = [
        Update("refs/x/taken", head, head),
        Update("refs/x/taken", head, where.zero),
        Update("refs/x/taken", None, head),
        Update("refs/x/taken", None, where.zero),
        Update("refs/x/missing", head, head),
        Update("refs/x/missing", None, head),
    ]
    for update in wrong:
        with pytest.raises(RaceError, match=f"{update.ref} was changed by another process"):
            transaction(where, [Update("refs/x/new", head, where.zero), update])
    assert read_below(where, "refs/x") == {"refs/x/taken": second}


def test_without_an_old_value_nothing_is_expected(both, where, transaction, head):
    second = both.commit("second")
    transaction(where, [Update("refs/x/a", head, None)])
    transaction(where, [Update("refs/x/a", second, None), Update("refs/x/missing", None, None)])
    assert read_below(where, "refs/x") == {"refs/x/a": second}
    transaction(where, [Update("refs/x/a", None, None), Update("refs/x/b", None, where.zero)])
    assert read_below(where, "refs/x") == {}


def test_a_ref_that_must_stay_where_it_is_is_looked_at_and_not_written(both, where, transaction, head):
    both.git("branch", "still")
    both.git("checkout", "-q", "still")
    before = both.git("reflog", "show", "--format=%H %gs", "HEAD")
    transaction(where, [Update("refs/heads/still", head, head), Update("refs/heads/new", head, where.zero)])
    assert both.git("reflog", "show", "--format=%H %gs", "HEAD") == before
    moved = both.commit("moved")
    with pytest.raises(RaceError):
        transaction(where, [Update("refs/heads/still", head, head), Update("refs/heads/newer", head, where.zero)])
    assert read(where, "refs/heads/still", "refs/heads/newer") == {"refs/heads/still": moved}


def test_a_directory_where_a_ref_should_be_is_no_race(both, where, transaction, head):
    both.git("update-ref", "refs/x/a", head)
    with pytest.raises(GitError) as caught:
        transaction(where, [Update("refs/x/a/b", head, where.zero)])
    assert caught.value.message == "cannot create 'refs/x/a/b': 'refs/x/a' exists"
    assert "same name" in caught.value.hints[0]


def test_a_broken_ref_is_no_race(both, where, transaction, head):
    (both.path / ".git/refs/x").mkdir()
    (both.path / ".git/refs/x/a").write_text("not an id\n")
    with pytest.raises(GitError, match="reference broken"):
        transaction(where, [Update("refs/x/a", head, head)])


def test_a_lock_left_by_a_dead_git_says_which_file(both, where, transaction, head, monkeypatch):
    monkeypatch.setattr(refs, "_PATIENCE", ("-c", "core.filesRefLockTimeout=0"))
    (both.path / ".git/refs/heads/main.lock").touch()
    with pytest.raises(GitError, match=r"refs/heads/main\.lock': File exists") as caught:
        transaction(where, [Update("refs/heads/main", head, head)])
    assert "remove that file" in caught.value.hints[0]


def test_a_ref_locked_for_a_moment_is_waited_for(both, where, transaction, head):
    lock = both.path / ".git/refs/heads/main.lock"
    lock.touch()
    timer = threading.Timer(0.5, lock.unlink)
    timer.start()
    transaction(where, [Update("refs/heads/main", None, head)])
    timer.join()
    assert read(where, "refs/heads/main") == {}


def test_deleting_a_symbolic_branch_leaves_the_branch_it_names(both, where, transaction, head):
    both.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    transaction(where, [Update("refs/heads/alias", None, head)])
    assert read_below(where, "refs/heads") == {"refs/heads/main": head}


def test_the_reflogs_tell_what_was_done(both, where, head, tmp_path):
    both.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    second = both.commit("second")
    move = [Update("refs/heads/side", second, head)]
    refs.transaction(where, move, message="parallel: capture", worktree=str(tmp_path / "side"))
    assert both.git("reflog", "-1", "--format=%gs", "refs/heads/side") == "parallel: capture"
    assert both.git("reflog", "-1", "--format=%gs", "HEAD", cwd=tmp_path / "side") == "parallel: capture"


def test_no_hook_of_the_repository_runs(both, where, transaction, head, tmp_path):
    hook = both.write(".git/hooks/reference-transaction", f"#!/bin/sh\necho ran >>'{tmp_path}/ran'\nexit 1\n")
    hook.chmod(0o755)
    transaction(where, [Update("refs/heads/a", head, where.zero)])
    assert not (tmp_path / "ran").exists()


def test_reads_exact_names_only(both, where, head):
    both.git("update-ref", "refs/x/a/b", head)
    assert read(where, "refs/x/a") == {}
    assert read(where) == {}
    assert read_below(where, "refs/x/a") == {"refs/x/a/b": head}
    assert read_below(where) == {}


# --- one git for many transactions


@pytest.fixture
def through(where):
    made = Transactions(where, "parallel: all of them")
    yield made
    made.close()


def git_of(through):
    return through._conversation._process


def test_one_git_makes_all_transactions_and_tells_the_reflogs(both, where, head, through):
    second = both.commit("second")
    refs.transaction(where, [Update("refs/heads/a", head, where.zero)], through=through)
    first = git_of(through)
    refs.transaction(where, [Update("refs/heads/a", second, head), Update("HEAD", second, second)], through=through)
    assert read(where, "refs/heads/a") == {"refs/heads/a": second}
    assert git_of(through) is first
    assert both.git("reflog", "-1", "--format=%gs", "refs/heads/a") == "parallel: all of them"
    through.close()
    assert first.returncode == 0


def test_a_race_is_told_as_ever_and_the_next_transaction_is_made(where, head, through):
    with pytest.raises(RaceError):
        refs.transaction(where, [Update("refs/heads/main", head, where.zero)], through=through)
    refs.transaction(where, [Update("refs/heads/a", head, where.zero)], through=through)
    assert read(where, "refs/heads/a") == {"refs/heads/a": head}


def test_a_git_that_was_killed_is_replaced(both, where, head, through):
    refs.transaction(where, [Update("refs/heads/a", head, where.zero)], through=through)
    git_of(through).kill()
    git_of(through).wait()
    second = both.commit("second")
    refs.transaction(where, [Update("refs/heads/a", second, head)], through=through)
    assert both.git("reflog", "--format=%H", "refs/heads/a").split() == [second, head]


def test_what_it_has_begun_it_brings_to_its_end(both, where, head, through, monkeypatch):
    """Whatever happens to us meanwhile; killed, it would leave locks."""
    lock = both.write(".git/refs/heads/b.lock", "")
    free = threading.Timer(0.3, lock.unlink)

    def interrupted(output):
        assert output.readline() == b"start: ok\n"
        free.start()
        raise KeyboardInterrupt

    monkeypatch.setattr(refs, "_made", interrupted)
    changes = [Update("refs/heads/a", head, where.zero), Update("refs/heads/b", head, where.zero)]
    with pytest.raises(KeyboardInterrupt):
        refs.transaction(where, changes, through=through)
    assert read_below(where, "refs/heads/a", "refs/heads/b") == {"refs/heads/a": head, "refs/heads/b": head}
    assert [str(one) for one in (both.path / ".git").rglob("*.lock") if "architect" not in str(one)] == []
