"""Whether a worker's work is in the target already, from the refs as they are now."""

from __future__ import annotations

import os
from typing import Literal

from git_parallel.git import Repository
from git_parallel.integrate.chain import ImpossibleError
from git_parallel.integrate.plan import Branch
from git_parallel.store import refs
from git_parallel.store.objects import Objects

How = Literal["reachable", "tree", "patch"]


def target_commit(repo: Repository, target: str | None) -> str | None:
    """The commit that a run's target (a full ref name) is at now; None when there is no such branch."""
    return refs.read(repo, target).get(target) if target is not None else None


def integrated(repo: Repository, objects: Objects, head: str, target: str) -> How | None:
    """Say how ``target`` has the work of ``head``; None when it has it not, or not all of it.

    ``reachable``: it contains the commit. ``tree``: merging would change nothing, as after a squash.
    ``patch``: it has each commit, or all of them as one, as an equal patch, as after a rebase.
    """
    git = repo.common
    if git.run("merge-base", "--is-ancestor", head, target, ok=(0, 1)).returncode == 0:
        return "reachable"
    merge = git.run("merge-tree", "--write-tree", "--no-messages", target, head, ok=(0, 1, 128))
    if merge.returncode == 0 and merge.text.split("\n")[0] == git.text("rev-parse", f"{target}^{{tree}}"):
        return "tree"
    bases = git.run("merge-base", head, target, ok=(0, 1)).lines
    if not bases:
        return None
    # `git cherry` passes over merges, which may hold work of their own.
    if not git.text("rev-list", "--merges", "--max-count=1", f"{target}..{head}") and _equal_patches(
        repo, target, head
    ):
        return "patch"
    squashed = objects.commit(git.text("rev-parse", f"{head}^{{tree}}"), bases[:1], "squashed\n")
    return "patch" if _equal_patches(repo, target, squashed) else None


def taken_back(repo: Repository, base: str, head: str, target: str) -> bool:
    """Whether ``target`` has nothing of the change from ``base`` to ``head`` where git takes it for merged: a revert.

    To be asked of a ``head`` whose commits, or equal patches, the target contains. After a revert git takes them for
    merged for ever; only the paths that they changed tell otherwise.
    """
    git = repo.common
    paths = git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, head).stdout
    if not paths:
        return False
    now = set(git.run("diff-tree", "-r", "-z", "--name-only", "--no-renames", base, target).fields)
    return not now & {os.fsdecode(path) for path in paths.split(b"\0")[:-1]}


def explained(repo: Repository, branch: Branch, error: ImpossibleError, target: str) -> ImpossibleError:
    """The same reason why a branch cannot land; of one that was taken back, that, since its change is not there."""
    if error.state != "skipped" or not taken_back(repo, branch.base, branch.head, target):
        return error
    return ImpossibleError(
        "refused",
        "it landed and was taken back, so git takes it for merged: land it again by reverting the revert, "
        f"or make it new with git parallel retry {branch.worker} -m …",
    )


def _equal_patches(repo: Repository, target: str, head: str) -> bool:
    """Whether each commit of ``head`` that the target lacks has an equal patch there (git-cherry(1))."""
    lines = repo.common.run("cherry", target, head).lines
    return bool(lines) and all(line.startswith("- ") for line in lines)
