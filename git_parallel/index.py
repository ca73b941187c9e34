"""Indexes as git has written them, read in process (gitformat-index(5)). Pure but for :func:`count`.

What is not simple is left to git: a version other than 2 (which has no entries without a file, such as intent-to-add,
skip-worktree, whole directories), conflicts, an index in two parts, very deep directories.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from git_parallel import system

_HEADER = struct.Struct(">4sII")  # signature, version, number of entries
_EXTENSION = struct.Struct(">4sI")  # signature, length
_FILE = struct.Struct(">10I")  # an entry's: times of change (s, ns), of content (s, ns), dev, ino, mode, uid, gid, size
_LOW = 0xFFFFFFFF  # of a number git keeps so much
_SECOND = 10**9  # nanoseconds
_MODE_AT = 24
_OID_AT = 40
_DIRECTORY = 0o040000
_LONGEST = 0xFFF  # the length of a name that is this long or longer, as an entry has it
_STAGE_OR_MORE = 0x7000  # flags: a conflict's stage, further flags
_DEEP = 100  # directories in each other: those who take them apart call themselves


class Index(NamedTuple):
    """(path, mode, id) of every file, in order, and the trees that git knows of directories, "" being the whole.

    ``more``: git keeps more in it than these.
    """

    entries: list[tuple[str, int, str]]
    trees: dict[str, str]
    more: bool

    def outermost(self) -> dict[str, tuple[int, str]]:
        """Return what the tree of it is made of: directories as far out as their trees are known, and other files."""
        if "" in self.trees:
            return {"": (_DIRECTORY, self.trees[""])}
        inside: dict[str, str | None] = {"": None}  # by directory: the outermost known one that it lies in

        def outermost(directory: str) -> str | None:
            if directory not in inside:
                around = outermost(directory.rpartition("/")[0])
                inside[directory] = around or (directory if directory in self.trees else None)
            return inside[directory]

        found: dict[str, tuple[int, str]] = {}
        for path, mode, oid in self.entries:
            directory = outermost(path.rpartition("/")[0])
            if directory is None:
                found[path] = mode, oid
            else:
                found[directory] = _DIRECTORY, self.trees[directory]
        return found


def count(path: str) -> int | None:
    """Return how many files an index of version 2 has; None for another one, and where there is none."""
    try:
        signature, version, number = _HEADER.unpack_from(system.read(path) or b"")
    except struct.error:
        return None
    return number if (signature, version) == (b"DIRC", 2) else None


def parse(data: bytes, oid_length: int) -> Index | None:
    """Read an index; None for one that is not simple, or broken. ``oid_length``: bytes of an id."""
    try:
        return _parse(data, oid_length)
    except (struct.error, ValueError, IndexError):
        return None


def _parse(data: bytes, oid_length: int) -> Index | None:
    signature, version, number = _HEADER.unpack_from(data)
    if (signature, version) != (b"DIRC", 2):
        return None
    entry = struct.Struct(f">I12x{oid_length}sH")
    at, before_name, entries = _HEADER.size, _OID_AT + oid_length + 2, []
    for _ in range(number):
        mode, oid, flags = entry.unpack_from(data, at + _MODE_AT)
        if flags & _STAGE_OR_MORE:
            return None
        start = at + before_name
        end = start + (flags & _LONGEST)
        if flags & _LONGEST == _LONGEST:
            end = data.index(b"\0", end)
        path = os.fsdecode(data[start:end])
        if path.count("/") > _DEEP:
            return None
        entries.append((path, mode, oid.hex()))
        at += (end - at + 8) & ~7  # one to eight zeros follow
    trees: dict[str, str] = {}
    more = False
    last = len(data) - oid_length  # the checksum of it all
    while at < last:
        signature, size = _EXTENSION.unpack_from(data, at)
        at += _EXTENSION.size
        if signature == b"TREE":
            _trees(data[at : at + size], oid_length, trees)
        elif signature[:1].isupper():
            more = True
        else:  # it cannot be understood without
            return None
        at += size
    return Index(entries, trees, more) if at == last else None


def fresh(data: bytes, oid_length: int, found: Sequence[os.stat_result]) -> bool:
    """Whether files are as they were when git wrote this simple index; ``found`` is what they are now, in its order."""
    for at, now in zip(_places(data, oid_length), found, strict=True):
        known = _FILE.unpack_from(data, at)
        time = known[2] == now.st_mtime_ns // _SECOND & _LOW and known[3] in (now.st_mtime_ns % _SECOND, 0)
        if not time or known[5] != now.st_ino & _LOW or known[9] != now.st_size:
            return False
    return True


def renewed(data: bytes, object_format: str, found: Sequence[os.stat_result]) -> bytes:
    """Return a simple index for other files, of the same content; ``found`` is what they are, in its order."""
    import hashlib  # noqa: PLC0415 (it takes long)

    digest = (hashlib.sha256 if object_format == "sha256" else hashlib.sha1)(usedforsecurity=False)
    last = len(data) - digest.digest_size
    new = bytearray(data)
    for at, now in zip(_places(data, digest.digest_size), found, strict=True):
        mode = _FILE.unpack_from(data, at)[6]
        times = [number for time in (now.st_ctime_ns, now.st_mtime_ns) for number in divmod(time, _SECOND)]
        numbers = (*times, now.st_dev, now.st_ino, mode, now.st_uid, now.st_gid, now.st_size)
        _FILE.pack_into(new, at, *(number & _LOW for number in numbers))
    if data[last:].strip(b"\0"):  # else git is not to take the time for it (index.skipHash)
        digest.update(memoryview(new)[:last])
        new[last:] = digest.digest()
    return bytes(new)


def _places(data: bytes, oid_length: int) -> Iterator[int]:
    """Where the entries of a simple index begin."""
    at = _HEADER.size
    for _ in range(_HEADER.unpack_from(data)[2]):
        yield at
        end = data.index(b"\0", at + _OID_AT + oid_length + 2)
        at += (end - at + 8) & ~7


def _trees(data: bytes, oid_length: int, found: dict[str, str]) -> None:
    """Read what git knows: each directory's name, number of entries (-1: its tree is not known) and of directories."""
    at = 0

    def read(above: str) -> None:
        nonlocal at
        name_end = data.index(b"\0", at)
        line_end = data.index(b"\n", name_end)
        path = above + os.fsdecode(data[at:name_end])
        entries, directories = map(int, data[name_end + 1 : line_end].split(b" "))
        at = line_end + 1
        if entries >= 0:
            found[path] = data[at : at + oid_length].hex()
            at += oid_length
        for _ in range(directories):
            read(f"{path}/" if path else "")

    if data:
        read("")
    if at != len(data):
        raise ValueError
