"""The supervisor's side of the guards: starts them, hears how their agents ended, and orders an end.

One zygote (``zygote.py``) a supervisor forks one guard (``guard.py``) an agent. The supervisor's end of a
guard's socket is the guard's lifeline: never let a forked child that lives on inherit it.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from git_parallel import plain
from git_parallel.errors import ParallelError
from git_parallel.layout import RunFiles
from git_parallel.supervisor import files
from git_parallel.supervisor.processes import GUARDS, LINUX, MARKER, kill_all, marked

EndedBy = Literal["exit", "timeout", "stop", "kill", "lifeline", "guard-died"]

_ZYGOTE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote.py")
_START_LIMIT = 30.0  # seconds until a guard that does not answer is an error
_ORPHAN_LIMIT = 2.0  # seconds of SIGKILL for what nobody guards any more
_TRIES = 3
_HEADER = struct.Struct(">II")  # what the zygote is told begins with it: see there
_FORK = _HEADER.pack(0, 0)
_PATHS = ("cwd", "stdin", "stdout", "stderr", "ending", "terminal")


class GuardSpec(Struct, frozen=True):
    """What to run and within which limits.

    ``stdin`` is a file to read (None: nothing); ``stdout`` and ``stderr`` are files to append to, made with
    mode 0600 (``stderr`` None: the same as ``stdout``). ``timeout`` and ``grace`` are seconds; the timeout
    (None: no limit) counts from the agent's start, the grace from the first signal of ``stop`` (names without
    ``SIG``, sent one after the other, each with an equal part of the grace) to SIGKILL. ``ending`` is where the
    guard writes ``exit.json``; a file of an earlier attempt there is removed. ``env`` is the whole environment,
    but for ``PWD``.
    With ``terminal``, a path for the socket to which windows connect, the agent has a terminal of its own, which is
    its input and output where these are no files; what it writes there goes to ``stdout``.
    """

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdout: str
    ending: str
    stdin: str | None = None
    stderr: str | None = None
    timeout: float | None = None
    grace: float = 10.0
    stop: Sequence[str] = ("TERM",)
    terminal: str | None = None
    psutil_path: str | None = None  # where psutil is, for systems without /proc; found when not given


class Ending(Struct, frozen=True):
    """How an agent ended; None is "unknown".

    ``ended_by`` is the first cause: the agent itself (``exit``), the time limit, an order (``stop``, ``kill``),
    the supervisor's death (``lifeline``) or the guard's (``guard-died``). ``duration`` is the agent's own, in
    seconds. ``killed`` counts the other processes that had to be told to end, ``survivors`` are the ids of
    those that could not be killed. ``peak_rss`` is the largest single process, in bytes, and never less than
    the guard's own 10 MB. With a ``spawn_error`` (one line) there was no agent at all.
    """

    exit_code: int | None
    signal: int | None
    ended_by: EndedBy
    reason: str | None
    duration: float
    killed: int = 0
    survivors: tuple[int, ...] = ()
    peak_rss: int | None = None
    spawn_error: str | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Ending:
        """Take the fields of ``exit.json``, ignoring those of a later version."""
        chosen = {name: value for name, value in values.items() if name in cls.__struct_fields__}
        return cls(**{**chosen, "survivors": tuple(chosen.get("survivors", ()))})


def read_ending(path: str) -> Ending | None:
    """Read an ``exit.json``; None when the guard has not come to write it."""
    text = files.read(path)
    return Ending.parse(plain.decode(text)) if text else None


class Started(Struct, frozen=True):
    """A process: its id, and when it started (``processes.start_time``), which tells it from a later one."""

    pid: int
    start: int


class Guard:
    """One agent under its guard. One thread waits; any may stop or kill."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._marker: Mapping[str, str] = {}
        self._received = b""
        self._sending = threading.Lock()
        self._begun = time.monotonic()
        self._pid: int | None = None
        self._agent: Started | None = None
        self._ending: Ending | None = None

    @property
    def pid(self) -> int | None:
        """The guard's process id: the root of everything that the agent starts. None when there was no guard."""
        return self._pid

    def started(self) -> Started | None:
        """The agent, or None when it could not be started."""
        return self._agent

    def fileno(self) -> int:
        """A descriptor to poll for reading: then :meth:`wait` with 0 may have news. -1 after the end."""
        return self._line.fileno()

    def wait(self, timeout: float | None = None) -> Ending | None:
        """Wait until the agent and all that it started is gone; None when ``timeout`` seconds did not suffice."""
        limit = None if timeout is None else time.monotonic() + timeout
        while self._ending is None:
            if self._hear(limit) is None:
                return None
        return self._ending

    def stop(self, reason: str, grace: float | None = None) -> None:
        """Ask the agent to end: the signals of its spec, then SIGKILL after the grace (default: the spec's)."""
        self._order({"do": "stop", "reason": reason, "grace": grace})

    def kill(self, reason: str) -> None:
        """Kill all its processes now."""
        self._order({"do": "kill", "reason": reason})

    def pause(self) -> None:
        """Stop (SIGSTOP) all its processes; its time limit does not count until :meth:`unpause`."""
        self._order({"do": "pause"})

    def unpause(self) -> None:
        """Let paused processes go on."""
        self._order({"do": "continue"})

    def _ended_early(self, limit: float) -> bool:
        """Hear it say that it is ready; say whether it has ended since, or before that, without an agent."""
        while self._pid is None and self._ending is None:
            if self._hear(limit) is None:
                return False
        if self._ending is None and (self._received or _readable(self._line, 0)):
            self.wait(0)  # nobody but the zygote has anything to say now
        return self._ending is not None

    def _take(self, spec: GuardSpec) -> None:
        """Give a guard that is ready its agent."""
        self._marker = {name: spec.env[name] for name in MARKER if name in spec.env}
        self._begun = time.monotonic()
        self._send(_encode(spec))

    def _order(self, order: dict[str, Any]) -> None:
        self._send(plain.encode(order) + b"\n")

    def _send(self, data: bytes) -> None:
        with self._sending, contextlib.suppress(OSError):  # ended: there is nothing left to order
            self._line.sendall(data)

    def _hear(self, limit: float | None) -> str | None:
        """Take in one message and return its event; None when there is none by ``limit``."""
        while b"\n" not in self._received:
            if limit is not None and not _readable(self._line, limit - time.monotonic()):
                return None
            try:
                data = self._line.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return self._lost()
            self._received += data
        text, self._received = self._received.split(b"\n", 1)
        try:
            message = plain.decode(text)
        except ValueError:  # what a guard was saying when it was killed; or the empty line after that
            return ""
        match message["event"]:
            case "ready":
                self._pid = message["pid"]
            case "started":
                self._agent = Started(message["pid"], message["start"])
            case "ended":
                ending = Ending.parse(message)
                if ending.ended_by == "guard-died" and not LINUX:  # no zygote got its orphans
                    killed, left = self._sweep()
                    ending = replace(ending, killed=killed, survivors=left)
                self._end(ending)
        return str(message["event"])

    def _lost(self) -> str:
        """The socket ended without a last word: the guard is dead, and the zygote, which should have told, too.

        The agent died with its guard. What it had started is nobody's now, and known by its marker only.
        """
        killed, left = self._sweep() if self._pid is not None else (0, ())
        duration = round(time.monotonic() - self._begun, 3)
        self._end(Ending(None, None, "guard-died", "guard and zygote died", duration, killed, left))
        return "lost"

    def _sweep(self) -> tuple[int, tuple[int, ...]]:
        """Kill what carries the worker's marker; return how many that were and the ids of survivors."""
        if len(self._marker) != len(MARKER):  # a part of it is carried by other workers too
            return 0, ()
        killed, left = kill_all(lambda: marked(self._marker), _ORPHAN_LIMIT)
        return len(killed), tuple(left)

    def _end(self, ending: Ending) -> None:
        self._ending = ending
        with self._sending:
            self._line.close()


