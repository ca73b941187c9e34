"""The kinds of value a setting may have: how each is read from text, and how it is shown again.

A parser raises ValueError whose message goes on from the setting's name ("must be …"). Numbers mean
what they say: a limit of 0 is an error and not "unlimited", for which there is a word.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from git_parallel.plan import assign, halt

MINUTE, HOUR, DAY = 60, 3600, 86400
LONGEST = 365 * DAY
"""Seconds. Well below what timers of the system can wait for."""

_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_MONEY = _NUMBER + r"(?:[eE][+-]?[0-9]{1,3})?"
_UNITS = {"d": DAY, "h": HOUR, "m": MINUTE, "s": 1}
# As git's own numbers have them: k, m and g are powers of 1024.
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# git's words for it.
_SWITCH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_SIZE = rf"(?i)({_NUMBER})([kmgt]?)"
LARGEST = 1024 * _BINARY["t"]
"""Bytes."""
_SPAN = rf"({_NUMBER})([dhms])"

# What the message of a landing may name.
MESSAGE_FIELDS = ("n", "run", "title", "body", "agent", "model", "branch")

# What a branch or worktree template may name. The worker's number must be in it: it is what parts
# two workers of a run, and this run from the next.
TEMPLATE_FIELDS = ("n", "run", "task", "model", "repo")


class Kind(Struct, frozen=True):
    """``parse`` reads one text; ``show`` writes a value so that ``parse`` reads it again; ``wants`` says what fits.

    ``words`` are all that fit, where these are few.
    """

    wants: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    words: tuple[str, ...] = ()


def quoted(text: str) -> str:
    """Return a text for a one-line message: control characters escaped, cut when long."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:80])
    return f"'{shown}{'…' if len(text) > 80 else ''}'"


def nearest(name: str, names: tuple[str, ...]) -> str | None:
    """Return the valid name that the person most likely meant, or None. Case, ``_`` and ``-`` do not count."""
    from difflib import get_close_matches  # noqa: PLC0415 (only on the way to an error)

    plain = {_plain(valid): valid for valid in names}
    near = get_close_matches(_plain(name), plain, n=1, cutoff=0.6)
    return plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def whole(low: int, high: int) -> Kind:
    """A whole number from ``low`` to ``high``, in decimal digits."""
    wants = f"a whole number from {low} to {high}"

    def parse(text: str) -> int:
        if re.fullmatch(r"0|[1-9][0-9]{0,17}", text) and low <= int(text) <= high:
            return int(text)
        raise ValueError(f"must be {wants}, not {quoted(text)}")

    return Kind(wants, parse)


def choice(*words: str) -> Kind:
    """One of a few words."""
    wants = "one of " + ", ".join(words)

    def parse(text: str) -> str:
        if text in words:
            return text
        near = nearest(text, words)
        raise ValueError(f"must be {wants}, not {quoted(text)}" + (f" (did you mean '{near}'?)" if near else ""))

    return Kind(wants, parse, words=words)


def template(example: str) -> Kind:
    """A name with placeholders, like ``example``."""
    fields = " ".join(f"{{{field}}}" for field in TEMPLATE_FIELDS)
    wants = f"a name with {{n}}, like {example}; placeholders: {fields}"

    def parse(text: str) -> str:
        _text(text)
        try:
            parts = [part[1:] for part in string.Formatter().parse(text) if part[1] is not None]
        except ValueError:
            raise ValueError(f"must be {wants}; the braces of {quoted(text)} do not match") from None
        for field, spec, conversion in parts:
            if field not in TEMPLATE_FIELDS or spec or conversion:
                raise ValueError(f"has an unknown placeholder in {quoted(text)}; there are {fields}")
        if "n" not in [field for field, _, _ in parts]:
            raise ValueError(f"must contain {{n}}, the worker's number, unlike {quoted(text)}")
        return text

    return Kind(wants, parse)


def _money(text: str) -> float:
    amount = float(text) if re.fullmatch(_MONEY, text) else math.nan
    if math.isfinite(amount) and amount > 0:
        return amount
    raise ValueError(f"must be an amount of US dollars greater than 0, not {quoted(text)}")


