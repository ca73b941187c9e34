"""Kills a command of git parallel before each kind of change that it makes, one kind after the other.

A kind is what is called, and from where in the program: the whole chain of calls with its lines. Where the same is
done again and again the command is killed before the first and before the second time: with nothing of it done, and
with some of it. All objects that the store writes for one caller are one kind: they are nothing until a ref names
them. With EVERY_STEP=1 in the environment every single change is killed before.

Forking needs a process without threads: this is for programs of their own, not for pytest.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import IO, Any

import git_parallel
from git_parallel import cli
from git_parallel.git import Git

# What changes the disk without git, called as os.NAME.
FUNCTIONS = ("rename", "replace", "unlink", "rmdir", "mkdir", "link", "ftruncate")

Act = Callable[[], int]

_EVERY = os.environ.get("EVERY_STEP") == "1"
_PROGRAM = os.path.dirname(git_parallel.__file__) + os.sep
_run = cli.run


def command(*words: str) -> Act:
    """What runs ``git parallel WORDS`` in this process and returns its exit code."""
    return lambda: _run(list(words))


def do(act: Act, said: IO[bytes]) -> int:
    """Do something in a forked process, its output to the open file ``said``; return its exit code, -9 if killed."""
    return _fork(lambda _: act(), said)[0]


class Kinds:
    """The kinds of changes that have been killed before.

    ``changing`` says of the words of a git command whether it changes anything: what it changes it changes at
    once, or not at all.
    """

    def __init__(self, changing: Callable[[Sequence[str]], bool]) -> None:
        self.changing = changing
        self.killed: dict[str, None] = {}  # in their order

    def attempt(self, act: Act, said: IO[bytes]) -> int:
        """Do something in a forked process that dies before its first change of a new kind; return as `do` does."""

        def doomed(tell: Callable[[str], None]) -> int:
            self._watch(tell)
            return act()

        code, kind = _fork(doomed, said)
        if kind:
            self.killed[kind] = None
        return code

    def forget(self, nth: int) -> None:
        """Have the next ones killed at every n-th kind of those before them again, and not only at their own."""
        self.killed = {} if _EVERY else {kind: None for at, kind in enumerate(self.killed) if at % nth}

    def _watch(self, tell: Callable[[str], None]) -> None:
        """Kill this process before its first change of a new kind; ``tell`` the kind before."""
        times: Counter[str] = Counter()

        def step(name: str) -> None:
            called = _called_from(name)
            times[called] += 1
            kind = f"{called} {times[called] if _EVERY else min(times[called], 2)}"
            if kind not in self.killed:
                tell(kind)
                os.kill(os.getpid(), signal.SIGKILL)

        def watching(name: str) -> Callable[..., Any]:
            function = getattr(os, name)

            def watched(*arguments: Any, **options: Any) -> Any:
                step(name)
                return function(*arguments, **options)

            return watched

        run = Git.run

        def watched(git: Git, *arguments: str, **options: Any) -> Any:
            words = [word for word in arguments if word != "-c" and not word.startswith("core.")]
            if self.changing(words):
                step(f"git {' '.join(words[:2])}")
            return run(git, *arguments, **options)

        for name in FUNCTIONS:
            setattr(os, name, watching(name))
        Git.run = watched  # type: ignore[method-assign]


def _called_from(name: str) -> str:
    """What is called, and the program's lines on the way there, the innermost first."""
    lines = []
    frame = sys._getframe(2)
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(_PROGRAM):
            lines.append(f"{path.removeprefix(_PROGRAM)}:{frame.f_lineno}")
        frame = frame.f_back  # type: ignore[assignment]
    if lines and lines[0].startswith("store/objects.py:"):
        lines = [line for line in lines if not line.startswith("store/")]
    return " ".join((name, *lines))


def _fork(act: Callable[[Callable[[str], None]], int], said: IO[bytes]) -> tuple[int, str]:
    """Do something in a forked process; return its exit code and the kind that it told, if any.

    What it has imported is imported here, too, so that the next one need not do it again.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 99

        def tell(kind: str) -> None:
            os.write(writer, json.dumps([kind, list(sys.modules)]).encode())

        try:
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            code = act(tell)
            sys.stdout.flush()
            tell("")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader) as file:
        told = file.read()
    _, status = os.waitpid(child, 0)
    kind, modules = json.loads(told or '["", []]')
    for name in modules:
        if name not in sys.modules:
            with suppress(ImportError):
                import_module(name)
    return os.waitstatus_to_exitcode(status), kind
