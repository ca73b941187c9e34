"""A person's own work in a worker's worktree: where it is, and what it has become."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from git_parallel import worktrees
from git_parallel.git import Git, Repository
from git_parallel.integrate import hooks
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS
from git_parallel.render import text
from git_parallel.store import refs, snapshots

# So many of the changed files are handed to an editor: more open nowhere well.
MOST_FILES = 50


class Place(Struct, frozen=True):
    """A worktree now. ``tip`` is the branch's, ``elsewhere`` says where HEAD is when it is not on the branch.

    ``operation`` is a merge, rebase … in progress; ``dirty``: something there is in no commit.
    """

    tip: str | None
    elsewhere: str | None
    operation: str | None
    dirty: bool


def git_in(repo: Repository, candidate: Candidate) -> Git:
    """Git in the worker's worktree. Raises RefusedError when it is not there, or not the worker's."""
    return worktrees.opened(repo, candidate.worktree)


def look(repo: Repository, candidate: Candidate) -> Place:
    """See how the worktree stands. Raises as :func:`git_in`."""
    git = git_in(repo, candidate)
    name = git.run("symbolic-ref", "-q", "HEAD", ok=(0, 1)).text or None
    here = name.removeprefix(HEADS) if name else "no branch"
    return Place(
        tip=refs.read(repo, candidate.branch).get(candidate.branch),
        elsewhere=here if name != candidate.branch else None,
        operation=snapshots.operation_in_progress(git.text("rev-parse", "--absolute-git-dir")),
        dirty=bool(git.run("status", "--porcelain", "-z", "--untracked-files=normal").stdout),
    )


def commit_arguments(repo: Repository, candidate: Candidate) -> Sequence[str]:
    """What follows ``git``: a commit of what was edited, for the person to describe.

    The hooks are those of the worktree the person called from, not what the branch has in their place.
    """
    return (
        *("-c", f"core.hooksPath={hooks.present(repo, 'squash').directory}"),
        "commit",
        "--edit",
        f"--message={text.subject('review: ' + candidate.task.title)}",
        f"--trailer=Parallel-Run: {candidate.run}",
        f"--trailer=Parallel-Worker: {candidate.worker}",
    )
