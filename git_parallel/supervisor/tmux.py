"""The run's own tmux: a server on a private socket, one session named after the run, a window for each worker.

The server is guarded like an agent: it dies with the supervisor, and everything that was started in it too. What
runs in a window is only a view (``window.py``) of the terminal that the worker's guard holds, so that nothing is lost
with a window or with the server; who asks for a window again gets it.

A window stays, with what was last on it, until the run ends; a worker's next attempt takes its place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import clean_environment
from git_parallel.layout import RunFiles
from git_parallel.render import text
from git_parallel.supervisor.host import Guard, GuardHost, GuardSpec
from git_parallel.supervisor.relay import COLUMNS, ROWS

SOCKET = "tmux"
TERM = "screen-256color"  # what a tmux window is for the programs in it
OLDEST = (3, 2)  # tmux -D and -N

_WINDOW = os.path.join(os.path.dirname(os.path.abspath(__file__)), "window.py")
_START_LIMIT = 10.0  # seconds until a server that does not answer is an error
_COMMAND_LIMIT = 10.0
_PAUSE = 0.02
_DYING = 1.0  # seconds until the death of a server that was killed has got around
_TRIES = 3
_NAME = 30  # columns of a window's name

# Of the person's own tmux, or of the terminal that we were started in.
FOREIGN = ("TMUX", "TMUX_PANE", "COLUMNS", "LINES")

_LEAVE = " {} d: leave "
_OPTIONS: tuple[tuple[str, ...], ...] = (
    ("-g", "remain-on-exit", "on"),
    ("-gq", "remain-on-exit-format", ""),
    ("-g", "aggressive-resize", "on"),
    ("-g", "default-terminal", TERM),
    ("-g", "default-size", f"{COLUMNS}x{ROWS}"),
    ("-sg", "escape-time", "20"),
    ("-g", "status-right", _LEAVE.format("#{prefix}")),
    ("-g", "status-left-length", "40"),
)


def find() -> str:
    """The path of tmux. Raises UsageError when there is none that will do."""
    path = shutil.which("tmux")
    if path is None:
        raise UsageError("--terminal tmux: tmux is not installed", "install it, or leave --terminal out")
    said = subprocess.run([path, "-V"], capture_output=True, text=True, check=False).stdout.strip()
    version = re.search(r"([0-9]+)\.([0-9]+)", said)
    if version and (int(version[1]), int(version[2])) < OLDEST:
        raise UsageError(f"--terminal tmux: {said} is too old", f"tmux {OLDEST[0]}.{OLDEST[1]} or later is needed")
    return path


def command(tmux: str, *words: str) -> list[str]:
    """A tmux command line for the server in the current directory, which is never started by it."""
    return [tmux, "-N", "-S", SOCKET, *words]


class Session:
    """The windows of one run. Nothing is started before the first one is opened. For any thread."""

    def __init__(self, host: GuardHost, files: RunFiles, run: str, common_dir: str) -> None:
        self._host = host
        self._files = files
        self._run = run
        self._common_dir = common_dir
        self._tmux = ""
        self._lock = threading.Lock()
        self._server: Guard | None = None
        self._closed = False

    def address(self, worker: int) -> str:
        """Where a worker's guard is to listen for windows."""
        os.makedirs(self._files.terminal, mode=0o700, exist_ok=True)
        return self._files.window(worker)

    @staticmethod
    def environment(env: Mapping[str, str]) -> dict[str, str]:
        """The environment of an agent in a window, of what it would be without."""
        return {**{name: value for name, value in env.items() if name not in FOREIGN}, "TERM": TERM}

    def open(self, worker: int, title: str) -> None:
        """Make the worker's window, or show in it what its terminal has now. Raises ParallelError."""
        target = f"={self._run}:{worker}"
        words = f"the agent has ended; all its output: git parallel log {worker}"
        view = [sys.executable, "-I", "-S", _WINDOW, self._files.terminal, str(worker), words]
        name = ["-n", text.fit(text.printable(title), _NAME).replace("#", "##") or str(worker)]
        with self._lock:
            for _ in range(_TRIES):
                if self._closed:
                    return
                if self._server is None or self._server.wait(0) is not None:
                    self._server = self._start()
                if (
                    self._call("respawn-window", "-k", "-t", target, *view)
                    or self._call("new-window", "-d", "-t", target, *name, *view)
                    or self._call(
                        *("new-session", "-d", "-s", self._run, *name, *view),
                        *(";", "move-window", "-s", f"={self._run}:", "-t", target),
                    )
                ):
                    return
                if self._server.wait(_DYING) is None:
                    break  # it lives, and yet makes none
        raise ParallelError("tmux makes no window", f"see {self._files.terminal}")

    def close(self) -> None:
        """End the server with all that is in it."""
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.kill("the run has ended")
                self._server.wait(_COMMAND_LIMIT)
        remove(self._files)

    def _start(self) -> Guard:
        self._tmux = self._tmux or find()
        top = self._files.terminal
        server = self._host.start(
            GuardSpec(
                argv=(self._tmux, "-S", SOCKET, "-f", os.devnull, "-D"),
                cwd=top,
                env=self._environment(),
                stdout=os.path.join(top, "tmux.log"),
                ending=os.path.join(top, "exit.json"),
                grace=1.0,
            )
        )
        deadline = time.monotonic() + _START_LIMIT
        options = [word for option in _OPTIONS for word in (";", "set-option", *option)][1:]
        while not self._call(*options):
            if server.wait(_PAUSE) is not None or time.monotonic() >= deadline:
                server.kill("it does not answer")
                raise ParallelError("tmux does not start", f"see {os.path.join(top, 'tmux.log')}")
        return server

    def _environment(self) -> dict[str, str]:
        env = self.environment(clean_environment())
        # By these whoever cleans up after a supervisor that died finds what is left.
        marker = {"GIT_PARALLEL_RUN": self._run, "GIT_PARALLEL_COMMON": self._common_dir}
        return {**env, **marker, "GIT_PARALLEL_WORKER": "terminal"}

    def _call(self, *words: str) -> bool:
        try:
            done = subprocess.run(
                command(self._tmux, *words),
                cwd=self._files.terminal,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # the terminal's Ctrl-C is for the supervisor
                timeout=_COMMAND_LIMIT,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return done.returncode == 0


def remove(files: RunFiles) -> None:
    """Remove the sockets of a run that has ended; nothing in their directory is of use any more."""
    shutil.rmtree(files.terminal, ignore_errors=True)


def shows(tmux: str, directory: str, run: str, worker: int) -> bool:
    """Whether the worker has a window in which its terminal is shown."""
    asked: Sequence[str] = ("list-windows", "-t", f"={run}", "-F", "#{window_index} #{pane_dead}")
    done = subprocess.run(command(tmux, *asked), cwd=directory, capture_output=True, text=True, check=False)
    return f"{worker} 0" in done.stdout.splitlines()


def attach(tmux: str, run: str, worker: int, *, nested: bool = False) -> list[str]:
    """The command line that shows one worker's window, whatever others look at: a session of its own on the same ones.

    It is for the directory of the socket. ``nested``: the terminal is in another tmux, which takes the first prefix.
    """
    own = f"{run}-{os.getpid()}"
    leave = ("set-option", "status-right", _LEAVE.format("#{prefix} #{prefix}"), ";") if nested else ()
    return command(
        tmux,
        *("new-session", "-t", f"={run}", "-s", own, ";"),
        *("set-option", "destroy-unattached", "on", ";"),
        *leave,
        *("select-window", "-t", f":={worker}"),
    )
