"""The growing output of one attempt, read as it comes, and what its program's reader made of it so far."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from git_parallel.agents.readers import Reader
from git_parallel.supervisor.activity import Activity, Usage

if TYPE_CHECKING:
    from git_parallel.supervisor.attention import Notices, Sign

# Output is read in pieces of this size, so that a gigabyte of it costs no memory.
CHUNK = 1 << 18
_MOST_AT_ONCE = 16 * CHUNK
_ERRORS_KEPT = 1 << 16
QUIET = 3.0  # seconds without output and use of the processor, after which an agent may be waiting for a person


class Watching(Struct):
    """One attempt. ``errors`` is the file of standard error where it is parted from the output at ``path``.

    ``notices`` is there when the agent has a terminal.
    """

    reader: Reader
    path: str
    errors: str | None
    offset: int
    errors_offset: int
    activity: Activity
    notices: Notices | None = None

    def look(self, now: float, usage: Usage | None) -> bool:
        """Read some of what is new and note what the worker does; say whether it wrote output or used the processor."""
        before = self.offset
        if size(self.path) > before:
            self.read(limit=_MOST_AT_ONCE)
        self.activity.note(now, output=self.offset != before, usage=usage)
        return self.activity.busy == now

    def read(self, limit: int | None = None) -> None:
        """Feed what was appended since the last call, at most ``limit`` bytes."""
        try:
            with open(self.path, "rb") as log:
                log.seek(self.offset)
                left = limit
                while left is None or left > 0:
                    data = log.read(CHUNK if left is None else min(CHUNK, left))
                    if not data:
                        return
                    self.offset += len(data)
                    left = None if left is None else left - len(data)
                    self.reader.feed(data)
                    if self.notices is not None:
                        self.notices.feed(data)
        except FileNotFoundError:
            return

    def sign(self, now: float) -> Sign | None:
        """Say whether the agent waits for a person, as far as the last :meth:`look` has seen."""
        quiet, asked = now - self.activity.busy, self.reader.progress.waiting
        if quiet < QUIET or (self.notices is None and asked is None):
            return None
        from git_parallel.supervisor import attention  # noqa: PLC0415 (few agents wait for anybody)

        notice, waits = None, None
        if self.notices is not None:
            notice = self.notices.last
            waits = attention.waiting(self.activity.usage.processes if self.activity.usage else ())
        return attention.sign(quiet, asked=asked, notice=notice, waits=waits)

    @property
    def written(self) -> int:
        """Bytes of output in all, on both streams, those of earlier attempts too."""
        return size(self.path) + (size(self.errors) if self.errors else 0)

    def last_errors(self) -> bytes:
        """The end of what standard error got in this attempt, for the reader's last word."""
        if self.errors is None:
            return b""
        try:
            with open(self.errors, "rb") as file:
                file.seek(max(self.errors_offset, os.fstat(file.fileno()).st_size - _ERRORS_KEPT))
                return file.read()
        except FileNotFoundError:
            return b""


def size(path: str) -> int:
    """A file's size in bytes; 0 when there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
