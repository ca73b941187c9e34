"""Words and numbers for people: durations, money, ages, and text that fits a column of a terminal.

Task titles, agents' actions and file names come from elsewhere: :func:`printable` takes out whatever
could move the cursor, change colours or reorder a line before any of it reaches a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from git_parallel.plan.model import Result

UNKNOWN = "?"
ELLIPSIS = "…"

# What fits beside the id in `git log --oneline` on a terminal of 80 columns.
_SUBJECT_WIDTH = 72

_ZERO_WIDTH_JOINER = "\u200d"
_EMOJI_PRESENTATION = "\ufe0f"
# Controls, format characters (bidirectional overrides among them), line breaks, undecodable bytes.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

COLOURS = {
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
    "blue": "\x1b[34m",
    "cyan": "\x1b[36m",
}
_RESET = "\x1b[m"


def duration(seconds: float | None) -> str:
    """``<0.1s``, ``0.4s``, ``12s``, ``1m04s``, ``2h05m``, ``3d04h``; unknown is ``?``."""
    if seconds is None:
        return UNKNOWN
    if seconds < 0.05:
        return "<0.1s"
    if seconds < 0.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    minutes = whole // 60
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    hours = minutes // 60
    return f"{hours // 24}d{hours % 24:02}h"


def money(dollars: float | None) -> str:
    """``$0.12``; below a cent two significant digits, so that little is never shown as nothing; unknown is ``?``."""
    if dollars is None:
        return UNKNOWN
    if 0 < dollars < 0.0001:
        return "<$0.0001"
    if 0 < dollars < 0.01:
        return f"${dollars:.2g}"
    return f"${dollars:.2f}"


def total_money(costs: Sequence[float | None]) -> str:
    """The sum of ``costs``: ``?`` when none is known, ``$0.12 + ?`` when some are not."""
    known = [cost for cost in costs if cost is not None]
    if not known:
        return UNKNOWN if costs else money(0.0)
    total = money(sum(known))
    return total if len(known) == len(costs) else f"{total} + {UNKNOWN}"


def count(number: int, noun: str) -> str:
    """``1 worker``, ``3 workers``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def size(number: int) -> str:
    """``0 bytes``, ``1.5 KiB``, ``12 MiB``: as git counts, in powers of 1024."""
    if number < 1024:
        return count(number, "byte")
    amount = float(number)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if amount < 1024 or unit == "TiB":
            break
    return f"{amount:.1f} {unit}" if amount < 10 else f"{amount:.0f} {unit}"


def moment(timestamp: str | None) -> float | None:
    """Seconds since the epoch of a journal's or a record's time; None when it is missing or no time."""
    if timestamp is None:
        return None
    try:
        parsed = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def clock(seconds: float) -> str:
    """A time of day with its date, as the person's clock shows it: ``2026-11-29 14:05:10``."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def age(then: float | None, now: float) -> str:
    """How long ago, in git's words: ``5 minutes ago``."""
    if then is None:
        return UNKNOWN
    seconds = max(0, round(now - then))
    for limit, unit, noun in (
        (90, 1, "second"),
        (90 * 60, 60, "minute"),
        (36 * 3600, 3600, "hour"),
        (14 * 86400, 86400, "day"),
        (70 * 86400, 7 * 86400, "week"),
        (365 * 86400, 30 * 86400, "month"),
    ):
        if seconds < limit:
            return f"{count(round(seconds / unit), noun)} ago"
    return f"{count(round(seconds / (365 * 86400)), 'year')} ago"


def printable(text: str) -> str:
    """Return ``text`` with everything that could drive a terminal written out (``\\x1b``, ``\\u202e``)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(character) for character in text)


def _escape(character: str) -> str:
    import unicodedata  # noqa: PLC0415 (most texts need none)

    if character == _ZERO_WIDTH_JOINER or unicodedata.category(character) not in _UNSAFE:
        return character
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def columns(text: str) -> int:
    """How many columns ``text`` takes, at most: an emoji that a terminal may draw narrower counts in full."""
    if text.isascii():
        return len(text)
    total, last = 0, 0
    for character in text:
        if character == _EMOJI_PRESENTATION:
            total += 2 - last if last == 1 else 0
            last = 2
            continue
        last = _columns_of(character)
        total += last
    return total


def _columns_of(character: str) -> int:
    if character < "\u0300" and character != "\u00ad":  # the first ones that take none are there
        return 1
    import unicodedata  # noqa: PLC0415 (most texts need none)

    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def clip(text: str, width: int) -> str:
    """Cut ``text`` to ``width`` columns, with an ellipsis where something is gone."""
    if columns(text) <= width:
        return text
    if width <= 0:
        return ""
    end, used, last = 0, 0, 0
    for position, character in enumerate(text):
        step = (2 - last if last == 1 else 0) if character == _EMOJI_PRESENTATION else _columns_of(character)
        if used + step > width - 1:
            break
        used += step
        last = 2 if character == _EMOJI_PRESENTATION else step or last
        end = position + 1
    return text[:end].rstrip() + ELLIPSIS


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill ``text`` with spaces to ``width`` columns; ``right`` aligns it to the right edge."""
    blank = " " * max(0, width - columns(text))
    return blank + text if right else text + blank


def paint(text: str, colour: str | None, wanted: bool) -> str:
    """Colour ``text`` when colours are ``wanted``; trailing blanks stay uncoloured."""
    if not wanted or colour is None or not text.strip():
        return text
    body = text.rstrip(" ")
    return f"{COLOURS[colour]}{body}{_RESET}{text[len(body) :]}"


def fit(text: str, width: int) -> str:
    """Make foreign text safe to print and at most ``width`` columns wide; only as much of it is read as can show."""
    most = 8 * width + 64
    if len(text) > most:
        return clip(printable(text[:most]) + ELLIPSIS * 2, width)
    return clip(printable(text), width)


def one_line(text: str) -> str:
    """Make foreign text one safe line, as a trailer or a log line needs it; nothing else of it is lost."""
    return printable(" ".join(text.split()))


def subject(text: str) -> str:
    """The subject of a commit made for a task: one safe line of at most 72 columns."""
    return clip(one_line(text[: 8 * _SUBJECT_WIDTH]), _SUBJECT_WIDTH)


def ending(status: str, reason: str | None) -> str:
    """``success``, ``failed/no_changes``: a reason that says no more than its status is left out."""
    return status if status == "success" or reason in (None, "", status) else f"{status}/{fit(str(reason), 40)}"


def change(result: Result) -> str:
    """``3 files, +10 -2``, or ``no changes``; ``not captured`` where nobody knows."""
    if not result.files_modified:
        return "not captured" if result.reason == "not_captured" else "no changes"
    said = count(len(result.files_modified), "file")
    if result.insertions is None or result.deletions is None:
        return said
    return f"{said}, +{result.insertions} -{result.deletions}"


def outcome_line(result: Result) -> str:
    """``success: 3 files, +10 -2 ($0.12, 12s)``: how a worker ended, for logs and commit subjects."""
    spent = [money(result.cost)] if result.cost is not None else []
    if result.duration is not None:
        spent.append(duration(result.duration))
    said = f"{ending(result.status, result.reason)}: {change(result)}"
    return f"{said} ({', '.join(spent)})" if spent else said
