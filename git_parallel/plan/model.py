"""The data of a run: tasks, jobs, limits, the plan of a run and a worker's result.

These are the shapes written to disk and into the record (``run.json``, ``result.json``). Unknown
values are None, never 0; an unknown field in a file is ignored, so that a newer writer can be read.
"""

# Annotations are types at once, not strings: msgspec would have to evaluate these at every start.

from typing import Any, Literal, TypeVar

import msgspec

from git_parallel import plain

SCHEMA_VERSION = 1

Shape = TypeVar("Shape")

Status = Literal["success", "partial", "failed", "timeout", "cancelled", "skipped"]
WorkerState = Literal["queued", "waiting", "preparing", "running", "blocked", "paused", "finishing", "ended"]


class Task(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is to be done. ``id`` is ``t1``, ``t2`` … in the order given; ``prompt`` is kept byte for byte."""

    id: str
    prompt: str
    depends: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The first line that says something, for tables and commit subjects."""
        return next((line.strip() for line in self.prompt.splitlines() if line.strip()), "")


class Job(msgspec.Struct, frozen=True):
    """One worker's place: its number, its task's id, its model (None: the program's default), branch and worktree."""

    worker: int
    task: str
    model: str | None
    branch: str
    worktree: str


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Money in US dollars, times in seconds, sizes in bytes. None means no limit."""

    budget_per_worker: float | None = None
    timeout_per_worker: float | None = None
    max_steps: int | None = None
    budget: float | None = None
    timeout: float | None = None
    idle_timeout: float | None = None
    memory_per_worker: int | None = None
    memfree: int | None = None
    max_output: int | None = None
    max_disk: int | None = None


class RunSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run as it was asked for, written once before anything starts.

    ``base`` is a commit id; ``base_name`` is how the person named it; ``target`` a full ref name or
    None (detached HEAD); ``subdir`` the caller's place below the top ("" or with a trailing slash).
    ``preset`` is the program's preset as plain data, executable found: what a later attempt must use too.
    """

    v: int = SCHEMA_VERSION
    run: str
    created: str
    argv: tuple[str, ...]
    person: str
    base: str
    base_name: str
    target: str | None
    subdir: str
    top: str | None
    program: str
    role: str
    tasks: tuple[Task, ...]
    jobs: tuple[Job, ...]
    workers: int
    limits: Limits
    checks: tuple[str, ...] = ()
    halt: str = "never"
    retries: int = 0
    allow_empty: bool = False
    grace: float = 10.0
    checkpoint: float | None = 120.0
    keep_ignored: int | None = None
    terminal: Literal["tmux"] | None = None
    notify: str | None = None
    bell: bool = True
    herdr: bool = True
    preset: dict[str, Any] = {}

    def task(self, task_id: str) -> Task:
        """Return the task with this id."""
        return next(task for task in self.tasks if task.id == task_id)

    def job(self, worker: int) -> Job:
        """Return the job of the worker with this number."""
        return next(job for job in self.jobs if job.worker == worker)


class CheckResult(msgspec.Struct, frozen=True):
    """A check that ran on a worker's tree. ``exit_code`` is negative for a signal, None when it timed out."""

    command: str
    exit_code: int | None
    duration: float

    @property
    def green(self) -> bool:
        return self.exit_code == 0


class IgnoredPath(msgspec.Struct, frozen=True):
    """What lies below an ignored path: its files and their bytes; ``more``: counting stopped early."""

    path: str
    files: int
    size: int
    more: bool = False


class IgnoredFiles(msgspec.Struct, frozen=True):
    """The files that git ignores in a worktree, of which no commit on the branch has any.

    ``files`` and ``size`` (bytes) are of all of them, ``paths`` the first 50 paths. ``kept`` is a commit of
    those that were to be kept, below the worker's ref under refs/architect/wip/.
    """

    files: int
    size: int
    more: bool
    paths: list[IgnoredPath]
    kept: str | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a worker ended. The first nine fields and their names are the seed's ``WorkerResult``.

    ``head`` is the branch's tip after capture; ``snapshot`` a commit under refs/architect/wip/ where the
    work could not go onto the branch; ``lost`` are commits that no branch has, kept under that ref as well;
    ``ignored`` what git ignores in the worktree.
    ``duration`` is in seconds, ``cost`` in US dollars, ``peak_rss`` in bytes.
    """

    worker_id: int
    branch: str
    model: str | None
    status: Status
    steps: int | None
    cost: float | None
    duration: float | None
    files_modified: list[str]
    worktree_path: str
    run: str
    task: str
    agent: str
    role: str
    base: str
    head: str | None
    snapshot: str | None = None
    reason: str
    detail: str | None = None
    exit_code: int | None = None
    tokens: dict[str, int] | None = None
    session: str | None = None
    attempts: int = 1
    check: list[CheckResult] | None = None
    insertions: int | None = None
    deletions: int | None = None
    started: str | None = None
    ended: str | None = None
    peak_rss: int | None = None
    lost: list[str] | None = None
    ignored: IgnoredFiles | None = None
    warnings: list[str] = []


def encode(value: Any) -> bytes:
    """Encode a struct as one line of JSON. A byte that is not UTF-8 (in a file's name, say) becomes ``\\udcXX``."""
    return plain.encode(value)


def decode(data: bytes, shape: type[Shape]) -> Shape:
    """Decode what :func:`encode` wrote. Raises msgspec.MsgspecError."""
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.DecodeError:
        try:
            return msgspec.convert(plain.decode(data), shape, str_keys=True)
        except ValueError as error:
            raise msgspec.DecodeError(str(error)) from None


def decode_spec(data: bytes) -> RunSpec:
    """Decode ``run.json``. Raises msgspec.MsgspecError."""
    return decode(data, RunSpec)


def decode_result(data: bytes) -> Result:
    """Decode ``result.json``. Raises msgspec.MsgspecError."""
    return decode(data, Result)
