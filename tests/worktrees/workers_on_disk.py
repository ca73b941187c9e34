"""What the tests of worktrees share: workers' worktrees made as a run makes them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from git_parallel.git import Repository
from git_parallel.store import refs
from git_parallel.worktrees import Features, Place, allocate, exclude, populate, register

BRANCH = "architect/parallel-{n}"
WORKTREE = ".architect-parallel-{n}"
RUN = "20261129T165000Z-7f3a"


def values(index: int) -> dict[str, str | None]:
    return {"run": RUN, "task": f"Fix thing {index}", "model": None, "repo": "repo"}


def places(repo: Repository, count: int, branch: str = BRANCH, worktree: str = WORKTREE) -> list[Place]:
    return allocate(repo, count, branch=branch, worktree=worktree, values=values)


@dataclass(frozen=True)
class Worker:
    """A worker's worktree on disk."""

    repo: Repository
    place: Place
    admin: str
    warnings: list[str]

    @property
    def path(self) -> Path:
        return Path(self.place.path)

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", "-C", self.place.path, *arguments], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def worker(
    where: Path | Repository,
    *,
    branch: str = BRANCH,
    worktree: str = WORKTREE,
    needs: Features | None = None,
    base: str = "HEAD",
    fill: bool = True,
) -> Worker:
    """Make one worker's worktree, from where a person stands."""
    repo = where if isinstance(where, Repository) else Repository.discover(str(where))
    with refs.locked(repo):
        (place,) = places(repo, 1, branch, worktree)
        commit = repo.git.text("rev-parse", "--verify", base)
        refs.transaction(repo, [refs.Update(f"refs/heads/{place.branch}", commit, repo.zero)])
        exclude(repo, worktree, [place])
        admin = register(repo, place, reason=f"git parallel {RUN}/{place.worker}")
    warnings = populate(repo, place.path, needs) if fill else []
    return Worker(repo, place, admin, warnings)


def one_worker(repository: Repository) -> Place:
    """Make one, whoever else does so at the same time."""
    with refs.locked(repository):
        (place,) = allocate(repository, 1, branch=BRANCH, worktree=WORKTREE, values=values)
        head = repository.common.text("rev-parse", "HEAD")
        refs.transaction(repository, [refs.Update(f"refs/heads/{place.branch}", head, repository.zero)])
        register(repository, place, reason=f"git parallel {RUN}/{place.worker}")
    populate(repository, place.path)
    return place
