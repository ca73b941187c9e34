"""Repositories that agents made inside their worktrees: a branch has of each the id of its commit, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_parallel.errors import GitError
from git_parallel.git import Git, Repository
from git_parallel.integrate import changes
from git_parallel.integrate.changes import Changed

_LINK = "160000"  # the mode of an entry that names a commit (git-fast-import(1))
_SHORT = 12


def doubts(repo: Repository, branches: Sequence[tuple[str, str]]) -> list[str]:
    """Say of which repositories these branches, each (base, tip), name a commit that is not here.

    Submodules, which .gitmodules says where to get, are passed over. A commit that cannot be read says nothing:
    whoever lands or reviews it is told then.
    """
    try:
        compared = list(changes.parse(changes.begin(repo, branches).done().fields)) if branches else []
    except GitError:
        return []
    if len(compared) != len(branches):
        return []
    said = []
    for (_, tip), changed in zip(branches, compared, strict=True):
        links = _links(changed)
        known = _submodules(repo, tip) if links else ()
        said += [
            f"{one.path} is a repository of its own: the branch names its commit {one.new[:_SHORT]}, which this "
            "repository does not have, and no file of it would land"
            for one in links
            if one.path not in known and repo.common.run("cat-file", "-e", one.new, ok=(0, 1, 128)).returncode
        ]
    return list(dict.fromkeys(said))


def inside(git: Git, worktree: str, base: str, tree: str) -> list[str]:
    """The paths of which ``tree`` (or a commit) names another commit than ``base``, and whose repository lies there.

    That of a submodule lies in git's own directory; one that the agent made, or cloned, goes where the worktree goes.
    """
    fields = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", base, tree).fields
    found = [path for about, path in zip(fields[::2], fields[1::2], strict=True) if about.split(" ")[1] == _LINK]
    return [path for path in found if os.path.isdir(os.path.join(worktree, path, ".git"))]


def _links(changed: Sequence[Changed]) -> list[Changed]:
    return [one for one in changed if one.new_mode == _LINK]


def _submodules(repo: Repository, tip: str) -> frozenset[str]:
    """The paths of the submodules that a commit's .gitmodules names; none where it has no such file."""
    asked = ("config", "-z", f"--blob={tip}:.gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    return frozenset(field.partition("\n")[2] for field in repo.common.run(*asked, ok=(0, 1, 128)).fields)
