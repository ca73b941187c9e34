"""Whether an agent waits for a person, and where that is seen.

Three things tell: what the program's reader understood of its output; a notification or the bell that it sent to its
terminal; and a process of it that reads the terminal, or waits for keys there. None of them counts as long as there
is output or the processor is used.
"""

from __future__ import annotations

import os
import platform
import re
import termios
from collections.abc import Iterable
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from git_parallel.supervisor import processes
from git_parallel.supervisor.watching import QUIET

# A program that draws its screen itself always waits for keys, at work too; then it shows that it works.
QUIET_SCREEN = 5.0

_CARRIED = 512  # bytes of an unfinished sequence
_OSC = re.compile(rb"\x1b\]([0-9]*);([^\x07\x1b]*)(?:\x07|\x1b\\)")
_OSC_BEGUN = re.compile(rb"\x1b(?:\](?:[0-9]*(?:;[^\x07\x1b]*\x1b?)?)?)?\Z")
# Progress bars have OSC 9 too, with a number first.
_PROGRESS = re.compile(rb"[0-9]+(;|\Z)")

# Numbers of the calls that read, and of those that wait for any of several things (syscalls(2)).
_READ = {"x86_64": (0, 19), "aarch64": (63, 65)}
_WAIT = {"x86_64": (7, 23, 232, 270, 271, 281, 441), "aarch64": (22, 72, 73, 441)}
_EPOLL = {"x86_64": (232, 281, 441), "aarch64": (22, 441)}


class Sign(Struct, frozen=True):
    """What makes us think so. ``source`` as in the journal; ``what`` is one line for a person."""

    source: Literal["event-stream", "terminal", "process"]
    what: str


class Waits(Struct, frozen=True):
    """A process in the foreground of its terminal: it reads there (``reads``), or waits for keys among other things."""

    pid: int
    name: str
    reads: bool


def sign(quiet: float, *, asked: str | None, notice: str | None, waits: Waits | None) -> Sign | None:
    """Say whether an agent needs input. Pure.

    ``quiet``: seconds without output and use of the processor; ``asked``: what its reader says that it wants to know;
    ``notice``: the last thing that it sent was this notification.
    """
    if quiet < QUIET:
        return None
    if asked is not None:
        return Sign("event-stream", asked)
    if notice is not None:
        return Sign("terminal", notice)
    if waits is None or not (waits.reads or quiet >= QUIET_SCREEN):
        return None
    does = "reads its terminal" if waits.reads else "waits for keys"
    return Sign("process", f"{waits.name} ({waits.pid}) {does}")


class Notices:
    """Finds notifications (OSC 9, OSC 777) and the bell in what is written to a terminal."""

    def __init__(self) -> None:
        self.last: str | None = None
        self._carried = b""

    def feed(self, data: bytes) -> None:
        """Take in output: ``last`` is what it notifies of, None for output that does not."""
        data = self._carried + data
        begun = _OSC_BEGUN.search(data)
        self._carried = data[begun.start() :] if begun and len(data) - begun.start() <= _CARRIED else b""
        whole = data[: len(data) - len(self._carried)]
        told = [_told(kind, payload) for kind, payload in _OSC.findall(whole)]
        if said := [words for words in told if words]:
            self.last = said[-1]
        else:
            self.last = "it rang the bell" if b"\a" in _OSC.sub(b"", whole) else None


def _told(kind: bytes, payload: bytes) -> str | None:
    from git_parallel.agents.readers.lines import readable  # noqa: PLC0415 (few agents have a terminal)

    if kind == b"9" and not _PROGRESS.match(payload):
        return readable(payload) or None
    if kind == b"777" and payload.startswith(b"notify;"):
        return readable(payload.removeprefix(b"notify;").replace(b";", b": ")) or None
    return None


def waiting(pids: Iterable[int]) -> Waits | None:
    """Return the process that waits for input in the foreground of its terminal: one that reads, before any other.

    None also where nobody can tell: on other systems than Linux, or when its calls may not be looked at.
    """
    found = [one for pid in sorted(pids) if (one := _look(pid)) is not None]
    return next((one for one in found if one.reads), found[0] if found else None)


def _look(pid: int) -> Waits | None:
    with suppress(OSError, ValueError, IndexError):
        fields = processes.stat(pid)
        if fields is None:
            return None
        group, number, foreground = int(fields[2]), int(fields[4]), int(fields[5])
        if number == 0 or group != foreground:
            return None
        device = os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            name = file.read().rstrip("\n")
        if name == "MainThread":  # what Node calls its first thread
            name = os.path.basename(os.readlink(f"/proc/{pid}/exe"))
        calls = {task: _call(pid, int(task)) for task in os.listdir(f"/proc/{pid}/task")}
        machine = platform.machine()
        if any(call and call[0] in _READ.get(machine, ()) and _is(pid, call[1], device) for call in calls.values()):
            return Waits(pid, name, True)
        main = calls.get(str(pid))
        waits = main is not None and main[0] in _WAIT.get(machine, ())
        # Where the first thread waits for the others, one of them waits for keys.
        watched = (call[1] for call in calls.values() if call and call[0] in _EPOLL.get(machine, ()))
        if (waits or any(_watches_input(pid, epoll) for epoll in watched)) and _draws(pid, device):
            return Waits(pid, name, False)
    return None


def _call(pid: int, task: int) -> tuple[int, int] | None:
    """The number and first argument of the system call that a thread is in, or None (proc(5))."""
    with suppress(OSError):
        with open(f"/proc/{pid}/task/{task}/syscall", "rb") as file:
            words = file.read().split()
        if len(words) > 1 and words[0].isdigit():
            return int(words[0]), int(words[1], 16)
    return None


def _is(pid: int, descriptor: int, device: int) -> bool:
    """Whether a process's descriptor is its terminal, by its own name or as /dev/tty."""
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/fd/{descriptor}").st_rdev in (device, os.makedev(5, 0))
    return False


def _watches_input(pid: int, epoll: int) -> bool:
    """Whether standard input is among what an epoll instance of the process waits for."""
    with suppress(OSError), open(f"/proc/{pid}/fdinfo/{epoll}", "rb") as file:
        return re.search(rb"^tfd: *0 ", file.read(), re.MULTILINE) is not None
    return False


def _draws(pid: int, device: int) -> bool:
    """Whether the process has turned off the line editing of the terminal that is its standard input."""
    if not _is(pid, 0, device):
        return False
    descriptor = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return not termios.tcgetattr(descriptor)[3] & termios.ICANON
    except termios.error:
        return False
    finally:
        os.close(descriptor)
