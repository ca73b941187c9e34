"""A change hunk by hunk: taken apart, chosen from as in ``git add -p``, and put together again. Pure but :func:`read`.

A split hunk is never written as two that overlap: what is not taken of it becomes context again, so that
each hunk of the diff is at most one hunk of the patch, and ``git apply`` needs no leniency.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.errors import ParallelError
from git_parallel.git import Repository

Kind = Literal["hunk", "mode", "whole"]

_HUNK = re.compile(
    rb"@@ -(?P<old>[0-9]+)(?:,(?P<olds>[0-9]+))? \+(?P<new>[0-9]+)(?:,(?P<news>[0-9]+))? @@(?P<heading>.*)", re.DOTALL
)
_START = b"diff --git "
_MODES = (b"old mode ", b"new mode ")
# A file that comes, goes or has no lines is taken as a whole or left.
_WHOLE = (b"new file mode ", b"deleted file mode ", b"GIT binary patch", b"Binary files ")
_ESCAPED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_MEANING = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}


class Line(Struct, frozen=True):
    """A line of a hunk as the diff has it, with its number on each side (None: not there, or no line of its own)."""

    text: bytes
    old: int | None
    new: int | None


class Hunk(Struct, frozen=True):
    """One hunk. ``old`` and ``new`` are the numbers in its header, ``heading`` what stands behind them."""

    old: int
    new: int
    heading: bytes
    lines: tuple[bytes, ...]

    @property
    def groups(self) -> list[range]:
        """The lines that change something, each unbroken stretch of them by itself."""
        found: list[range] = []
        start = None
        for index, line in enumerate((*self.lines, b" ")):
            changes = line[:1] in (b"+", b"-") or (line[:1] == b"\\" and start is not None)
            if changes and start is None:
                start = index
            elif not changes and start is not None:
                found.append(range(start, index))
                start = None
        return found

    def numbered(self) -> Iterator[Line]:
        """The lines with their numbers."""
        old, new = self.old, self.new
        for text in self.lines:
            sign = text[:1]
            yield Line(text, old if sign in (b" ", b"-") else None, new if sign in (b" ", b"+") else None)
            old += sign in (b" ", b"-")
            new += sign in (b" ", b"+")


class FileChange(Struct, frozen=True):
    """The change of one path. ``head`` are the lines above the hunks; ``raw`` is all of it, as the diff has it.

    Without ``hunks`` (and with ``whole``) it can only be taken as it is.
    """

    path: str
    head: tuple[bytes, ...]
    hunks: tuple[Hunk, ...]
    raw: tuple[bytes, ...]
    whole: bool

    @property
    def modes(self) -> tuple[bytes, ...]:
        """The lines that say how the mode changes; empty when it stays."""
        return tuple(line for line in self.head if line.startswith(_MODES))


# --- taking apart ----------------------------------------------------------------------------------


def read(repo: Repository, before: str, after: str) -> list[FileChange]:
    """Return what differs between two commits, whatever the person's configuration says of diffs."""
    done = repo.common.run(
        *("-c", "diff.suppressBlankEmpty=false", "-c", "diff.noprefix=false", "-c", "diff.mnemonicPrefix=false"),
        *("diff-tree", "-r", "-p", "--binary", "--full-index", "--unified=3", "--inter-hunk-context=0"),
        *("--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none"),
        *("--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", before, after, "--"),
    )
    return parse(done.stdout)


def parse(diff: bytes) -> list[FileChange]:
    """Take a diff (``git diff-tree -p --binary --no-renames``) apart."""
    lines = diff.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    files: list[FileChange] = []
    position = 0
    while position < len(lines):
        if not lines[position].startswith(_START):
            raise ParallelError(f"cannot read git's diff: {lines[position][:60]!r}")
        file, position = _file(lines, position)
        if files and files[-1].path == file.path:  # a type that changes: git deletes the one and makes the other
            before = files.pop()
            file = FileChange(file.path, before.head, (), before.raw + file.raw, True)
        files.append(file)
    return files


