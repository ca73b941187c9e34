"""The table of settings: it drives the configuration, ``git parallel config`` and the documentation.

A setting has one name, spelt in three ways: ``budget_per_worker`` in a file, ``parallel.budgetPerWorker``
in git's configuration, ``--budget-per-worker`` on the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from git_parallel.plan.values import (
    COMMAND,
    DAY,
    HALT,
    MESSAGE,
    MODELS,
    MONEY,
    SECONDS,
    SIZE,
    SWITCH,
    TEXT,
    Kind,
    choice,
    nearest,
    template,
    whole,
)


class Setting(Struct, frozen=True):
    """One setting. ``default`` is the value when nobody sets it.

    ``shape``: ``one`` value; ``csv``: a tuple, several in one text; ``list``: a tuple, one in each text,
    gathered over repeated git keys as git does (an empty value there starts afresh).
    ``nothing``: the word that sets None where None is allowed, e.g. no limit.
    ``runs``: the value is a command, which must not run unseen when it comes with the repository.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    shape: Literal["one", "csv", "list"] = "one"
    nothing: str | None = None
    runs: bool = False

    @property
    def git_key(self) -> str:
        first, *others = self.name.split("_")
        return "parallel." + first + "".join(word.capitalize() for word in others)

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def optional(self) -> bool:
        """Whether None is a value: null in a file."""
        return self.default is None or self.nothing is not None

    def parse(self, texts: Sequence[str]) -> Any:
        """Turn what was written into the value. Raises ValueError with the rest of "NAME must be …"."""
        for text in texts:
            _refuse_undecodable(text)
        if self.shape == "csv":
            return tuple(item for text in texts for item in self.kind.parse(text))
        if self.shape == "list":
            return tuple(self.kind.parse(text) for text in texts)
        if len(texts) != 1:
            raise ValueError("must be one value, not a list")
        if self.nothing is not None and texts[0] == self.nothing:
            return None
        return self.kind.parse(texts[0])

    def show(self, value: Any) -> list[str]:
        """Return the value as the texts that ``parse`` reads: none for "not set", one for each command."""
        if value is None:
            return [] if self.nothing is None else [self.nothing]
        if self.shape == "list":
            return [self.kind.show(item) for item in value]
        if self.shape == "csv":
            return [self.kind.show(value)] if value else []
        return [self.kind.show(value)]


def _refuse_undecodable(text: str) -> None:
    # Settings are kept in the record, which is JSON.
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("must be valid UTF-8") from None


SETTINGS: tuple[Setting, ...] = (
    Setting("workers", whole(1, 1000), 3, "how many workers run at once"),
    Setting("agent", TEXT, "build", "the role, for programs that know roles"),
    Setting("program", TEXT, None, "the program that does the work"),
    Setting("models", MODELS, (), "models to use; named twice, a model makes two attempts", shape="csv"),
    Setting("max_steps", whole(1, 1_000_000), 50, "steps of one worker", nothing="none"),
    Setting("budget_per_worker", MONEY, None, "US dollars that one worker may spend", nothing="none"),
    Setting("timeout_per_worker", SECONDS, None, "time for one worker", nothing="none"),
    Setting("budget", MONEY, None, "US dollars that the whole run may spend", nothing="none"),
    Setting("timeout", SECONDS, None, "time for the whole run", nothing="none"),
    Setting("idle_timeout", SECONDS, None, "time that a worker may do nothing", nothing="none"),
    Setting("memory_per_worker", SIZE, None, "memory that one worker's processes may use", nothing="none"),
    Setting("memfree", SIZE, None, "memory that must be free for a worker to start", nothing="none"),
    Setting("max_output", SIZE, None, "output that one worker may write", nothing="none"),
    Setting("max_disk", SIZE, None, "room on the disk that one worktree may take", nothing="none"),
    Setting("terminal", choice("tmux"), None, "where agents run: each in a window of tmux", nothing="none"),
    Setting("retries", whole(0, 100), 0, "how often a worker is tried again"),
    Setting("halt", HALT, "never", "when the run ends before all have ended"),
    Setting("check", COMMAND, (), "command that says whether a worker's tree is good", shape="list", runs=True),
    Setting("target", TEXT, None, "branch that approved work lands on (default: the current one)"),
    Setting("branch", template("architect/parallel-{n}"), "architect/parallel-{n}", "name of a worker's branch"),
    Setting("worktree", template(".architect-parallel-{n}"), ".architect-parallel-{n}", "path of a worker's worktree"),
    Setting("grace", SECONDS, 10.0, "time between asking a worker to end and killing it"),
    Setting("checkpoint", SECONDS, 120.0, "time between captures of a running worker's files", nothing="never"),
    Setting("keep_ignored", SIZE, None, "keep files that git ignores too, so much of each worker", nothing="none"),
    Setting("strategy", choice("merge", "squash", "rebase", "ff"), "merge", "how approved work lands"),
    Setting("message", MESSAGE, None, "message of the commit that lands a branch, without its trailers"),
    Setting("check_timeout", SECONDS, 3600.0, "time for one check of an integrated tree", nothing="none"),
    Setting(
        "notify",
        COMMAND,
        None,
        "command that is told of the run's end and of workers that need input, as JSON",
        runs=True,
    ),
    Setting("bell", SWITCH, True, "ring the terminal's bell when a run ends or a worker needs input"),
    Setting("herdr", SWITCH, True, "show the workers in herdr, where it runs"),
    Setting("trash_expire", SECONDS, 7.0 * DAY, "how long removed worktrees are kept", nothing="never"),
    Setting("lfs", choice("auto", "skip"), "auto", "fill in LFS files in worktrees, or leave the pointers"),
)

BY_NAME = {setting.name: setting for setting in SETTINGS}
_BY_GIT_KEY = {setting.git_key.lower(): setting for setting in SETTINGS}


def by_git_key(key: str) -> Setting | None:
    """Find a setting by its git key; git's keys have no case."""
    return _BY_GIT_KEY.get(key.lower())


def named(word: str) -> Setting | None:
    """Find a setting by any of its spellings."""
    return BY_NAME.get(word.removeprefix("--").replace("-", "_")) or by_git_key(word) or by_git_key(f"parallel.{word}")


def near_name(word: str) -> Setting | None:
    """Find the setting whose name is nearest to a wrong one."""
    near = nearest(word.removeprefix("parallel."), tuple(BY_NAME))
    return BY_NAME[near] if near else None
