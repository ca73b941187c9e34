"""Every test runs in a sealed world: own HOME, no system or user git configuration, fixed identity."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import forked
import psutil
import pytest
from repository import Repo

from git_parallel.agents.preset import KNOWN_PROGRAMS

# Of git, of ours, and of the agent programs: a developer's keys are no business of a test.
_TAKEN_AWAY = (
    *("GIT_", "XDG_", "PARALLEL_", "HERDR_"),
    *("ANTHROPIC_", "CLAUDE_", "CODEX_", "DEEPSEEK_", "GEMINI_", "GOOGLE_", "OPENAI_", "OPENCODE_", "OPENROUTER_"),
)
SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A U Thor",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "C O Mitter",
    "GIT_COMMITTER_EMAIL": "committer@example.com",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "TERM": "dumb",
}


def pytest_sessionstart() -> None:
    """Give Ctrl-C its meaning: a shell starts jobs in the background without, and the program would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: a test waits for the processes it starts about as long as it computes."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let whoever has nothing left take tests from others: some take half a minute, most a tenth of a second."""
    if config.getoption("dist") != "load":  # asked for
        return None
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture(scope="session")
def own_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH without agent programs: which of them a developer has installed decides no test.

    A directory that holds one is replaced by another with links to all the rest of it.
    """
    programs = {*KNOWN_PROGRAMS, "mini"}
    directories = []
    for place in os.get_exec_path():
        names = os.listdir(place) if os.path.isdir(place) else []
        if not programs.isdisjoint(names):
            rest = tmp_path_factory.mktemp("bin")
            for name in set(names) - programs:
                (rest / name).symlink_to(os.path.join(place, name))
            place = str(rest)  # noqa: PLW2901
        directories.append(place)
    return os.pathsep.join(directories)


@pytest.fixture(autouse=True)
def sealed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, own_path: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Seal the environment, and hold the test to leaving no process of its own behind."""
    for name in list(os.environ):
        if name.startswith(_TAKEN_AWAY):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", own_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    # The program is started thousands of times: compile it once, outside the tree, for all workers of pytest.
    top = tmp_path_factory.getbasetemp()
    top = top.parent if top.name.startswith("popen-") else top
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(top / "pycache"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for name, value in SEALED.items():
        monkeypatch.setenv(name, value)
    (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    before = set(_below(os.getpid()))
    yield
    after = set(_below(os.getpid())) - before - {forked.server_pid()}
    assert not (left := [*filter(None, map(_alive, after))]), f"processes left behind: {left}"


def _below(pid: int) -> Iterator[int]:
    """The ids of all descendants. psutil looks at every process of the machine for this, twice a test."""
    if not os.path.exists("/proc/thread-self/children"):
        yield from (process.pid for process in psutil.Process(pid).children(recursive=True))
        return
    with suppress(OSError):  # it has ended
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                for child in map(int, file.read().split()):
                    yield child
                    yield from _below(child)


def _alive(pid: int) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return process if process.status() != psutil.STATUS_ZOMBIE else None
    return None


_first: dict[str, Path] = {}  # the repository that others are copies of


@pytest.fixture
def make_repo(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory):
    """Return a function that makes a repository with one commit (``README`` and ``src/a.txt``)."""

    def make(name: str = "repo", *, commit: bool = True, init: tuple[str, ...] = ()) -> Repo:
        path = tmp_path / name
        if not commit or init:
            return _made(path, commit=commit, init=init)
        if "first" not in _first:
            _first["first"] = _made(tmp_path_factory.mktemp("first") / "repo").path
        shutil.copytree(_first["first"], path, symlinks=True)
        subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=path, check=True)  # these are other files
        return Repo(path)

    return make


def _made(path: Path, *, commit: bool = True, init: tuple[str, ...] = ()) -> Repo:
    path.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", *init], cwd=path, check=True)
    repo = Repo(path)
    if commit:
        repo.commit("first", {"README": "hello\n", "src/a.txt": "a\n"})
    return repo


@pytest.fixture
def repo(make_repo) -> Repo:
    """A repository with one commit."""
    return make_repo()
