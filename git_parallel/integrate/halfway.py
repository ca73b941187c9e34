"""A checkout whose files stopped between two commits, brought to either of them.

git was killed, or could not go on, while it wrote files. Before it began, the paths that change had no
local changes; so a file there that holds the old content, the new one or the beginning of one of them is
git's own doing and may be written again. Anything else was put there by somebody since: it is left
alone and told.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Literal

from git_parallel import system
from git_parallel.errors import GitError
from git_parallel.git import Git
from git_parallel.integrate import changes
from git_parallel.integrate.changes import Changed

Side = Literal["old", "new"]


def bring(git: Git, index: str, changed: Sequence[Changed], side: Side, result: str) -> list[str]:
    """Write the changed paths' files as they are on ``side``; return the paths that were left alone.

    ``git`` works in the checkout, ``index`` is its index and ``result`` gets the one that goes with the files:
    only the entries of the changed paths differ. Raises GitError when git cannot write.
    """
    with suppress(FileNotFoundError):
        os.unlink(f"{result}.lock")  # of a git that was killed
    system.copy(index, result)
    env = {"GIT_INDEX_FILE": result}
    top = git.cwd or ""
    hidden = _hidden(git, env)
    ours = [one for one in changed if changes.GITLINK not in (one.old_mode, one.new_mode) and one.path not in hidden]
    foreign = {one.path for one in ours if _is_there(top, one.path) and not _by_git(git, one)}
    _set_entries(git, env, changed, side)
    if kept := [one.path for one in changed if one.path in hidden]:
        git.run("update-index", "--skip-worktree", "-z", "--stdin", stdin=_nul(kept), env=env, ok=(0, 128))
    mine = [one for one in ours if one.path not in foreign]
    wanted = [one.path for one in mine if not _absent(one, side)]
    for one in mine:
        _unlink(top, one.path)
    if wanted:
        git.run("checkout-index", "-f", "-u", "-z", "--stdin", stdin=_nul(wanted), env=env)
    git.run("update-index", "-q", "--refresh", env=env, ok=(0, 1))
    return sorted(foreign)


def _absent(one: Changed, side: Side) -> bool:
    return one.added if side == "old" else one.deleted


def _set_entries(git: Git, env: dict[str, str], changed: Sequence[Changed], side: Side) -> None:
    """Give the index the entries of one side; all others stay as they are, staged or not."""
    lines = []
    for one in changed:
        mode, oid = (one.old_mode, one.old) if side == "old" else (one.new_mode, one.new)
        lines.append(f"{mode if mode.strip('0') else '0'} {oid}\t{one.path}")
    # Removals first, or a file and a directory of one name would meet.
    lines.sort(key=lambda line: not line.startswith("0 "))
    git.run("update-index", "-z", "--index-info", stdin=_nul(lines), env=env)


def _hidden(git: Git, env: dict[str, str]) -> set[str]:
    """Paths outside a sparse checkout: they have no files."""
    tagged = git.run("ls-files", "-t", "-z", env=env).fields
    return {field[2:] for field in tagged if field.startswith("S ")}


def _by_git(git: Git, one: Changed) -> bool:
    """Whether the file there holds one side's content or the beginning of it, as stored or as filters write it."""
    data = _read(os.path.join(git.cwd or "", one.path))
    return data is not None and any(content.startswith(data) for content in _contents(git, one))


def _contents(git: Git, one: Changed) -> Iterator[bytes]:
    sides = [(mode, oid) for mode, oid in ((one.old_mode, one.old), (one.new_mode, one.new)) if mode.strip("0")]
    for _, oid in sides:
        yield git.run("cat-file", "blob", oid).stdout
    for mode, oid in sides:
        if mode != changes.SYMLINK:
            with suppress(GitError):
                yield git.run("cat-file", "--filters", f"--path={one.path}", oid).stdout


def _is_there(top: str, path: str) -> bool:
    """Whether a file or link is at the path; a directory there belongs to other paths."""
    if any(os.path.islink(os.path.join(top, up)) for up in changes.parents(path)):
        return False
    try:
        return not stat.S_ISDIR(os.lstat(os.path.join(top, path)).st_mode)
    except OSError:
        return False


def _read(path: str) -> bytes | None:
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return os.fsencode(os.readlink(path))
    if not stat.S_ISREG(mode):
        return None
    with open(path, "rb") as file:
        return file.read()


def _unlink(top: str, path: str) -> None:
    """Remove a file, and the directories that are empty then."""
    if not _is_there(top, path):
        return
    os.unlink(os.path.join(top, path))
    for directory in changes.parents(path):
        try:
            os.rmdir(os.path.join(top, directory))
        except OSError:
            return


def _nul(lines: Sequence[str]) -> bytes:
    return os.fsencode("".join(f"{line}\0" for line in lines))
