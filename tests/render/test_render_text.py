"""Words and numbers for people, and text that cannot drive a terminal."""

from __future__ import annotations

import pytest

from git_parallel.plan.model import Result
from git_parallel.render import text


def result(**changes: object) -> Result:
    fields: dict[str, object] = {
        "worker_id": 1,
        "branch": "architect/parallel-1",
        "model": None,
        "status": "success",
        "steps": None,
        "cost": None,
        "duration": None,
        "files_modified": [],
        "worktree_path": "/w",
        "run": "20261129T165000Z-7f3a",
        "task": "t1",
        "agent": "shell",
        "role": "build",
        "base": "0" * 40,
        "head": None,
        "reason": "done",
    }
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "?"),
        (-3, "<0.1s"),
        (0.44, "0.4s"),
        (0.96, "1s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (64, "1m04s"),
        (3599.7, "1h00m"),
        (7500, "2h05m"),
        (90061, "1d01h"),
    ],
)
def test_durations_keep_two_units(seconds: float | None, said: str) -> None:
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("dollars", "said"),
    [(None, "?"), (0, "$0.00"), (0.12, "$0.12"), (0.0034, "$0.0034"), (0.00001, "<$0.0001"), (12, "$12.00")],
)
def test_money_shows_neither_the_unknown_nor_a_little_as_nothing(dollars: float | None, said: str) -> None:
    assert text.money(dollars) == said


def test_a_sum_says_that_a_part_of_it_is_unknown() -> None:
    assert text.total_money([0.5, 0.25]) == "$0.75"
    assert text.total_money([0.5, None]) == "$0.50 + ?"
    assert text.total_money([None, None]) == "?"
    assert text.total_money([]) == "$0.00"


def test_ages_are_in_gits_words() -> None:
    assert [text.age(0, seconds) for seconds in (1, 89, 300, 7200, 3 * 86400, 21 * 86400, 9e6, 7e7)] == [
        "1 second ago",
        "89 seconds ago",
        "5 minutes ago",
        "2 hours ago",
        "3 days ago",
        "3 weeks ago",
        "3 months ago",
        "2 years ago",
    ]
    assert text.age(None, 5) == "?"


def test_moments_are_read_with_and_without_a_zone() -> None:
    assert text.moment("1970-01-01T00:01:00.500Z") == 60.5
    assert text.moment("1970-01-01T02:01:00+02:00") == 60
    assert text.moment("1970-01-01T00:01:00") == 60
    assert text.moment("yesterday") is None
    assert text.moment(None) is None


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[2J\x07", "\\x1b[2J\\x07"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("one\u2028two", "one\\u2028two"),
        ("caf\udce9", "caf\\xe9"),
        ("\U000e0041", "\\U000e0041"),
        ("naïve 日本 👩\u200d💻", "naïve 日本 👩\u200d💻"),
    ],
)
def test_nothing_printed_can_drive_the_terminal(hostile: str, harmless: str) -> None:
    assert text.printable(hostile) == harmless


@pytest.mark.parametrize(
    ("string", "width"),
    [("abc", 3), ("日本語", 6), ("e\u0301", 1), ("❤", 1), ("❤\ufe0f", 2), ("👩\u200d💻", 4), ("🇩🇪", 2), ("한글", 4)],
)
def test_columns_count_what_a_terminal_draws(string: str, width: int) -> None:
    assert text.columns(string) == width


def test_clipping_never_cuts_a_wide_character_in_half() -> None:
    assert text.clip("日本語", 6) == "日本語"
    assert text.clip("日本語", 5) == "日本…"
    assert text.clip("日本語", 4) == "日…"
    assert text.clip("plain words", 7) == "plain…"
    assert text.clip("abc", 0) == ""
    for width in range(1, 20):
        assert text.columns(text.clip("a日❤\ufe0fe\u0301👩\u200d💻b" * 3, width)) <= width


def test_a_huge_title_is_cut_without_being_read_to_its_end() -> None:
    assert text.fit("x" * 10_000_000, 5) == "xxxx…"
    assert text.fit("\u0301" * 10_000, 5).endswith("…")


def test_padding_counts_columns() -> None:
    assert text.pad("日", 4) == "日  "
    assert text.pad("日", 4, right=True) == "  日"


def test_colours_stop_before_trailing_blanks() -> None:
    assert text.paint("ok  ", "green", True) == "\x1b[32mok\x1b[m  "
    assert text.paint("ok", "green", False) == "ok"
    assert text.paint("  ", "green", True) == "  "


def test_a_subject_is_one_line_of_72_columns() -> None:
    assert text.subject("fix\n the \x1b[31m bug") == "fix the \\x1b[31m bug"
    assert text.columns(text.subject("word " * 1000)) <= 72


def test_an_outcome_says_what_is_known() -> None:
    done = result(files_modified=["a", "b", "c"], insertions=10, deletions=2, cost=0.12, duration=12.2)
    assert text.outcome_line(done) == "success: 3 files, +10 -2 ($0.12, 12s)"
    assert text.outcome_line(result(status="failed", reason="no_changes")) == "failed/no_changes: no changes"
    assert text.outcome_line(result(status="timeout", reason="timeout", files_modified=["a"])) == "timeout: 1 file"
