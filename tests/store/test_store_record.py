"""record: one chain per run that git itself can read; nothing is lost when many write at once."""

from __future__ import annotations

import os

import msgspec
import pytest

from git_parallel.errors import ParallelError, RaceError
from git_parallel.plan.model import Job, Limits, Result, RunSpec, Task, encode
from git_parallel.store import notes, record, refs
from git_parallel.store.objects import Objects
from git_parallel.store.reading import parse_counts, parse_trailers
from git_parallel.store.record import Entry, list_runs, read, run_chain, write, write_chains, write_many
from git_parallel.store.refs import Transactions, Update

RUN = "20261129T165000Z-7f3a"
REF = f"refs/architect/runs/{RUN}"

WRITE_AT_ONCE = """
import sys
from git_parallel.git import Repository
from git_parallel.store.record import write
path, run, number, count, heads = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:]
repo = Repository.discover(path)
sys.stdin.readline()
for turn in range(count):
    name = f"{number}-{turn}"
    head = heads[(number * count + turn) % len(heads)]
    write(repo, run, {f"files/{name}": name.encode()}, subject=f"wrote {name}", parents=[head],
          notes={head: f"note {name}\\nmore"})
"""


@pytest.fixture
def where(both, opened):
    return opened(both.path)


@pytest.fixture
def head(both):
    return both.git("rev-parse", "HEAD")


def fsck(repo):
    return repo.git("fsck", "--strict", "--no-dangling", "--no-progress")


def heads(repo, count):
    """Make ``count`` commits that are on no branch, each a head of its own."""
    script = "".join(
        f"commit refs/heads/head-{n}\nmark :{n}\ncommitter A <a@example.com> {n} +0000\ndata 1\nx\n"
        for n in range(1, count + 1)
    )
    repo.git("fast-import", "--quiet", stdin=script.encode())
    ids = repo.git("for-each-ref", "--format=%(objectname)", "refs/heads/head-*").split()
    deletions = "".join(f"delete refs/heads/head-{n}\n" for n in range(1, count + 1))
    repo.git("update-ref", "--stdin", stdin=deletions.encode())
    return ids


def spec(*jobs):
    return RunSpec(
        run=RUN,
        created="2026-11-29T16:50:00Z",
        argv=("git", "parallel"),
        person="A <a@example.com>",
        base="1" * 40,
        base_name="HEAD",
        target=None,
        subdir="",
        top=None,
        program="shell",
        role="build",
        tasks=(Task("t1", "do it"),),
        jobs=jobs or (Job(1, "t1", None, "architect/parallel-1", "/w1"),),
        workers=1,
        limits=Limits(),
    )


def result(worker, status="success"):
    return Result(
        worker_id=worker,
        branch=f"architect/parallel-{worker}",
        model=None,
        status=status,
        steps=None,
        cost=None,
        duration=1.0,
        files_modified=[],
        worktree_path="/w",
        run=RUN,
        task="t1",
        agent="shell",
        role="build",
        base="1" * 40,
        head=None,
        reason="done",
    )


# --- one writer


def test_the_chain_is_the_trace(both, where, head):
    other = both.commit("work")
    started = [("Architect-Event", "run-started"), ("Architect-State", "running")]
    first = write(
        where,
        RUN,
        {"run.json": b"{}", "workers/1/prompt.txt": b"do it"},
        subject="run 1 worker: do it",
        trailers=started,
    )
    second = write(where, RUN, {"workers/1/result.json": b"[]"}, subject="worker 1: success", parents=[other])
    third = write(
        where, RUN, {"workers/1/result.json": None}, subject="run ended", trailers=[("Architect-State", "ended")]
    )
    assert both.git("rev-parse", REF) == third
    assert both.git("log", "--first-parent", "--format=%H %P", REF).splitlines() == [
        f"{third} {second}",
        f"{second} {first} {other}",
        f"{first} ",
    ]
    assert both.git("log", "--format=%s|%(trailers:key=Architect-Run,key=Architect-State,valueonly,separator=%x2C)",
                    "--first-parent", REF).splitlines() == [
        f"run ended|{RUN},ended",
        f"worker 1: success|{RUN},running",
        f"run 1 worker: do it|{RUN},running",
    ]  # fmt: skip
    assert both.git("ls-tree", "-r", "--name-only", REF).split() == ["run.json", "version", "workers/1/prompt.txt"]
    assert both.git("show", f"{REF}:version") == "1"
    assert fsck(both) == ""


