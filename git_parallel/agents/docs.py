"""What coding agents are told of this program, where they look for it: a skill, and a block in ``AGENTS.md``.

Claude Code reads ``.claude/skills/NAME/SKILL.md`` (front matter with name and description, then Markdown: the
format of agentskills.io, which other agents read there, too); Codex and others read ``AGENTS.md`` at the top
of the repository. Ours is what stands between two marks; everything around it is the person's and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_parallel.errors import RefusedError

BEGIN = b"<!-- git parallel: begin. Written by git parallel init --agent-docs, which writes it anew -->"
END = b"<!-- git parallel: end -->"

SKILL = os.path.join(".claude", "skills", "git-parallel", "SKILL.md")
AGENTS = "AGENTS.md"

_FRONT_MATTER = b"""---
name: git-parallel
description: Run several coding agents at once on this repository with git parallel, each in its own worktree and
  branch, and follow them. Use when the person wants tasks done in parallel, by several agents or models.
---

"""
_HEADING = b"## Several agents at once: git parallel\n\n"


def write(top: str) -> Iterator[tuple[str, str]]:
    """Write or renew both below ``top``; yield each path (relative) and ``wrote``, ``renewed`` or ``unchanged``.

    Raises RefusedError for a file whose marks are not one pair; that one is left as it is.
    """
    block = _text()
    for path, before, heading in ((SKILL, _FRONT_MATTER, b""), (AGENTS, b"", _HEADING)):
        place = os.path.realpath(os.path.join(top, path))
        had = _read(place)
        now = before + _marked(heading + block) if had is None else joined(had, heading + block, path)
        if now != had:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            _replace(place, now)
        yield path, "unchanged" if now == had else "wrote" if had is None or BEGIN not in had else "renewed"


def remove(top: str) -> Iterator[tuple[str, str]]:
    """Take our part out again, and files and directories that held nothing else; yield as :func:`write` does."""
    for path, before in ((SKILL, _FRONT_MATTER), (AGENTS, b"")):
        place = os.path.realpath(os.path.join(top, path))
        had = _read(place)
        if had is None or _found(had, path) is None:
            continue
        left = parted(had, path)
        if left.strip() not in (b"", before.strip()) or os.path.islink(os.path.join(top, path)):
            _replace(place, left)
            yield path, "removed our part of"
            continue
        os.unlink(place)
        _remove_empty(os.path.dirname(place), top)
        yield path, "removed"


def joined(text: bytes, block: bytes, path: str = "") -> bytes:
    """Put ``block`` into a text: in the place of ours, else at its end. Pure; keeps the text's line ends."""
    line_end = b"\r\n" if b"\r\n" in text else b"\n"
    marked = _marked(block).replace(b"\n", line_end)
    found = _found(text, path)
    if found is not None:
        return text[: found[0]] + marked + text[found[1] :]
    if not text.strip():
        return marked
    return text + (b"" if text.endswith(b"\n") else line_end) + line_end + marked


def parted(text: bytes, path: str = "") -> bytes:
    """Take our block out of a text, with the blank line before it. Pure."""
    found = _found(text, path)
    if found is None:
        return text
    before, after = text[: found[0]], text[found[1] :]
    for blank in (b"\r\n\r\n", b"\n\n"):
        if before.endswith(blank):
            return before[: -len(blank) // 2] + after
    return before + after


def _found(text: bytes, path: str) -> tuple[int, int] | None:
    """Where our block begins and ends, its last line end included; None when there is none. Raises RefusedError."""
    if BEGIN not in text and END not in text:
        return None
    begin, end = text.find(BEGIN), text.find(END)
    if text.count(BEGIN) != 1 or text.count(END) != 1 or end < begin:
        raise RefusedError(
            f"the marks of git parallel in '{path}' are not one pair, and it was left as it is",
            "put them right by hand, or remove them, and repeat the command",
        )
    end += len(END)
    rest = text[end : end + 2]
    return begin, end + (2 if rest == b"\r\n" else 1 if rest[:1] == b"\n" else 0)


def _marked(block: bytes) -> bytes:
    return BEGIN + b"\n" + block + END + b"\n"


def _text() -> bytes:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "docs.md"), "rb") as file:
        return file.read()


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _replace(path: str, data: bytes) -> None:
    """Write a file anew, all of it or nothing, with the permissions that it has."""
    temporary = f"{path}.git-parallel.{os.getpid()}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
        if os.path.exists(path):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def _remove_empty(directory: str, top: str) -> None:
    while directory != os.path.realpath(top):
        try:
            os.rmdir(directory)
        except OSError:
            return
        directory = os.path.dirname(directory)
