"""When a run ends early."""

from __future__ import annotations

import pytest

from git_parallel.plan.halt import Counts, Halt, parse, until


@pytest.mark.parametrize(
    ("text", "halt"),
    [
        ("never", Halt()),
        ("now,fail=1", Halt("now", "fail", 1)),
        ("soon,fail", Halt("soon", "fail", 1)),
        ("soon,fail=30%", Halt("soon", "fail", 30, percent=True)),
        ("now,success=2", Halt("now", "success", 2)),
        ("soon,done=100%", Halt("soon", "done", 100, percent=True)),
    ],
)
def test_the_grammar(text, halt):
    assert parse(text) == halt


@pytest.mark.parametrize(
    "text",
    ["", "Never", "now", "fail=1", "now,fail=", "now,fail=0", "now,fail=0%", "now,fail=101%", "now,fail=-1",
     "now,fail=1.5", "later,fail=1", "now,failed=1", "now, fail=1", "now,fail=1 ", "never,fail=1", "now,fail=١"],
)  # fmt: skip
def test_anything_else_is_an_error(text):
    with pytest.raises(ValueError, match="must"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "counts", "decision"),
    [
        ("never", Counts(4, failed=4), "continue"),
        ("now,fail=2", Counts(4, failed=1), "continue"),
        ("now,fail=2", Counts(4, failed=2), "now"),
        ("soon,fail=2", Counts(4, failed=3), "soon"),
        ("soon,fail=50%", Counts(5, failed=2), "continue"),  # 50 % of 5, rounded up, is 3
        ("soon,fail=50%", Counts(5, failed=3), "soon"),
        ("now,success=1", Counts(4, failed=3), "continue"),
        ("now,success=1", Counts(4, success=1), "now"),
        ("soon,done=3", Counts(4, success=1, failed=2), "soon"),
        ("now,fail=9", Counts(2, failed=2), "now"),
        ("now,fail=1%", Counts(3), "continue"),
    ],
)
def test_what_to_do_after_a_worker_has_ended(text, counts, decision):
    assert parse(text).decide(counts) == decision


@pytest.mark.parametrize(
    ("text", "counts", "succeeded"),
    [
        ("never", Counts(2, success=2), True),
        ("never", Counts(2, success=1), False),
        ("now,success=1", Counts(4, success=1, failed=1), True),
        ("now,success=2", Counts(4, success=1, failed=3), False),
        ("now,success=9", Counts(2, success=2), True),
        ("now,fail=2", Counts(4, success=3, failed=1), False),
        ("soon,done=2", Counts(4, success=2), True),
        ("soon,done=2", Counts(4, success=1, failed=1), False),
    ],
)
def test_whether_the_run_did_what_was_asked(text, counts, succeeded):
    assert parse(text).succeeded(counts) is succeeded


def test_cancelled_and_skipped_workers_do_not_make_a_run_halt():
    ended = ["success", "failed", "timeout", "partial", "cancelled", "skipped"]
    counts = Counts.of(9, ended)
    assert counts == Counts(9, success=1, failed=3)
    assert counts.done == 4


@pytest.mark.parametrize(
    ("text", "halt"),
    [("first-success", Halt("now", "success", 1)), ("3", Halt("now", "success", 3)), ("all", Halt())],
)
def test_until_is_short_for_halt(text, halt):
    assert parse(until(text)) == halt


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "first", "All", "50%", "03", "٣"])
def test_until_takes_nothing_else(text):
    with pytest.raises(ValueError, match="must be 'first-success'"):
        until(text)
