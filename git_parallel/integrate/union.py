"""Branches that cannot meet, merged all at once by one ``git fast-import``.

The usual case of a batch: every branch started from the target as it still is, no two change the same path
or one below another, and none takes anything away. Then there is nothing to merge: no file has two sides, no
rename is possible where nothing is gone, and each merge is the union of what the branches add and change,
exactly as ``git merge`` would make it. Anything else is left to :mod:`git_parallel.integrate.chain`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from git_parallel.git import Repository
from git_parallel.integrate import changes
from git_parallel.integrate.chain import Step
from git_parallel.integrate.changes import Changed
from git_parallel.integrate.plan import Strategy
from git_parallel.store.objects import Objects, people

# A ref must not outlive a power cut that its objects did not. Below a hundred of them git makes them loose.
_SAFE = ("-c", "core.fsync=objects", "-c", "core.fsyncMethod=batch")

_SHORT_WAY = 25  # commits


def build(
    repo: Repository, known: Objects, strategy: Strategy, onto: str, wanted: Sequence[tuple[str, str]]
) -> list[Step] | None:
    """Put branches (head, message) on top of each other; None when they may meet.

    ``strategy`` is ``merge`` or ``squash``. Two git calls, however many branches.
    """
    with changes.begin(repo, [(onto, head) for head, _ in wanted]) as comparing:
        if not all(_contains(known, onto, head) for head, _ in wanted):
            return None
        found = list(changes.parse(comparing.done().fields))
    if not apart(found):
        return None
    stream = _stream(repo, strategy, onto, wanted, found)
    answers = repo.common.run(*_SAFE, "fast-import", "--quiet", "--done", "--date-format=raw", stdin=stream).lines
    steps, at = [], onto
    for number, (head, message) in enumerate(wanted):
        commit, tree = answers[2 * number], answers[2 * number + 1].split(" ")[2].split("\t")[0]
        parents = (at, head) if strategy == "merge" else (at,)
        steps.append(Step(at, head, commit, tree, parents, message, tuple(found[number])))
        at = commit
    return steps


def apart(branches: Sequence[Sequence[Changed]]) -> bool:
    """Whether no two branches change the same path or one below another, and none takes anything away. Pure."""
    paths: set[str] = set()
    directories: set[str] = set()
    for changed in branches:
        if not changed or any(one.deleted for one in changed):
            return False
        for one in changed:
            up = list(changes.parents(one.path))
            # Within a branch, too: a file that became a directory would need to be taken away first.
            if one.path in paths or one.path in directories or any(directory in paths for directory in up):
                return False
            paths.add(one.path)
            directories.update(up)
    return True


def _contains(known: Objects, commit: str, head: str) -> bool:
    """Whether a short way back from ``head`` along first parents comes to ``commit``, as from most workers' heads."""
    for _ in range(_SHORT_WAY):
        if head == commit:
            return True
        parents = known.read_commit(head)[1]
        if not parents:
            return False
        head = parents[0]
    return head == commit


def _stream(
    repo: Repository,
    strategy: Strategy,
    onto: str,
    wanted: Sequence[tuple[str, str]],
    found: Sequence[Sequence[Changed]],
) -> bytes:
    """The commands for fast-import: each commit, then the question for its id and its tree."""
    ref = f"refs/architect/tmp-{os.urandom(8).hex()}"
    by, through = people(repo)
    now = int(time.time())
    author = f"author {by.who} {now if by.when is None else by.when} {by.zone}"
    committer = f"committer {through.who} {now if through.when is None else through.when} {through.zone}"
    out = [b"feature done"]
    for number, ((head, message), changed) in enumerate(zip(wanted, found, strict=True), 1):
        data = os.fsencode(message.replace("\0", "").rstrip("\n") + "\n")
        out += [f"commit {ref}".encode(), f"mark :{number}".encode(), os.fsencode(author), os.fsencode(committer)]
        out += [
            b"data %d" % len(data),
            data.rstrip(b"\n"),
            f"from {onto if number == 1 else f':{number - 1}'}".encode(),
        ]
        if strategy == "merge":
            out.append(f"merge {head}".encode())
        out += [os.fsencode(f"M {one.new_mode} {one.new} {_quoted(one.path)}") for one in changed]
        out += [b"", f"get-mark :{number}".encode(), f'ls :{number} ""'.encode()]
    # The ref is only there for the length of this call: git needs one to commit to.
    out += [f"reset {ref}".encode(), f"from {repo.zero}".encode(), b"", b"done", b""]
    return b"\n".join(out)


def _quoted(path: str) -> str:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
