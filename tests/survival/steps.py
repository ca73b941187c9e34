"""Puts a name to every step that changes something, in the supervisor, in the guards and in their zygote.

Nothing in the shipped code knows of this: the real functions are wrapped where they touch the world. A step is
called after what it does (``journal intent spawn``, ``refs record``, ``replace result.json``), so one that is
added to the code shows up under a name that ``points.py`` does not list.

A *point* is a moment around a step of one worker: ``before journal intent spawn@2`` (``@0``: of the run as a
whole; ``@*`` in a plan: of whoever comes first). The plan is in the environment, because the guards' zygote is a
program of its own:

``SURVIVAL_AT``      the point at which to kill, if any
``SURVIVAL_VICTIM``  whom: supervisor, guard, zygote, agent, or all of the first three at once
``SURVIVAL_HERE``    the directory of the scene: ``steps`` there gets a line a point, ``killed`` is made once
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

VICTIMS = ("supervisor", "guard", "zygote", "agent", "all")

# What only reads. Everything else that git is asked to do is a step.
_READING = frozenset(
    {"rev-parse", "for-each-ref", "cat-file", "status", "diff-tree", "var", "version", "symbolic-ref", "rev-list"}
    | {"ls-files", "diff", "check-ignore", "merge-base", "ls-tree", "reflog", "check-ref-format", "grep", "log"}
)
_QUIET = {("worktree", "list"), ("config", "--list"), ("config", "--get"), ("config", "--get-regexp")}
_OBJECT = re.compile(r"/objects/(?:[0-9a-f]{2}(?:/|$)|pack)")
_WORKER = re.compile(r"/workers/(\d+)/|\.architect-parallel-(\d+)")

Thing = Callable[..., Any]


class Reach:
    """Notes every point that is reached, and kills at the planned one."""

    def __init__(self, pids: Callable[[str, int], list[int]]) -> None:
        self.pids = pids
        self.here = os.environ["SURVIVAL_HERE"]
        self.at = os.environ.get("SURVIVAL_AT", "")
        self.victim = os.environ.get("SURVIVAL_VICTIM", "")
        self.log = os.open(os.path.join(self.here, "steps"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.inside = threading.local()

    def __call__(self, when: str, step: str, worker: int) -> None:
        if getattr(self.inside, "here", False):
            return
        self.inside.here = True
        try:
            point = f"{when} {step}@{worker}"
            self.note(point)
            if self.at in (point, f"{when} {step}@*"):
                self.kill(worker)
        finally:
            self.inside.here = False

    def note(self, point: str) -> None:
        os.write(self.log, f"{point}\n".encode())

    def kill(self, worker: int) -> None:
        """Kill the victim, once in the life of a scene; ourselves last, for that ends this."""
        pids = self.pids(self.victim, worker)
        if not pids:
            return
        try:
            os.close(os.open(os.path.join(self.here, "killed"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        for pid in sorted(pids, key=lambda pid: pid == os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def around(self, function: Thing, name: Callable[..., tuple[str, int] | None]) -> Thing:
        """Wrap a function; ``name`` gives step and worker of a call, or None for one that is no step."""

        def wrapped(*arguments: Any, **options: Any) -> Any:
            found = None if getattr(self.inside, "here", False) else name(*arguments, **options)
            if found is None:
                return function(*arguments, **options)
            self("before", *found)
            try:
                return function(*arguments, **options)
            finally:
                self("after", *found)

        return wrapped


def children(parent: int) -> list[int]:
    """The living children of a process, from /proc."""
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def note_syncs() -> None:
    """Note each file that this process writes through to the disk, as its inode and its length then.

    All of them stay open: else another file may get the inode of one that has gone.
    """
    sync = os.fsync

    def synced(descriptor: int) -> None:
        sync(descriptor)
        found = os.fstat(os.dup(descriptor))
        log = os.open(os.path.join(os.environ["SURVIVAL_HERE"], "synced"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(log, f"{found.st_ino} {found.st_size}\n".encode())
        os.close(log)

    os.fsync = synced


# --- the supervisor ---------------------------------------------------------------------------------


class Supervisor:
    """The wrapped supervisor: who is who, and the seams."""

    def __init__(self) -> None:
        self.host: Any = None
        self.guards: dict[int, Any] = {}
        self.checks: set[int] = set()
        self.reach = Reach(self.pids)

    def pids(self, victim: str, worker: int) -> list[int]:
        """The victim's process ids, as far as it lives now. Of the run as a whole, any worker's will do."""
        guard = self.guards.get(worker) or next(iter(self.guards.values()), None)
        agent = guard.started() if guard is not None else None
        zygote = [self.host.pid] if self.host is not None and self.host._zygote is not None else []
        if victim == "all":
            return [os.getpid(), *zygote, *[one for pid in zygote for one in children(pid)]]
        return {
            "supervisor": [os.getpid()],
            "guard": [guard.pid] if guard is not None else [],
            "zygote": zygote,
            "agent": [agent.pid] if agent is not None else [],
        }[victim]

    def wrap(self) -> None:
        """Wrap every seam of this process."""
        from git_parallel.git import Git
        from git_parallel.store import refs
        from git_parallel.supervisor import host, journal, worker

        def acting(act: Thing) -> Thing:
            def acted(one: Any, *arguments: Any) -> None:
                _acting.worker = one.job.worker
                try:
                    act(one, *arguments)
                finally:
                    del _acting.worker

            return acted

        def made(_own: Any, updates: Any, zero: str) -> tuple[str, int]:
            return f"refs {_transaction(refs._commands(updates, zero))}", _who()

        around = self.reach.around
        journal.Journal.append = around(journal.Journal.append, _event)  # type: ignore[method-assign]
        for name in ("begin", "fill"):
            setattr(worker.Worker, name, acting(getattr(worker.Worker, name)))
        Git.run = around(Git.run, _git)  # type: ignore[method-assign]
        refs.Transactions.make = around(refs.Transactions.make, made)  # type: ignore[method-assign]
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "symlink", "link"):
            setattr(os, name, around(getattr(os, name), _system(name)))
        os.open = around(os.open, _created)
        host._ZYGOTE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote_in_steps.py")
        host.GuardHost._start_zygote = around(host.GuardHost._start_zygote, lambda *_: ("spawn zygote", _who()))
        host.GuardHost.start = self._starting(host.GuardHost.start)
        host.Guard.wait = self._waiting(host.Guard.wait)

    def _starting(self, start: Thing) -> Thing:
        def wrapped(host: Any, spec: Any) -> Any:
            self.host = host
            check = os.path.basename(spec.ending).startswith("check-")
            step = "spawn check" if check else "spawn agent"
            self.reach("before", step, _who())
            guard = self.guards[_who()] = start(host, spec)
            if check:
                self.checks.add(id(guard))
            self.reach("after", step, _who())
            return guard

        return wrapped

    def _waiting(self, wait: Thing) -> Thing:
        """``amid work``: when the agent has done half of it. Agents wait there while ``go`` is not there."""

        def wrapped(guard: Any, timeout: float | None = None) -> Any:
            if timeout is None:
                who, here = str(_who()), self.reach.here
                end = time.monotonic() + 90
                while self.reach.at == f"amid work@{who}" and who not in _lines(os.path.join(here, "half")):
                    if time.monotonic() > end:
                        break
                    time.sleep(0.005)
                self.reach("amid", "check" if id(guard) in self.checks else "work", _who())
            ending = wait(guard, timeout)
            if ending is not None:
                self.guards.pop(_who(), None)
            return ending

        return wrapped


def _lines(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read().split("\n")
    except FileNotFoundError:
        return []


_acting = threading.local()  # ``worker``: for whom the main thread acts


def _who() -> int:
    """The worker whose thread this is, or for whom the main thread acts; 0 for the run as a whole."""
    if hasattr(_acting, "worker"):
        return int(_acting.worker)
    name = threading.current_thread().name
    return int(name.removeprefix("worker-")) if name.startswith("worker-") else 0


def _event(_journal: Any, event: str, **facts: Any) -> tuple[str, int] | None:
    if event == "note":
        return None
    words = [event, *[str(facts[key]) for key in ("act", "state") if key in facts]]
    return f"journal {' '.join(words)}", facts.get("worker") or _who()


def _git(_git: Any, *arguments: str, **options: Any) -> tuple[str, int] | None:
    words = list(arguments)
    while words and words[0] == "-c":
        del words[:2]
    if words[0].startswith("-"):
        words = [word for word in words if not word.startswith("-")]
    if words[0] in _READING or tuple(words[:2]) in _QUIET or (words[0] == "config" and "--get-regexp" in words):
        return None
    if words[0] == "update-ref":
        return f"refs {_transaction(options.get('stdin') or b'')}", _who()
    return f"git {' '.join(words[:2]) if words[0] == 'worktree' else words[0]}", _who()


def _transaction(stdin: bytes) -> str:
    """What a transaction is about: the run's record, or else the kinds of its refs."""
    names = [os.fsdecode(name) for name in re.findall(rb"(?:update|delete|verify) (refs/[^\0]+)", stdin)]
    kinds = {name.split("/")[2 if name.startswith("refs/architect/") else 1] for name in names}
    if "runs" not in kinds:
        return "+".join(sorted(kinds))
    if "logs" in kinds:
        return "ended"
    new = re.search(rb"update refs/architect/runs/[^\0]*\0[^\0]*\0(?:0{40}|0{64})\0", stdin)
    return "begin" if new else "record"


