"""Checks of integrated trees: run under a guard in the scratch worktree, remembered by (tree, command).

Only an ending of the check's own is remembered: a time limit or a signal says nothing of the tree.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct, field

from git_parallel.git import Repository, clean_environment
from git_parallel.integrate.plan import Checked, Command
from git_parallel.integrate.scratch import Scratch
from git_parallel.layout import State
from git_parallel.plan import model
from git_parallel.supervisor import files
from git_parallel.supervisor.host import Ending, GuardHost, GuardSpec

_GRACE = 10.0  # seconds from SIGTERM to SIGKILL


class Checks(Struct):
    """Runs the commands of one landing. ``again``: what is remembered does not count.

    ``top`` is the directory of the landing's live files.
    """

    repo: Repository
    commands: Sequence[Command]
    scratch: Scratch
    top: str
    merge: str
    timeout: float | None = None
    again: bool = False
    _host: GuardHost | None = None
    _fresh: set[tuple[str, Command]] = field(default_factory=set)

    def run(self, commit: str, tree: str, worker: int, say: Callable[[str], None]) -> list[Checked]:
        """Check a tree; return what was found, up to the first check that is not green.

        ``commit`` has the tree; ``worker`` is told to the check in its environment, and ``say`` of each command
        before it runs. Raises ParallelError when no check can run at all.
        """
        results: list[Checked] = []
        shown = False
        for command in self.commands:
            known = self._remembered(tree, command)
            if known is None:
                if not shown:
                    self.scratch.show(commit)
                    shown = True
                say(command.text)
                known = self._execute(tree, command, worker)
            results.append(known)
            if not known.green:
                break
        return results

    def close(self) -> None:
        """Let the guards' host go."""
        if self._host is not None:
            self._host.close()
            self._host = None

    def _execute(self, tree: str, command: Command, worker: int) -> Checked:
        assert self.scratch.path is not None
        paths = _Paths.of(self.repo, tree, command)
        os.makedirs(paths.directory, exist_ok=True)
        with open(paths.log, "wb"):  # guards append
            pass
        temporary = tempfile.mkdtemp(prefix="gp-check-")
        if self._host is None:
            self._host = GuardHost(os.path.join(self.top, "guard.log"))
        inside = os.path.join(self.scratch.path, command.subdir)
        try:
            guard = self._host.start(
                GuardSpec(
                    argv=("/bin/sh", "-c", command.text),
                    cwd=inside if os.path.isdir(inside) else self.scratch.path,
                    env=self._environment(worker, temporary),
                    stdout=paths.log,
                    ending=os.path.join(self.top, "check.exit.json"),
                    timeout=self.timeout,
                    grace=_GRACE,
                )
            )
            try:
                ending = guard.wait()
            except BaseException:  # Ctrl-C: nothing of the check may go on
                guard.kill("interrupted")
                guard.wait()
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        assert ending is not None
        result = _result(command, ending, paths.log)
        if ending.ended_by == "exit" and ending.signal is None and ending.spawn_error is None:
            files.replace(paths.result, model.encode(result))
            self._fresh.add((tree, command))
        return result

    def _environment(self, worker: int, temporary: str) -> Mapping[str, str]:
        """The landing stands in for the run: a guard's marker must be no other process's."""
        return {
            **clean_environment(),
            "GIT_PARALLEL_MERGE": self.merge,
            "GIT_PARALLEL_RUN": self.merge,
            "GIT_PARALLEL_WORKER": str(worker),
            "GIT_PARALLEL_ROOT": self.scratch.path or "",
            "GIT_TERMINAL_PROMPT": "0",
            "TMPDIR": temporary,
        }

    def _remembered(self, tree: str, command: Command) -> Checked | None:
        if self.again and (tree, command) not in self._fresh:
            return None
        data = files.read(_Paths.of(self.repo, tree, command).result)
        try:
            found = model.decode(data, Checked) if data else None
        except msgspec.MsgspecError:
            return None
        return msgspec.structs.replace(found, cached=True) if found else None


class _Paths(Struct, frozen=True):
    directory: str
    name: str

    @classmethod
    def of(cls, repo: Repository, tree: str, command: Command) -> _Paths:
        digest = hashlib.sha256(os.fsencode(f"{command.subdir}\0{command.text}")).hexdigest()[:40]
        return cls(os.path.join(State(repo.common_dir).cache, "checks", tree), digest)

    @property
    def result(self) -> str:
        return os.path.join(self.directory, f"{self.name}.json")

    @property
    def log(self) -> str:
        return os.path.join(self.directory, f"{self.name}.log")


def _result(command: Command, ending: Ending, log: str) -> Checked:
    if ending.spawn_error is not None:
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"the check could not be started: {ending.spawn_error}\n")
    code = None
    if ending.ended_by == "exit" and ending.spawn_error is None:
        code = ending.exit_code if ending.signal is None else -ending.signal
    how = "not started" if ending.spawn_error is not None else ending.ended_by
    return Checked(command.text, code, ending.duration, log, how)
