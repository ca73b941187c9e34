"""The caller's worktree and the repository's configuration: where a run starts, and what its workers must leave alone.

Both are shared with the person, who may change them meanwhile; so a difference is reported as what it
is, something that changed while a worker ran, and never taken for proof.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec import Struct

from git_parallel.errors import GitError
from git_parallel.git import Pending, Repository
from git_parallel.layout import HEADS


class Surroundings(Struct, frozen=True):
    """How things stand. ``head`` is None before the first commit, ``branch`` (a full ref name) None when detached.

    ``changed`` are paths with uncommitted or untracked changes, None where there is no worktree;
    ``config`` the bytes of the configuration file.
    """

    head: str | None
    branch: str | None
    changed: frozenset[bytes] | None
    config: bytes


class Looking:
    """A look at how things stand, in one git call where there is a worktree. Begun when this is made.

    The ``with`` block ends it, also when nobody asks any more.
    """

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._config = _config(repo)
        self._status: Pending | None = None
        if repo.top is not None:
            self._status = repo.git.begin("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")

    def __enter__(self) -> Looking:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._status is not None:
            self._status.cancel()
            self._status = None

    def done(self) -> Surroundings:
        """Return what was seen. Raises GitError. To be called once."""
        if self._status is None:
            commit = self._repo.git.run("rev-parse", "--verify", "-q", "HEAD^{commit}", ok=(0, 1, 128)).text
            name = self._repo.git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text
            return Surroundings(commit or None, name or None, None, self._config)
        status, self._status = self._status, None
        return Surroundings(*parse_status(status.done().stdout), self._config)


def look(repo: Repository) -> Surroundings:
    """See how things stand. Raises GitError."""
    return Looking(repo).done()


def parse_status(output: bytes) -> tuple[str | None, str | None, frozenset[bytes]]:
    """Parse `status --porcelain=v2 --branch -z` into HEAD's commit, its branch and the changed paths."""
    fields = iter(output.split(b"\0"))
    head = branch = None
    changed = set()
    for field in fields:
        if field.startswith(b"# branch.oid "):
            value = os.fsdecode(field[13:])
            head = None if value == "(initial)" else value
        elif field.startswith(b"# branch.head "):
            value = os.fsdecode(field[14:])
            branch = None if value == "(detached)" else HEADS + value
        elif field and not field.startswith(b"#"):
            changed |= set(_paths(field, fields))
    return head, branch, frozenset(changed)


def _paths(field: bytes, following: Iterator[bytes]) -> Iterator[bytes]:
    """The path of one entry: after 8 fields (changed), 9 (renamed; the old path is the next field), 10 or 1."""
    before = {b"1": 8, b"2": 9, b"u": 10}.get(field[:1], 1)
    yield field.split(b" ", before)[before]
    if field[:1] == b"2":
        yield next(following, b"")


def changes(repo: Repository, before: Surroundings, *, worktree_too: bool) -> list[str]:
    """Say what is different now; the worktree is looked at only when asked for, since that may take long."""
    said = []
    if _config(repo) != before.config:
        said.append(
            "the repository's configuration changed while it ran: compare it with config.before in the run's files"
        )
    if worktree_too and before.changed is not None:
        try:
            now = look(repo)
        except GitError:
            return said
        if now.changed is not None and (paths := now.changed - before.changed):
            shown = ", ".join(os.fsdecode(path) for path in sorted(paths)[:3])
            said.append(f"{repo.top} changed while it ran ({shown}): did the agent work there?")
    return said


def _config(repo: Repository) -> bytes:
    try:
        with open(os.path.join(repo.common_dir, "config"), "rb") as file:
            return file.read()
    except OSError:
        return b""
