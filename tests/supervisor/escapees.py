"""Processes that try to outlive their guard: ``python escapees.py HOW MARK [EXIT]``.

Each way leaves processes whose command line holds MARK, waits until they are up, prints ``up`` and then stays
itself, or exits with EXIT when that is given. Everything but the process itself is forked, not executed,
so that 200 children cost little; what is forked keeps the command line.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable

END = time.monotonic() + 60  # nobody is to be haunted for longer by a test that failed


def linger() -> None:
    """Stay until a signal comes that is not ignored."""
    while time.monotonic() < END:
        time.sleep(1)
    os._exit(0)


def forked(act: Callable[[], None], *, session: bool = True) -> None:
    """Run ``act`` in a child, and return once it got as far as it can without us."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        if session:
            os.setsid()
        os.close(reader)
        globals()["tell"] = lambda: os.write(writer, b"x")
        act()
        os._exit(0)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)


def tell() -> None:
    """Say that the escape has succeeded; replaced in a forked child."""


def lingering() -> None:
    tell()
    linger()


def child() -> None:
    forked(lingering, session=False)


def setsid() -> None:
    forked(lingering)


def double_fork() -> None:
    def middle() -> None:
        if os.fork() == 0:
            lingering()

    forked(middle)


def cleared_environment() -> None:
    def act() -> None:
        tell()
        os.execve(sys.executable, [sys.executable, "-IS", "-c", "import time; time.sleep(60)", sys.argv[2]], {})

    forked(act)


def changed_directory() -> None:
    def act() -> None:
        os.chdir("/")
        lingering()

    forked(act)


def closed_descriptors() -> None:
    def act() -> None:
        tell()
        os.closerange(0, 1024)
        linger()

    forked(act)


def ignore_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def ignores_term() -> None:
    def act() -> None:
        ignore_signals()
        lingering()

    forked(act)


def stopped() -> None:
    def act() -> None:
        tell()
        os.kill(os.getpid(), signal.SIGSTOP)
        linger()

    forked(act)


def holds_log() -> None:
    def act() -> None:
        ignore_signals()
        os.set_inheritable(1, True)
        lingering()

    forked(act)


def many() -> None:
    for _ in range(200):
        forked(lingering)


def respawner() -> None:
    """Two processes, each of which replaces the other one within a millisecond."""

    def watch(parent: int) -> None:
        ignore_signals()
        tell()
        while time.monotonic() < END:
            other = os.fork()
            if other == 0:
                os.setsid()
                parent = os.getppid()
                while os.getppid() == parent and time.monotonic() < END:
                    time.sleep(0.001)
                continue  # the parent was killed: take its place
            os.waitpid(other, 0)

    forked(lambda: watch(os.getpid()))


def hopper() -> None:
    """A process that is never the same for long: it forks and exits, again and again."""

    def act() -> None:
        ignore_signals()
        tell()
        while time.monotonic() < END:
            if os.fork():
                os._exit(0)
            os.setsid()

    forked(act)


def storm() -> None:
    """Processes that make others faster than they die."""

    def act() -> None:
        ignore_signals()
        tell()
        while time.monotonic() < END:
            child = os.fork()
            if child == 0:
                os.setsid()
                if os.fork() == 0:
                    time.sleep(0.2)
                os._exit(0)
            os.waitpid(child, 0)

    for _ in range(4):
        forked(act)


def headless() -> None:
    """A process whose first thread has ended: it looks like a zombie and is none."""

    def act() -> None:
        ignore_signals()
        threading.Thread(target=linger).start()
        print("headless", os.getpid(), flush=True)
        tell()
        ctypes.CDLL(None).pthread_exit(None)

    forked(act)


WAYS: dict[str, Callable[[], None]] = {
    way.__name__: way
    for way in (
        child,
        setsid,
        double_fork,
        cleared_environment,
        changed_directory,
        closed_descriptors,
        ignores_term,
        stopped,
        holds_log,
        many,
        respawner,
        hopper,
        storm,
        headless,
    )
}


def main() -> None:
    for name in sys.argv[1].split(","):
        WAYS[name]()
    print("up", flush=True)
    if len(sys.argv) > 3:
        os._exit(int(sys.argv[3]))
    linger()


if __name__ == "__main__":
    main()
