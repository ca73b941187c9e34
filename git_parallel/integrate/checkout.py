"""The worktrees in which the target is checked out, moved along with it without touching anything else.

DESIGN section 9, step 5: refuse while an operation is in progress, refuse where local changes overlap,
leave all other local changes exactly as they are (staged ones stay staged), update by git's own two-tree
``read-tree``. No stash, no reset, no checkout.

The index is git's own, so it is locked the way git does, by ``index.lock``, from the first look until the
last write: no ``git add`` or ``git commit`` of the person comes in between. The new index is made beside the
old one and takes its place in one rename, so that after a crash the index is either old or new, and says
which files :mod:`git_parallel.integrate.halfway` has to bring along.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from git_parallel import system, worktrees
from git_parallel.errors import GitError, RefusedError
from git_parallel.git import Git, Pending, Repository
from git_parallel.integrate import changes, halfway, local
from git_parallel.integrate.changes import Changed
from git_parallel.layout import HEADS
from git_parallel.worktrees import registry

# What git leaves in a worktree's own directory while something is under way, the more telling names first.
_OPERATIONS = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick or revert"),
    ("BISECT_LOG", "bisect"),
)
_HOW_TO_END = {"bisect": "git bisect reset", "cherry-pick or revert": "git cherry-pick --continue"}

_LOCK_PATIENCE = 2.0  # seconds: an editor's `git status` holds the index for a moment
_NAMED = 10

_UNMERGED = frozenset((b"M", b"m"))  # tags of `ls-files -v`

_FEW = 200  # paths: as many as git compares with each of its entries in less time than it takes to look at all files


class Checkout(Struct, frozen=True):
    """A worktree where the target is checked out, at the commit ``head``. ``admin`` is its own git directory."""

    path: str
    admin: str
    head: str | None = None
    ignores_case: bool = False

    @property
    def git(self) -> Git:
        return Git((f"--git-dir={self.admin}", f"--work-tree={self.path}"), self.path)

    @property
    def lock(self) -> str:
        return os.path.join(self.admin, "index.lock")

    @property
    def index(self) -> str:
        return os.path.join(self.admin, "index")


class OverlapError(RefusedError):
    """Local changes are in the way of what lands. ``paths`` are in order."""

    def __init__(self, place: Checkout, paths: Sequence[str], why: str) -> None:
        shown = [f"  {path}" for path in paths[:_NAMED]]
        rest = [f"  … and {len(paths) - _NAMED} more"] if len(paths) > _NAMED else []
        super().__init__(
            f"{why} in '{place.path}' would be overwritten:",
            *shown,
            *rest,
            "commit or move them, then run the command again; nothing was changed",
        )
        self.paths = list(paths)
        self.why = why


def find(repo: Repository, target: str, listed: Pending | None = None) -> list[Checkout]:
    """Return the worktrees that have ``target`` (a full ref name) checked out.

    ``listed`` is the list of all worktrees, where it was begun before (:func:`worktrees.begin_entries`).
    Raises RefusedError when one of them is not to be found, or when an operation that is in progress anywhere
    will come back to the target.
    """
    found = []
    for entry in worktrees.entries(repo, listed):
        path = repo.main_top if entry.main else entry.path
        if entry.bare or entry.branch != target or path is None:
            continue
        admin = repo.common_dir if entry.main else worktrees.paired(repo, path)
        if admin is None or not os.path.isdir(path):
            raise RefusedError(
                f"{_short(target)} is checked out in '{path}', which is not there (or no longer this worktree)",
                "nothing was changed",
                f"if it will not come back: git worktree remove '{path}'; if it was moved: git worktree repair PATH",
            )
        found.append(Checkout(path, admin, entry.head, repo.setting("core.ignorecase") == "true"))
    _refuse_returning(repo, target)
    for place in found:
        _refuse_operation(place)
    return found


def _refuse_operation(place: Checkout) -> None:
    name = operation(place.admin)
    if name is not None:
        raise RefusedError(
            f"a {name} is in progress in '{place.path}', where the target is checked out",
            "nothing was changed; finish it first, or end it with: "
            + _HOW_TO_END.get(name, f"git {name} --continue, or --abort"),
        )


def operation(admin: str) -> str | None:
    """Name the merge, rebase, cherry-pick … that is under way in a worktree, or None."""
    return next((name for file, name in _OPERATIONS if os.path.exists(os.path.join(admin, file))), None)


def _refuse_returning(repo: Repository, target: str) -> None:
    """A rebase or bisect detaches HEAD and moves its branch at the end, from where it was at the start."""
    admins = [repo.common_dir, *(os.path.join(repo.common_dir, "worktrees", one) for one in registry.entry_names(repo))]
    for admin in admins:
        for file, name in (
            ("rebase-merge/head-name", "rebase"),
            ("rebase-apply/head-name", "rebase"),
            ("rebase-merge/update-refs", "rebase"),
            ("BISECT_START", "bisect"),
        ):
            if target in _names(os.path.join(admin, file)):
                where = registry.named_by_entry(admin) or repo.main_top or admin
                raise RefusedError(
                    f"a {name} of {_short(target)} is in progress in '{where}'",
                    "nothing was changed; finish it first, or end it there",
                )


def _names(path: str) -> set[str]:
    try:
        with open(path, "rb") as file:
            lines = os.fsdecode(file.read()).split("\n")
    except OSError:
        return set()
    return {line if line.startswith("refs/") else HEADS + line for line in lines if line}


class Held:
    """A checkout with its index locked, so that it can follow the target from ``old`` to ``new``.

    Made by :func:`hold`; :meth:`follow` updates it and :meth:`release` gives the index back in any case.
    """

    def __init__(self, place: Checkout, old: str, new: str, changed: Sequence[Changed], index: str) -> None:
        self.place = place
        self.old, self.new, self.changed = old, new, changed
        self._index = index
        self._looks: list[Pending] = []

    def follow(self, keep: Sequence[int] = ()) -> None:
        """Update files and index. Raises RefusedError when git cannot, after the files are back as they were.

        ``keep`` are descriptors that git inherits: a lock that lasts until it has ended.
        """
        try:
            self._git("read-tree", "-m", "-u", "--no-recurse-submodules", self.old, self.new, keep=keep)
        except GitError as error:
            left = self._restore()
            hints = [f"this was changed meanwhile, and left alone: {path}" for path in left]
            raise RefusedError(
                f"the files in '{self.place.path}' could not be updated: {_reason(error)}",
                "the target and the files are as they were",
                *hints,
            ) from error
        install(self.place, self._index)

    def back(self) -> None:
        """Undo :meth:`follow`, when another worktree cannot follow."""
        self._restore()
        install(self.place, self._index)

    def _restore(self) -> list[str]:
        return halfway.bring(self.place.git, self.place.index, self.changed, "old", self._index)

    def release(self) -> None:
        """Unlock the index."""
        for look in self._looks:
            look.cancel()
        # The second is what a look that was cut short leaves; the next one would fail on it.
        for path in (self._index, f"{self._index}.lock", self.place.lock):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def look(self) -> None:
        """Begin to look for local changes, for :meth:`check`."""
        self._looks = [
            self._begin_narrow() if self._narrow else self._begin_status(),
            self.place.git.begin("ls-files", "-v", "-z", env={"GIT_INDEX_FILE": self.place.index}),
        ]

    @property
    def _narrow(self) -> bool:
        """Whether to look at nothing but the paths that change, first: `status` looks at all files there are."""
        return len(self.changed) <= _FEW and not self.place.ignores_case

    def _begin_narrow(self) -> Pending:
        env = {"GIT_INDEX_FILE": self._index, "GIT_LITERAL_PATHSPECS": "1"}
        how = ("diff-index", "--name-only", "-z", "--no-renames", "--ignore-submodules=dirty")
        return self.place.git.begin(*how, self.old, "--", *(one.path for one in self.changed), env=env)

    def _begin_status(self) -> Pending:
        # Optional locks: `status` writes what it refreshed into our copy of the index, which read-tree then trusts.
        env = {"GIT_INDEX_FILE": self._index, "GIT_OPTIONAL_LOCKS": "1"}
        how = ("status", "--porcelain=v2", "-z", "--untracked-files=no", "--ignore-submodules=dirty", "--no-renames")
        return self.place.git.begin(*how, env=env)

    def check(self) -> None:
        """Raise RefusedError (OverlapError) when the checkout cannot follow without touching local changes."""
        if not self._looks:
            return
        seen, listed = (look.done() for look in self._looks)
        self._looks = []
        tags, names = local.parse_entries(listed.stdout)
        if self._narrow and (seen.stdout or _UNMERGED & tags or local.staged_in_the_way(names, self.changed)):
            # Touched, perhaps only in its time stamp: see exactly.
            seen = self._begin_status().done()
        mine, unmerged = local.parse_status(seen.fields)
        if unmerged:
            raise RefusedError(
                f"there are unresolved conflicts in '{self.place.path}', where the target is checked out",
                *(f"  {path}" for path in unmerged[:_NAMED]),
                "nothing was changed; resolve and commit them first",
            )
        if found := local.overlapping(mine, [one.path for one in self.changed]):
            links = {one.path for one in self.changed if changes.GITLINK in (one.old_mode, one.new_mode)}
            moved = " (a submodule at another commit: git submodule update)" if links & set(found) else ""
            raise OverlapError(self.place, found, f"local changes{moved}")
        if found := local.in_the_way(self.place.path, self.changed, ignores_case=self.place.ignores_case):
            raise OverlapError(self.place, found, "untracked files")
        if not any(tag.islower() or tag == b"S" for tag in tags):
            return
        # What `status` does not show (`update-index --assume-unchanged`), git itself still sees.
        try:
            self._git("read-tree", "-n", "-m", "-u", "--no-recurse-submodules", self.old, self.new)
        except GitError as error:
            raise RefusedError(
                f"the files in '{self.place.path}' cannot be updated: {_reason(error)}", "nothing was changed"
            ) from error

    def _git(self, *arguments: str, keep: Sequence[int] = ()) -> None:
        # LC_ALL: the paths in git's complaints are told from its words.
        env = {"GIT_INDEX_FILE": self._index, "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "0"}
        self.place.git.run(*arguments, env=env, keep=keep)


def hold(place: Checkout, old: str, new: str, changed: Sequence[Changed], *, index: str, marker: str) -> Held:
    """Lock the checkout's index and begin to look whether it can follow. ``index`` is a path for the new one.

    ``marker`` goes into the lock file, by which :func:`is_ours` knows it after a crash. Raises RefusedError;
    then nothing is locked.
    """
    lock_index(place, marker)
    held = Held(place, old, new, changed, index)
    try:
        _refuse_operation(place)  # again: one may have begun before the lock
        with suppress(FileNotFoundError):
            system.copy(place.index, index)  # with its time stamp, by which git judges its entries
        held.look()
    except BaseException:
        held.release()
        raise
    return held


def lock_index(place: Checkout, marker: str) -> None:
    """Take ``index.lock`` as git does. Raises RefusedError when somebody else keeps it."""
    deadline = time.monotonic() + _LOCK_PATIENCE
    while True:
        try:
            descriptor = os.open(place.lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            if time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            raise RefusedError(
                f"another git process is at work in '{place.path}' ('{place.lock}' exists)",
                "nothing was changed; if no git process is running there, remove that file",
            ) from None
        try:
            os.write(descriptor, f"{marker}\n".encode())
        except BaseException:  # a full disk: nobody would know whose lock it is
            os.unlink(place.lock)
            raise
        finally:
            os.close(descriptor)
        return


def is_ours(place: Checkout, marker: str) -> bool:
    """Whether the index's lock is the one that was taken with this marker."""
    try:
        with open(place.lock, "rb") as file:
            return file.read(len(marker) + 2) == marker.encode("ascii") + b"\n"
    except OSError:
        return False


def install(place: Checkout, index: str) -> None:
    """Make ``index`` the checkout's own. The caller holds its lock."""
    mode = os.stat(place.index).st_mode & 0o777 if os.path.exists(place.index) else 0o644
    os.chmod(index, mode)
    try:
        os.replace(index, place.index)
    except OSError:  # another file system
        beside = f"{place.index}.architect"
        system.copy(index, beside)
        os.replace(beside, place.index)


def _reason(error: GitError) -> str:
    lines = [line.removeprefix("error: ").removeprefix("fatal: ") for line in error.stderr.splitlines() if line.strip()]
    return "; ".join(line.strip() for line in lines[:4]) or error.message


def _short(target: str) -> str:
    return target.removeprefix(HEADS)
