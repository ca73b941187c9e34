"""One guard: starts an agent, owns its whole process tree and ends it, whatever the tree does to get away.

A child subreaper (prctl(2)) gets every orphan among its descendants, however that detached itself, so
"nothing is left" is what wait(2) says, not a guess. Where there is no subreaper (macOS) a guard looks for its
processes by parent, process group and the marker in their environment; who gave up all three is not found.
Nowhere is found what an agent makes an existing daemon do for it.

On the socket to the supervisor both sides speak JSON lines:

guard to supervisor
    ``{"event": "ready", "pid"}`` (itself), ``{"event": "started", "pid", "start"}`` (the agent, and its
    :func:`~git_parallel.supervisor.processes.start_time`) and at last ``{"event": "ended", …}`` with the fields
    that ``exit.json`` holds too.
supervisor to guard
    the specification (once the guard is ready), then any of ``{"do": "stop", "reason", "grace"}``,
    ``{"do": "kill", "reason"}``, ``{"do": "pause"}``, ``{"do": "continue"}``.

The socket is the lifeline: its end of file means that the supervisor is dead, and everything is killed at once.
Guards are forked by ``zygote.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time

from git_parallel.supervisor.becoming import become_agent, to_path
from git_parallel.supervisor.processes import (
    GUARDS,
    LINUX,
    MARKER,
    Process,
    chase,
    descendants,
    kill_all,
    relatives,
    start_time,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from git_parallel.supervisor.relay import Relay

ROOM = 1024  # bytes: an exit.json with many survivors
SETTLE = 0.05  # seconds in which what outlives the agent may end by itself: the other end of a pipe does
SWEEP_GRACE = 2.0  # seconds at most between SIGTERM and SIGKILL for what outlives the agent
SWEEP_LIMIT = 10.0  # seconds of SIGKILL after which a process counts as a survivor (stuck in the kernel, setuid)
LONGEST_POLL = 3600.0  # seconds; poll(2) counts milliseconds in an int


def make_ending(ended_by: str, reason: str | None, duration: float, killed: int, left: list[int]) -> dict[str, Any]:
    """Return the fields of ``exit.json``, with None for what only a reaped agent tells."""
    return {
        "exit_code": None,
        "signal": None,
        "ended_by": ended_by,
        "reason": reason,
        "duration": round(duration, 3),
        "killed": killed,
        "survivors": left,
        "peak_rss": None,
        "spawn_error": None,
    }


def reserve(path: str) -> None:
    """Take the room that ``exit.json`` needs: an agent may fill the disk, and its ending is to be known."""
    with contextlib.suppress(OSError), open(reserved(path), "wb") as file:
        file.write(b" " * ROOM)


def reserved(path: str) -> str:
    """Where the room of an ``exit.json`` is kept."""
    return f"{path}.tmp"


def write_ending(path: str, ending: dict[str, Any]) -> None:
    """Write ``exit.json`` into the room that was reserved, there whole or not at all even after a power cut."""
    data = json.dumps(ending).encode().ljust(ROOM - 1) + b"\n"
    try:
        descriptor = os.open(reserved(path), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, len(data))
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(reserved(path), path)
    except OSError as error:  # the supervisor still hears it on the socket
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr, flush=True)


def log_to(path: str) -> None:
    """Send what should never happen, which is all that is written to standard error, to a file."""
    with contextlib.suppress(OSError):
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.dup2(log, 2)
        os.close(log)


def wake_on_children() -> int:
    """Return a descriptor that becomes readable when a child ends (or any other handled signal arrives)."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def drain(descriptor: int) -> None:
    """Forget what woke us."""
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass


