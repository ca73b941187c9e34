"""A person at a terminal: questions with keys for answers, and programs that take the terminal over.

As in ``git add -p``, a key is read as it is pressed with ``interactive.singleKey``, else with a line.
What was typed before a question was shown answers nothing: a key meant for the pager must not approve work.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from git_parallel.git import Git, clean_environment
from git_parallel.render import terminal, text

END = ""
"""The answer of somebody who ends the input (Ctrl-D) or whose terminal is gone."""

_INPUT = 0
_ESCAPE = b"\x1b"
# The bytes of one key come together; a person's next key does not come that soon.
_ONE_KEY = 0.05


def at_terminal() -> bool:
    """Whether a person can be asked: both ways lead to a terminal."""
    return terminal.is_terminal(sys.stdin) and terminal.is_terminal(sys.stdout)


class Keys(Struct, frozen=True):
    """How this person is asked. ``before`` and ``after`` colour a question."""

    single: bool
    before: str = ""
    after: str = ""

    @classmethod
    def of(cls, git: Git) -> Keys:
        """Read the settings that ``git add -p`` reads."""
        single = git.run("config", "--type=bool", "--get", "interactive.singleKey", ok=(0, 1, 128)).text == "true"
        if not colours_wanted(git, "color.interactive"):
            return cls(single)
        return cls(single, colour(git, "color.interactive.prompt", "bold blue"), "\x1b[m")

    def ask(self, question: str, keys: Sequence[str]) -> str:
        """Ask until one of ``keys`` is the answer; return it, or :data:`END`. Raises KeyboardInterrupt."""
        offered = ",".join(keys)
        while True:
            sys.stdout.flush()
            try:
                with _unbuffered() if self.single else contextlib.nullcontext():
                    termios.tcflush(_INPUT, termios.TCIFLUSH)
                    _write(f"{self.before}{question} [{offered}]?{self.after} ")
                    answer = _key() if self.single else _line()
            except termios.error:  # the terminal is gone
                return END
            if self.single:
                _write(f"{text.printable(answer or '')}\n")
            if answer is None:
                return END
            if answer in keys and answer:
                return answer
            if len(answer) > 1:
                _write(f"one letter is expected, and not '{text.fit(answer, 40)}'\n")
            elif answer:
                _write(f"'{text.printable(answer)}' is none of {offered}\n")


def colours_wanted(git: Git, name: str) -> bool:
    """Ask git whether the person wants colours in what ``name`` (``color.diff``) is about, on their terminal."""
    answer = git.run("config", "--get-colorbool", name, "true", ok=(0, 1, 128))
    return answer.text == "true" and not os.environ.get("NO_COLOR")


def colour(git: Git, name: str, default: str) -> str:
    """One of the person's colours as git has it: an escape sequence, or nothing."""
    return git.run("config", "--get-color", name, default, ok=(0, 1, 128)).stdout.decode("ascii", "ignore")


def run(argv: Sequence[str], *, cwd: str | None = None, env: Mapping[str, str] | None = None) -> int:
    """Run a program of the person's that has the terminal until it ends; return its exit code."""
    with given_away():
        done = subprocess.run(argv, cwd=cwd, env={**clean_environment(), **(env or {})}, check=False)
    return done.returncode


def edit(git: Git, files: Sequence[str], *, cwd: str | None = None) -> int:
    """Open files in the person's editor, as git would; return its exit code. Raises GitError when there is none."""
    editor = git.own("GIT_EDITOR")
    return run(["sh", "-c", f'{editor} "$@"', editor, *files], cwd=cwd)


@contextlib.contextmanager
def given_away() -> Iterator[None]:
    """The terminal and its Ctrl-C belong to a child for a while. Afterwards it is ours, as it was before."""
    modes = None
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(_INPUT)
    # Handlers, because a child would inherit that a signal is ignored.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGQUIT)}
    sys.stdout.flush()
    try:
        yield
    finally:
        _take_back(modes)
        for number, handler in before.items():
            signal.signal(number, handler)


def _take_back(modes: list[object] | None) -> None:
    """A shell or an editor that was killed leaves the terminal to its own process group, and in its own modes."""
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(_INPUT, os.getpgrp())
        if modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(_INPUT, termios.TCSADRAIN, modes)  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGTTOU, before)


def pressed(seconds: float) -> str | None:
    """Wait at most so long for a line; None when there was none, :data:`END` when there will be no more."""
    if not select.select([_INPUT], [], [], seconds)[0]:
        return None
    line = _line()
    return END if line is None else line


def _write(said: str) -> None:
    sys.stdout.write(said)
    sys.stdout.flush()


def _line() -> str | None:
    """Read a line past Python's own buffer, which would take what is meant for the next program."""
    data = _read(4096)
    return None if not data else os.fsdecode(data).strip()


def _key() -> str | None:
    """Read one key; a key that sends an escape sequence counts as none."""
    data = _read(1)
    if data == _ESCAPE:
        while select.select([_INPUT], [], [], _ONE_KEY)[0] and _read(16):
            pass
        return "\x1b"
    while data and data[0] >= 0xC0 and len(data) < 4 and select.select([_INPUT], [], [], _ONE_KEY)[0]:
        data += _read(1)
    if data in (b"", b"\x04"):
        return None
    return os.fsdecode(data).strip()


@contextlib.contextmanager
def _unbuffered() -> Iterator[None]:
    """Keys as they are pressed; whoever ends us by a signal finds the terminal as it was."""
    modes = termios.tcgetattr(_INPUT)

    def leave(number: int, _: object) -> None:
        termios.tcsetattr(_INPUT, termios.TCSADRAIN, modes)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        tty.setcbreak(_INPUT)
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(_INPUT, termios.TCSADRAIN, modes)
        for number, handler in before.items():
            signal.signal(number, handler)


def _read(most: int) -> bytes:
    try:
        return os.read(_INPUT, most)
    except OSError:  # the terminal is gone
        return b""
