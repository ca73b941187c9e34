"""Fences git inside a worker: hooks that exist for its process tree alone, chained to the repository's own.

Nothing is installed in the repository: git finds the hooks through ``core.hooksPath`` in the worker's
environment. They keep an honest agent on its own branch; they are no sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.plan.model import Job
from git_parallel.supervisor import processes
from git_parallel.worktrees.registry import OUR_LOCK, lock_reason

OURS = ("commit-msg", "pre-push", "reference-transaction")

# Hooks that git may run in a repository which a worker makes for itself: handed over to that repository's own.
_OTHERS = (
    "applypatch-msg",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "pre-rebase",
    "prepare-commit-msg",
)


class Fence(Struct, frozen=True):
    """One run's hooks: their directory, the scripts they are made of, and the repository's own hooks.

    ``syncs``: the person's configuration says what git is to write through to the disk.
    """

    directory: str
    scripts: str
    own: str
    common_dir: str
    syncs: bool

    def variables(self, job: Job, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that put the fence up for one worker, added to what ``environ`` already configures."""
        try:
            count = max(0, int(environ.get("GIT_CONFIG_COUNT", "0")))
        except ValueError:
            count = 0
        # No file system monitor: its daemon would outlive the command that started it.
        # No maintenance after commits either: killed with the agent, it leaves a lock that stops it for good.
        settings = {"core.hooksPath": self.directory, "core.fsmonitor": "false", "maintenance.auto": "false"}
        if not self.syncs:  # an agent's commits are to be there after a power cut, as far as git can see to it
            settings |= {"core.fsync": "loose-object,reference,index", "core.fsyncMethod": "batch"}
        added = {
            "GIT_CONFIG_COUNT": str(count + len(settings)),
            "GIT_PARALLEL_BRANCH": job.branch,
            "GIT_PARALLEL_COMMON": self.common_dir,
            "GIT_PARALLEL_FENCE": self.scripts,
            "GIT_PARALLEL_HOOKS": self.own,
        }
        for index, (key, value) in enumerate(settings.items(), count):
            added[f"GIT_CONFIG_KEY_{index}"] = key
            added[f"GIT_CONFIG_VALUE_{index}"] = value
        return added


def fence(repo: Repository, directory: str) -> Fence:
    """Fill ``directory`` with the hooks of one run. Raises OSError, or ParallelError for a broken installation.

    A relative ``core.hooksPath`` of the repository stays relative: git runs hooks at the top of each worktree.
    """
    configured = os.path.expanduser(repo.setting("core.hookspath") or "")
    scripts = _scripts()
    os.makedirs(directory, exist_ok=True)
    for name in (*OURS, *_OTHERS):
        link = os.path.join(directory, name)
        if not os.path.lexists(link):
            os.symlink(os.path.join(scripts, name if name in OURS else "chain"), link)
    own = configured or os.path.join(repo.common_dir, "hooks")
    return Fence(directory, scripts, own, repo.common_dir, syncs=repo.setting("core.fsync") is not None)


def serving(repo: Repository, environ: Mapping[str, str], *, attended: bool) -> str | None:
    """Name the worker that a command is called by: one of this repository's, or None.

    It stands in the fence's environment. Where that was cleared, the processes above tell: the guard of a worker's
    process tree is one of them, wherever it went and however it was detached. And where nobody sits at a terminal,
    the worktree tells: the lock of a worker's names it, and stays for as long as the worktree does.
    """
    if environ.get("GIT_PARALLEL_COMMON") == repo.common_dir:
        return f"worker {environ.get('GIT_PARALLEL_WORKER')} of run {environ.get('GIT_PARALLEL_RUN')}"
    runs = State(repo.common_dir).runs + os.sep
    for log in processes.above(processes.GUARDS):
        if log.startswith(runs):
            return f"a process of run {log.removeprefix(runs).partition(os.sep)[0]}"
    reason = None if attended else lock_reason(repo.git_dir)
    if reason is None or not reason.startswith(OUR_LOCK) or "/" not in reason:  # without one, it is a landing's
        return None
    return f"the worktree of worker {reason.removeprefix(OUR_LOCK)}"


def _scripts() -> str:
    """Where the scripts are: installed with the package, or at the top of a checkout of it."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for path in (os.path.join(package, "_hooks"), os.path.join(os.path.dirname(package), "hooks")):
        if os.path.isfile(os.path.join(path, "common.sh")):
            return path
    raise ParallelError("the hooks of git parallel are missing from its installation", "install it again")
