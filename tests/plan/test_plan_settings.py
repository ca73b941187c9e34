"""The table of settings and the kinds of their values."""

from __future__ import annotations

import random

import msgspec
import pytest

from git_parallel.plan.config import Config
from git_parallel.plan.settings import BY_NAME, SETTINGS, by_git_key, named, near_name


def parse(name: str, *texts: str) -> object:
    return BY_NAME[name].parse(texts)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("workers", "1", 1),
        ("workers", "1000", 1000),
        ("retries", "0", 0),
        ("max_steps", "50", 50),
        ("max_steps", "none", None),
        ("budget", "2", 2.0),
        ("budget", "0.5", 0.5),
        ("budget", ".5", 0.5),
        ("budget", "1e-3", 0.001),
        ("budget_per_worker", "none", None),
        ("timeout", "300", 300.0),
        ("timeout", "0.5", 0.5),
        ("timeout", "90s", 90.0),
        ("timeout", "15m", 900.0),
        ("timeout", "1.5h", 5400.0),
        ("timeout", "1h30m", 5400.0),
        ("timeout", "1d2h3m4s", 93784.0),
        ("timeout_per_worker", "none", None),
        ("grace", "10", 10.0),
        ("trash_expire", "30d", 2592000.0),
        ("trash_expire", "never", None),
        ("checkpoint", "never", None),
        ("max_disk", "1", 1),
        ("max_disk", "512k", 524288),
        ("max_output", "1.5M", 1572864),
        ("memory_per_worker", "2g", 2147483648),
        ("memory_per_worker", "none", None),
        ("agent", "plan", "plan"),
        ("models", " a, b ", ("a", "b")),
        ("halt", "soon,fail=30%", "soon,fail=30%"),
        ("branch", "x/{run}-{n}", "x/{run}-{n}"),
        ("worktree", "../{repo} {n}", "../{repo} {n}"),
        ("strategy", "ff", "ff"),
        ("lfs", "skip", "skip"),
        ("check", "make\ntest", ("make\ntest",)),
        ("bell", "false", False),
        ("bell", "ON", True),
        ("notify", "notify-send done", "notify-send done"),
    ],
)
def test_values_that_are_right(name, text, value):
    got = parse(name, text)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("workers", text) for text in ("0", "-1", "1001", "1.5", "", " 3", "03", "1_0", "0x3", "three", "٣", "none")),
        *(("retries", text) for text in ("-1", "101")),
        *(("max_steps", text) for text in ("0", "never")),
        *(("budget", text) for text in ("0", "0.0", "-1", "nan", "inf", "1e999", "1e-999", "9" * 400, "$2",
            "2,5", "", ".")),
        *(("timeout", text) for text in ("0", "0s", "-5", "nan", "inf", "1e3", "5x", "5 m", "m", "30s1m",
            "1m1m", "366d")),
        *(("bell", text) for text in ("", "maybe", "2")),
        *(("max_disk", text) for text in ("0", "0k", "0.5", "-1", "1 g", "1gb", "k", "", "1025t", "9" * 400)),
        ("grace", "none"),
        ("trash_expire", "none"),
        *(("agent", text) for text in ("", " ", "a\nb", "a\0")),
        *(("program", text) for text in ("", "\x1b[31m")),
        *(("models", text) for text in ("", "a,,b", "a,b\x1b")),
        *(("halt", text) for text in ("", "now")),
        *(("branch", text) for text in ("", "x", "x{", "x}{n}", "{m}{n}", "{}{n}", "{n:3}", "{n!r}", "{n.real}",
            "{{n}}")),
        *(("strategy", text) for text in ("", "Merge", "octopus")),
        *(("check", text) for text in ("", "  ", "a\0b", "a\x1b[8m", "a \u202e b", "a\rb")),
        ("target", "main\udcff"),
        ("check", "echo \udcff"),
    ],
)  # fmt: skip
def test_values_that_are_wrong_say_what_fits(name, text):
    with pytest.raises(ValueError, match=r"^(must|has an unknown)") as caught:
        parse(name, text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_a_list_does_not_fit_one_value():
    with pytest.raises(ValueError, match="not a list"):
        parse("workers", "1", "2")


def test_a_near_word_is_proposed():
    with pytest.raises(ValueError, match="did you mean 'squash'"):
        parse("strategy", "sqash")


def test_what_is_shown_reads_back_as_the_same_value():
    chance = random.Random(1)
    numbers = [0.001, 1e-9, 0.1, 59.0, 60.0, 61.5, 3600.0, 86400.0, 90000.0, 31536000.0]
    numbers += [chance.uniform(0, 10) ** chance.randint(-6, 6) + 1e-9 for _ in range(500)]
    for number in numbers:
        for name in ("budget", "timeout"):
            setting = BY_NAME[name]
            assert setting.parse(setting.show(number)) == number


def test_the_defaults_read_back_too():
    for setting in SETTINGS:
        texts = setting.show(setting.default)
        if texts:
            assert setting.parse(texts) == setting.default


def test_every_setting_is_an_attribute_of_config_and_the_reverse():
    fields = [field.name for field in msgspec.structs.fields(Config)]
    assert fields == [*BY_NAME, "origins", "raw"]


def test_the_spellings_of_a_name():
    setting = BY_NAME["budget_per_worker"]
    assert setting.git_key == "parallel.budgetPerWorker"
    assert setting.flag == "--budget-per-worker"
    for word in ("budget_per_worker", "budget-per-worker", "--budget-per-worker", "budgetPerWorker", setting.git_key):
        assert named(word) is setting
    assert by_git_key("parallel.budgetperworker") is setting
    assert named("budget") is BY_NAME["budget"]
    assert named("bugdet") is None
    assert near_name("parallel.worker") is BY_NAME["workers"]
    assert near_name("budgetPerWorkers") is setting
    assert near_name("xyzzy") is None
