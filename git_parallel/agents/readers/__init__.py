"""One reader per output format: they fold a program's output as it grows into progress and a claim.

A further format is one module here and one line in :data:`READERS`; or none, where a preset can say what the
events of its program mean.
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
    "aider": ("aider", "AiderReader"),
    "architect": ("architect", "ArchitectReader"),
    "claude": ("claude", "ClaudeReader"),
    "cline": ("cline", "ClineReader"),
    "codex": ("codex", "CodexReader"),
    "copilot": ("copilot", "CopilotReader"),
    "events": ("described", "DescribedReader"),
    "gemini": ("gemini", "GeminiReader"),
    "mini": ("mini", "MiniReader"),
    "opencode": ("opencode", "OpencodeReader"),
    "pi": ("pi", "PiReader"),
}
# Readers that need no more than the exit codes.
_PLACELESS = ("plain", "architect")


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


def reader_for(
    preset: Preset,
    log_dir: str | None = None,
    *,
    worktree: str | None = None,
    model: str | None = None,
    fresh: bool = True,
) -> Reader:
    """Return a new reader for one attempt of a program.

    ``log_dir`` is what ``{log_dir}`` was in its command line, ``model`` the one that it was told to use.
    ``fresh`` is False when the program has run already: then what it reported so far counts too.
    """
    module, cls = READERS[preset.output]
    made = getattr(import_module(f"{__name__}.{module}"), cls)
    reader: Reader
    if preset.output in _PLACELESS:
        reader = made(preset.exits)
    else:
        from git_parallel.agents import launch  # noqa: PLC0415 (it needs this module)
        from git_parallel.agents.readers.events import Where  # noqa: PLC0415 (5 ms that plain programs do without)

        report = None if log_dir is None else launch.report_file(preset, log_dir)
        described = (preset.events,) if preset.output == "events" else ()
        reader = made(preset.exits, Where(worktree, report, fresh), *described)
    if preset.prices:
        from git_parallel.agents.readers.priced import PricedReader  # noqa: PLC0415 (few programs need prices)

        return PricedReader(reader, preset.prices, model)
    return reader
