"""A person at a terminal: starts a program on a real pseudo-terminal, waits for what it shows, types."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DEADLINE = 30.0  # seconds until what is waited for must be there


class Terminal:
    """One program on a terminal. ``shown`` is all that it has written and nobody has waited past."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.descriptor = descriptor
        self.shown = ""
        self.everything = ""
        self._code: int | None = None

    def type(self, keys: str) -> None:
        """Press keys; ``\\r`` is Enter, ``\\x03`` Ctrl-C, ``\\x04`` Ctrl-D."""
        os.write(self.descriptor, keys.encode())

    def wait(self, pattern: str, seconds: float = DEADLINE) -> str:
        """Read until ``pattern`` is on the screen; return what stood up to its end, and forget that."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.shown)) is None:
            assert self._read(end - time.monotonic()), f"no {pattern!r} in {self.shown!r}"
        passed, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return passed

    def answer(self, question: str, keys: str) -> str:
        """Wait for a question and answer it with a line; return what was shown up to the question."""
        shown = self.wait(question + r".*\]\?.{0,4} $")
        self.type(f"{keys}\r")
        return shown

    def silent(self, seconds: float = 0.5) -> str:
        """Return what is written in this time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._read(left):
            pass
        return self.shown

    def end(self, seconds: float = DEADLINE) -> int:
        """Read to the end; return the exit code, negative for a signal."""
        end = time.monotonic() + seconds
        while self._read(end - time.monotonic()):
            pass
        return self.code(end - time.monotonic())

    def code(self, seconds: float = DEADLINE) -> int:
        """Wait for the program to end."""
        end = time.monotonic() + seconds
        while self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < end, f"it goes on: {self.shown!r}"
                time.sleep(0.01)
        return self._code

    def signal(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    def modes(self) -> list[object]:
        """How the terminal is set."""
        return termios.tcgetattr(self.descriptor)

    def _read(self, seconds: float) -> bool:
        if not select.select([self.descriptor], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self.descriptor, 65536)
        except OSError:  # EIO: nobody has the other side any more
            return False
        text = data.decode("utf-8", "replace").replace("\r\n", "\n")
        self.shown += text
        self.everything += text
        return bool(data)


@contextmanager
def terminal(
    *argv: str, cwd: Path, env: Mapping[str, str] | None = None, columns: int = 160, rows: int = 50
) -> Iterator[Terminal]:
    """Start a program at a terminal of its own; at the end it is gone, however far it came."""
    pid, descriptor = pty.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.environ.pop("COLUMNS", None)
            os.environ.update(env or {})
            os.execvp(argv[0], argv)
        os._exit(127)
    started = Terminal(pid, descriptor)
    try:
        yield started
    finally:
        if started._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            started.code()
        os.close(descriptor)


def parallel(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None, **size: int):
    """``git parallel`` at a terminal, with a pager that shows all and stops nowhere."""
    usual = {"TERM": "dumb", "GIT_PAGER": "cat"}
    return terminal(sys.executable, "-m", "git_parallel", *arguments, cwd=cwd, env={**usual, **(env or {})}, **size)
