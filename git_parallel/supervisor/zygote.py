"""The zygote: a small process that forks one guard for each agent, and stands in for a guard that is killed.

Run as ``python -I -S zygote.py FD``: standard library only, so that a guard costs a fork and a few private
pages. FD is a stream socket from the supervisor. What it says there begins with two numbers of 4 bytes, big endian:
a guard's process id, and the length of the path that follows, which is where that guard's agent will have its
``exit.json``. Both are 0 when a guard is to be forked; then a descriptor is passed along, the guard's end of a socket
pair whose other end the supervisor keeps. The rest is between supervisor and guard (``guard.py``).

The zygote keeps its copy of that descriptor, so that the supervisor sees no end of file before the orphans of
a killed guard, which come to the zygote, are dead. After the end of file on FD it waits for its guards, which
have seen their own, and exits.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time

if not __package__:  # run as a script: neither site-packages nor this package is on the path
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from git_parallel.supervisor import files
from git_parallel.supervisor.becoming import SURVIVED
from git_parallel.supervisor.guard import Guard, drain, log_to, make_ending, wake_on_children, write_ending
from git_parallel.supervisor.processes import GUARDS, LINUX, PR_SET_CHILD_SUBREAPER, chase, descendants, kill_all, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

HEADER = 8  # bytes that begin what the supervisor says
ORPHAN_LIMIT = 2.0  # seconds of SIGKILL for a dead guard's orphans; other guards' starts wait meanwhile


class Forked:
    """A guard as the zygote knows it: its lifeline, when it got its agent, and where that one's ``exit.json`` will be.

    ``path`` is "" until then.
    """

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.begun = time.monotonic()
        self.path = ""


class Zygote:
    """Forks guards, and stands in for one that was killed."""

    def __init__(self, control: socket.socket) -> None:
        self.control: socket.socket | None = control
        self.guards: dict[int, Forked] = {}  # by pid
        self.logging = False
        self.wakeup = wake_on_children()

    def log(self) -> None:
        """Open the log, now that there most likely is a run that it belongs to."""
        if not self.logging:
            self.logging = True
            log_to(os.environ[GUARDS])

    def serve(self) -> None:
        """Work until the supervisor is gone and the last guard too."""
        while self.control is not None or self.guards:
            poll = select.poll()
            poll.register(self.wakeup, select.POLLIN)
            if self.control is not None:
                poll.register(self.control, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll()]
            if self.wakeup in ready:
                drain(self.wakeup)
            ended = self.reap()
            if self.control is not None and (ended or self.control.fileno() in ready):
                self.listen(self.control)  # of who has ended, it may have said what for, and that was before
            for pid, status in ended:
                self.bury(pid, status)

    def listen(self, control: socket.socket) -> None:
        """Take in all that the supervisor has said so far."""
        poll = select.poll()
        poll.register(control, select.POLLIN)
        while self.control is not None and poll.poll(0):
            self.accept(control)

    def accept(self, control: socket.socket) -> None:
        """Fork a guard or hear what it is for, or give the control socket up at its end."""
        header, descriptors, _, _ = socket.recv_fds(control, HEADER, 1)
        if not header:
            self.control = None
            control.close()
            return
        pid, length = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
        if pid:
            path = os.fsdecode(control.recv(length, socket.MSG_WAITALL))
            if (guard := self.guards.get(pid)) is not None:
                guard.path, guard.begun = path, time.monotonic()
                self.log()
            return
        if not descriptors:  # too many are open here; the supervisor sees its end of file, which is an error there
            self.log()
            print("no descriptor for a guard", file=sys.stderr, flush=True)
            return
        line = socket.socket(fileno=descriptors[0])
        line.set_inheritable(False)
        try:
            pid = os.fork()
        except OSError as error:
            ending = make_ending("exit", None, 0.0, 0, [])
            ending["spawn_error"] = f"cannot start a guard: {error.strerror}"
            self.tell(line, "", ending)
            line.close()
            return
        if pid == 0:
            become_guard(line)
        self.guards[pid] = Forked(line)

    def reap(self) -> list[tuple[int, int]]:
        """Take in what has ended and return the guards among it; let a guard go on that somebody stopped."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            if os.WIFSTOPPED(status):
                if pid in self.guards:
                    os.kill(pid, signal.SIGCONT)
            elif pid in self.guards:
                ended.append((pid, status))

    def bury(self, pid: int, status: int) -> None:
        """A guard is gone: unless it had finished, do the rest of its work."""
        guard = self.guards.pop(pid)
        if status != 0:
            killed, survivors = self.kill_orphans()
            known = files.read(guard.path) if guard.path else None
            how = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "failed"
            duration = time.monotonic() - guard.begun
            ending = make_ending("guard-died", f"the guard was {how}", duration, killed, survivors)
            self.tell(guard.line, guard.path, json.loads(known) if known else ending)
        guard.line.close()

    def kill_orphans(self) -> tuple[int, list[int]]:
        """Kill what came to us from a dead guard; return how many that were and the ids of survivors."""
        if not LINUX:  # there nothing comes to us; the supervisor looks for the marker
            return 0, []
        root, guards = os.getpid(), self.guards
        killed, survivors = kill_all(
            lambda: descendants(root, guards), ORPHAN_LIMIT, pursue=lambda seconds: chase(root, seconds, guards)
        )
        return len(killed), survivors

    def tell(self, line: socket.socket, path: str, ending: dict[str, Any]) -> None:
        """Say what the guard would have said; the leading newline ends a line that it had begun."""
        if path and not os.path.exists(path):
            write_ending(path, ending)
        message = json.dumps({"event": "ended", **ending}).encode()
        with contextlib.suppress(OSError):
            line.send(b"\n" + message + b"\n", socket.MSG_DONTWAIT)


def become_guard(line: socket.socket) -> NoReturn:
    """Turn the forked child into a guard that shares nothing with the zygote and its other guards."""
    code = 70  # EX_SOFTWARE: the zygote takes over
    try:
        signal.set_wakeup_fd(-1)
        os.setsid()
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        # Another guard's socket kept open here would be a lifeline that never breaks.
        os.dup2(line.detach(), 3, inheritable=False)
        for name in os.listdir("/dev/fd"):
            if int(name) > 3:
                with contextlib.suppress(OSError):  # the listing's own is closed already
                    os.close(int(name))
        Guard(socket.socket(fileno=3)).live()
        code = 0
    except BaseException as error:
        log_to(os.environ[GUARDS])
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    """Be the zygote of the supervisor that holds the other end of the socket in argv."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in SURVIVED else signal.SIG_DFL)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    zygote = Zygote(control)
    gc.disable()  # a collection in a guard would copy every page that it shares with the zygote
    gc.freeze()
    zygote.serve()
    os._exit(0)  # the supervisor waits for it, and the interpreter takes its time to take itself apart


if __name__ == "__main__":
    main()
