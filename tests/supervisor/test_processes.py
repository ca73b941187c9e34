"""Processes are listed by descent, told apart by their birth, and signalled only when they are the ones meant."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from git_parallel.supervisor import processes
from git_parallel.supervisor.processes import Process, descendants, look, marked

HERE = Path(__file__).parent


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as child:
        yield child
        child.kill()


def seen(child: subprocess.Popen[bytes]) -> Process:
    process = look(child.pid)
    assert process is not None
    return process


def test_signal_reaches_the_process_that_was_listed(sleeper: subprocess.Popen[bytes]) -> None:
    seen(sleeper).send(signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT)
    assert sleeper.wait(10) == -signal.SIGTERM


def test_signal_spares_a_later_process_with_the_same_number(sleeper: subprocess.Popen[bytes]) -> None:
    earlier = seen(sleeper)
    earlier.start -= 1
    earlier.send(signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        sleeper.wait(0.2)


def test_signal_without_pidfds(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    earlier = seen(sleeper)
    earlier.start -= 1
    earlier.send(signal.SIGKILL)
    seen(sleeper).send(signal.SIGTERM)
    assert sleeper.wait(10) == -signal.SIGTERM


def test_signal_to_one_that_is_gone_is_no_error(sleeper: subprocess.Popen[bytes]) -> None:
    process = seen(sleeper)
    sleeper.kill()
    sleeper.wait()
    process.send(signal.SIGTERM)
    assert look(process.pid) is None
    assert processes.start_time(process.pid) == 0


def test_zombie_is_not_alive(sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert not seen(sleeper).alive
    assert sleeper.pid not in {process.pid for process in descendants(os.getpid())}


@pytest.mark.parametrize("name", ["a) S 1 1", "((", "two words", "(x) R 0"])
def test_program_may_have_any_name(tmp_path: Path, name: str) -> None:
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / name)
    with subprocess.Popen([program, "60"]) as child:
        process = seen(child)
        assert (process.parent, process.alive) == (os.getpid(), True)
        child.kill()


def test_descendants_are_found_at_any_depth_but_not_below_those_apart() -> None:
    script = "sh -c 'sleep 60 & wait' & sh -c 'sleep 60 & wait' & echo $!; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        apart = int(child.stdout.readline())
        while len(found := descendants(child.pid)) < 4:
            pass
        assert child.pid in {process.parent for process in found}
        assert len(descendants(child.pid, {apart})) == 2
        os.killpg(child.pid, signal.SIGKILL)


def test_marked_wants_every_variable() -> None:
    marker = {"GIT_PARALLEL_RUN": uuid.uuid4().hex, "GIT_PARALLEL_WORKER": "1"}
    other = {**marker, "GIT_PARALLEL_WORKER": "11"}
    with (
        subprocess.Popen(["sleep", "60"], env=marker) as child,
        subprocess.Popen(["sleep", "60"], env=other) as stranger,
    ):
        assert [process.pid for process in marked(marker)] == [child.pid]
        assert marked({}) == []
        child.kill()
        stranger.kill()


PURSUIT = """
import os, sys, time
from git_parallel.supervisor.processes import PR_SET_CHILD_SUBREAPER, chase, kill_all, prctl
prctl(PR_SET_CHILD_SUBREAPER, 1)
if os.fork() == 0:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        os.setsid()
    os._exit(0)

def gone():
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return False
        except ChildProcessError:
            return True

blind = lambda: []
seen, left = kill_all(blind, 20, gone=gone, pursue=lambda seconds: chase(os.getpid(), seconds))
print(bool(seen), left)
"""


def test_chase_catches_what_no_listing_shows() -> None:
    done = subprocess.run([sys.executable, "-c", PURSUIT], capture_output=True, text=True, check=False, timeout=40)
    assert (done.stdout, done.stderr) == ("True []\n", "")
