"""Bytes of a growing log into lines, at constant memory, and lines into text that is safe to show."""

from __future__ import annotations

import re

# Escape sequences of ECMA-48 (colours, cursor moves) and xterm's titles. A log line shown in a table
# must not move the cursor of the person's terminal.
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]"
# Control characters, and those that turn the direction of text around and so make it read otherwise.
_CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"


class Lines:
    """Cuts a stream into lines, whatever the pieces it arrives in.

    A line longer than ``limit`` bytes is cut off there: the rest of it is dropped, not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the lines that they complete, without their newlines."""
        first, *others = data.split(b"\n")
        self._partial += first[: self._limit - len(self._partial)]
        if not others:
            return []
        lines = [bytes(self._partial), *(line[: self._limit] for line in others[:-1])]
        self._partial = bytearray(others[-1][: self._limit])
        return lines

    def rest(self) -> bytes:
        """Return the line that has no newline yet; it stays."""
        return bytes(self._partial)


def readable(data: bytes, limit: int = 200) -> str:
    """Return bytes as one printable line of at most ``limit`` characters."""
    # A progress bar rewrites its line with carriage returns: what stands last is what a person saw.
    shown = data.rstrip(b"\r\n").rsplit(b"\r", 1)[-1]
    return _squeeze(printable(shown.decode("utf-8", "replace")), limit)


def one_line(text: str, limit: int = 200) -> str | None:
    """Return the first line of ``text`` that says something, printable, or None."""
    return next((line for raw in text.splitlines() if (line := _squeeze(printable(raw), limit))), None)


def printable(text: str) -> str:
    """Return ``text`` (any number of lines) without escape sequences, control characters and lone surrogates."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_CONTROLS, "", re.sub(_ESCAPES, "", text))


def last_line(data: bytes, limit: int = 200) -> str | None:
    """Return the last line of ``data`` that says something, printable, or None. A bracket alone says nothing."""
    lines = (readable(raw, limit) for raw in reversed(data.split(b"\n")))
    return next((line for line in lines if any(map(str.isalnum, line))), None)


def _squeeze(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
