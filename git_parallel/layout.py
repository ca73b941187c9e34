"""Where things live: every ref name and every path below ``$GIT_COMMON_DIR/architect/`` (DESIGN section 6).

Nothing may ever live below ``refs/notes/architect/`` or below a run's own ref: git cannot hold a ref
and a directory of the same name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

RUNS = "refs/architect/runs/"
WIP = "refs/architect/wip/"
KEPT = "refs/architect/kept/"
LOGS = "refs/architect/logs/"
MERGES = "refs/architect/merges/"
NOTES = "refs/notes/architect"
HEADS = "refs/heads/"
AWAY = "refs/architect/heads/"
REMOTES = "refs/architect/remotes/"


def run_ref(run: str) -> str:
    """The ref of a run's record."""
    return RUNS + run


def wip_ref(run: str, worker: int) -> str:
    """The ref of a worker's snapshot of uncommitted work."""
    return f"{WIP}{run}/{worker}"


def kept_ref(run: str, worker: int) -> str:
    """The ref that keeps the tip of a branch that cleanup removed."""
    return f"{KEPT}{run}/{worker}"


def logs_ref(run: str) -> str:
    """The ref of the agents' output."""
    return LOGS + run


def merge_ref(merge: str) -> str:
    """The ref of a landing's record."""
    return MERGES + merge


def away_ref(run: str, branch: str) -> str:
    """The ref that stands for the branch of a worker whose run came from another clone."""
    return f"{AWAY}{run}/{branch}"


def branch_name(ref: str) -> str:
    """The branch as people call it, from its full name or from the ref that stands for it."""
    return ref.removeprefix(AWAY).partition("/")[2] if ref.startswith(AWAY) else ref.removeprefix(HEADS)


class State(Struct, frozen=True):
    """The live files of the tool in one repository. Paths only: nothing here touches the disk."""

    common_dir: str

    @property
    def top(self) -> str:
        return os.path.join(self.common_dir, "architect")

    @property
    def lock(self) -> str:
        """Taken with flock(2) around every change of refs and worktrees."""
        return os.path.join(self.top, "lock")

    @property
    def runs(self) -> str:
        return os.path.join(self.top, "runs")

    @property
    def trash(self) -> str:
        """Removed worktrees, kept until they expire."""
        return os.path.join(self.top, "trash")

    @property
    def trusted(self) -> str:
        """Digests of the repository's own commands that the person approved on this machine."""
        return os.path.join(self.top, "trusted")

    @property
    def cache(self) -> str:
        return os.path.join(self.top, "cache")

    @property
    def merges(self) -> str:
        return os.path.join(self.top, "merges")

    @property
    def scratch(self) -> str:
        """Scratch worktrees on their way out, which nobody needs any more."""
        return os.path.join(self.top, "scratch")

    def run(self, run: str) -> RunFiles:
        return RunFiles(os.path.join(self.runs, run))

    def merge(self, merge: str) -> MergeFiles:
        return MergeFiles(os.path.join(self.merges, merge))


class RunFiles(Struct, frozen=True):
    """The live files of one run."""

    top: str

    @property
    def spec(self) -> str:
        """``run.json``: a :class:`~git_parallel.plan.model.RunSpec`, written before anything starts."""
        return os.path.join(self.top, "run.json")

    @property
    def journal(self) -> str:
        """``journal.jsonl``: one event a line, appended."""
        return os.path.join(self.top, "journal.jsonl")

    @property
    def supervisor(self) -> str:
        """``supervisor.pid``: exists from the first intent to the last record; its flock says who is alive."""
        return os.path.join(self.top, "supervisor.pid")

    @property
    def control(self) -> str:
        """``control.jsonl``: what people ask of the living supervisor, appended; SIGUSR1 says look."""
        return os.path.join(self.top, "control.jsonl")

    @property
    def config_before(self) -> str:
        """The repository's configuration as it was when the run started."""
        return os.path.join(self.top, "config.before")

    @property
    def hooks_before(self) -> str:
        """Copies of the repository's own hooks as they were when the run started."""
        return os.path.join(self.top, "hooks.before")

    @property
    def hooks_aside(self) -> str:
        """Hooks that doctor has moved here, because they were new or changed since then."""
        return os.path.join(self.top, "hooks.aside")

    @property
    def hooks(self) -> str:
        """The fence around git inside the run's workers."""
        return os.path.join(self.top, "hooks")

    @property
    def notify(self) -> str:
        """``notify``: what the command that is told of the run's end was given, and what it wrote."""
        return os.path.join(self.top, "notify")

    @property
    def terminal(self) -> str:
        """``terminal``: sockets of agents' terminals, and of the tmux that shows them; only while the run goes on."""
        return os.path.join(self.top, "terminal")

    def window(self, worker: int) -> str:
        """The socket of a worker's terminal: it exists while an agent has one."""
        return os.path.join(self.terminal, str(worker))

    @property
    def output(self) -> str:
        """``supervisor.log``: what a detached supervisor would have printed."""
        return os.path.join(self.top, "supervisor.log")

    def worker(self, worker: int) -> WorkerFiles:
        return WorkerFiles(os.path.join(self.top, "workers", str(worker)))


class WorkerFiles(Struct, frozen=True):
    """The live files of one worker."""

    top: str

    @property
    def prompt(self) -> str:
        """``prompt.txt``: the task's text, byte for byte."""
        return os.path.join(self.top, "prompt.txt")

    @property
    def log(self) -> str:
        """``output.log``: what the agent wrote to standard output (and error, unless the preset parts them)."""
        return os.path.join(self.top, "output.log")

    @property
    def errors(self) -> str:
        """``errors.log``: standard error of agents whose standard output is data."""
        return os.path.join(self.top, "errors.log")

    @property
    def progress(self) -> str:
        """``progress.json``: step, cost, last action, files so far; replaced atomically at most once a second."""
        return os.path.join(self.top, "progress.json")

    @property
    def result(self) -> str:
        """``result.json``: a :class:`~git_parallel.plan.model.Result`; exists once the worker has ended."""
        return os.path.join(self.top, "result.json")

    @property
    def ending(self) -> str:
        """``exit.json``: what the guard saw, written by the guard itself."""
        return os.path.join(self.top, "exit.json")

    def check(self, number: int) -> str:
        """The output of the check with this number (from 1)."""
        return os.path.join(self.top, f"check-{number}.log")


class MergeFiles(Struct, frozen=True):
    """The live files of one landing."""

    top: str

    @property
    def plan(self) -> str:
        """``merge.json``: a :class:`~git_parallel.integrate.plan.Merge`, replaced at each step."""
        return os.path.join(self.top, "merge.json")

    @property
    def journal(self) -> str:
        """``journal.jsonl``: what is about to be done, and what was."""
        return os.path.join(self.top, "journal.jsonl")

    @property
    def holder(self) -> str:
        """``merge.pid``: exists until the landing is complete; its flock says who is at work."""
        return os.path.join(self.top, "merge.pid")

    def index(self, number: int) -> str:
        """The new index of the checkout with this number (from 0), until it takes the old one's place."""
        return os.path.join(self.top, f"index-{number}")


def herdr_socket(environ: Mapping[str, str]) -> str:
    """Where herdr listens, if it runs: its documented variables, else its default place."""
    if path := environ.get("HERDR_SOCKET_PATH"):
        return path
    configured = environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    session = environ.get("HERDR_SESSION")
    return os.path.join(configured, "herdr", *(["sessions", session] if session else []), "herdr.sock")
