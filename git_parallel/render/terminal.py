"""The terminal: its width, whether colours are wanted there, and the pager before it.

git decides about colours (``color.parallel``, then ``color.ui``) and pagers (``pager.parallel``, then
its own); this module asks it once for each. When git itself has put a pager in front of this program
(``git -p parallel``, ``pager.parallel=true``) it says so by GIT_PAGER_IN_USE.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

from git_parallel.git import Git, Repository

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0", ""})

# What git sets for its own pager: quit when all fits on one screen, pass colours, leave the screen as it is.
_PAGER_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
_FALLBACK_WIDTH = 80
UNLIMITED = 10_000


def is_terminal(stream: IO[str]) -> bool:
    """Whether a person reads ``stream`` as it is written; a closed stream has no reader."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def can_redraw(stream: IO[str]) -> bool:
    """Whether a table can stay in place on ``stream``: a terminal that can move its cursor."""
    return is_terminal(stream) and os.environ.get("TERM", "dumb") not in ("", "dumb")


def pager_in_use(environ: Mapping[str, str] | None = None) -> bool:
    """Whether git has already started a pager that reads what this program writes."""
    return (os.environ if environ is None else environ).get("GIT_PAGER_IN_USE", "").lower() in _TRUE


def width(stream: IO[str] | None = None) -> int:
    """Columns to lay out ``stream`` (default: standard output) in.

    On a terminal or before git's pager: COLUMNS (git sets it for its pager), else the terminal's own,
    else 80. A file or a pipe has room for everything: nobody can widen it afterwards.
    """
    if not is_terminal(stream or sys.stdout) and not pager_in_use():
        return UNLIMITED
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or _FALLBACK_WIDTH
    except (OSError, ValueError):
        return _FALLBACK_WIDTH


def colour(repo: Repository, stream: IO[str]) -> bool:
    """Whether to colour what goes to ``stream``, as git says. NO_COLOR turns ``auto`` off, and not ``always``."""
    person_reads = (is_terminal(stream) or pager_in_use()) and not os.environ.get("NO_COLOR")
    if not any(repo.setting(key) is not None for key in ("color.parallel", "color.ui")):  # then it says: auto
        return person_reads and os.environ.get("TERM", "dumb") != "dumb"
    answer = repo.git.run("config", "--get-colorbool", "color.parallel", str(person_reads).lower(), ok=(0, 1, 128))
    return answer.returncode == 0 and answer.stdout.strip() in (b"", b"true")


def choose_pager(environ: Mapping[str, str], configured: Mapping[str, str]) -> str | None:
    """Return the pager's command line for the shell, or None for none. Pure.

    ``pager.parallel`` says no, or names a pager of its own; else GIT_PAGER, ``core.pager``, PAGER, less,
    in git's order; an empty one and ``cat`` are none.
    """
    own = configured.get("pager.parallel")
    if own is not None and own.lower() in _FALSE:
        return None
    if own is not None and own.lower() not in _TRUE:
        return own
    choices = (environ.get("GIT_PAGER"), configured.get("core.pager"), environ.get("PAGER"), "less")
    chosen = next(choice for choice in choices if choice is not None)
    return None if chosen in ("", "cat") else chosen


@contextmanager
def paged(git: Git, *, enabled: bool = True) -> Iterator[None]:
    """Send standard output through the person's pager while in the block, when a terminal reads it.

    The pager is waited for: it owns the terminal until the person leaves it. When they do so early,
    writing raises BrokenPipeError, as with any reader that goes away.
    """
    pager = _configured_pager(git) if enabled and is_terminal(sys.stdout) else None
    if pager is None:
        yield
        return
    environment = {**_PAGER_DEFAULTS, **os.environ, "COLUMNS": str(width())}
    process = subprocess.Popen(["sh", "-c", pager], stdin=subprocess.PIPE, env=environment)  # the person's own words
    assert process.stdin is not None
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(process.stdin.fileno(), 1)
    process.stdin.close()
    os.environ["GIT_PAGER_IN_USE"] = "true"
    try:
        yield
        sys.stdout.flush()
    finally:
        os.environ.pop("GIT_PAGER_IN_USE")
        os.dup2(saved, 1)  # the pager sees the end of its input
        os.close(saved)
        _outwait(process)


def _configured_pager(git: Git) -> str | None:
    done = git.run("config", "-z", "--get-regexp", r"^(core\.pager|pager\.parallel)$", ok=(0, 1))
    return choose_pager(os.environ, dict(_settings(done.fields)))


def _settings(fields: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and values of ``git config -z``; a name without a value means true."""
    for field in fields:
        name, newline, value = field.partition("\n")
        yield name, value if newline else "true"


def _outwait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the pager through any Ctrl-C: that key is the pager's while it runs."""
    while True:
        try:
            process.wait()
            return
        except KeyboardInterrupt:
            continue
