"""Programs whose output is for people: the exit code decides, the last line is what they are doing."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from git_parallel.agents.claim import Claim, Exit, Progress, claim_of_exit, signal_name
from git_parallel.agents.readers.lines import last_line, printable

KEPT = 16 * 1024  # bytes of the end of the output: the last words, for the table and the report


class PlainReader:
    """Keeps the end of the output and nothing else, so that a gigabyte costs no more than a line."""

    def __init__(self, exits: Mapping[int, Exit]) -> None:
        self._exits = exits
        self._tail = b""
        self._cut = False
        self._progress: Progress | None = None

    def feed(self, data: bytes) -> None:
        self._progress = None
        self._cut = self._cut or len(self._tail) + len(data) > KEPT
        self._tail = data[-KEPT:] if len(data) >= KEPT else (self._tail + data)[-KEPT:]

    @property
    def progress(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(action=last_line(self._tail))
        return self._progress

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        claim = claim_of_exit(exit_code, signal, self._exits)
        detail = claim.detail
        if claim.outcome != "done" and detail is not None:
            # A shell reports a child killed by signal n as 128 + n.
            if exit_code is not None and 128 < exit_code < 160 and exit_code not in self._exits:
                detail += f" (128 + {signal_name(exit_code - 128)})"
            words = last_line(errors) or last_line(self._tail)
            detail = f"{detail}: {words}" if words else detail
        return replace(claim, detail=detail, text=self._text())

    def _text(self) -> str | None:
        # Cut anywhere, the tail begins in the middle of a line and perhaps of a character.
        data = self._tail.partition(b"\n")[2] if self._cut and b"\n" in self._tail else self._tail
        return printable(data.decode("utf-8", "replace").replace("\r\n", "\n")).strip() or None
