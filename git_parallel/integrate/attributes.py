"""Merge drivers for merges without a worktree.

``merge-tree`` reads ``.gitattributes`` from files, as every merge does, and there are none beside a bare git
directory: ``CHANGELOG merge=union`` would be a conflict there and none in ``git merge``. So the attribute
files of the tree that is merged into are laid out in a directory of their own. Git 2.43 can read them from
a tree (``--attr-source``); this works with all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from tempfile import TemporaryDirectory

from git_parallel.git import Git, Repository
from git_parallel.store.objects import batch

NAME = ".gitattributes"


class Attributed(Repository, frozen=True, dict=True):
    """A repository whose merges see the attribute files in ``attributes``."""

    attributes: str = ""

    @cached_property
    def common(self) -> Git:
        return Git((f"--git-dir={self.common_dir}", f"--work-tree={self.attributes}"), self.attributes)


@contextmanager
def attributed(repo: Repository, commit: str) -> Iterator[Repository]:
    """Yield the repository with the attributes of ``commit`` for merges."""
    with TemporaryDirectory(prefix="git-parallel-") as directory:
        yield lay_out(repo, commit, directory)


def lay_out(repo: Repository, commit: str, directory: str) -> Repository:
    """Write the attribute files of ``commit`` into ``directory``; return the repository that merges with them.

    Without any such file it is ``repo`` itself.
    """
    pathspec = f":(top,glob)**/{NAME}"
    listed = repo.common.run("grep", "-z", "-l", "-I", "-e", ".", commit, "--", pathspec, ok=(0, 1)).fields
    paths = [field.removeprefix(f"{commit}:") for field in listed]
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    if not paths:
        return repo
    for path, found in zip(paths, batch(repo, [f"{commit}:{path}" for path in paths]), strict=True):
        if found is None:
            continue
        place = os.path.join(directory, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(found.data)
    return Attributed(
        git_dir=repo.git_dir,
        common_dir=repo.common_dir,
        top=repo.top,
        prefix=repo.prefix,
        bare=repo.bare,
        object_format=repo.object_format,
        attributes=directory,
    )
