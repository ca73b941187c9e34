"""A git process that answers one question after another, for commands that would start hundreds of them."""

from __future__ import annotations

import select
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TypeVar

from git_parallel.errors import ParallelError
from git_parallel.git import Git, load_until
from git_parallel.signals import uninterrupted

T = TypeVar("T")


class Conversation:
    """Questions to ``git <arguments>`` on its standard input, answers from its output. Threads may share it.

    The process is started by the first question, and anew when it has died. One that only reads is asked again then;
    one that ``writes`` may have done it already. That is never killed, either: it ends with its input.
    What a person types at the terminal is not for it: it goes on, or stops, with us.
    """

    def __init__(self, git: Git, *arguments: str, writes: bool = False) -> None:
        self._git = git
        self._arguments = arguments
        self._writes = writes
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: bytes, answer: Callable[[IO[bytes]], T]) -> T:
        """Send a question and return what ``answer`` reads of the output.

        ``answer`` raises EOFError where the output ends too early. Raises ParallelError when git gives no answer.
        """
        with self._lock:
            for tries_left in (0,) if self._writes else (1, 0):
                try:
                    return self._ask(question, answer)
                except (BrokenPipeError, EOFError) as error:
                    self._drop()
                    if not tries_left:
                        raise ParallelError(f"git {' '.join(self._arguments)} gives no answer") from error
                except BaseException:
                    self._drop()  # whatever it says yet is no answer to the next question
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Let the process go."""
        with self._lock:
            self._drop()

    def _ask(self, question: bytes, answer: Callable[[IO[bytes]], T]) -> T:
        if self._process is None:
            pipe = subprocess.PIPE
            with uninterrupted():
                self._process = self._git.start(*self._arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question)
        self._process.stdin.flush()
        output = self._process.stdout
        load_until(lambda: _says_something(output))
        return answer(output)

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if self._writes:
            with suppress(OSError):
                process.stdin.close()
            process.stdout.read()  # what it says to a closed pipe would end it in the middle of its work
        else:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()


def _says_something(output: IO[bytes]) -> bool:
    poll = select.poll()
    poll.register(output, select.POLLIN)
    return bool(poll.poll(0))
