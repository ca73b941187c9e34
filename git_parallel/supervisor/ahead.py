"""What takes a run a while to get ready, begun while the command still finds out what is to be run."""

from __future__ import annotations

from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.supervisor import view
from git_parallel.supervisor.host import guard_host


class Ahead:
    """The id of a new run and its guards' host. Nothing is written; the ``with`` block lets the host go again."""

    def __init__(self, repo: Repository) -> None:
        state = State(repo.common_dir)
        self.run = view.fresh_id(state)
        self.host = guard_host(state.run(self.run))

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *exception: object) -> None:
        self.host.close()
