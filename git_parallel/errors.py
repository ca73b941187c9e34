"""The exceptions of the program and the exit code each one carries (DESIGN: git's own codes).

``cli`` maps them to the process's exit code and to git's ``fatal:``/``hint:`` lines in one place;
nothing below ``cli`` prints or exits.
"""

from __future__ import annotations

from collections.abc import Sequence

OK = 0
WORKER_FAILED = 1
USAGE = 2
CONFLICT = 3
CHECK_RED = 4
REFUSED = 5
FATAL = 128
INTERRUPTED = 130


class ParallelError(Exception):
    """What went wrong, in one line, and what to type next.

    ``message`` is lower case and without a full stop, as git writes it; each of ``hints`` is printed
    as a ``hint:`` line of its own.
    """

    exit_code = FATAL
    label = "fatal"

    def __init__(self, message: str, *hints: str) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints


class UsageError(ParallelError):
    """The command line or the configuration is wrong; nothing was started."""

    exit_code = USAGE
    label = "error"


class RefusedError(ParallelError):
    """Going on could lose somebody's work, so nothing was done."""

    exit_code = REFUSED
    label = "error"


class WorkerFailedError(ParallelError):
    """A worker of the run failed or was rejected."""

    exit_code = WORKER_FAILED
    label = "error"


class MissingError(ParallelError):
    """An object is not there: it never was, or `git gc --prune=now` took it before a ref named it. Write it again."""


class RaceError(ParallelError):
    """A ref had another value than the one read before: read again and retry."""


class GitError(ParallelError):
    """A git command failed. ``returncode`` and ``stderr`` are the command's own."""

    def __init__(self, argv: Sequence[str], returncode: int, stderr: bytes) -> None:
        self.argv = tuple(argv)
        self.returncode = returncode
        self.stderr = stderr.decode("utf-8", "replace").strip()
        super().__init__(_first_complaint(self.stderr) or f"git exited with {returncode}: {' '.join(argv)}")


def _first_complaint(stderr: str) -> str:
    """Return git's own reason without its label, or ''."""
    lines = stderr.splitlines()
    for label in ("fatal: ", "error: "):
        for line in lines:
            if line.startswith(label):
                return line[len(label) :]
    return lines[-1] if lines else ""