def _seconds(text: str) -> float:
    if re.fullmatch(_NUMBER, text):
        seconds = float(text)
    else:
        spans = re.findall(_SPAN, text)
        units = [_UNITS[unit] for _, unit in spans]
        in_order = units == sorted(set(units), reverse=True)
        well_formed = in_order and "".join(number + unit for number, unit in spans) == text
        seconds = sum(float(number) * _UNITS[unit] for number, unit in spans) if well_formed else math.nan
    if 0 < seconds <= LONGEST:
        return seconds
    if seconds > LONGEST:
        raise ValueError(f"must be at most {LONGEST // DAY}d, not {quoted(text)}")
    raise ValueError(f"must be a time greater than 0 (seconds, or like 90s, 15m, 2h, 7d), not {quoted(text)}")


def _switch(text: str) -> bool:
    if text.lower() in _SWITCH:
        return _SWITCH[text.lower()]
    raise ValueError(f"must be true or false, not {quoted(text)}")


def _size(text: str) -> int:
    found = re.fullmatch(_SIZE, text)
    number = float(found[1]) * _BINARY[found[2].lower()] if found else math.nan
    if 1 <= number <= LARGEST:
        return int(number)
    if number > LARGEST:
        raise ValueError(f"must be at most {LARGEST // _BINARY['t']}t, not {quoted(text)}")
    raise ValueError(f"must be a size greater than 0 (bytes, or like 512k, 100m, 2g), not {quoted(text)}")


def _show_size(value: int) -> str:
    for unit in "tgmk":
        if value % _BINARY[unit] == 0:
            return f"{value // _BINARY[unit]}{unit}"
    return str(value)


def _show_number(value: float) -> str:
    """Write a number without an exponent, the shortest that reads back as the same."""
    if value.is_integer():
        return str(int(value))
    from decimal import Decimal  # noqa: PLC0415 (only for values that are shown)

    return format(Decimal(repr(value)), "f")


def _show_seconds(value: float) -> str:
    for unit, length in _UNITS.items():
        if value % length == 0 and value >= length:
            return f"{_show_number(value / length)}{unit}"
    return f"{_show_number(value)}s"


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty")
    if text != text.strip() or not text.isprintable():
        raise ValueError(f"must be one line without control characters or outer spaces, not {quoted(text)}")
    return text


def _command(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be an empty command")
    if not all(char.isprintable() or char in "\n\t" for char in text):
        # Commands of a repository are shown before they are approved: nothing may hide on a terminal.
        raise ValueError(f"must not hold control or invisible characters, unlike {quoted(text)}")
    return text


def _message(text: str) -> str:
    wants = f"a message, with the placeholders {' '.join(f'{{{field}}}' for field in MESSAGE_FIELDS)}"
    if not text.strip():
        raise ValueError("must not be empty")
    try:
        parts = [part[1:] for part in string.Formatter().parse(text) if part[1] is not None]
    except ValueError:
        raise ValueError(f"must be {wants}; the braces of {quoted(text)} do not match") from None
    for field, spec, conversion in parts:
        if field not in MESSAGE_FIELDS or spec or conversion:
            raise ValueError(f"must be {wants}; {quoted(text)} has another")
    return text


def _halt(text: str) -> str:
    try:
        halt.parse(text)
    except ValueError as error:
        raise ValueError(f"{error}, not {quoted(text)}") from None
    return text


def _models(text: str) -> tuple[str, ...]:
    if not text.strip():
        raise ValueError("must not be empty")
    return tuple(_text(name) for name in assign.parse_models(text))


MONEY = Kind("US dollars, greater than 0", _money, _show_number)
SECONDS = Kind("seconds, or a time like 90s, 15m, 2h, 7d, 1h30m", _seconds, _show_seconds)
SIZE = Kind("bytes, or a size like 512k, 100m, 2g", _size, _show_size)
SWITCH = Kind("true or false", _switch, lambda value: str(value).lower())
TEXT = Kind("a name", _text)
MESSAGE = Kind("a message, its subject in the first line", _message)
COMMAND = Kind("a command line for sh", _command)
HALT = Kind("never, or WHEN,WHY=N[%] as in soon,fail=1", _halt)
MODELS = Kind("names separated by commas", _models, ",".join)