def test_work_stays_alive_through_the_record_alone(both, where, head):
    work = heads(both, 1)[0]
    write(where, RUN, {}, subject="start")
    write(where, RUN, {}, subject="worker 1", parents=[work])
    both.git("gc", "-q", "--prune=now")
    assert both.git("cat-file", "-t", work) == "commit"


def test_the_first_record_has_no_parent_even_when_work_comes_with_it(both, where, head):
    tip = write(where, RUN, {}, subject="worker 1", parents=[head])
    trace = both.git("log", "--first-parent", "--format=%s", tip).splitlines()
    assert trace == ["worker 1", f"run {RUN}"]
    assert both.git("rev-list", "--max-parents=0", "--first-parent", "--count", tip) == "1"
    assert both.git("rev-parse", f"{tip}^2") == head
    assert fsck(both) == ""


def test_many_heads_are_grouped(both, where):
    work = heads(both, 300)
    write(where, RUN, {}, subject="start")
    for parents in (work[:15], work[:16], work):
        tip = write(where, RUN, {}, subject="end", parents=[*parents, parents[0]])
        counts = [len(line.split()) for line in both.git("log", "--format=%p", tip).splitlines()]
        assert max(counts) <= 16
        assert set(parents) <= set(both.git("rev-list", tip).split())
        assert both.git("log", "--first-parent", "--format=%s", tip).splitlines()[-1] == "start"
    assert fsck(both) == ""


def test_several_entries_are_several_commits_in_one_step(both, where, head):
    second = both.commit("second")
    write(where, RUN, {}, subject="start")
    before = both.git("rev-list", "--count", REF)
    entries = [
        Entry(
            changes={f"workers/{n}/result.json": encode(result(n))},
            subject=f"worker {n}",
            notes={second: f"worker {n}\n"},
            updates=[Update(f"refs/architect/wip/{RUN}/{n}", head, where.zero)],
            ended={n: "success"},
        )
        for n in (1, 2)
    ]
    ids = write_many(where, RUN, entries)
    assert both.git("log", "-2", "--format=%H", REF).split() == ids[::-1]
    assert both.git("rev-list", "--count", REF) == str(int(before) + 2)
    assert both.git("notes", "--ref=architect", "show", second) == "worker 1\n\nworker 2"
    assert sorted(read(where, RUN).results()) == [1, 2]
    assert len(refs.read_below(where, f"refs/architect/wip/{RUN}")) == 2
    assert write_many(where, RUN, []) == []


def test_odd_subjects_and_values_stay_one_line_each(both, where):
    write(
        where, RUN, {}, subject=" two\nlines\0 ", trailers=[("Architect-Reason", "a\n\nb: c "), ("Architect-Head", "")]
    )
    assert both.git("log", "-1", "--format=%s", REF) == "two lines"
    step = read(where, RUN).history()[0]
    assert (step.trailers["Architect-Reason"], step.trailers["Architect-Head"]) == ("a b: c", "")
    with pytest.raises(ValueError, match="not a trailer's name"):
        write(where, RUN, {}, subject="x", trailers=[("no name", "x")])


def test_a_parent_that_is_not_there_is_refused(both, where):
    tip = write(where, RUN, {}, subject="start")
    with pytest.raises(ParallelError, match="is missing"):
        write(where, RUN, {}, subject="end", parents=["1" + where.zero[1:]])
    assert both.git("rev-parse", REF) == tip


def test_the_branchs_reflog_tells_of_the_capture(both, where, head, tmp_path):
    both.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    second = both.commit("second")
    move = Update("refs/heads/side", second, head)
    write(where, RUN, {}, subject="worker 1: success", updates=[move], worktree=str(tmp_path / "side"))
    assert both.git("reflog", "-1", "--format=%gs", cwd=tmp_path / "side") == "parallel: worker 1: success"


# --- counts


