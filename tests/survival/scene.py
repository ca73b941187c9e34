"""A small repository, five kinds of agents that note every line they write, and the commands, run by forking.

Everything of one scene lies in one directory, whose name is the token by which its processes are known::

    repo/     the repository            tmp/     TMPDIR
    ledger    what agents wrote         half     workers that have done half of their work
    go        agents may go on          ended    workers whose agent came to its own end
    steps     points that were reached  killed   there once somebody was killed
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_command: Callable[[list[str]], int] | None = None

KINDS = ("commit", "write", "fail", "check", "escape")
CHECK = "test ! -e forbidden"

# $1 is the kind, $2 how long (s) an escapee stays; the latter tells one scene's `sleep` from another's.
AGENT = r"""#!/bin/sh
here=${0%/*}
w() { # FILE: write a line that is nowhere else, then say so
    text="$GIT_PARALLEL_WORKER $1 $$"
    echo "$text" >>"$1"
    echo "$text" >>"$here/ledger"
}
half() {
    echo "$GIT_PARALLEL_WORKER" >>"$here/half"
    until [ -e "$here/go" ]; do sleep 0.02; done
}
case $1 in
commit)
    w one; git add one; git commit -qm one || exit 9
    half
    w two; git add two; git commit -qm two || exit 9 ;;
write)
    w README; w new; w staged; git add staged || exit 9
    : >staged; w staged
    half
    w later ;;
fail)
    w done; half; w more
    echo "$GIT_PARALLEL_WORKER" >>"$here/ended"
    exit 3 ;;
check)
    w ok; half; w forbidden ;;
escape)
    w out
    setsid sleep "$2" &
    (setsid sleep "$2" >/dev/null 2>&1 &)
    env -i "$(command -v setsid)" "$(command -v sleep)" "$2" &
    half
    w away ;;
esac
echo "$GIT_PARALLEL_WORKER" >>"$here/ended"
"""


@dataclass(frozen=True)
class Done:
    """A command that has ended. ``code`` is negative for a signal."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Scene:
    """One repository with its agents, and of which kind each worker's is."""

    top: Path
    kinds: Sequence[str] = KINDS

    @property
    def repo(self) -> Path:
        return self.top / "repo"

    @property
    def token(self) -> str:
        return self.top.name

    @property
    def environment(self) -> dict[str, str]:
        """What every process of the scene inherits, if it can be made to."""
        return {"SURVIVAL_HERE": str(self.top), "TMPDIR": str(self.top / "tmp")}

    def run(self, *, together: bool = False) -> list[str]:
        """A run's command line: a worker of each kind, all of them at once or only some."""
        stay = f"300.{self.token.rpartition('-')[2]}"
        at_once = len(self.kinds) if together else len(self.kinds) // 2 + 1
        tasks = [word for kind in self.kinds for word in ("--task", f"sh {self.top}/agent {kind} {stay}")]
        return ["run", "--json", "--workers", str(at_once), *tasks]

    def steps(self) -> list[str]:
        path = self.top / "steps"
        return path.read_text().splitlines() if path.exists() else []

    def marks(self, name: str) -> list[int]:
        path = self.top / name
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def tops(self) -> list[Path]:
        """The worktrees of workers, as they lie there."""
        return list(self.repo.glob(".architect*"))

    def go(self) -> None:
        (self.top / "go").touch()


def template(directory: Path) -> Path:
    """Make the repository that scenes are copies of."""
    repo = directory / "template"
    repo.mkdir(parents=True)

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=repo, check=True, stdout=subprocess.DEVNULL)

    git("init", "-q", "-b", "main", "--template=")
    (repo / "README").write_text("hello\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    for key, value in {"grace": "0.3", "checkpoint": "0.2", "program": "shell", "check": CHECK}.items():
        git("config", f"parallel.{key}", value)
    return repo


def make(directory: Path, source: Path, number: int, kinds: Sequence[str] = KINDS) -> Scene:
    """Copy the template to a scene of its own."""
    scene = Scene(directory / f"scene-{os.getpid()}{number:05}", kinds)
    scene.top.mkdir()
    shutil.copytree(source, scene.repo, symlinks=True)
    (scene.top / "tmp").mkdir()
    (scene.top / "agent").write_text(AGENT)
    return scene


def preload() -> None:
    """Import once what every command imports, so that a forked one costs little."""
    global _command  # noqa: PLW0603 (for the children of this process)
    from git_parallel import cli

    _command = cli.run  # before the module of that name takes its place
    import dulwich.object_store
    import dulwich.objects  # noqa: F401

    import git_parallel.cli.cleanup
    import git_parallel.cli.doctor
    import git_parallel.cli.resume
    import git_parallel.cli.run
    import git_parallel.cli.status
    import git_parallel.integrate.land
    import git_parallel.store.handles
    import git_parallel.store.logs
    import git_parallel.supervisor.again
    import git_parallel.supervisor.detached
    import git_parallel.supervisor.doctor
    import git_parallel.supervisor.recover
    import git_parallel.supervisor.start
    import git_parallel.supervisor.strays  # noqa: F401


def begin(
    scene: Scene,
    *words: str,
    env: dict[str, str] | None = None,
    wrap: Callable[[], None] | None = None,
    log: str | None = None,
) -> int:
    """Fork a command; return its process id. ``wrap`` is called in it first, ``log`` names the files of its output."""
    out, err = (
        os.open(scene.top / f"{log or words[0]}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for name in ("out", "err")
    )
    child = os.fork()
    if child:
        os.close(out)
        os.close(err)
        return child
    code = 99
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(scene.repo)
        os.environ.update({**scene.environment, "SURVIVAL_SUPERVISOR": str(os.getpid()), **(env or {})})
        import tempfile

        tempfile.tempdir = str(scene.top / "tmp")
        if wrap is not None:
            wrap()
        assert _command is not None
        code = _command(list(words))
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def end(scene: Scene, child: int, name: str, limit: float = 240.0) -> Done:
    """Wait for a forked command; -9 when somebody killed it, 124 when it took too long."""
    until = time.monotonic() + limit
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > until:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return Done(124, "", f"{name} did not end within {limit} s")
        time.sleep(0.005)
    out, err = ((scene.top / f"{name}.{which}").read_text() for which in ("out", "err"))
    return Done(os.waitstatus_to_exitcode(status), out, err)


def call(scene: Scene, *words: str, env: dict[str, str] | None = None, wrap: Callable[[], None] | None = None) -> Done:
    """Run a command to its end."""
    return end(scene, begin(scene, *words, env=env, wrap=wrap), words[0])


def document(done: Done) -> dict[str, Any] | None:
    """The JSON that a command printed, or None for nothing."""
    return json.loads(done.out) if done.out.strip() else None