def _file(lines: Sequence[bytes], start: int) -> tuple[FileChange, int]:
    position = start + 1
    while position < len(lines) and not lines[position].startswith((_START, b"@@ ")):
        position += 1
    head = tuple(lines[start:position])
    hunks = []
    while position < len(lines) and lines[position].startswith(b"@@ "):
        hunk, position = _hunk(lines, position)
        hunks.append(hunk)
    raw = tuple(lines[start:position])
    whole = any(line.startswith(_WHOLE) for line in head) or any(line.endswith(b" 160000") for line in head[:3])
    return FileChange(_path(head[0]), head, tuple(hunks), raw, whole), position


def _hunk(lines: Sequence[bytes], start: int) -> tuple[Hunk, int]:
    """Read a hunk by the counts in its header: its lines may look like anything."""
    match = _HUNK.fullmatch(lines[start])
    if match is None:
        raise ParallelError(f"cannot read git's diff: {lines[start][:60]!r}")
    olds, news = (1 if match[name] is None else int(match[name]) for name in ("olds", "news"))
    position = start + 1
    while position < len(lines) and (olds or news or lines[position].startswith(b"\\")):
        sign = lines[position][:1]
        olds -= sign in (b" ", b"-")
        news -= sign in (b" ", b"+")
        position += 1
    return Hunk(int(match["old"]), int(match["new"]), match["heading"], tuple(lines[start + 1 : position])), position


