"""What the commands share: options with one meaning everywhere, and how data reaches standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from git_parallel.errors import USAGE, ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.render import terminal, text

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

UNKNOWN_FIELD = "-"


def json_option(function: Decorated) -> Decorated:
    """``--json``: one document on standard output."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def porcelain_options(function: Decorated) -> Decorated:
    """``--porcelain``, and ``-z`` which implies it."""
    function = click.option("-z", "nul", is_flag=True, help="End lines with NUL, quote nothing; implies --porcelain.")(
        function
    )
    return click.option("--porcelain", is_flag=True, help="Print stable lines for scripts.")(function)


def one_format(as_json: bool, porcelain: bool, nul: bool) -> None:
    """Raise UsageError when two formats were asked for."""
    if as_json and (porcelain or nul):
        raise UsageError("--json and --porcelain exclude each other")


def write(output: str) -> None:
    """Write data to standard output: paths as the bytes they are, the rest in UTF-8, whatever the locale says."""
    try:
        data = output.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that came in by JSON stands for no byte
        data = output.encode("utf-8", "backslashreplace")
    write_bytes(data)


def write_bytes(data: bytes) -> None:
    """Write data that is not ours to decode to standard output: behind what was printed before, ahead of any hint."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_lines(rows: Iterable[Sequence[object]], *, nul: bool) -> None:
    """Write ``--porcelain`` lines: fields parted by TAB, unknown ones ``-``, the free-form one last.

    Without ``-z`` a field with control characters, a quote or a backslash is quoted as git quotes paths.
    """
    end = "\0" if nul else "\n"
    lines = []
    for row in rows:
        fields = [UNKNOWN_FIELD if field is None or field == "" else str(field) for field in row]
        lines.append("\t".join(fields if nul else map(quoted, fields)) + end)
    write("".join(lines))


_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}


def quoted(field: str) -> str:
    """Quote as git does with core.quotePath=false: in double quotes with C escapes, only when it is needed."""
    if not any(character in _ESCAPES or ord(character) < 0x20 or character == "\x7f" for character in field):
        return field
    return '"' + "".join(map(_escaped, field)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    return f"\\{ord(character):03o}" if ord(character) < 0x20 or character == "\x7f" else character


def refuse_in_worker(repo: Repository, deed: str) -> None:
    """Raise when a worker, and not a person, asks for what needs a person: a verdict, a landing."""
    from git_parallel.supervisor import fence  # noqa: PLC0415 (few commands ask)

    worker = fence.serving(repo, os.environ, attended=terminal.is_terminal(sys.stdin))
    if worker is not None:
        error = ParallelError(
            f"{deed} is a person's, and this is {worker}; nothing was recorded",
            "say what is to be decided, and leave it to the person: git parallel review",
        )
        error.exit_code, error.label = USAGE, "error"
        raise error


def say(label: str, message: str) -> None:
    """A message for the person, on standard error: ``hint``, ``warning``, ``note``."""
    click.echo(f"{label}: {text.printable(message)}", err=True)
