"""Commits made in one ``git fast-import``, from whole trees: hundreds of branches in the time of a few commits."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

FILE, EXECUTABLE, LINK, SUBMODULE = "100644", "100755", "120000", "160000"

# Commits are a minute apart, from 2026-11-29T16:50:00Z on: dates before a commit's parents' slow merge bases down.
START = 1795971000

Tree = Mapping[str, tuple[str, str]]
"""Path: (mode, content; of a submodule its commit)."""


@dataclass(frozen=True)
class Made:
    """A commit to make. ``parents`` are numbers of commits made before it; ``ref`` names it, if given."""

    tree: Tree
    parents: tuple[int, ...] = ()
    ref: str | None = None


def lines(seed: object, count: int = 8, changed: Iterable[int] = ()) -> str:
    """A text that resembles no other seed's, also with some lines changed."""
    marks = set(changed)
    return "".join(f"line {number} of {seed}{' changed' if number in marks else ''}\n" for number in range(count))


def make(path: Path, commits: Iterable[Made]) -> list[str]:
    """Make the commits in the repository at ``path``; return their ids in order."""
    out: list[bytes] = [b"feature done\n"]
    wanted = list(commits)
    for number, one in enumerate(wanted, 1):
        when = START + 60 * number
        out.append(f"commit {one.ref or f'refs/made/{number}'}\nmark :{number}\n".encode())
        out.append(f"committer C O Mitter <committer@example.com> {when} +0000\ndata 2\nm\n\n".encode())
        for verb, parent in zip(("from", *["merge"] * len(one.parents)), one.parents, strict=False):
            out.append(f"{verb} :{parent + 1}\n".encode())
        out.append(b"deleteall\n")
        for name, (mode, content) in one.tree.items():
            if mode == SUBMODULE:
                out.append(f"M {mode} {content} {name}\n".encode())
            else:
                data = content.encode("utf-8", "surrogateescape")
                out.append(f"M {mode} inline {name}\ndata {len(data)}\n".encode() + data + b"\n")
        out.append(b"\n")
    out += [f"get-mark :{number}\n".encode() for number in range(1, len(wanted) + 1)]
    out.append(b"done\n")
    done = subprocess.run(
        ["git", "fast-import", "--quiet", "--force", "--done"],
        input=b"".join(out),
        cwd=path,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split()
