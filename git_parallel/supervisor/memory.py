"""How much memory can still be had: of the machine's, and of what a control group may use."""

from __future__ import annotations

import os
import re
import sys

_GROUPS = "/sys/fs/cgroup"


def available() -> int | None:
    """Bytes that processes can get without swapping; None when nobody knows."""
    if sys.platform != "linux":
        import psutil  # noqa: PLC0415 (18 ms, and only where there is no /proc)

        return int(psutil.virtual_memory().available)
    free = re.search(r"^MemAvailable: +([0-9]+) kB", _read("/proc/meminfo"), re.MULTILINE)
    rooms = [int(free[1]) * 1024] if free else []
    own = re.search(r"^0::(/.*)", _read("/proc/self/cgroup"), re.MULTILINE)
    if own:
        rooms += group_rooms(_GROUPS, own[1])
    return min(rooms, default=None)


def group_rooms(top: str, group: str) -> list[int]:
    """What each limit of memory leaves, of a version 2 control group and those above it (cgroups(7)).

    Of what a group uses, files that nobody has looked at lately are given back when somebody needs the room.
    """
    rooms = []
    while True:
        directory = os.path.join(top, group.lstrip("/"))
        limit, used = _read(os.path.join(directory, "memory.max")), _read(os.path.join(directory, "memory.current"))
        if limit.strip().isdecimal() and used.strip().isdecimal():
            stat = _read(os.path.join(directory, "memory.stat"))
            cached = re.search(r"^inactive_file ([0-9]+)", stat, re.MULTILINE)
            rooms.append(max(0, int(limit) - int(used) + (int(cached[1]) if cached else 0)))
        if group in ("/", ""):
            return rooms
        group = os.path.dirname(group)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
