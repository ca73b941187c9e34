"""Conflicts that a person resolves: laid out in the scratch worktree as git itself would leave them.

``git mergetool``, an editor and rerere work there as anywhere. What the person makes of it becomes a commit;
the landing goes on from that.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from git_parallel.errors import RefusedError
from git_parallel.git import Git
from git_parallel.integrate.plan import Strategy
from git_parallel.integrate.scratch import Scratch
from git_parallel.store.objects import Objects

_NAMED = 10
# The person's editor is for messages that they ask for.
_QUIET = {"GIT_EDITOR": ":", "GIT_SEQUENCE_EDITOR": ":"}


def begin(scratch: Scratch, strategy: Strategy, onto: str, head: str, message: str) -> list[str]:
    """Stop in the middle of putting ``head`` on top of ``onto``; return the paths that wait for a resolution.

    There are none where rerere knew them all and may stage what it knows (``rerere.autoUpdate``).
    """
    scratch.show(head if strategy == "rebase" else onto)
    git = scratch.git
    if strategy == "rebase":
        git.run("rebase", "--no-autosquash", "--no-autostash", onto, env=_QUIET, ok=(0, 1))
        while (left := unresolved(git)) == [] and _rebasing(scratch):
            git.run("rebase", "--continue", env=_QUIET, ok=(0, 1))
        return left
    how = ("--squash",) if strategy == "squash" else ("--no-ff", "--no-commit")
    git.run("merge", *how, "--no-verify-signatures", "--no-autostash", head, ok=(0, 1))
    with open(os.path.join(scratch.admin or "", "MERGE_MSG"), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(message)
    return unresolved(git)


def unresolved(git: Git) -> list[str]:
    """The paths that git has no single version of."""
    return sorted({field.partition("\t")[2] for field in git.run("ls-files", "-u", "-z").fields})


def finish(scratch: Scratch, objects: Objects, strategy: Strategy, onto: str, head: str) -> tuple[str, str | None]:
    """Return the commit that holds the person's resolution, and the message where they committed it themselves.

    Its first parent is ``onto``; for ``rebase`` it is the last of the replayed commits. Raises RefusedError
    while something is left to resolve.
    """
    git = scratch.git
    _refuse_unfinished(scratch, git)
    if strategy == "rebase":
        while _rebasing(scratch):
            git.run("rebase", "--continue", env=_QUIET, ok=(0, 1))
            _refuse_unfinished(scratch, git)
        return git.text("rev-parse", "HEAD"), None
    at = git.text("rev-parse", "HEAD")
    if at != onto:
        if not git.succeeds("merge-base", "--is-ancestor", onto, at):
            raise RefusedError(
                f"the worktree '{scratch.path}' was moved away from what it was to resolve",
                "leave the branch out with: git parallel merge --skip",
            )
        tree, _, message = objects.read_commit(at)
        return objects.commit(tree, (onto, head), "resolved"), message
    git.run("rerere", ok=(0, 1))  # as `git commit` does: remember how this was resolved
    return objects.commit(git.text("write-tree"), (onto, head), "resolved"), None


def refuse_loose(scratch: Scratch, conflicts: Sequence[str]) -> None:
    """Raise RefusedError for files that the person made there and did not add: they would go with the worktree.

    What `git mergetool` keeps of the ``conflicts`` is none of them.
    """
    if scratch.path is None or not os.path.isdir(scratch.path):
        return
    backups = {f"{path}.orig" for path in conflicts}
    found = scratch.git.run("ls-files", "-z", "--others", "--exclude-standard", ok=(0, 128)).fields
    if loose := [path for path in found if path not in backups]:
        raise RefusedError(
            f"there are files in '{scratch.path}', which will be removed, that are not added:",
            *(f"  {path}" for path in loose[:_NAMED]),
            "add them with 'git add', or move them away, then run the command again; nothing was changed",
        )


def _rebasing(scratch: Scratch) -> bool:
    return any(os.path.isdir(os.path.join(scratch.admin or "", name)) for name in ("rebase-merge", "rebase-apply"))


def _refuse_unfinished(scratch: Scratch, git: Git) -> None:
    if left := unresolved(git):
        raise RefusedError(
            f"{len(left)} conflicting {'path is' if len(left) == 1 else 'paths are'} not resolved:",
            *(f"  {path}" for path in left[:_NAMED]),
            f"resolve them in '{scratch.path}' (git mergetool works there) and mark each with: git add PATH",
            "then: git parallel merge --continue (or --skip, --abort)",
        )
    git.run("update-index", "-q", "--refresh", ok=(0, 1))
    if changed := git.run("diff-files", "--name-only", "-z", ok=(0, 1)).fields:
        raise RefusedError(
            f"there are changes in '{scratch.path}' that are not staged:",
            *(f"  {path}" for path in changed[:_NAMED]),
            "add them with 'git add', or take them back; then: git parallel merge --continue",
        )
