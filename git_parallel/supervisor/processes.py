"""Other processes of this machine: who descends from whom, who is alive, and signals that hit no stranger.

Standard library only: the guard, which must be small, stands on it. psutil is for systems without /proc.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing or collections.abc costs the zygote a quarter of its start-up
    import ctypes
    from collections.abc import Callable, Container, Mapping

    import psutil

LINUX = sys.platform == "linux"
MARKER = ("GIT_PARALLEL_RUN", "GIT_PARALLEL_WORKER")  # in the environment of every process of a worker
GUARDS = "GIT_PARALLEL_GUARDS"  # in that of a supervisor's guards and their zygote: the path of their log

FIRST_NAPS = 0.003  # seconds between two listings; after naps up to this long there is a chase instead
LONGEST_NAP = 0.02

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36

_libc: ctypes.CDLL | None = None


def prctl(option: int, value: int) -> None:
    """Call prctl(2) where there is one; OSError when it refuses."""
    global _libc  # noqa: PLW0603
    if not LINUX:
        return
    import ctypes  # noqa: PLC0415 (2 ms for those who only list processes)

    if _libc is None:
        _libc = ctypes.CDLL(None, use_errno=True)
    if _libc.prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3):
        raise OSError(ctypes.get_errno(), "prctl")


class Process:
    """One process as it was listed. ``start`` tells it from a later one with the same number."""

    __slots__ = ("alive", "parent", "pid", "start")

    def __init__(self, pid: int, parent: int, start: int, alive: bool = True) -> None:
        self.pid = pid
        self.parent = parent
        self.start = start
        self.alive = alive

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.start

    def send(self, *signals: int) -> None:
        """Send signals to this very process; to none when it is gone, even if its number is in use again."""
        descriptor = -1
        if LINUX:
            with contextlib.suppress(OSError):  # gone, as the next line finds; or pidfds are forbidden or unknown
                descriptor = os.pidfd_open(self.pid)
        try:
            if start_time(self.pid) != self.start:
                return
            for number in signals:
                if descriptor >= 0:
                    signal.pidfd_send_signal(descriptor, number)
                else:
                    os.kill(self.pid, number)
        except OSError:  # it ended just now, or is not ours to signal (setuid): then it stays listed
            pass
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def stat(pid: int) -> list[bytes] | None:
    """Read the fields of /proc/PID/stat from the third on (proc(5)), or None when the process is gone."""
    try:
        descriptor = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(descriptor, 4096)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return text[text.rindex(b")") + 2 :].split()  # the name before it may hold anything


def look(pid: int) -> Process | None:
    """Read one process from /proc, or None when it is gone."""
    fields = stat(pid)
    if fields is None:
        return None
    # A zombie with threads is a process whose first thread has ended while others go on.
    alive = fields[0] not in b"ZX" or int(fields[17]) > 1
    return Process(pid, int(fields[1]), int(fields[19]), alive)


def start_time(pid: int) -> int:
    """When a process started: ticks since boot on Linux, elsewhere hundredths of a second; 0 when it is gone."""
    if LINUX:
        process = look(pid)
        return process.start if process else 0
    import psutil  # noqa: PLC0415

    try:
        return _hundredths(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0


def above(name: str) -> list[str]:
    """Return what an environment variable is in the processes above this one, the nearest first. Linux only.

    They keep what they were started with, whatever a process below them clears.
    """
    found, key = [], os.fsencode(name) + b"="
    process = look(os.getppid())
    while process is not None and process.pid > 1:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/environ", "rb") as file:
            found += [os.fsdecode(one[len(key) :]) for one in file.read().split(b"\0") if one.startswith(key)]
        process = look(process.parent)
    return found


def descendants(root: int, apart: Container[int] = ()) -> list[Process]:
    """List the living descendants of ``root``, without those in ``apart`` and theirs. Linux only.

    One pass over /proc (10 µs a process): what forks meanwhile is in the next one.
    """
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (process := look(int(name))):
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [root]
    while parents:
        for process in children.get(parents.pop(), ()):
            if process.pid not in apart:
                parents.append(process.pid)
                found.append(process)
    return [process for process in found if process.alive]


def chase(root: int, seconds: float, apart: Container[int] = ()) -> set[tuple[int, int]]:
    """Kill the youngest descendants of ``root`` as they are born; return their keys. Linux only.

    A process that does nothing but fork and exit is gone before :func:`descendants` has come to it on a
    busy machine. The kernel tells the last process id it gave out; looking at that one takes 30 µs.
    """
    caught = set()
    end = time.monotonic() + seconds
    descriptor = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    try:
        while time.monotonic() < end:
            process = look(int(os.pread(descriptor, 256, 0).split()[-1]))
            if process is not None and process.alive and _descends(process, root, apart):
                process.send(signal.SIGKILL)
                caught.add(process.key)
    finally:
        os.close(descriptor)
    return caught


def _descends(process: Process, root: int, apart: Container[int]) -> bool:
    for _ in range(4):  # the youngest are near the root: their parents have just died
        if process.pid in apart:
            return False
        if process.parent == root:
            return True
        parent = look(process.parent)
        if parent is None:
            return False
        process = parent
    return False


def marked(marker: Mapping[str, str]) -> list[Process]:
    """List the living processes that have every variable of ``marker`` in their environment.

    Only for when descent tells nothing any more: a process may have cleared its environment.
    """
    if not marker:
        return []
    if not LINUX:
        return _marked_elsewhere(marker)
    wanted = {os.fsencode(f"{name}={value}") for name, value in marker.items()}
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if wanted.issubset(file.read().split(b"\0")) and (process := look(int(name))) and process.alive:
                found.append(process)
    return found


def kill_all(
    members: Callable[[], list[Process]],
    limit: float,
    *,
    gone: Callable[[], bool] | None = None,
    pursue: Callable[[float], set[tuple[int, int]]] | None = None,
) -> tuple[set[tuple[int, int]], list[int]]:
    """Kill what ``members`` lists until ``gone`` says that nothing is left, for at most ``limit`` seconds.

    Without ``gone``, three empty listings say it: a process that only forks and exits slips through one.
    ``pursue`` (see :func:`chase`) takes the place of a nap when the first ones did not suffice. Returns the
    keys of all that were there and the ids of those that would not die (0: one that cannot be listed).
    """
    seen: set[tuple[int, int]] = set()
    end = time.monotonic() + limit
    nap = 0.0
    quiet = 0
    while quiet < 3 if gone is None else not gone():
        left = members()
        quiet = 0 if left else quiet + 1
        for process in left:
            seen.add(process.key)
            process.send(signal.SIGKILL)
        if time.monotonic() > end and (left or gone is not None):
            return seen, [process.pid for process in left] or [0]
        if pursue is not None and nap > FIRST_NAPS:
            seen |= pursue(nap)
        else:
            time.sleep(nap)
        nap = min(nap + 0.001, LONGEST_NAP)
    return seen, []


def relatives(root: int, group: int, marker: Mapping[str, str]) -> list[Process]:
    """List a worker's processes where orphans do not come to the guard: by parent, process group or marker."""
    import psutil  # noqa: PLC0415

    found = {process.pid: process for process in _marked_elsewhere(marker)}
    for relative in psutil.Process(root).children(recursive=True):
        _add(found, relative)
    for other in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getpgid(other.pid) == group:
                _add(found, other)
    found.pop(root, None)
    return list(found.values())


def _marked_elsewhere(marker: Mapping[str, str]) -> list[Process]:
    import psutil  # noqa: PLC0415

    found: dict[int, Process] = {}
    for process in psutil.process_iter() if marker else ():
        with contextlib.suppress(psutil.Error, OSError):
            if marker.items() <= process.environ().items():
                _add(found, process)
    return list(found.values())


def _add(found: dict[int, Process], process: psutil.Process) -> None:
    import psutil  # noqa: PLC0415

    with contextlib.suppress(psutil.Error):
        if process.status() != psutil.STATUS_ZOMBIE:
            found[process.pid] = Process(process.pid, process.ppid(), _hundredths(process.create_time()))


def _hundredths(seconds: float) -> int:
    return int(seconds * 100)
