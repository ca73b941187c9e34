"""The way in, as ``git-parallel`` and as ``python -m git_parallel``, and the way out.

Loading the command line takes longer than most of what it is loaded for. Meanwhile git says where we are.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from git_parallel.errors import INTERRUPTED

# Most commands end before there is anything to collect: looking for it is a tenth of the time that loading takes.
gc.set_threshold(50_000, 20, 20)

_NOT_ASKED = {"-h", "--help", "--version", "help", "demo"}
_NOT_STARTED = {"-n", "--dry-run", "--detach"}


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line that we were started with, and exit as it ends."""
    words = list(sys.argv[1:] if argv is None else argv)
    _put_off()
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_closed()
    if not words or not _NOT_ASKED.isdisjoint(words):
        from git_parallel.cli import run  # noqa: PLC0415 (the version needs nothing of git)

        _leave(run(words))
    try:
        _load_msgspec()
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


class _Later(ModuleType):
    """Stands for a module that is loaded when something is asked for that this does not have."""

    def __getattr__(self, name: str) -> object:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        self.__dict__.update(import_module(self.__name__).__dict__)
        if name not in self.__dict__:
            raise AttributeError(name)
        return self.__dict__[name]


def _put_off() -> None:
    """Load later what click and msgspec import first of all and hardly use: 9 ms of every command."""
    for name, knows in _PUT_OFF.items():
        if name not in sys.modules:
            sys.modules[name] = _Later(name)
            sys.modules[name].__dict__.update(knows)


def _cleandoc(doc: str) -> str:
    """What inspect does to texts, and click has it do to the help of each option."""
    if "\n" not in doc:
        return doc.expandtabs().lstrip()
    later = sys.modules["inspect"]
    del later.__dict__["cleandoc"]
    return str(later.cleandoc(doc))


# With what is asked of each while click and msgspec are imported.
_PUT_OFF: dict[str, dict[str, object]] = {
    "inspect": {"cleandoc": _cleandoc},
    "textwrap": {},
    "platform": {"system": lambda: os.uname().sysname},
}


def _load_msgspec() -> None:
    """Import it without typing_extensions, of which it takes what typing has, too, where that is installed: 5 ms."""
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401, PLC0415
    finally:
        del sys.modules[name]


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