def _system(name: str) -> Callable[..., tuple[str, int] | None]:
    def named(*arguments: Any, **options: Any) -> tuple[str, int] | None:
        if options.get("dir_fd") is not None:  # within a directory that is being deleted
            return None
        target = arguments[1] if name in ("rename", "replace", "symlink", "link") else arguments[0]
        return _file(name, target)

    return named


def _created(path: Any, flags: int, *_: Any, **options: Any) -> tuple[str, int] | None:
    if not flags & os.O_CREAT or options.get("dir_fd") is not None or os.path.lexists(path):
        return None
    return _file("create", path)


def _file(act: str, path: Any) -> tuple[str, int] | None:
    """The step of making or removing one file, by the part of its name that is always the same."""
    text = os.path.abspath(os.fsdecode(path))
    if _OBJECT.search(text):
        return f"{act} object", _who()
    if "/pycache/" in text or "/__pycache__/" in text or text == os.devnull:
        return None
    name = re.sub(r"\.\d+\.tmp$", ".tmp", os.path.basename(text))
    name = re.sub(r"^gp-.*", "temporary directory", name)
    name = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{4}", "run", name)
    name = re.sub(r"\d+", "N", name)
    if os.path.basename(os.path.dirname(text)) == "hooks":
        name = "a hook"
    worker = _WORKER.search(text)
    return f"{act} {name}", int(next(filter(None, worker.groups()))) if worker else _who()


