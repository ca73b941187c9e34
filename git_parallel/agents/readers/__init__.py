"""One reader per output format: they fold a program's output as it grows into progress and a claim.

A further format is one module here and one line in :data:`READERS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from git_parallel.agents.claim import Claim, Progress

if TYPE_CHECKING:
    from git_parallel.agents.preset import Preset

__all__ = ["READERS", "Claim", "Progress", "Reader", "reader_for"]

# name in a preset's `output`: module and class. Loaded when a program is started that needs it.
READERS: dict[str, tuple[str, str]] = {
    "plain": ("plain", "PlainReader"),
    "architect": ("architect", "ArchitectReader"),
}


class Reader(Protocol):
    """Reads what a program writes to standard output. Raises for no input whatever, at constant memory."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log, cut anywhere."""

    @property
    def progress(self) -> Progress:
        """Where the program is now."""

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        """Say how the program ended.

        ``exit_code`` and ``signal`` are the operating system's (None and None: nobody saw it end);
        ``errors`` is the end of its standard error, where that is kept apart.
        """


def reader_for(preset: Preset) -> Reader:
    """Return a new reader for one attempt of a program."""
    module, cls = READERS[preset.output]
    reader: Reader = getattr(import_module(f"{__name__}.{module}"), cls)(preset.exits)
    return reader
