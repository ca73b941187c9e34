"""The worktrees of workers: names, registration, filling, and removal without loss (DESIGN sections 4, 7 and 12).

A worktree's life: :func:`allocate` finds a free number, branch name and path; the caller creates the
ref; :func:`register` makes git's entry; :func:`populate` fills the directory, or a :class:`Filler` those of
a run; :func:`retire` moves it to the trash; :func:`purge` deletes what has been there long enough. The first two
and ``retire`` are called under ``store.refs.locked``: git's own ``worktree add`` and ``remove`` fail when run side
by side.
"""

from git_parallel.worktrees.alike import Filler
from git_parallel.worktrees.entry import Others
from git_parallel.worktrees.names import FIELDS, Place, Template, branch_fault, slug
from git_parallel.worktrees.placing import allocate, exclude
from git_parallel.worktrees.populate import Features, Finding, Submodule, features, populate
from git_parallel.worktrees.registry import (
    Entry,
    begin_entries,
    entries,
    opened,
    paired,
    register,
    take_back,
    write_through,
)
from git_parallel.worktrees.removal import retire
from git_parallel.worktrees.trash import Purged, Trashed, purge, trashed

__all__ = [
    "FIELDS",
    "Entry",
    "Features",
    "Filler",
    "Finding",
    "Others",
    "Place",
    "Purged",
    "Submodule",
    "Template",
    "Trashed",
    "allocate",
    "begin_entries",
    "branch_fault",
    "entries",
    "exclude",
    "features",
    "opened",
    "paired",
    "populate",
    "purge",
    "register",
    "retire",
    "slug",
    "take_back",
    "trashed",
    "write_through",
]
