"""What takes a run a while to get ready, begun while the command line is loaded and finds out what is to be run."""

from __future__ import annotations

from contextlib import suppress

from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.plan.settings import BY_NAME
from git_parallel.supervisor import view
from git_parallel.supervisor.host import guard_host

_MOST = 16  # guards that are forked before it is known how many there will be


class Ahead:
    """The id of a new run and its guards' host. Nothing is written; the ``with`` block lets the host go again."""

    def __init__(self, repo: Repository) -> None:
        state = State(repo.common_dir)
        self.repo = repo
        self.run = view.fresh_id(state)
        self.host = guard_host(state.run(self.run))

    def expect(self, tasks: int, workers: str | None) -> None:
        """Have guards forked for the workers that these tasks and ``--workers``, if given, most likely mean."""
        with suppress(ValueError):  # there will be no run
            setting = BY_NAME["workers"]
            at_once = setting.default if workers is None else setting.parse([workers])
            self.host.expect(min(tasks, at_once, _MOST))

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *exception: object) -> None:
        self.host.close()


_begun: Ahead | None = None


def begin() -> None:
    """Begin it, as it seems that there will be a run."""
    global _begun  # noqa: PLW0603 (there is one process, and one run)
    with suppress(ParallelError, OSError):  # whoever needs it hears of it
        _begun = Ahead(Repository.discover())


def take() -> Ahead | None:
    """Return what was begun, if it was; the caller's from now on."""
    global _begun
    begun, _begun = _begun, None
    return begun


def drop() -> None:
    """End what nobody has taken."""
    if (begun := take()) is not None:
        begun.host.close()