class GuardHost:
    """Starts guards, from any thread. ``log`` is where zygote and guards write what should never happen.

    Make it before starting many threads and after any fork that lives on, the earlier, the better: it gets ready
    meanwhile. The directory of ``log`` must exist when the first agent is started. :meth:`close` it when all agents
    have ended.
    """

    def __init__(self, log: str = os.devnull) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._retired: list[subprocess.Popen[bytes]] = []
        self._idle: deque[Guard] = deque()  # they wait for an agent
        with self._lock:
            self._start_zygote()  # it gets ready while the supervisor does other things

    @property
    def pid(self) -> int:
        """The zygote's process id."""
        assert self._zygote is not None
        return self._zygote.pid

    def expect(self, count: int) -> None:
        """Have so many guards ready for agents that will start soon. What fails here fails again when they start."""
        with self._lock, contextlib.suppress(ParallelError, OSError):
            while len(self._idle) < count:
                self._idle.append(self._fork())

    def start(self, spec: GuardSpec) -> Guard:
        """Start an agent; returns once it runs or has failed to (then its :class:`Ending` tells why).

        ParallelError when no guard can be had at all.
        """
        with contextlib.suppress(OSError):
            os.unlink(spec.ending)  # an earlier attempt's
        early: Ending | None = None
        for guard in self._forked():
            limit = time.monotonic() + _START_LIMIT
            if guard._ended_early(limit):  # so nothing was started: try another one
                early = guard._ending
                continue
            if guard.pid is not None:
                self._tell(guard.pid, spec.ending)
                guard._take(spec)
            if guard._ending is None and guard._hear(limit) is None:
                guard._line.close()  # which it takes for our death, should it wake up
                raise ParallelError("the guard process does not answer", *self._hints())
            return guard
        if early is not None and early.spawn_error is not None:
            return guard
        raise ParallelError("cannot start a guard process", *self._hints())

    def let_go(self) -> None:
        """Let the zygote go; it stays until its last guard has ended."""
        with self._lock:
            self._drop_zygote()

    def close(self) -> None:
        """Let the zygote go, and wait until it has gone."""
        with self._lock:
            self._drop_zygote()
            for zygote in self._retired:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    zygote.wait(timeout=5)

    def _hints(self) -> tuple[str, ...]:
        return () if self._log == os.devnull else (f"see {self._log}",)

    def _forked(self) -> Iterator[Guard]:
        """Yield guards: those that are ready already, then some new ones."""
        tries = _TRIES
        while tries:
            with self._lock:
                if self._idle:
                    guard = self._idle.popleft()
                else:
                    guard, tries = self._fork(), tries - 1
            yield guard

    def _fork(self) -> Guard:
        """Hand one end of a new socket pair to the zygote, a new one if need be."""
        ours, theirs = _socketpair()
        with theirs:
            for _ in range(_TRIES):
                if self._control is None:
                    self._start_zygote()
                assert self._control is not None
                try:
                    sent = socket.send_fds(self._control, [_FORK], [theirs.fileno()])
                    self._control.sendall(_FORK[sent:])
                    return Guard(ours)
                except (BrokenPipeError, ConnectionResetError):
                    self._drop_zygote()
        ours.close()
        raise ParallelError("cannot start a guard process", *self._hints())

    def _tell(self, pid: int, ending: str) -> None:
        """Tell the zygote where a guard's ending will be, should it have to stand in for that."""
        path = os.fsencode(os.path.abspath(ending))
        with self._lock, contextlib.suppress(OSError):  # the next guard finds out that it is dead
            if self._control is not None:
                self._control.sendall(_HEADER.pack(pid, len(path)) + path)

    def _start_zygote(self) -> None:
        ours, theirs = _socketpair()
        with theirs:
            try:
                self._zygote = subprocess.Popen(
                    [sys.executable, "-I", "-S", _ZYGOTE, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # until it opens the log
                    pass_fds=(theirs.fileno(),),
                    env={**os.environ, GUARDS: self._log},
                    start_new_session=True,  # the terminal's Ctrl-C is for the supervisor
                )
            except OSError as error:
                ours.close()
                raise ParallelError(f"cannot start a guard process: {error.strerror}") from error
        self._control = ours

    def _drop_zygote(self) -> None:
        for guard in self._idle:
            guard._line.close()
        self._idle.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._zygote is not None:
            self._retired.append(self._zygote)
            self._zygote = None


def guard_log(run: RunFiles) -> str:
    """Where a run's guards write what should never happen, and what they are known by."""
    return os.path.join(run.top, "guard.log")


def guard_host(run: RunFiles) -> GuardHost:
    """The guards' host of a run."""
    return GuardHost(guard_log(run))


def _socketpair() -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair()
    except OSError as error:
        raise ParallelError(f"cannot start a guard process: {error.strerror}") from error


def _readable(line: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(max(0.0, min(seconds, 3600.0)) * 1000))


def _encode(spec: GuardSpec) -> bytes:
    """Return the line that a guard reads, its strings decoded as UTF-8 whatever the locale is."""

    def portable(text: str) -> str:
        return os.fsencode(text).decode("utf-8", "surrogateescape")

    def absolute(path: str | None) -> str | None:
        return None if path is None else portable(os.path.abspath(path))  # the guard lives in "/"

    values = asdict(spec)
    values["argv"] = [portable(word) for word in spec.argv]
    # Programs believe PWD, and would work where the person is.
    env = {name: value for name, value in spec.env.items() if name != "OLDPWD"} | {"PWD": os.path.abspath(spec.cwd)}
    values["env"] = {portable(name): portable(value) for name, value in env.items()}
    values.update({name: absolute(values[name]) for name in _PATHS})
    values["psutil_path"] = spec.psutil_path or _psutil_path()
    return plain.encode(values) + b"\n"


def _psutil_path() -> str | None:
    """Where psutil is installed, on systems where the guard needs it."""
    if sys.platform == "linux":
        return None
    from importlib.util import find_spec  # noqa: PLC0415

    found = find_spec("psutil")
    return os.path.dirname(os.path.dirname(found.origin)) if found and found.origin else None
