"""A program that is forked for a test is as good as one that is really started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import forked
import psutil
import pytest

HERE = Path(__file__).parent
DEADLINE = 20.0

# Stand in for git, which the program asks first of all where it is.
SPY = """#!/bin/sh
[ -e "$SEEN" ] && exit 1
{
    env | grep -v -e ^_= -e ^SEEN= | sort
    readlink /proc/$PPID/cwd /proc/$PPID/fd/0
    readlink /proc/$PPID/fd/1 /proc/$PPID/fd/2 | tr -d 0-9
    grep -E '^(SigBlk|SigIgn|SigCgt|Umask|Threads)' /proc/$PPID/status
    cut -d ' ' -f 2,5,6 /proc/$PPID/stat
    cat /proc/$PPID/limits
} > "$SEEN"
readlink /proc/$PPID/fd/* | tr -d 0-9 > "$SEEN.descriptors"
exit 1
"""
KILLER = "#!/bin/sh\nkill -9 $PPID\n"
SLOW = '#!/bin/sh\necho $PPID > "$SEEN"\nwhile kill -0 $PPID; do sleep 0.05; done 2> /dev/null\n'

both = pytest.mark.parametrize("way", [forked.run, forked.start])


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Call the program with a script in place of git, and where that shall write what it sees."""
    place = tmp_path / "plåce"
    (place / "bin").mkdir(parents=True)

    def call(way, git: str, *arguments: str, seen: str = "", timeout: float = DEADLINE, **env: str):
        (place / "bin" / "git").write_text(git)
        (place / "bin" / "git").chmod(0o755)
        path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
        all_of_it = {**os.environ, "PATH": path, "SEEN": seen, "odd\udcff name": "a\nb=c", **env}
        return way(arguments, cwd=place, env=all_of_it, stdin=None, timeout=timeout)

    return call


def test_both_are_given_the_same(call, tmp_path: Path) -> None:
    seen = []
    for way in (forked.start, forked.run):
        file = tmp_path / way.__name__
        done = call(way, SPY, "status", "a\udcff", seen=str(file), TZ="X-3")
        seen.append((file.read_text(errors="surrogateescape"), vars(done)))
    assert seen[0] == seen[1]
    assert "TZ=X-3\n" in seen[0][0]
    assert done.returncode == 128
    held = Path(f"{file}.descriptors").read_text().split()
    assert set(held[3:]) == {"pipe:[]"}  # to git
    assert len(held) <= 6


@both
def test_input(way, repo) -> None:
    arguments = ["run", "--program", "shell", "--dry-run", "--task-file", "-"]
    for size in (1, forked._AT_ONCE, 100_000):
        done = way(arguments, cwd=repo.path, env=os.environ, stdin=b"\xc3\xa9" * size, timeout=DEADLINE)
        assert (done.returncode, done.stderr) == (0, "")
        assert "é" in done.stdout


@both
def test_a_directory_that_is_not_there(way, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        way(["status"], cwd=tmp_path / "no", env=os.environ, stdin=None, timeout=DEADLINE)


@both
def test_a_signal_is_told(way, call) -> None:
    assert call(way, KILLER, "status").returncode == -9


@both
def test_time_limit(way, call, tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        call(way, SLOW, "status", seen=str(tmp_path / "seen"), timeout=1)
    assert not psutil.pid_exists(int((tmp_path / "seen").read_text()))


def test_nothing_of_the_program_keeps_anything_when_it_is_loaded() -> None:
    """What is kept by then would be the same for all that is forked."""
    code = """
import re, sys
from pathlib import Path
import forked
forked._load()
for module in [sys.modules[name] for name in sys.modules if name.startswith("git_parallel.")]:
    for name in re.findall(r"^ +global (\\w+)", Path(module.__file__).read_text(), re.MULTILINE):
        if vars(module)[name] and name != "_held_guard":  # a lock, made anew
            print(module.__name__, name)
    for name, value in vars(module).items():
        if hasattr(value, "cache_info") and value.cache_info().currsize:
            print(module.__name__, name)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=True)
    assert done.stdout == ""


# A process as pytest's, that ends the server, or itself.
USER = """
import os, signal, sys
from pathlib import Path
import forked
def version():
    return forked.run(["--version"], cwd=Path("/"), env=os.environ, stdin=None, timeout=20).stdout
print(version().split()[0], forked.server_pid(), flush=True)
if sys.argv[1] == "itself":
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(forked.server_pid(), signal.SIGKILL)
version()
"""


def test_the_server_ends_with_its_user() -> None:
    done = subprocess.run([sys.executable, "-c", USER, "itself"], cwd=HERE, capture_output=True, text=True, check=False)
    name, pid = done.stdout.split()
    assert name == "git-parallel"
    limit = time.monotonic() + DEADLINE
    while psutil.pid_exists(int(pid)):
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_without_its_server_a_call_is_an_error() -> None:
    done = subprocess.run([sys.executable, "-c", USER, "server"], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "RuntimeError: the server of" in done.stderr
