"""A git process that answers one question after another, for commands that would start hundreds of them."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, TypeVar

from git_parallel.errors import ParallelError
from git_parallel.git import Git

T = TypeVar("T")


class Conversation:
    """Questions to ``git <arguments>`` on its standard input, answers from its output. Threads may share it.

    The process is started by the first question, and anew when it has died. It only reads.
    """

    def __init__(self, git: Git, *arguments: str) -> None:
        self._git = git
        self._arguments = arguments
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: bytes, answer: Callable[[IO[bytes]], T]) -> T:
        """Send a question and return what ``answer`` reads of the output.

        ``answer`` raises EOFError where the output ends too early; with a new process the question is asked once
        more. Raises ParallelError when git gives no answer.
        """
        with self._lock:
            for tries_left in (1, 0):
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
            self._process = self._git.start(*self._arguments, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question)
        self._process.stdin.flush()
        return answer(self._process.stdout)

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
