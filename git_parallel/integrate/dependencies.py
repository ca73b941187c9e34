"""Tasks that a branch depends on: it may hold their work, which must have landed by its own approval."""

from __future__ import annotations

from collections.abc import Iterable

from git_parallel.git import Repository
from git_parallel.integrate import workers
from git_parallel.integrate.plan import Branch


def unmet(repo: Repository, branch: Branch, taken: Iterable[Branch], onto: str) -> str | None:
    """Return a task that ``branch`` depends on and that is neither among ``taken`` nor contained in ``onto``."""
    landed = {other.task for other in taken if other.run == branch.run}
    missing = [task for task in branch.depends if task not in landed]
    found = heads(repo, branch) if missing else {}
    for task in missing:
        if not any(repo.common.succeeds("merge-base", "--is-ancestor", head, onto) for head in found[task]):
            return task
    return None


def heads(repo: Repository, branch: Branch) -> dict[str, list[str]]:
    """For each task that a branch depends on, the heads of all workers of that task, wherever their run was made."""
    found: dict[str, list[str]] = {task: [] for task in branch.depends}
    for one in workers.gather(repo, [branch.run]):
        head = one.tip or (one.result.head if one.result is not None else None)
        if one.job.task in found and head is not None and head != one.spec.base:
            found[one.job.task].append(head)
    return found
