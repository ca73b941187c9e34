"""What a death leaves behind on the disk: our own half-made files, and locks of git commands that were killed.

Git takes a lock by making ``NAME.lock`` and gives it back by renaming or removing that; killed in between, it
leaves a file on which every later command fails, and that git itself never removes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from git_parallel import system
from git_parallel.git import Repository
from git_parallel.layout import HEADS, NOTES, RunFiles, State, logs_ref, run_ref, wip_ref
from git_parallel.plan.model import Job, RunSpec
from git_parallel.store import refs
from git_parallel.supervisor import view

# A lock of somebody who is at work is soon gone, or another one. We look again after so long (s), and give up.
_LOOK = 0.3
_LONGEST_LOOK = 3.0

_OURS = (".tmp", ".index", ".index.lock")


def forget_half_made(repo: Repository) -> list[str]:
    """Remove files of runs whose maker died before there was a run; return their ids."""
    state = State(repo.common_dir)
    if not view.half_made(state):
        return []
    import shutil  # noqa: PLC0415 (3 ms, and only after a death)

    with refs.locked(repo):  # whoever makes a run now holds it until the run is made
        dead = view.half_made(state)
        for run in dead:
            shutil.rmtree(state.run(run).top)
    return dead


def tidy(run: RunFiles, workers: Sequence[int]) -> None:
    """Remove temporary files and sockets of a supervisor that died. The caller has taken its place."""
    system.remove(run.terminal)
    for directory in (run.top, *(run.worker(worker).top for worker in workers)):
        with suppress(FileNotFoundError):
            for name in os.listdir(directory):
                if name.endswith(_OURS):
                    os.unlink(os.path.join(directory, name))


# --- locks of git -----------------------------------------------------------------------------------


def unlock(repo: Repository, job: Job, admin: str) -> list[str]:
    """Remove what git commands of a worker left locked when they were killed; return these files.

    The caller knows that the worker's own processes are dead. A lock that goes while we look, or that a person's git
    may hold, is left alone. ``admin`` is the worktree's entry.
    """
    branch = os.path.join(repo.common_dir, HEADS + job.branch)
    # `git gc` takes those of HEAD and the branch from wherever it runs, to expire their reflogs.
    paths = [os.path.join(admin, "index"), os.path.join(admin, "HEAD"), branch]
    return _unlock(paths, [job.worktree, *_tops(repo)])


def unlock_run(repo: Repository, spec: RunSpec) -> list[str]:
    """Remove the locks of all refs that a run's record moves, as :func:`unlock` does.

    The caller knows that the run's supervisor is dead, and has ended what it had started.
    """
    names = [run_ref(spec.run), logs_ref(spec.run), NOTES, "packed-refs"]
    names += [name for job in spec.jobs for name in (wip_ref(spec.run, job.worker), HEADS + job.branch)]
    tops = [*_tops(repo), *(job.worktree for job in spec.jobs)]
    return _unlock([os.path.join(repo.common_dir, name) for name in names], tops)


def _tops(repo: Repository) -> list[str]:
    return [repo.common_dir, *filter(None, (repo.main_top, repo.top))]


def _unlock(files: Sequence[str], tops: Sequence[str]) -> list[str]:
    """Remove the locks of these files unless they go by themselves, or git is at work below ``tops``."""
    paths = [f"{path}.lock" for path in files]
    seen = {path: found for path in paths if (found := _inode(path)) is not None}
    end = time.monotonic() + _LONGEST_LOOK
    while seen:
        time.sleep(_LOOK)
        seen = {path: inode for path, inode in seen.items() if _inode(path) == inode}
        if seen and not git_at_work(tops):
            break
        if time.monotonic() > end:
            return []
    gone = [path for path, inode in seen.items() if _inode(path) == inode]
    for path in gone:
        with suppress(FileNotFoundError):
            os.unlink(path)
    return gone


def locks(repo: Repository) -> Iterator[str]:
    """Every lock file of git in the repository, wherever git makes one that outlives it."""
    common = repo.common_dir
    for place in (common, os.path.join(common, "objects"), os.path.join(common, "reftable")):
        yield from _locks_in(place)
    for top in (os.path.join(common, "refs"), os.path.join(common, "worktrees")):
        for directory, _, _ in os.walk(top):
            yield from _locks_in(directory)


def _locks_in(directory: str) -> Iterator[str]:
    try:
        names = os.listdir(directory)
    except OSError:
        return
    yield from (os.path.join(directory, name) for name in sorted(names) if name.endswith(".lock"))


def git_at_work(tops: Sequence[str]) -> bool:
    """Whether a git command works below one of these directories, ours aside."""
    from git_parallel.supervisor import strays  # noqa: PLC0415 (psutil takes 10 ms, and this hardly ever happens)

    return strays.git_at_work(tops)


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
