"""The points of a run at which the crash harness kills: one list, held against a run by ``test_crash.py``.

The names of steps are made by ``steps.py`` from what is called. A step of the program that is missing here, or
one here that the program does not do any more, fails the test: enter it under who does it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scene import KINDS
from steps import VICTIMS

WORKERS = (1, 2, 3, 4, 5)
FEW, TWO = ("write", "check", "escape"), ("write", "escape")  # the kinds of workers where so many will do

# Steps of the run as a whole, in their order.
RUN = (
    "mkdir architect",
    "create lock",
    "mkdir runs",
    "mkdir run",
    "mkdir workers",
    "mkdir N",
    "create supervisor.pid",
    "create run.json.tmp",
    "replace run.json",
    "create config.before.tmp",
    "replace config.before",
    "mkdir hooks.before",
    "create journal.jsonl",
    "journal intent branches",
    "journal run-started",
    "mkdir info",
    "mkdir object",
    "create object",
    "rename object",
    "refs begin",
    "spawn zygote",
    "mkdir hooks",
    "symlink a hook",
    "journal run-ended",
    "refs ended",
    "unlink supervisor.pid",
)

# Of each worker. The first one leaves nothing uncommitted, and so skips some.
WORKER = (
    "create prompt.txt.tmp",
    "replace prompt.txt",
    "journal state preparing",
    "journal intent worktree",
    "mkdir .architect-parallel-N",
    "mkdir worktrees",
    "mkdir -architect-parallel-N",
    "create locked",
    "create commondir",
    "create HEAD",
    "create .git",
    "create gitdir",
    "git read-tree",
    "create README",
    "create filling.index",
    "rename index",
    "mkdir temporary directory",
    "journal intent spawn",
    "spawn agent",
    "unlink exit.json",
    "journal started",
    "journal state running",
    "rmdir temporary directory",
    "journal reported",
    "journal state finishing",
    "unlink checkpoint.index",
    "unlink checkpoint.index.lock",
    "journal intent capture",
    "create capture.index",
    "git add",
    "create capture.index.staged.index",
    "git write-tree",
    "unlink capture.index.staged.index",
    "refs wip",
    "journal intent check",
    "spawn check",
    "unlink check-N.exit.json",
    "journal check",
    "mkdir object",
    "create object",
    "rename object",
    "create result.json.tmp",
    "replace result.json",
    "refs record",
    "link index.lock",
    "replace index",
    "unlink capture.index",
    "journal state ended",
)
# The first worktree is filled by git, the others are made like it.
FIRST = {"git read-tree"}
ALIKE = {"create README", "create filling.index", "rename index"}
# Of whoever has staged something, and of others only when a checkpoint was made of them.
STAGED = {"create capture.index.staged.index", "git write-tree", "unlink capture.index.staged.index"}
UNCOMMITTED = {*STAGED, "refs wip", "link index.lock", "replace index"}

# While agents wait half way, a checkpoint of one of them (in a thread of the run).
CHECKPOINT = ("git write-tree", "git add", "refs wip")

# Of the guard of each worker's agent, and of its check.
GUARD = tuple(
    f"{which} {act}"
    for which in ("guard", "check guard")
    for act in ("spawn", "says started", "destroy", "conclude", "exit.json", "says ended")
)
ZYGOTE = ("zygote accept", "zygote bury")
IDLE = ("guard says ready", "guard hear_spec")  # of a guard that has no agent yet

# What a take-over does not do any more. It does the rest, and more of its own.
ONLY_FIRST = {
    *("mkdir architect", "create lock", "mkdir runs", "mkdir run", "mkdir workers", "create run.json.tmp"),
    *("replace run.json", "create journal.jsonl", "journal intent branches", "journal run-started", "mkdir info"),
    *("refs begin", "symlink a hook", "mkdir .architect-parallel-N", "mkdir worktrees", "mkdir -architect-parallel-N"),
    *("create locked", "create commondir", "create HEAD", "create .git", "create gitdir", "work", "check"),
    *(*FIRST, *ALIKE),
}

# Where the power is cut: a point of each part of a run's life.
POWER = (
    "after replace run.json@0",
    "after refs begin@0",
    "after create gitdir@2",
    "after git read-tree@1",
    "after rename index@2",
    "after spawn agent@1",
    "amid work@1",
    "after refs wip@0",
    "after replace result.json@2",
    "after refs record@1",
    "after journal run-ended@0",
    "after refs ended@0",
    "after unlink supervisor.pid@0",
)

# What a run may do or not, as time goes by; and the zygote's word for a guard that was killed.
SOMETIMES = {"create progress.json.tmp", "replace progress.json", "zygote exit.json", "create checkpoint.index"}

# Points at which an agent lives, as the supervisor sees it.
_ALIVE = ("after spawn agent", "before journal started", "after journal started", "after journal state running")

# And as its guard does.
_STARTED = ("after guard spawn", "before guard says started", "after guard says started")

ENDINGS = ("resume", "doctor")


def waits(point: str) -> bool:
    """Whether agents have to wait half way for the point to be reached."""
    return point.startswith("amid work") or (point.endswith("@0") and point.partition(" ")[2][:-2] in CHECKPOINT)


def steps() -> set[str]:
    """Every step as a run shows it: ``refs record@3``."""
    found = {f"{step}@0" for step in (*RUN, *CHECKPOINT, *ZYGOTE, *IDLE)}
    for step in (*WORKER, *GUARD, "work", "check"):
        found |= {
            f"{step}@{worker}" for worker in WORKERS if step not in (UNCOMMITTED | ALIKE if worker == 1 else FIRST)
        }
    return found


def killings() -> Iterator[tuple[str, str]]:
    """Every victim at every point."""
    for step in sorted(steps()):
        name, _, worker = step.rpartition("@")
        if name in STAGED and worker not in ("0", "2"):
            continue
        whens = ("amid",) if name in ("work", "check") else ("before", "after")
        for when in whens:
            point = f"{when} {step}"
            yield "supervisor", point
            yield "all", point
            alive = when == "amid" or f"{when} {name}" in _ALIVE or waits(point)
            if alive or f"{when} {name.removeprefix('check ')}" in _STARTED:
                yield "agent", point
            if alive or name in (*GUARD, *ZYGOTE, *IDLE):
                yield "guard", point
                yield "zygote", point


def product() -> list[str]:
    """Every victim at every point, with every ending."""
    return [f"{victim}|{point}|{ending}" for victim, point in killings() for ending in ENDINGS]


def step(point: str) -> str:
    """The kind of step that a point belongs to."""
    return point.partition(" ")[2].rpartition("@")[0]


def sample() -> list[str]:
    """A case of each kind of step that only a first run does, of each act of a guard, and of some of the rest.

    Take-overs are killed at what is left, but for the points at which the power is cut. Victims, workers and endings
    come by turns; it is always the same.
    """
    by_step: dict[str, dict[str, list[str]]] = {}
    for victim, point in killings():
        by_step.setdefault(step(point), {}).setdefault(victim, []).append(point)
    cut, acts = {step(point) for point in POWER}, len(GUARD) // 2
    guards = {(GUARD if act % 2 else GUARD[acts:])[act] for act in range(acts)}
    rest = sorted(by_step.keys() - ONLY_FIRST - set(GUARD) - set(IDLE))
    chosen = []
    for number, name in enumerate(sorted({*(ONLY_FIRST - cut), *guards, *IDLE, *rest[::3]})):
        victims = [victim for victim in VICTIMS if victim in by_step[name]]
        victim = victims[(number + 5) % (len(victims) + 1) % len(victims)]  # the supervisor more often than others
        some = by_step[name][victim]
        ending = ENDINGS[number % 4 == 3]
        chosen.append(among_few(f"{victim}|{some[number * 3 % len(some)]}|{ending}", number))
    return chosen


def among_few(case: str, turn: int) -> str:
    """The same case among three workers: the one that is meant, if any, and others by turns."""
    victim, point, ending = case.split("|")
    moment, _, worker = point.rpartition("@")
    own = KINDS[int(worker) - 1] if worker != "0" else None
    others = [kind for kind in (*KINDS[turn % 5 :], *KINDS[: turn % 5]) if kind != own]
    if step(point) in ALIKE:  # there must be one before
        others.sort(key=lambda kind: kind != KINDS[0])
    few = sorted([own, *others[:2]] if own else others[:3], key=KINDS.index)
    return f"{victim}|{moment}@{few.index(own) + 1 if own else 0}|{ending}|{','.join(few)}"


def kinds(case: str) -> Sequence[str]:
    """The kinds of a case's workers: of all five, unless it names some."""
    few = case.split("|")[3:]
    return few[0].split(",") if few else KINDS
