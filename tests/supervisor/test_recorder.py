"""Workers that end together are written together; what one of them cannot write keeps none of the others out."""

from __future__ import annotations

import threading
import time

import pytest

from git_parallel.errors import MissingError, ParallelError, RaceError
from git_parallel.git import Repository
from git_parallel.store.objects import Objects
from git_parallel.store.record import Entry
from git_parallel.store.refs import Update
from git_parallel.supervisor.recorder import Recorder

RUN = "20261129T165000Z-7f3a"
REF = f"refs/architect/runs/{RUN}"


def together(recorder, entries):
    """Submit entries from a thread each, so that they wait for one write; return what each raised, in order."""
    errors = [None] * len(entries)

    def submit(at):
        try:
            recorder.submit(entries[at])
        except ParallelError as error:
            errors[at] = error

    with recorder._writing:
        threads = [threading.Thread(target=submit, args=(at,)) for at in range(len(entries))]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 10
        while len(recorder._pending) < len(entries):
            assert time.monotonic() < deadline
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    return errors


@pytest.fixture
def recorder(repo):
    asked = iter(range(1, 10))
    where = Repository.discover(str(repo.path))
    made = Recorder(where, RUN, lambda: b"%d\n" % next(asked), Objects(where))
    yield made
    made.close()


def entry(number, **more):
    return Entry(changes={f"workers/{number}/result.json": b"{}\n"}, subject=f"worker {number} ended", **more)


def test_those_that_wait_are_written_in_one_transaction(repo, recorder):
    assert together(recorder, [entry(1), entry(2), entry(3)]) == [None, None, None]
    assert repo.git("show", f"{REF}:events.jsonl") == "1"  # the journal was read once
    assert len(repo.git("rev-list", REF).splitlines()) == 3


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"parents": ["0123456789" * 4]}, MissingError),
        ({"updates": [Update("refs/heads/main", None, "0123456789" * 4)]}, RaceError),
    ],
    ids=["not writable", "overtaken"],
)
def test_one_that_fails_fails_alone(repo, recorder, more, kind):
    errors = together(recorder, [entry(1), entry(2, **more), entry(3)])
    assert [type(error) for error in errors] == [type(None), kind, type(None)]
    assert repo.git("ls-tree", "--name-only", f"{REF}:workers").split() == ["1", "3"]
    assert repo.git("rev-parse", "refs/heads/main")


def test_the_refs_that_were_read_before_are_looked_at_by_the_transaction(repo, recorder):
    """Who moves them between is noticed, and built on."""
    recorder.begin()
    theirs = repo.git("commit-tree", "-m", "theirs", "HEAD^{tree}")
    repo.git("update-ref", "refs/notes/architect", theirs)
    head = repo.git("rev-parse", "HEAD")
    recorder.submit(entry(1, notes={head: "told"}))
    assert repo.git("rev-parse", "refs/notes/architect^") == theirs
    assert repo.git("notes", "--ref=architect", "show", head) == "told"


def test_reading_them_ends_with_the_recorder(repo, recorder):
    recorder.begin()
    asked = recorder._asked
    recorder.close()
    assert asked._process.returncode is not None
