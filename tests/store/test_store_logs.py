"""logs: both ends of each output are kept, on a ref that no record has as its parent."""

from __future__ import annotations

import pytest

from git_parallel.errors import RaceError
from git_parallel.store import logs, refs
from git_parallel.store.objects import Objects
from git_parallel.store.record import write

RUN = "20261129T165000Z-7f3a"
REF = f"refs/architect/logs/{RUN}"


@pytest.fixture
def where(both, opened):
    return opened(both.path)


def write_logs(where, run, paths, **options):
    with Objects(where) as objects:
        update = logs.kept(where, objects, run, paths, **options)
    refs.transaction(where, [update])
    return update.new


def test_long_output_keeps_both_ends(both, where, tmp_path):
    for name, data in (("short", b"0123456789"), ("long", b"abcde-----vwxyz"), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
    paths = {1: "short", 2: "long", 3: "empty", 4: "missing"}
    tip = write_logs(where, RUN, {n: str(tmp_path / name) for n, name in paths.items()}, cap=5)
    assert both.git("rev-parse", REF) == tip
    assert both.git("ls-tree", "-r", "--name-only", REF).split() == ["1/output.log", "2/output.log", "3/output.log"]
    assert both.git("show", f"{REF}:1/output.log") == "0123456789"
    assert both.git("show", f"{REF}:2/output.log") == "abcde\n[... 5 bytes left out ...]\nvwxyz"
    assert both.git("show", f"{REF}:3/output.log") == ""
    assert both.git("fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_a_later_write_keeps_the_workers_it_does_not_name(both, where, tmp_path):
    (tmp_path / "log").write_text("first")
    first = write_logs(where, RUN, {1: str(tmp_path / "log"), 2: str(tmp_path / "log")})
    (tmp_path / "log").write_text("again")
    write_logs(where, RUN, {2: str(tmp_path / "log")})
    assert [both.git("show", f"{REF}:{n}/output.log") for n in (1, 2)] == ["first", "again"]
    assert both.git("rev-parse", f"{REF}^") == first


def test_the_record_does_not_lead_to_the_logs(both, where, tmp_path):
    (tmp_path / "log").write_text("secret")
    tip = write_logs(where, RUN, {1: str(tmp_path / "log")})
    write(where, RUN, {}, subject="run ended")
    assert tip not in both.git("rev-list", f"refs/architect/runs/{RUN}").split()


def test_a_ref_that_another_moved_is_told(both, where, tmp_path, monkeypatch):
    (tmp_path / "log").write_text("x")
    real = refs.transaction
    monkeypatch.setattr(refs, "transaction", lambda *a, **o: both.git("update-ref", REF, "HEAD") or real(*a, **o))
    with pytest.raises(RaceError):
        write_logs(where, RUN, {1: str(tmp_path / "log")})
    assert both.git("rev-parse", REF) == both.git("rev-parse", "HEAD")
