"""A command of git parallel in a process that is killed with SIGKILL before its n-th change."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

from git_parallel import cli
from git_parallel.git import Git

# What changes the disk without git, called as os.NAME.
FUNCTIONS = ("rename", "replace", "unlink", "rmdir", "mkdir", "link", "ftruncate")


class Countdown:
    """Counts changes; the process dies before number ``at``.

    ``changing`` says of the words of a git command whether it changes anything: what it changes it changes at
    once, or not at all.
    """

    def __init__(self, at: int, changing: Callable[[Sequence[str]], bool]) -> None:
        self.at = at
        self.changing = changing
        self.count = 0

    def watch(self) -> None:
        """Put a step before everything that changes the disk or a ref."""
        for name in FUNCTIONS:
            setattr(os, name, self._before(getattr(os, name)))
        run = Git.run

        def watched(git: Git, *arguments: str, **options: Any) -> Any:
            if self.changing([word for word in arguments if word != "-c" and not word.startswith("core.")]):
                self._step()
            return run(git, *arguments, **options)

        Git.run = watched  # type: ignore[method-assign]

    def _step(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **options: Any) -> Any:
            self._step()
            return function(*arguments, **options)

        return watched


def attempt(at: int, command: list[str], output: Any, changing: Callable[[Sequence[str]], bool]) -> int:
    """Run a command in a forked process that dies before change ``at``; return its exit code, -9 when it died.

    ``output`` is an open file for all that it says.
    """
    child = os.fork()
    if child == 0:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        Countdown(at, changing).watch()
        os._exit(cli.run(command))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)