def test_counts_follow_the_workers_ends(both, where):
    write(where, RUN, {}, subject="start")
    write(where, RUN, {}, subject="skipped", ended={3: "skipped", 4: "skipped"})
    write(where, RUN, {"workers/1/result.json": encode(result(1))}, subject="1", ended={1: "success"})
    write(where, RUN, {"workers/2/result.json": encode(result(2, "failed"))}, subject="2", ended={2: "failed"})
    assert list_runs(where)[0].counts == {"success": 1, "failed": 1, "skipped": 2}
    # A retry ends the same worker again: it counts once.
    write(where, RUN, {"workers/2/result.json": encode(result(2))}, subject="2 again", ended={2: "success"})
    write(where, RUN, {}, subject="verdict")
    assert list_runs(where)[0].counts == {"success": 2, "skipped": 2}
    assert both.git("log", "-1", "--format=%(trailers:key=Architect-Counts,valueonly)", REF).strip() == (
        "success=2 skipped=2"
    )


# --- races


def test_nothing_is_lost_when_twenty_processes_write_at_once(repo, opened, start_python):
    commits = heads(repo, 7)
    processes = [start_python(WRITE_AT_ONCE, str(repo.path), RUN, str(n), "4", *commits) for n in range(20)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    names = {f"{number}-{turn}" for number in range(20) for turn in range(4)}
    assert {line.partition("/")[2] for line in repo.git("ls-tree", "-r", "--name-only", REF).split()} >= names
    trace = repo.git("log", "--first-parent", "--format=%s", REF).splitlines()
    assert sorted(trace) == sorted([f"run {RUN}", *(f"wrote {name}" for name in names)])
    texts = notes.read(opened(repo.path), commits)
    lines = [line for text in texts.values() for line in text.splitlines() if line]
    assert sorted(lines) == sorted([*(f"note {name}" for name in names), *["more"] * len(names)])
    assert fsck(repo) == ""


@pytest.fixture
def before_transaction(monkeypatch):
    """Return a function that has another writer come first, in the next transactions."""
    real = refs.transaction
    waiting: list = []
    tries = []

    def transaction(*arguments, **options):
        tries.append(arguments)
        if waiting:
            waiting.pop(0)()
        return real(*arguments, **options)

    monkeypatch.setattr(refs, "transaction", transaction)

    def add(action):
        waiting.append(action)
        return tries

    return add


def test_a_run_or_note_ref_moved_by_another_is_built_on(both, where, head, before_transaction):
    second = both.commit("second")
    write(where, RUN, {"a": b"a"}, subject="start", notes={head: "first\n"})

    def fetch():
        """Another writer without our lock, as `git fetch` is one."""
        tree = both.git("mktree", stdin=both.git("ls-tree", REF).replace("\ta", "\tfetched").encode() + b"\n")
        both.git("update-ref", REF, both.git("commit-tree", "-m", "fetched", "-p", REF, tree))

    before_transaction(fetch)
    before_transaction(lambda: both.git("notes", "--ref=architect", "add", "-m", "by hand", second))
    before_transaction(fetch)
    write(where, RUN, {"b": b"b"}, subject="mine", notes={second: "mine\n"})
    assert both.git("log", "--first-parent", "--format=%s", REF).splitlines() == ["mine", "fetched", "fetched", "start"]
    assert both.git("ls-tree", "--name-only", REF).split() == ["b", "fetched", "version"]
    assert both.git("notes", "--ref=architect", "show", second) == "by hand\n\nmine"
    assert both.git("notes", "--ref=architect", "show", head) == "first"


def test_a_run_that_another_creates_first_is_built_on(both, where, head, before_transaction):
    before_transaction(lambda: write(where, RUN, {"a": b"a"}, subject="theirs", notes={head: "theirs\n"}))
    write(where, RUN, {"b": b"b"}, subject="mine", notes={head: "mine\n"})
    assert both.git("log", "--format=%s", REF).splitlines() == ["mine", "theirs"]
    assert both.git("ls-tree", "--name-only", REF).split() == ["a", "b", "version"]
    assert both.git("notes", "--ref=architect", "show", head) == "theirs\n\nmine"


def test_a_branch_that_moved_is_told_to_the_caller_and_nothing_is_written(both, where, head, before_transaction):
    second = both.commit("second")
    both.git("branch", "side", head)
    tip = write(where, RUN, {}, subject="start")
    move = Update("refs/heads/side", second, head)
    tries = before_transaction(lambda: both.git("update-ref", "refs/heads/side", both.commit("third")))
    before = len(tries)
    with pytest.raises(RaceError, match="refs/heads/side"):
        write(where, RUN, {"a": b"a"}, subject="mine", updates=[move], notes={head: "mine\n"})
    assert len(tries) == before + 1  # trying again would not help
    assert both.git("rev-parse", REF) == tip
    assert refs.read(where, "refs/notes/architect") == {}


def test_a_branch_and_the_run_that_both_moved_end_the_same_way(both, where, head, before_transaction):
    second = both.commit("second")
    both.git("branch", "side", head)
    write(where, RUN, {}, subject="start")

    def both_move():
        both.git("update-ref", "refs/heads/side", second)
        write(where, RUN, {}, subject="theirs")

    before_transaction(both_move)
    with pytest.raises(RaceError, match="refs/heads/side"):
        write(where, RUN, {}, subject="mine", updates=[Update("refs/heads/side", second, head)])
    assert both.git("log", "--format=%s", REF).splitlines() == ["theirs", "start"]


def test_a_ref_that_never_stands_still_is_given_up(both, where, before_transaction):
    write(where, RUN, {}, subject="start")
    grow = ("commit-tree", "-m", "x", "-p", REF, f"{REF}^{{tree}}")
    for _ in range(record._ATTEMPTS):
        before_transaction(lambda: both.git("update-ref", REF, both.git(*grow)))
    with pytest.raises(RaceError, match=REF):
        write(where, RUN, {}, subject="mine")


# --- what must not be written over


def test_a_newer_record_is_read_but_not_written(both, where, head):
    with Objects(where) as odb:
        newer = {"version": b"2\n", "run.json": encode(spec()), "workers/1/result.json": b'{"new": "shape"}'}
        newer["workers/2/result.json"] = encode(result(2))
        tree = odb.tree({path: (0o100644, odb.blob(data)) for path, data in newer.items()})
        tip = odb.commit(tree, [], "from tomorrow")
    both.git("update-ref", REF, tip)
    with pytest.raises(ParallelError, match="has version 2; this git parallel writes up to version 1"):
        write(where, RUN, {}, subject="mine")
    assert both.git("rev-parse", REF) == tip
    kept = read(where, RUN)
    assert (kept.version, kept.spec(), sorted(kept.results())) == (2, spec(), [2])
    assert list_runs(where)[0].subject == "from tomorrow"


def test_a_ref_that_is_no_record_is_left_alone(both, where, head):
    both.git("update-ref", REF, head)
    with pytest.raises(ParallelError, match="is no record of a run"):
        write(where, RUN, {}, subject="mine")
    assert both.git("rev-parse", REF) == head


@pytest.mark.parametrize("name", ["refs/notes/architect/x", f"{REF}/x"])
def test_a_ref_in_the_way_is_named_before_anything_starts(both, where, head, name):
    both.git("update-ref", name, head)
    with pytest.raises(ParallelError, match=f"'{name}' is in the way") as caught:
        write(where, RUN, {}, subject="start")
    assert caught.value.hints == (f"rename or delete it: git update-ref -d {name}",)


# --- reading


def test_everything_written_is_read_back(both, where):
    events = b'{"event":"run-started"}\n[1]\n\n{"event":"state"}\n{"cut o'
    files = {"run.json": encode(spec()), "events.jsonl": events, "workers/1/prompt.txt": b"\xff\0"}
    write(where, RUN, files, subject="start")
    many = {f"workers/{n}/result.json": encode(result(n)) for n in (1, 2, 10)}
    write(where, RUN, {**many, "workers/10/report.md": b"# ok\n"}, subject="end")
    kept = read(where, RUN)
    assert (kept.run, kept.tip, kept.version) == (RUN, both.git("rev-parse", REF), 1)
    assert kept.spec() == spec()
    assert list(kept.results()) == [1, 2, 10]
    assert kept.results()[10] == result(10)
    assert [event["event"] for event in kept.events()] == ["run-started", "state"]
    assert kept.file("workers/1/prompt.txt") == b"\xff\0"
    assert kept.file("workers/10/report.md") == b"# ok\n"
    assert kept.file("events.jsonl") == events
    assert [kept.file(path) for path in ("workers/1", "no", "a\nb")] == [None] * 3
    assert [(step.subject, step.trailers["Architect-Run"]) for step in kept.history()] == [("start", RUN), ("end", RUN)]
    assert kept.history()[1].oid == kept.tip
    assert read(where, "20261129T165000Z-0000") is None


def test_a_record_asks_git_a_constant_number_of_times(both, where, monkeypatch):
    write(where, RUN, {"run.json": encode(spec()), "events.jsonl": b""}, subject="start")
    write(where, RUN, {f"workers/{n}/result.json": encode(result(n)) for n in range(1, 40)}, subject="end")
    kept = read(where, RUN)
    calls = []
    real = type(where.common).run
    monkeypatch.setattr(type(where.common), "run", lambda *a, **o: calls.append(a[1:]) or real(*a, **o))
    assert len(kept.results()) == 39
    kept.spec(), kept.events(), kept.version
    assert len(calls) == 2


def test_a_record_that_does_not_parse_is_named(both, where):
    write(where, RUN, {"run.json": b"{}", "workers/1/result.json": b"[]"}, subject="start")
    with pytest.raises(ParallelError, match=rf"cannot read run\.json of the record of run {RUN}"):
        read(where, RUN).spec()
    with pytest.raises(ParallelError, match=r"cannot read workers/1/result\.json"):
        read(where, RUN).results()
    write(where, RUN, {"run.json": None}, subject="gone")
    with pytest.raises(ParallelError, match=r"has no run\.json"):
        read(where, RUN).spec()


def test_runs_are_listed_from_messages_newest_first(both, where, head):
    for run, state in (("20261101T000000Z-aaaa", "ended"), ("20261201T000000Z-bbbb", "running")):
        write(where, run, {}, subject=f"run 2 workers: {run[-4:]}", trailers=[("Architect-State", "running")])
        write(where, run, {}, subject="worker 2: failed", trailers=[("Architect-State", state)], ended={2: "failed"})
    rows = list_runs(where)
    assert [(row.run, row.title, row.state) for row in rows] == [
        ("20261201T000000Z-bbbb", "run 2 workers: bbbb", "running"),
        ("20261101T000000Z-aaaa", "run 2 workers: aaaa", "ended"),
    ]
    assert (rows[0].subject, rows[0].counts) == ("worker 2: failed", {"failed": 1})
    assert rows[0].time == int(both.git("log", "-1", "--format=%ct", rows[0].tip))
    assert [row.run[-4:] for row in list_runs(where, limit=1)] == ["bbbb"]
    assert list_runs(where, limit=0) == []


def test_ten_thousand_packed_runs_are_one_call(repo, opened, monkeypatch):
    where = opened(repo.path)
    tip = write(where, RUN, {}, subject="start", trailers=[("Architect-State", "ended")])
    script = "".join(f"create refs/architect/runs/20250101T{n:06}Z-0000 {tip}\n" for n in range(10_000))
    repo.git("update-ref", "--stdin", stdin=script.encode())
    repo.git("pack-refs", "--all")
    calls = []
    real = type(where.common).run
    monkeypatch.setattr(type(where.common), "run", lambda *a, **o: calls.append(a[1:]) or real(*a, **o))
    rows = list_runs(where)
    assert (len(rows), len(calls)) == (10_001, 1)
    assert [rows[0].run, rows[1].run, rows[-1].run] == [RUN, "20250101T009999Z-0000", "20250101T000000Z-0000"]
    assert {row.state for row in rows} == {"ended"}
    calls.clear()
    assert list_runs(where, limit=5) == rows[:5]
    assert [call[-1] for call in calls] == ["refs/architect/runs/", f"refs/architect/runs/{rows[4].run}"]


def test_what_messages_say_is_read_as_git_reads_it():
    message = "subject\n\nNot: a trailer\n\nArchitect-A: 1\nArchitect-B: x: y\nArchitect-A: 2\nArchitect-C:\n"
    assert parse_trailers(message) == {"Architect-A": "2", "Architect-B": "x: y", "Architect-C": ""}
    assert parse_trailers("subject only") == {}
    assert parse_trailers("") == {}
    assert parse_counts("success=2 failed=x =3 timeout=1 junk") == {"success": 2, "timeout": 1}


def test_unknown_fields_of_a_newer_writer_are_ignored(both, where):
    data = msgspec.json.decode(encode(result(1)))
    write(where, RUN, {"workers/1/result.json": msgspec.json.encode({**data, "new": 1})}, subject="x")
    assert read(where, RUN).results()[1] == result(1)


def test_a_bare_repository_and_a_removed_worktree_can_be_written(both, where, opened, tmp_path):
    both.git("worktree", "add", "-q", str(tmp_path / "gone"))
    gone = opened(tmp_path / "gone")
    both.git("worktree", "remove", str(tmp_path / "gone"))
    write(gone, RUN, {}, subject="start")
    both.git("clone", "-q", "--bare", str(both.path), str(tmp_path / "bare"))
    write(opened(tmp_path / "bare"), RUN, {}, subject="start")
    assert both.git("log", "--format=%s", REF) == "start"
    assert both.git("log", "--format=%s", REF, cwd=tmp_path / "bare") == "start"
    assert os.path.exists(tmp_path / "bare" / "architect" / "lock")


# --- where the last write left the refs --------------------------------------------------------------


def counted_reads(monkeypatch):
    reads = []
    begin = refs.begin_read
    monkeypatch.setattr(refs, "begin_read", lambda *asked: reads.append(asked[1:]) or begin(*asked))
    return reads


def write_known(tips, where, changes, **more):
    entry = Entry(changes=changes, **more)
    return write_chains(where, [run_chain(RUN, [entry])], known=tips)[0][0]


def test_known_tips_are_not_read_again(where, head, monkeypatch):
    tips: record.Tips = {}
    write_known(tips, where, {"a": b"1"}, subject="one")
    reads = counted_reads(monkeypatch)
    second = write_known(tips, where, {"b": b"2"}, subject="two", notes={head: "note one\n"})
    third = write_known(tips, where, {"c": b"3"}, subject="three", notes={head: "note two\n"})
    assert reads == []
    assert refs.read(where, REF, notes.NOTES) == tips
    assert tips[REF] == third != second
    assert notes.read(where, [head])[head] == "note one\n\nnote two\n"


@pytest.mark.parametrize("moved", ["record", "notes", "both", "gone"])
def test_known_tips_that_others_have_moved_are_read_again(both, where, head, moved):
    tips: record.Tips = {}
    write_known(tips, where, {"a": b"1"}, subject="one", notes={head: "ours\n"})
    if moved in ("record", "both"):
        write(where, RUN, {"theirs": b"x"}, subject="theirs")
    if moved in ("notes", "both"):
        both.git("notes", "--ref=architect", "append", "-m", "theirs", head)
    if moved == "gone":
        both.git("update-ref", "-d", notes.NOTES)
    write_known(tips, where, {"b": b"2"}, subject="two", notes={head: "ours, too\n"})
    assert refs.read(where, REF, notes.NOTES) == tips
    found = read(where, RUN)
    assert found is not None
    kept = ["a", "b", "version", *(["theirs"] if moved in ("record", "both") else [])]
    assert sorted(both.git("ls-tree", "-r", "--name-only", REF).split()) == sorted(kept)
    said = notes.read(where, [head])[head]
    assert ("ours\n" in said) is (moved != "gone")
    assert "ours, too" in said
    assert ("theirs" in said) is (moved in ("notes", "both"))


def test_a_raced_update_of_the_callers_is_the_callers(both, where, head):
    tips: record.Tips = {}
    write_known(tips, where, {"a": b"1"}, subject="one")
    both.git("branch", "work")
    with pytest.raises(RaceError):
        write_known(tips, where, {"b": b"2"}, subject="two", updates=[Update("refs/heads/work", head, where.zero)])
    write_known(tips, where, {"b": b"2"}, subject="two")
    assert refs.read(where, REF) == {REF: tips[REF]}


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_git_that_dies_before_or_after_it_has_written(both, where, head, monkeypatch, done):
    through = Transactions(where, "parallel")
    asked = through._conversation._ask

    def killed(question, answer):
        if done:
            asked(question, answer)
        raise EOFError

    first = [Entry(changes={"a": b"1"}, subject="first")]
    write_chains(where, [run_chain(RUN, first)], through=through)
    monkeypatch.setattr(through._conversation, "_ask", killed)
    notes, moves = {head: "told"}, [Update("refs/heads/side", head, where.zero)]
    second = [Entry(changes={"a": b"2"}, subject="second", notes=notes, updates=moves)]
    ((oid,),) = write_chains(where, [run_chain(RUN, second)], through=through)
    through.close()
    assert both.git("log", "--format=%s", REF).splitlines() == ["second", "first"]
    assert both.git("rev-parse", REF) == oid
    assert both.git("rev-parse", "refs/heads/side") == head
    assert both.git("notes", "--ref=architect", "show", head) == "told"