def _path(line: bytes) -> str:
    """The path in ``diff --git a/PATH b/PATH``: the two are the same, so each is half of what is there."""
    both = line.removeprefix(_START)
    one = both[: len(both) // 2]
    if one.startswith(b'"'):
        one = _ESCAPED.sub(lambda match: _unescaped(match[1]), one[1:-1])
    return os.fsdecode(one.removeprefix(b"a/"))


def _unescaped(code: bytes) -> bytes:
    return bytes([int(code, 8)]) if len(code) == 3 else _MEANING.get(code, code)


# --- choosing --------------------------------------------------------------------------------------


class Piece(Struct, frozen=True):
    """What one answer is about: a hunk, or those ``groups`` of it; a change of mode; or a file as a whole."""

    kind: Kind
    file: int
    hunk: int = 0
    groups: range = range(0)


Answer = Literal["next", "done", "split", "whole", "help", "unknown"]

# Key: what it does. The order is the one in which they are offered.
ANSWERS: dict[str, str] = {
    "y": "take this hunk",
    "n": "leave this hunk",
    "q": "leave this hunk and all that come after it",
    "a": "take this hunk and all later ones of the file",
    "d": "leave this hunk and all later ones of the file",
    "s": "split this hunk into smaller ones",
    "?": "this help",
}


class Choice(Struct, frozen=True):
    """How far the person has come: for each piece True (take it), False (leave it) or None."""

    files: tuple[FileChange, ...]
    pieces: tuple[Piece, ...]
    taken: tuple[bool | None, ...]
    at: int = 0

    @property
    def piece(self) -> Piece:
        """The piece that is asked about."""
        return self.pieces[self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.pieces)

    @property
    def splits(self) -> bool:
        """Whether the piece can be split."""
        return self.piece.kind == "hunk" and len(self.piece.groups) > 1

    @property
    def chosen(self) -> list[Piece]:
        """The pieces to take."""
        return [piece for piece, taken in zip(self.pieces, self.taken, strict=True) if taken]


def choose(files: Sequence[FileChange]) -> Choice:
    """Begin to choose."""
    pieces = tuple(piece for index, file in enumerate(files) for piece in _pieces(index, file))
    return Choice(tuple(files), pieces, (None,) * len(pieces))


def _pieces(index: int, file: FileChange) -> Iterator[Piece]:
    if file.whole or not (file.hunks or file.modes):
        yield Piece("whole", index)
        return
    if file.modes:
        yield Piece("mode", index)
    for number, hunk in enumerate(file.hunks):
        yield Piece("hunk", index, number, range(len(hunk.groups)))


def answer(choice: Choice, key: str) -> tuple[Choice, Answer]:
    """Take one answer to the piece that is asked about; return what follows from it."""
    if key == "s":
        return (_split(choice), "split") if choice.splits else (choice, "whole")
    if key not in ANSWERS or key == "?":
        return choice, "help" if key == "?" else "unknown"
    here, file = choice.at, choice.piece.file
    of_file = key in "ad"
    also = [at for at in range(here, len(choice.pieces)) if not of_file or choice.pieces[at].file == file]
    meant = {here} if key in "yn" else set(also)
    taken = tuple(key in "ya" if at in meant else old for at, old in enumerate(choice.taken))
    left = next((at for at in range(here, len(taken)) if taken[at] is None), len(taken))
    return replace(choice, taken=taken, at=left), "done" if left == len(taken) else "next"


def _split(choice: Choice) -> Choice:
    parts = tuple(replace(choice.piece, groups=range(group, group + 1)) for group in choice.piece.groups)
    at = choice.at
    return replace(
        choice,
        pieces=(*choice.pieces[:at], *parts, *choice.pieces[at + 1 :]),
        taken=(*choice.taken[:at], *(None for _ in parts), *choice.taken[at + 1 :]),
    )


def shown(files: Sequence[FileChange], piece: Piece) -> list[bytes]:
    """The lines of a piece as a person is asked about it, with the header of its own numbers."""
    file = files[piece.file]
    if piece.kind == "whole":
        binary = next((at for at, line in enumerate(file.raw) if line == b"GIT binary patch"), None)
        return list(file.raw) if binary is None else [*file.raw[:binary], b"(a binary file)"]
    if piece.kind == "mode":
        return [file.head[0], *file.modes]
    hunk = file.hunks[piece.hunk]
    groups = hunk.groups
    first, last = piece.groups[0], piece.groups[-1]
    start = groups[first - 1].stop if first else 0
    stop = groups[last + 1].start if last + 1 < len(groups) else len(hunk.lines)
    before, lines = hunk.lines[:start], hunk.lines[start:stop]
    part = Hunk(hunk.old + _count(before, b" -"), hunk.new + _count(before, b" +"), hunk.heading, lines)
    return [_header(part, part.old, part.new), *lines]


# --- putting together ------------------------------------------------------------------------------


def patch(files: Sequence[FileChange], chosen: Iterable[Piece]) -> bytes:
    """Return the patch that makes only the chosen pieces, for ``git apply``."""
    of_file: dict[int, list[Piece]] = {}
    for piece in chosen:
        of_file.setdefault(piece.file, []).append(piece)
    lines = [line for index in sorted(of_file) for line in _file_patch(files[index], of_file[index])]
    return b"".join(line + b"\n" for line in lines)


def _file_patch(file: FileChange, chosen: Sequence[Piece]) -> list[bytes]:
    if any(piece.kind == "whole" for piece in chosen):
        return list(file.raw)
    lines = [file.head[0]]
    if any(piece.kind == "mode" for piece in chosen):
        lines += file.modes
    groups: dict[int, set[int]] = {}
    for piece in chosen:
        if piece.kind == "hunk":
            groups.setdefault(piece.hunk, set()).update(piece.groups)
    if groups:
        lines += [line for line in file.head if line.startswith((b"--- ", b"+++ "))]
    shift = 0
    for number in sorted(groups):
        made = _partial(file.hunks[number], groups[number])
        lines += [_header(made, made.old, _new_start(made, shift)), *made.lines]
        shift += _count(made.lines, b" +") - _count(made.lines, b" -")
    return lines


def _partial(hunk: Hunk, wanted: set[int]) -> Hunk:
    """The hunk with only some of its groups: removals of the others are context, their additions are not there."""
    left = {index for number, group in enumerate(hunk.groups) if number not in wanted for index in group}
    lines: list[bytes] = []
    dropped = False
    for index, line in enumerate(hunk.lines):
        sign = line[:1]
        if sign == b"\\" and dropped:
            continue  # it spoke of the line that is not there
        dropped = index in left and sign == b"+"
        if not dropped:
            lines.append(b" " + line[1:] if index in left and sign == b"-" else line)
    return replace(hunk, lines=tuple(lines))


def _new_start(hunk: Hunk, shift: int) -> int:
    """Where the hunk comes to stand: an empty side is numbered by the line before it (diff(1), unified format)."""
    first = hunk.old + (not _count(hunk.lines, b" -")) + shift
    return first - (not _count(hunk.lines, b" +"))


def _header(hunk: Hunk, old: int, new: int) -> bytes:
    olds, news = _count(hunk.lines, b" -"), _count(hunk.lines, b" +")
    return b"@@ -%d,%d +%d,%d @@%s" % (old, olds, new, news, hunk.heading)


def _count(lines: Iterable[bytes], signs: bytes) -> int:
    return sum(line[:1] in signs and bool(line) for line in lines)