# --- guards and their zygote ------------------------------------------------------------------------


class Guards:
    """The wrapped zygote, and the guards that it forks."""

    def __init__(self) -> None:
        self.zygote = os.getpid()
        self.guard: Any = None
        self.reach = Reach(self.pids)

    def pids(self, victim: str, _worker: int) -> list[int]:
        supervisor = int(os.environ["SURVIVAL_SUPERVISOR"])
        guards = children(self.zygote)
        agent = self.guard.agent if self.guard is not None and self.guard.status is None else 0
        return {
            "supervisor": [supervisor],
            "guard": [os.getpid()] if os.getpid() != self.zygote else guards,
            "zygote": [self.zygote],
            "agent": [agent] if agent else [],
            "all": [supervisor, self.zygote, *guards],
        }[victim]

    def wrap(self) -> None:
        from git_parallel.supervisor import guard, zygote

        around = self.reach.around
        for name in ("spawn", "destroy", "conclude", "hear_spec"):
            setattr(guard.Guard, name, around(getattr(guard.Guard, name), self._guard(name)))
        said = around(guard.Guard.say, lambda of, message: (_guard(of.path, f"says {message['event']}"), _at(of.path)))
        guard.Guard.say = said
        guard.write_ending = around(guard.write_ending, lambda path, _: (_guard(path, "exit.json"), _at(path)))
        zygote.write_ending = around(zygote.write_ending, lambda path, _: ("zygote exit.json", _at(path)))
        zygote.Zygote.accept = around(zygote.Zygote.accept, lambda *_: ("zygote accept", 0))
        zygote.Zygote.bury = around(zygote.Zygote.bury, lambda *_: ("zygote bury", 0))
        zygote.become_guard = self._becoming(zygote.become_guard)

    def _guard(self, act: str) -> Callable[..., tuple[str, int]]:
        def named(guard: Any, *_: Any) -> tuple[str, int]:
            self.guard = guard
            return _guard(guard.path, act), _at(guard.path)

        return named

    def _becoming(self, become: Thing) -> Thing:
        def wrapped(line: Any) -> Any:
            # A guard closes all that it inherits, the log of steps too.
            self.reach.note = self._append  # type: ignore[method-assign]
            return become(line)

        return wrapped

    def _append(self, point: str) -> None:
        descriptor = os.open(os.path.join(self.reach.here, "steps"), os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, f"{point}\n".encode())
        os.close(descriptor)


def _guard(path: str, act: str) -> str:
    return f"{'check guard' if os.path.basename(path).startswith('check-') else 'guard'} {act}"


def _at(path: str) -> int:
    match = _WORKER.search(path)
    return int(match[1]) if match else 0
