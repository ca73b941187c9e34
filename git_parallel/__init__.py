"""Run many coding agents at once on one repository, each in its own worktree and branch."""

__version__ = "0.1.0"