class Guard:
    """One agent from its start to the last process that it leaves."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.path = ""  # of exit.json, once there is a specification
        self.wakeup = wake_on_children()
        self.received = b""
        self.spec: dict[str, Any] = {}
        self.grace = 0.0
        self.relay: Relay | None = None  # the agent's terminal, where it has one
        self.agent = 0
        self.status: int | None = None  # of the agent, as wait(2) gives it
        self.begun = self.ended = time.monotonic()
        self.cause: str | None = None  # the first thing that ended the agent; later ones only hurry
        self.reason: str | None = None
        self.urgent = False  # kill now, do not ask
        self.deadline: float | None = None
        self.paused: float | None = None  # since when the deadline stands still
        self.signalled: dict[tuple[int, int], int] = {}  # the last signal that each process was sent

    def live(self) -> None:
        """Run the agent to its end and beyond, and say how it went."""
        self.say({"event": "ready", "pid": os.getpid()})
        signal.signal(signal.SIGTERM, lambda *_: self.order("stop", "signal"))
        if not self.hear_spec():
            return
        log_to(os.environ[GUARDS])  # the directory of the log is there now
        reserve(self.path)
        failure = self.spawn()
        if failure is None and not self.urgent:
            self.say({"event": "started", "pid": self.agent, "start": start_time(self.agent)})
            if self.spec["timeout"] is not None:
                self.deadline = self.begun + self.spec["timeout"]
            self.watch("agent", ordered=True)
            self.order("exit" if self.status is not None else "timeout", None)
            self.ask_to_end()
        survivors = self.destroy()
        if self.relay is not None:
            self.relay.finish()
        self.conclude(survivors, failure)

    def ask_to_end(self) -> None:
        """Signals and a grace before SIGKILL: the agent's own signals, each with an equal part of the grace, for
        the agent that has to stop, and SIGTERM for what outlives it.
        """
        begun = time.monotonic()
        self.paused = None
        steps = self.spec["stop"]
        for number, name in enumerate(steps, 1):
            if self.status is None and not self.urgent:
                self.ask(signal.Signals[f"SIG{name}"])
                self.deadline = begun + self.grace * number / len(steps)
                self.watch("agent")
        if self.status is None or self.urgent or not self.anything_left():
            return
        grace = min(self.grace, SWEEP_GRACE)
        if self.cause == "exit":
            self.deadline = time.monotonic() + min(SETTLE, grace)
            self.watch("all")
            self.deadline = time.monotonic() + grace
        else:
            self.deadline = min(time.monotonic() + grace, begun + self.grace)
        if not self.urgent and self.anything_left():
            self.ask(signal.SIGTERM)
            self.watch("all")

    def watch(self, until: str, *, ordered: bool = False) -> None:
        """Wait for the end of the agent (``agent``) or of everything (``all``), a reason to kill, or the deadline.

        ``ordered``: an order to stop ends the wait as well, and pausing moves the deadline.
        """
        poll = select.poll()
        poll.register(self.wakeup, select.POLLIN)
        poll.register(self.line, select.POLLIN)
        if self.relay is not None:
            poll.register(self.relay.fileno(), select.POLLIN)
        while True:
            left = self.reap()
            if self.status is not None and (until == "agent" or not (left or self.anything_left())):
                return
            if self.urgent or (ordered and self.cause):
                return
            wait = LONGEST_POLL if LINUX or until == "agent" else SETTLE  # no signal tells of others' children
            if self.deadline is not None and self.paused is None:
                wait = min(wait, self.deadline - time.monotonic())
                if wait <= 0:
                    return
            ready = [descriptor for descriptor, _ in poll.poll(wait * 1000 + 1)]
            if self.wakeup in ready:
                drain(self.wakeup)
            if self.relay is not None and self.relay.fileno() in ready:
                self.relay.serve()
            if self.line.fileno() in ready:
                self.reap()  # an agent that had ended before the order came ended by itself
                self.hear(pausable=ordered)

    # The supervisor's socket.

    def say(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # a dead supervisor is noticed where it is heard
            self.line.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> bool:
        """Take in what the socket has; False at its end."""
        try:
            data = self.line.recv(1 << 16)
        except ConnectionError:
            return False
        self.received += data
        return bool(data)

    def hear_spec(self) -> bool:
        """Wait for the specification; False when the supervisor died instead."""
        while b"\n" not in self.received:
            if not self.receive():
                return False
        text, self.received = self.received.split(b"\n", 1)
        self.spec = json.loads(text)
        self.path = to_path(self.spec["ending"])
        self.grace = self.spec["grace"]
        if self.spec["psutil_path"]:
            sys.path.append(self.spec["psutil_path"])
        return True

    def hear(self, *, pausable: bool) -> None:
        """Note the supervisor's orders; its silence for good is one too."""
        if not self.receive():
            self.order("lifeline", "the supervisor died")
            self.urgent = True
            return
        *lines, self.received = self.received.split(b"\n")
        for order in map(json.loads, lines):
            match order["do"]:
                case "stop" | "kill" as cause:
                    self.order(cause, order["reason"], order.get("grace"))
                    self.urgent |= cause == "kill"
                case "pause" if pausable:
                    self.pause()
                case "continue" if pausable:
                    self.unpause()

    def order(self, cause: str, reason: str | None, grace: float | None = None) -> None:
        """Note why the agent ends, unless that is known already."""
        if self.cause is None:
            self.cause, self.reason = ("exit", None) if self.status is not None else (cause, reason)
            self.grace = self.grace if grace is None else grace

    def pause(self) -> None:
        """Stop every process and the clock of the time limit."""
        if self.paused is None:
            self.paused = time.monotonic()
            self.signal_all(signal.SIGSTOP)

    def unpause(self) -> None:
        """Let them go on; the time between does not count."""
        if self.paused is not None:
            if self.deadline is not None:
                self.deadline += time.monotonic() - self.paused
            self.paused = None
            self.signal_all(signal.SIGCONT)

    # The processes.

    def spawn(self) -> str | None:
        """Start the agent; return what kept it from starting, as ``spawn_error`` has it."""
        reader, writer = os.pipe()
        guard = os.getpid()
        self.begun = self.ended = time.monotonic()
        if self.spec["terminal"] is not None:
            from git_parallel.supervisor.relay import Relay  # noqa: PLC0415 (most agents have none)

            try:
                self.relay = Relay(to_path(self.spec["terminal"]), to_path(self.spec["stdout"]))
            except OSError as error:
                return f"cannot open a terminal: {error.strerror}"
        try:
            self.agent = os.fork()
        except OSError as error:
            return f"cannot start another process: {error.strerror}"
        if self.agent == 0:
            become_agent(self.spec, guard, writer, None if self.relay is None else self.relay.slave)
        os.close(writer)
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        poll.register(self.line, select.POLLIN)
        while not self.urgent:
            if any(descriptor == reader for descriptor, _ in poll.poll()):
                report = os.read(reader, 1 << 16)  # nothing: exec(2) went well and closed the other end
                os.close(reader)
                return os.fsdecode(report) if report else None
            self.hear(pausable=False)
        return None

    def reap(self) -> bool:
        """Take in every child that has ended; say whether there are others."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.agent:
                self.status, self.ended = status, time.monotonic()

    def members(self) -> list[Process]:
        """List every living process of the worker."""
        if LINUX:
            return descendants(os.getpid())
        env = self.spec["env"]
        return relatives(os.getpid(), self.agent, {name: env[name] for name in MARKER if name in env})

    def anything_left(self) -> bool:
        """Say whether a process of the worker may live: for nothing on Linux, where wait(2) knows."""
        return self.reap() or (not LINUX and bool(self.members()))

    def signal_all(self, number: int) -> None:
        """Send a signal once to every process, those included that appear meanwhile."""
        done: set[tuple[int, int]] = set()
        for _ in range(10):
            fresh = [process for process in self.members() if process.key not in done]
            if not fresh:
                return
            for process in fresh:
                done.add(process.key)
                process.send(number)

    def ask(self, number: int) -> None:
        """Ask every process that was not asked so yet to end, and wake the stopped ones so that they can.

        One listing only: what they start now, they start to clean up.
        """
        for process in self.members():
            if self.signalled.get(process.key) != number:
                self.signalled[process.key] = number
                process.send(number, signal.SIGCONT)

    def destroy(self) -> list[int]:
        """Kill until nothing is left; return the ids of those that would not die."""
        root = os.getpid()
        killed, survivors = kill_all(
            self.members,
            SWEEP_LIMIT,
            gone=lambda: not self.anything_left(),
            pursue=(lambda seconds: chase(root, seconds)) if LINUX else None,
        )
        self.signalled |= dict.fromkeys(killed, signal.SIGKILL)
        return survivors

    def conclude(self, survivors: list[int], failure: str | None) -> None:
        """Tell how the agent ended, on the disk and to the supervisor."""
        killed = {pid for pid, _ in self.signalled} - {self.agent}
        ended = self.ended if self.status is not None else time.monotonic()
        ending = make_ending(self.cause or "exit", self.reason, ended - self.begun, len(killed), survivors)
        ending["spawn_error"] = failure
        if self.status is not None and failure is None:
            ending["exit_code"] = os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None
            ending["signal"] = os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            ending["peak_rss"] = peak * 1024 if LINUX else peak  # KiB, but bytes on macOS (getrusage(2))
        write_ending(self.path, ending)
        self.say({"event": "ended", **ending})
