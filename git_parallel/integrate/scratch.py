"""The scratch worktree of a landing: integrated trees are checked, and conflicts resolved, in it.

It lies where workers' worktrees do and not below the git directory, where test runners see no files
(jest passes over every path with ``/.git/`` in it). It is git's own detached worktree, so that hooks,
``git mergetool`` and rerere work in it as anywhere.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct, field

from git_parallel import worktrees
from git_parallel.errors import ParallelError, RefusedError
from git_parallel.git import Git, Repository
from git_parallel.layout import State
from git_parallel.store import refs
from git_parallel.worktrees import Place, registry
from git_parallel.worktrees.names import Template, field_values
from git_parallel.worktrees.placing import WORKTREE, exclude_directory, root

_SETTING = WORKTREE


class Scratch(Struct):
    """A worktree that is made when it is first needed. ``template`` is ``parallel.worktree``; ``merge`` the landing."""

    repo: Repository
    merge: str
    template: str
    path: str | None = None
    admin: str | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def git(self) -> Git:
        """Git inside the worktree."""
        assert self.path is not None
        assert self.admin is not None
        return Git((f"--git-dir={self.admin}", f"--work-tree={self.path}"), self.path)

    def adopt(self, path: str) -> None:
        """Take over the worktree of an earlier command. Raises RefusedError when it is not there any more."""
        try:
            git = worktrees.opened(self.repo, path)
        except RefusedError as error:
            raise RefusedError(
                f"the worktree of the conflict is not as it was: {error.message}",
                "bring it back, or leave the branch out with: git parallel merge --skip (or --abort)",
            ) from error
        self.path, self.admin = path, git.options[0].removeprefix("--git-dir=")

    def find(self) -> bool:
        """Take over what this landing left when it died, in whatever state; say whether there is anything."""
        for name in _left(State(self.repo.common_dir).scratch):
            _delete(name)
        for name in registry.entry_names(self.repo):
            admin = os.path.join(self.repo.common_dir, "worktrees", name)
            if registry.lock_reason(admin) != self.reason:
                continue
            path = registry.named_by_entry(admin)
            if path is None:  # half made: nothing but this entry is there, and locked, it would stay for ever
                _delete(admin)
            else:
                self.path, self.admin = path, admin
        return self.path is not None

    @property
    def reason(self) -> str:
        """What git's entry is locked with."""
        return f"{registry.OUR_LOCK}merge {self.merge}"

    def show(self, commit: str) -> str:
        """Fill the worktree with exactly the files of ``commit``, its HEAD; return its path.

        What a check left there goes; a worktree that a check broke is replaced by a new one.
        """
        if self.path is not None:
            try:
                return self._filled(commit)
            except ParallelError:
                self.remove()
        self._make(commit)
        return self._filled(commit)

    def remove(self) -> None:
        """Take the worktree away: files that a check left undeletable stay below ``architect/scratch``."""
        if self.path is None or self.admin is None:
            return
        path, admin, self.path, self.admin = self.path, self.admin, None, None
        discard(self.repo, path, admin)

    def _filled(self, commit: str) -> str:
        assert self.path is not None
        self.git.run("update-ref", "--no-deref", "HEAD", commit)
        for name in ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "AUTO_MERGE", "MERGE_RR", "index.lock"):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.admin or "", name))
        # Twice the f: also repositories that a check made are nobody's.
        self.git.run("clean", "-ffdxq")
        self.warnings += worktrees.populate(self.repo, self.path, worktrees.features(self.repo, commit))
        return self.path

    def _make(self, commit: str) -> None:
        with refs.locked(self.repo):
            place = Place(0, commit, self._free_path())
            exclude_directory(self.repo, place.path)
            self.admin = worktrees.register(self.repo, place, reason=self.reason)
            self.path = place.path

    def _free_path(self) -> str:
        template = Template.parse(self.template, _SETTING)
        values = field_values({"run": self.merge, "task": "merge", "model": "", "repo": ""})
        number = 1
        while True:
            name = "merge" if number == 1 else f"merge-{number}"
            path = registry.real(os.path.join(root(self.repo), os.path.expanduser(template.render(name, values))))
            if not os.path.lexists(path):
                return path
            number += 1


def discard(repo: Repository, path: str, admin: str) -> None:
    """Remove a scratch worktree and its entry, whatever state a check left it in. Links are not followed.

    Both are moved away first, the entry after the files: whoever dies leaves either what :meth:`Scratch.find` knows by
    its lock, or what lies below ``architect/scratch``. `git worktree remove` would have the lock taken off before.
    """
    gone = [_out_of_the_way(repo, path)]
    with refs.locked(repo):
        if registry.named_by_entry(admin) in (path, None):
            gone.append(_out_of_the_way(repo, admin))
            with suppress(OSError):  # there are others
                os.rmdir(os.path.dirname(admin))
    for name in gone:
        if name is not None:
            _delete(name)


def _out_of_the_way(repo: Repository, path: str) -> str | None:
    """Move a directory to where whatever is there may be deleted; return its new name, None when it is gone."""
    if not os.path.lexists(path):
        return None
    top = State(repo.common_dir).scratch
    name = f"{os.path.basename(path)}.{os.urandom(4).hex()}"
    try:
        os.makedirs(top, exist_ok=True)
        os.rename(path, os.path.join(top, name))
        return os.path.join(top, name)
    except OSError:  # another file system
        _delete(path)
        return None


def _left(top: str) -> list[str]:
    try:
        return [os.path.join(top, name) for name in os.listdir(top)]
    except FileNotFoundError:
        return []


def _delete(path: str) -> None:
    import shutil  # noqa: PLC0415 (most landings make no scratch worktree)

    def writable(function: Callable[[str], object], name: str, _: object) -> None:
        """A check may have taken the permission to delete from a directory."""
        with suppress(OSError):
            os.chmod(os.path.dirname(name), stat.S_IRWXU)
            if os.path.isdir(name) and not os.path.islink(name):
                os.chmod(name, stat.S_IRWXU)
                shutil.rmtree(name, ignore_errors=True)
            else:
                function(name)

    shutil.rmtree(path, onerror=writable)
