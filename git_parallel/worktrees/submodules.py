"""Commits of submodules that a worker's worktree alone has: its branch names them, and nobody else can get them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from git_parallel.git import Git, Repository
from git_parallel.worktrees.registry import paired

_LINK = "160000"  # the mode of a submodule's entry (git-fast-import(1))
_SHORT = 12


def only_here(repo: Repository, worktree: str, before: str, after: str) -> list[str]:
    """Say which submodules ``after`` has at a commit that no remote of theirs and no other checkout is known to have.

    ``before`` and ``after`` are commits or trees. Costs nothing where no submodule was ever filled in at ``worktree``.
    """
    admin = paired(repo, worktree)
    if admin is None or not os.path.isdir(os.path.join(admin, "modules")):
        return []
    fields = repo.common.run("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after).fields
    said = []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, commit, _ = about.split(" ")
        if mode == _LINK and _alone(repo, admin, commit):
            said.append(
                f"submodule {path} is at commit {commit[:_SHORT]}, which only the worktree {worktree} has: "
                "push it from there before the branch is landed"
            )
    return said


def _alone(repo: Repository, admin: str, commit: str) -> bool:
    """Whether a repository of the worktree's submodules has a commit that is on no remote of it, nor elsewhere here."""
    for place in repositories(os.path.join(admin, "modules")):
        if not _has(place, commit):
            continue
        main = os.path.join(repo.common_dir, "modules", os.path.relpath(place, os.path.join(admin, "modules")))
        if os.path.isdir(main) and _has(main, commit):
            return False
        done = Git((f"--git-dir={place}",), place).run(
            "rev-list", "--max-count=1", commit, "--not", "--remotes", ok=(0, 128)
        )
        return bool(done.returncode or done.stdout)
    return False


def _has(git_dir: str, commit: str) -> bool:
    asked = ("cat-file", "-e", f"{commit}^{{commit}}")
    return Git((f"--git-dir={git_dir}",), git_dir).run(*asked, ok=(0, 1, 128)).returncode == 0


def repositories(modules: str) -> Iterator[str]:
    """The git directories of submodules below a ``modules`` directory, those of their own submodules, too."""
    for top, directories, names in os.walk(modules):
        if "HEAD" in names and "objects" in directories:
            directories[:] = ["modules"] if "modules" in directories else []
            yield top
