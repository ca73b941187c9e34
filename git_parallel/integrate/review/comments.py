"""Comments on a change, written in an editor below the quoted lines they are about. Pure.

What stands above the diff is the message; what stands below a quoted line is about that line. Quoted lines
may be deleted, as in a mail: each carries its number, and is found again in the order of the diff.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from msgspec import Struct

from git_parallel.integrate.hunks import FileChange
from git_parallel.integrate.verdicts import Comment

QUOTE = ">"
IGNORED = "#"

# Nobody comments on more than this in an editor, and some editors choke on it.
MOST_LINES = 20_000


class Anchor(Struct, frozen=True):
    """What a quoted line stands for: a line of a file, or the file (``line`` None)."""

    path: str
    line: int | None = None
    side: Literal["old", "new"] | None = None


class Quoted(Struct, frozen=True):
    """A line of the template that quotes the diff."""

    text: str
    anchor: Anchor


def quote(files: Iterable[FileChange], most: int = MOST_LINES) -> list[Quoted]:
    """Quote a change line by line, at most ``most`` lines of it."""
    return list(islice(_quoted(files), most))


def _quoted(files: Iterable[FileChange]) -> Iterator[Quoted]:
    for file in files:
        of_file = Anchor(file.path)
        for raw in file.head:
            if raw.startswith((b"GIT binary patch", b"Binary files ")):
                yield _quote("(a binary file)", of_file)
                break
            if not raw.startswith((b"index ", b"--- ", b"+++ ")):
                yield _quote(_text(raw), of_file)
        for hunk in file.hunks:
            numbered = list(hunk.numbered())
            first = next((line.new for line in numbered if line.new is not None), None)
            about = Anchor(file.path, first, "new") if first is not None else of_file
            yield _quote(f"@@ {first or hunk.old}{_text(hunk.heading)}", about)
            for line in numbered:
                if line.new is not None:
                    yield _quote(f"{line.new:>6} {_text(line.text)}", Anchor(file.path, line.new, "new"))
                elif line.old is not None:
                    yield _quote(f"{line.old:>6} {_text(line.text)}", Anchor(file.path, line.old, "old"))


def _quote(said: str, anchor: Anchor) -> Quoted:
    return Quoted(f"{QUOTE} {said}", anchor)


def _text(raw: bytes) -> str:
    return os.fsdecode(raw.rstrip(b"\r"))


def template(title: str, lines: Sequence[Quoted], *, cut: bool) -> str:
    """The file that the person edits. ``title`` names the worker, ``cut`` says that not all is quoted."""
    head = [
        "",
        f"{IGNORED} What should {title} change? Write it above the quoted diff, or below the",
        f"{IGNORED} line of it that it is about. Lines that begin with '{IGNORED}' are ignored; quoted lines",
        f"{IGNORED} may be deleted. Without any text of yours nothing is recorded.",
        "",
    ]
    tail = [f"{IGNORED} The change goes on; these are its first {len(lines)} lines."] if cut else []
    return "\n".join([*head, *(line.text for line in lines), *tail]) + "\n"


def parse(edited: str, lines: Sequence[Quoted]) -> tuple[str | None, list[Comment]]:
    """Read what the person wrote: the message (None: none) and the comments, in their order.

    A line that begins like a quoted one and quotes nothing that was there is the person's own.
    """
    places: dict[str, list[int]] = {}
    for index, quoted in enumerate(lines):
        places.setdefault(_key(quoted.text), []).append(index)
    written: list[tuple[int | None, list[str]]] = [(None, [])]
    last = -1
    for line in edited.split("\n"):
        there = places.get(_key(line)) if line.startswith(QUOTE) else None
        if there:
            last = next((index for index in there if index > last), there[0])
            written.append((last, []))
        elif not line.startswith(IGNORED):
            written[-1][1].append(line)
    said = [(index, _stripped(part)) for index, part in written]
    comments = [_comment(part, lines[index].anchor) for index, part in said if index is not None and part]
    return said[0][1] or None, comments


def _key(line: str) -> str:
    """Editors take white space away at the end of lines, and put it there."""
    return line.rstrip()


def _stripped(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _comment(said: str, anchor: Anchor) -> Comment:
    return Comment(said, anchor.path, anchor.line, anchor.side)
