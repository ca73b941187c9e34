"""The way in, as ``git-parallel`` and as ``python -m git_parallel``, and the way out.

Loading the command line takes longer than most of what it is loaded for. Meanwhile git says where we are.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from git_parallel import later
from git_parallel.errors import INTERRUPTED

# Most commands end before there is anything to collect: looking for it is a tenth of the time that loading takes.
gc.set_threshold(50_000, 20, 20)

_NOT_ASKED = {"-h", "--help", "--version", "help", "demo"}
_NOT_STARTED = {"-n", "--dry-run", "--detach"}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line that we were started with, and exit as it ends."""
    words = list(sys.argv[1:] if argv is None else argv)
    later.put_off()
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_closed()
    if not words or not _NOT_ASKED.isdisjoint(words):
        from git_parallel.cli import run  # noqa: PLC0415 (the version needs nothing of git)

        _leave(run(words))
    try:
        later.load_msgspec()
        from git_parallel import git  # noqa: PLC0415

        git.ask_ahead()
        starts_workers = _starts_workers(words)
        if starts_workers:
            from git_parallel.supervisor import ahead  # noqa: PLC0415 (while git looks)

            ahead.begin()
        from git_parallel.cli import run  # noqa: PLC0415 (while git looks, or the guards' host gets ready)
    except KeyboardInterrupt:  # git may take long to say where we are
        _leave(INTERRUPTED)

    code = run(words)
    git.drop_ahead()
    if starts_workers:
        ahead.drop()
    _leave(code)


def _starts_workers(words: Sequence[str]) -> bool:
    """Whether this most likely is a run that this process supervises: a wrong guess costs some time, no more."""
    return (words[0] == "run" or " " in words[0]) and _NOT_STARTED.isdisjoint(words)


def cleanup() -> NoReturn:
    """Run ``git-parallel-cleanup``: the seed's second command."""
    main(["cleanup", *sys.argv[1:]])


def _open_closed() -> None:
    """Put /dev/null where standard input, output or errors are closed, as git does: no file of ours may come there."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:  # the lowest that is free
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, "r", encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _leave(code: int) -> NoReturn:
    """Exit at once: the interpreter takes 15 ms to take itself apart, and the system needs none of that."""
    import atexit  # noqa: PLC0415

    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # most likely said already
        code = code or 128
    os._exit(code)


if __name__ == "__main__":
    main()
