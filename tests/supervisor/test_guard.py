"""A guard starts one agent, tells how it ended, and leaves no process of it behind."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from escapees import WAYS

from git_parallel.errors import ParallelError
from git_parallel.supervisor import host as host_module
from git_parallel.supervisor.host import Ending, Guard, GuardHost, GuardSpec, read_ending

HERE = Path(__file__).parent
GRACE = 0.4
SLACK = 3.0  # seconds that a busy machine may add to the promised second after the grace


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait for something to become true; fail when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)


def alive(mark: str) -> list[int]:
    """The ids of living processes with ``mark`` on their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if mark in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


class World:
    """A host, and a directory for each agent that it starts."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.host = GuardHost(str(top / "guard.log"))
        self.mark = uuid.uuid4().hex
        self.count = 0

    def start(self, *argv: str, **options: object) -> Guard:
        self.count += 1
        directory = self.top / str(self.count)
        directory.mkdir(exist_ok=True)
        values: dict[str, object] = {
            "cwd": str(self.top),
            "env": {**os.environ, "GIT_PARALLEL_RUN": self.mark, "GIT_PARALLEL_WORKER": str(self.count)},
            "stdout": str(directory / "output.log"),
            "ending": str(directory / "exit.json"),
            "grace": GRACE,
            **options,
        }
        return self.host.start(GuardSpec(argv=argv, **values))  # type: ignore[arg-type]

    def escape(self, ways: str, *words: str, mark: str | None = None, **options: object) -> Guard:
        """Start an agent that leaves processes in the given ways, and wait until all of them are there."""
        guard = self.start(sys.executable, str(HERE / "escapees.py"), ways, mark or self.mark, *words, **options)
        number = self.count
        until(lambda: "up\n" in self.output(number))
        return guard

    def run(self, *argv: str, **options: object) -> Ending:
        ending = self.start(*argv, **options).wait(20)
        assert ending is not None
        return ending

    def output(self, number: int | None = None) -> str:
        path = self.top / str(number or self.count) / "output.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def recorded(self, number: int | None = None) -> Ending | None:
        return read_ending(str(self.top / str(number or self.count) / "exit.json"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.host.close()
    assert (tmp_path / "guard.log").read_text() == ""


# How it ends.


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_code_is_told_and_recorded(world: World, code: int) -> None:
    ending = world.run("sh", "-c", f"exit {code}")
    assert (ending.exit_code, ending.signal, ending.ended_by, ending.reason) == (code, None, "exit", None)
    assert ending.killed == 0
    assert ending.survivors == ()
    assert world.recorded() == ending


def test_death_by_signal_is_told(world: World) -> None:
    ending = world.run("sh", "-c", "kill -SEGV $$")
    assert (ending.exit_code, ending.signal, ending.ended_by) == (None, signal.SIGSEGV, "exit")


def test_duration_and_memory_are_measured(world: World) -> None:
    ending = world.run(sys.executable, "-c", "import time; x = bytes(range(256)) * 400_000; time.sleep(0.2)")
    assert 0.2 <= ending.duration < 0.2 + SLACK
    assert ending.peak_rss is not None
    assert 100e6 < ending.peak_rss < 200e6


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"argv": ["no-such-program"]}, "cannot run 'no-such-program': No such file or directory"),
        ({"argv": ["/"]}, "cannot run '/': Permission denied"),
        ({"argv": ["true", "x" * 300_000]}, "cannot run 'true': Argument list too long"),
        ({"argv": ["true", "a\0b"]}, "cannot run 'true': embedded null byte"),
        ({"cwd": "/no/where"}, "cannot change to directory '/no/where': No such file or directory"),
        ({"stdin": "/no/prompt"}, "cannot open '/no/prompt': No such file or directory"),
        ({"stdout": "/no/log"}, "cannot open '/no/log': No such file or directory"),
        ({"stderr": "/no/errors"}, "cannot open '/no/errors': No such file or directory"),
    ],
)
def test_agent_that_cannot_start_says_why(world: World, change: dict[str, object], error: str) -> None:
    options = dict(change)
    guard = world.start(*options.pop("argv", ["true"]), **options)  # type: ignore[misc]
    assert guard.started() is None
    ending = guard.wait(20)
    assert ending is not None
    assert ending.spawn_error == error
    assert (ending.exit_code, ending.signal) == (None, None)
    assert world.recorded() == ending


def test_wait_gives_up_after_its_time_and_can_be_repeated(world: World) -> None:
    guard = world.start("sleep", "60")
    assert guard.wait(0) is None
    assert guard.wait(0.05) is None
    guard.kill("enough")
    first = guard.wait()
    assert first is not None
    assert guard.wait(0) is first
    guard.stop("too late")
    assert guard.fileno() == -1


def test_ending_of_an_earlier_attempt_is_removed(world: World) -> None:
    stale = world.top / "stale.json"
    stale.write_text('{"ended_by": "exit"}')
    guard = world.start("sleep", "60", ending=str(stale))
    assert not stale.exists()
    guard.kill("enough")
    assert guard.wait() == read_ending(str(stale))


def test_ending_that_cannot_be_written_is_told_all_the_same(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.run("sh", "-c", "exit 4", ending=str(tmp_path / "no" / "exit.json")).exit_code == 4
    world.host.close()
    assert "No such file or directory" in (tmp_path / "guard.log").read_text()


# What the agent gets.


def test_standard_input_is_the_file_or_nothing(world: World) -> None:
    prompt = world.top / "prompt.txt"
    prompt.write_text("do it\n")
    world.run("cat", stdin=str(prompt))
    assert world.output() == "do it\n"
    world.run("cat")
    assert world.output() == ""


def test_output_is_appended_to_private_files(world: World) -> None:
    log, errors = world.top / "log", world.top / "errors"
    for _ in range(2):
        world.run("sh", "-c", "echo out; echo err >&2", stdout=str(log))
    assert log.read_text() == "out\nerr\n" * 2
    world.run("sh", "-c", "echo out; echo err >&2", stdout=str(log), stderr=str(errors))
    assert log.read_text() == "out\nerr\n" * 2 + "out\n"
    assert errors.read_text() == "err\n"
    assert {path.stat().st_mode & 0o777 for path in (log, errors)} == {0o600}


def test_arguments_environment_and_directory_arrive_byte_for_byte(world: World) -> None:
    words = ["-x", "", "two\nlines", "'\"", "\N{SNOWMAN}", os.fsdecode(b"\xff\xfe"), "x" * 100_000]
    program = (
        "import os, sys; sys.stdout.write(ascii([[os.fsencode(a) for a in sys.argv[1:]], os.environb, os.getcwdb()]))"
    )
    directory = world.top / os.fsdecode(b"d\xff r")
    directory.mkdir()
    env = {"ONLY": os.fsdecode(b"v\xfe\n"), "LC_ALL": "C"}
    world.run(sys.executable, "-c", program, *words, env=env, cwd=str(directory))
    expected = [[os.fsencode(word) for word in words], os.fsencode(str(directory))]
    assert ascii(expected[0]) in world.output()
    assert ascii(expected[1]) in world.output()
    assert r"b'ONLY': b'v\xfe\n'" in world.output()
    assert "GIT_PARALLEL_RUN" not in world.output()


def test_agent_gets_every_signal_whatever_its_supervisor_ignores_and_blocks(tmp_path: Path) -> None:
    top = tmp_path / "alone"
    top.mkdir()
    command = [sys.executable, HERE / "host_alone.py", top, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as alone:
        until((top / "b" / "exit.json").exists)
        alone.kill()
    blocked, ignored = (line.split()[1] for line in (top / "b" / "output.log").read_text().splitlines())
    internal = 0b11 << 31  # 32 and 33 are the C library's own: its posix_spawn(3) leaves them ignored
    assert (int(blocked, 16), int(ignored, 16) & ~internal) == (0, 0)


def test_agent_gets_its_own_session_and_no_descriptor_of_ours(world: World) -> None:
    guards = [world.start("sleep", "60") for _ in range(2)]
    world.run("sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; ps -o sid= -p $$; echo $$")
    first, second = world.output().splitlines()
    *descriptors, session = first.split()
    assert descriptors == ["0", "1", "2", "3"]  # the last one is the directory that ls reads
    assert session == second
    for guard in guards:
        guard.kill("x")
        assert guard.wait(20) is not None


# Being told to end.


def test_timeout_asks_first(world: World) -> None:
    ending = world.run("sh", "-c", "trap 'exit 7' TERM; sleep 60 & wait", timeout=0.3, grace=10)
    assert (ending.exit_code, ending.ended_by) == (7, "timeout")
    assert 0.3 <= ending.duration < 0.3 + SLACK
    assert ending.killed == 1


def test_timeout_kills_who_does_not_listen(world: World) -> None:
    begun = time.monotonic()
    ending = world.run("sh", "-c", "trap '' TERM; while :; do sleep 60; done", timeout=0.3)
    assert (ending.exit_code, ending.signal, ending.ended_by) == (None, signal.SIGKILL, "timeout")
    assert ending.duration >= 0.3 + GRACE
    assert time.monotonic() - begun < 0.3 + GRACE + 1 + SLACK


def test_stop_gives_the_grace_and_remembers_the_reason(world: World) -> None:
    guard = world.start("sh", "-c", "trap 'sleep 0.2; echo bye; exit 0' TERM; echo up; sleep 60 & wait; wait", grace=10)
    until(world.output)
    guard.stop("budget")
    guard.stop("second thoughts")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.exit_code, ending.ended_by, ending.reason) == (0, "stop", "budget")
    assert world.output() == "up\nbye\n"


RECORDS = """
import signal, sys, time
def heard(number, _):
    print(signal.Signals(number).name, flush=True)
    if signal.Signals(number).name == sys.argv[1]:
        sys.exit(0)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, heard)
print("up", flush=True)
while True:
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("stop", "ends_at", "heard"),
    [
        (("INT", "TERM"), "SIGINT", ["SIGINT"]),
        (("INT", "TERM"), "SIGTERM", ["SIGINT", "SIGTERM"]),
        (("HUP", "INT", "QUIT"), "never", ["SIGHUP", "SIGINT", "SIGQUIT"]),
        (("TERM",), "never", ["SIGTERM"]),
    ],
)
def test_a_program_has_its_own_signals_in_their_order(
    world: World, stop: tuple[str, ...], ends_at: str, heard: list[str]
) -> None:
    guard = world.start(sys.executable, "-c", RECORDS, ends_at, stop=stop, grace=0.9)
    until(world.output)
    begun = time.monotonic()
    guard.stop("budget")
    ending = guard.wait(20)
    assert ending is not None
    assert world.output().split() == ["up", *heard]
    assert (ending.signal, ending.exit_code) == ((signal.SIGKILL, None) if ends_at == "never" else (None, 0))
    assert ending.duration < 0.9 + SLACK
    if ends_at == "never":
        assert time.monotonic() - begun >= 0.9
    assert ending.killed == 0


def test_what_outlives_a_program_with_signals_of_its_own_is_asked_to_end(world: World) -> None:
    child = RECORDS.replace("print(", "print('child', ")
    program = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {child!r}, 'SIGTERM'])\n{RECORDS}"
    guard = world.start(sys.executable, "-c", program, "SIGINT", stop=("INT", "TERM"), grace=10)
    until(lambda: world.output().count("up") == 2)
    guard.stop("budget")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.exit_code, ending.killed) == (0, 1)
    assert [line for line in world.output().splitlines() if line.startswith("child")] == [
        "child up",
        "child SIGINT",
        "child SIGTERM",
    ]


def test_stop_with_a_grace_of_its_own(world: World) -> None:
    guard = world.start("sh", "-c", "trap '' TERM; echo up; sleep 60; sleep 60", grace=60)
    until(world.output)
    guard.stop("hurry", grace=0.1)
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.signal, ending.ended_by) == (signal.SIGKILL, "stop")


def test_kill_cuts_a_stop_short(world: World) -> None:
    guard = world.start("sh", "-c", "trap '' TERM; echo up; sleep 60; sleep 60", grace=60)
    until(world.output)
    guard.stop("interrupted")
    assert guard.wait(0.2) is None
    guard.kill("interrupted again")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.signal, ending.ended_by, ending.reason) == (signal.SIGKILL, "stop", "interrupted")


def test_stopped_process_gets_to_hear_the_request(world: World) -> None:
    guard = world.start("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; kill -STOP $$; sleep 60 & wait", grace=10)
    until(world.output)
    guard.stop("x")
    assert guard.wait(20) is not None
    assert world.output() == "up\nbye\n"


def test_termination_of_the_guard_is_a_stop(world: World) -> None:
    guard = world.start("sleep", "60")
    assert guard.pid is not None
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):  # a terminal's are not for it
        os.kill(guard.pid, number)
    assert guard.wait(0.2) is None
    os.kill(guard.pid, signal.SIGTERM)
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.signal, ending.ended_by, ending.reason) == (signal.SIGTERM, "stop", "signal")


def test_guard_that_its_agent_suspends_goes_on(world: World) -> None:
    ending = world.run("sh", "-c", "kill -STOP $PPID; sleep 60", timeout=0.5)
    assert ending.ended_by == "timeout"


def test_pause_stops_processes_and_clock(world: World) -> None:
    program = "import time\nwhile True: print('x', flush=True); time.sleep(0.01)"
    guard = world.start(sys.executable, "-c", program, timeout=3.0)
    until(world.output)
    guard.pause()
    started = guard.started()
    assert started is not None
    until(lambda: psutil.Process(started.pid).status() == psutil.STATUS_STOPPED)
    before = world.output()
    assert guard.wait(0.6) is None
    assert world.output() == before
    guard.unpause()
    until(lambda: world.output() != before)
    ending = guard.wait(20)
    assert ending is not None
    assert ending.ended_by == "timeout"
    assert ending.duration >= 3.0 + 0.6


def test_paused_agent_can_be_stopped(world: World) -> None:
    guard = world.start("sleep", "60", grace=10)
    guard.pause()
    guard.stop("x")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.signal, ending.ended_by) == (signal.SIGTERM, "stop")


# Nothing is left behind.

EVERY_WAY = ",".join(way for way in WAYS if way not in ("many", "storm", "headless"))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_after_success(world: World, way: str) -> None:
    guard = world.escape(way, "0")
    begun = time.monotonic()
    ending = guard.wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert time.monotonic() - begun < GRACE + 1 + SLACK
    assert (ending.exit_code, ending.ended_by, ending.survivors) == (0, "exit", ())
    assert ending.killed >= (200 if way == "many" else 1)
    assert ending.duration < time.monotonic() - begun + 30


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_left_after_a_stop(world: World, way: str) -> None:
    guard = world.escape(way)
    assert way in ("headless", "hopper") or alive(world.mark)
    begun = time.monotonic()
    guard.stop("stopped")
    ending = guard.wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert time.monotonic() - begun < GRACE + 1 + SLACK
    assert (ending.ended_by, ending.survivors) == ("stop", ())


def test_nothing_is_left_after_failure(world: World) -> None:
    ending = world.escape(EVERY_WAY, "9").wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert (ending.exit_code, ending.survivors) == (9, ())


def test_nothing_is_left_after_a_timeout(world: World) -> None:
    ending = world.escape(EVERY_WAY, timeout=3.0).wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert (ending.ended_by, ending.survivors) == ("timeout", ())


def test_nothing_is_left_after_a_kill(world: World) -> None:
    guard = world.escape(EVERY_WAY, grace=60)
    begun = time.monotonic()
    guard.kill("now")
    ending = guard.wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert time.monotonic() - begun < 1 + SLACK
    assert (ending.ended_by, ending.reason, ending.survivors) == ("kill", "now", ())


def test_what_outlives_the_agent_is_asked_first(world: World) -> None:
    daemon = "trap 'sleep 0.1; echo bye; exit 0' TERM; echo up; sleep 60 & wait"
    ending = world.run(
        "sh", "-c", f'setsid sh -c "{daemon}" & while ! grep -q up {world.top}/1/output.log; do :; done', grace=10
    )
    assert (ending.exit_code, ending.ended_by) == (0, "exit")
    assert world.output() == "up\nbye\n"
    assert ending.killed == 2


def test_process_without_a_first_thread_is_killed(world: World) -> None:
    guard = world.escape("headless")
    pid = next(int(line.split()[1]) for line in world.output().splitlines() if line.startswith("headless"))
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert len(os.listdir(f"/proc/{pid}/task")) > 1
    guard.stop("x")
    ending = guard.wait(30)
    assert ending is not None
    assert ending.killed == 1
    assert not psutil.pid_exists(pid)


def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    top = tmp_path / "alone"
    top.mkdir()
    command = [sys.executable, HERE / "host_alone.py", top, sys.executable, HERE / "escapees.py", EVERY_WAY, mark]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as alone:
        assert alone.stdout is not None
        ids = json.loads(alone.stdout.readline())
        until(lambda: all("up\n" in (top / name / "output.log").read_text() for name in "ab"))
        assert alive(mark)
        alone.kill()
    until(lambda: not alive(mark), 1 + SLACK)
    until(lambda: not any(psutil.pid_exists(pid) for pid in (ids["zygote"], *ids["guards"])))
    for name in "ab":
        ending = read_ending(str(top / name / "exit.json"))
        assert ending is not None
        assert (ending.ended_by, ending.reason) == ("lifeline", "the supervisor died")
        assert ending.survivors == ()


def test_nothing_is_left_of_a_supervisor_inside_an_agent(world: World) -> None:
    inner = [str(HERE / "escapees.py"), "setsid,ignores_term,cleared_environment,respawner", world.mark]
    guard = world.start(sys.executable, str(HERE / "host_alone.py"), str(world.top), sys.executable, *inner)
    until(lambda: "zygote" in world.output())
    ids = json.loads(world.output())
    guard.stop("x")
    ending = guard.wait(20)
    assert ending is not None
    assert alive(world.mark) == []
    assert not any(psutil.pid_exists(pid) for pid in (ids["zygote"], *ids["guards"]))
    assert ending.survivors == ()


def test_nothing_is_left_when_the_guard_is_killed(world: World) -> None:
    other = world.escape("setsid", mark="other")
    guard = world.escape(EVERY_WAY)
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGKILL)
    ending = guard.wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert (ending.ended_by, ending.reason) == ("guard-died", "the guard was killed by signal 9")
    assert (ending.exit_code, ending.survivors) == (None, ())
    assert world.recorded() == ending
    assert len(alive("other")) == 2
    other.stop("x")
    assert other.wait(20) is not None


def test_nothing_that_kept_its_environment_is_left_when_guard_and_zygote_are_killed(world: World) -> None:
    other = world.escape("setsid", mark="another")
    guard = world.escape("child,setsid,double_fork,changed_directory,closed_descriptors,ignores_term,many")
    assert guard.pid is not None
    os.kill(world.host.pid, signal.SIGKILL)
    os.kill(guard.pid, signal.SIGKILL)
    ending = guard.wait(30)
    assert ending is not None
    assert alive(world.mark) == []
    assert (ending.ended_by, ending.reason, ending.survivors) == ("guard-died", "guard and zygote died", ())
    assert len(alive("another")) == 2
    other.stop("x")
    assert other.wait(20) is not None


def test_agent_dies_with_guard_and_zygote_and_an_incomplete_marker_kills_nobody(world: World) -> None:
    env = {**os.environ, "GIT_PARALLEL_RUN": world.mark}
    other = world.escape("child", mark="one of the same run", env={**env, "GIT_PARALLEL_WORKER": "7"})
    guard = world.start("sleep", "60", env=env)
    started = guard.started()
    assert guard.pid is not None
    assert started is not None
    os.kill(world.host.pid, signal.SIGKILL)
    os.kill(guard.pid, signal.SIGKILL)
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.ended_by, ending.killed) == ("guard-died", 0)
    until(lambda: not psutil.pid_exists(started.pid))
    assert len(alive("one of the same run")) == 2
    other.stop("x")
    assert other.wait(20) is not None


def test_one_workers_end_does_not_touch_another(world: World) -> None:
    first = world.escape("setsid,double_fork,many", mark="first")
    second = world.escape("setsid,double_fork,cleared_environment,hopper")
    untouched = set(alive("first"))
    second.kill("x")
    assert second.wait(20) is not None
    assert first.wait(0.3) is None
    assert set(alive("first")) == untouched
    first.stop("x")
    assert first.wait(20) is not None
    assert alive("first") == []


# Many guards, and the zygote.


def test_fifty_guards_leave_no_descriptor_and_no_zombie(world: World) -> None:
    def descriptors() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{world.host.pid}/fd"))

    world.run("true")
    zygote = psutil.Process(world.host.pid)
    until(lambda: not zygote.children())
    before = descriptors()
    for _ in range(5):
        guards = [world.start("sh", "-c", f"exit {number}") for number in range(10)]
        assert [guard.wait(20).exit_code for guard in guards] == list(range(10))  # type: ignore[union-attr]
    until(lambda: not zygote.children())
    assert descriptors() == before


def test_guard_keeps_only_its_own_descriptors(world: World) -> None:
    guards = [world.start("sleep", "60") for _ in range(3)]
    for guard in guards:
        # Three standard ones, the lifeline, and two ends of the pipe that signals wake it by.
        assert sorted(map(int, os.listdir(f"/proc/{guard.pid}/fd"))) == [0, 1, 2, 3, 4, 5]
        guard.kill("x")
        assert guard.wait(20) is not None


def test_starts_from_many_threads_at_once(world: World) -> None:
    lock = threading.Lock()

    def work(number: int) -> int | None:
        with lock:
            world.count += 1
            top = world.top / f"t{world.count}"
            top.mkdir()
        spec = GuardSpec(["sh", "-c", f"exit {number}"], "/", dict(os.environ), f"{top}/log", f"{top}/exit.json")
        ending = world.host.start(spec).wait(30)
        return ending.exit_code if ending else None

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(work, range(64))) == list(range(64))


def test_expected_agents_find_their_guards_ready(world: World) -> None:
    world.host.expect(2)
    world.host.expect(3)
    until(lambda: len(ready(world)) == 3)
    assert not (world.top / "guard.log").exists()  # there may be no run yet
    before = ready(world)
    guards = [world.start("sh", "-c", f"exit {number}") for number in (1, 2)]
    assert all(guard.pid in before for guard in guards)
    endings = [guard.wait(20) for guard in guards]
    assert [ending.exit_code for ending in endings if ending] == [1, 2]
    assert [world.recorded(number) for number in (1, 2)] == endings
    until(lambda: len(ready(world)) == 1)  # and the third goes with the host


def test_more_agents_than_were_expected_start_as_well(world: World) -> None:
    world.host.expect(1)
    guards = [world.start("sh", "-c", f"exit {number}") for number in (1, 2, 3)]
    assert [guard.wait(20).exit_code for guard in guards] == [1, 2, 3]  # type: ignore[union-attr]


def ready(world: World) -> set[int]:
    """The guards that live now."""
    return {child.pid for child in psutil.Process(world.host.pid).children()}


@pytest.mark.parametrize("victim", ["guards", "zygote", "both"])
def test_an_agent_whose_guard_died_before_it_gets_another_one(world: World, victim: str) -> None:
    world.host.expect(4)  # more than are tried where none is ready
    until(lambda: len(ready(world)) == 4)
    idle, zygote = ready(world), world.host.pid
    for pid in {"guards": [*idle], "zygote": [zygote], "both": [zygote, *idle]}[victim]:
        os.kill(pid, signal.SIGKILL)
    if victim == "zygote":
        until(lambda: psutil.Process(zygote).status() == psutil.STATUS_ZOMBIE)
    else:
        until(lambda: all(given_up(guard._line) for guard in world.host._idle))
    guard = world.start("sh", "-c", "exit 5")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.exit_code, ending.ended_by) == (5, "exit")
    assert world.recorded() == ending
    assert (guard.pid in idle) == (victim == "zygote")


def test_a_guard_killed_before_it_hears_of_its_agent_has_an_ending_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not that of an earlier attempt, and its time is none that the guard has waited."""
    world.host.expect(1)
    until(lambda: len(ready(world)) == 1)
    time.sleep(0.3)
    stale = world.top / "exit.json"
    stale.write_text('{"ended_by": "exit", "exit_code": 7}')

    def killed(guard: Guard, _: GuardSpec) -> None:
        assert guard.pid is not None
        os.kill(guard.pid, signal.SIGKILL)

    monkeypatch.setattr(Guard, "_take", killed)
    ending = world.start("true", ending=str(stale)).wait(20)
    assert ending is not None
    assert (ending.ended_by, ending.exit_code) == ("guard-died", None)
    assert ending.reason == "the guard was killed by signal 9"
    assert ending.duration < 0.3
    assert read_ending(str(stale)) == ending


def given_up(line: socket.socket) -> bool:
    """Whether nobody holds the other end any more, neither guard nor zygote."""
    poll = select.poll()
    poll.register(line, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))


def test_started_names_the_agent_and_its_birth(world: World) -> None:
    guard = world.start("sleep", "60")
    started = guard.started()
    assert started is not None
    agent = psutil.Process(started.pid)
    assert agent.cmdline() == ["sleep", "60"]
    assert agent.ppid() == guard.pid
    ticks = os.sysconf("SC_CLK_TCK")
    assert started.start / ticks == pytest.approx(agent.create_time() - psutil.boot_time(), abs=1.5)
    guard.kill("x")
    assert guard.wait(20) is not None


def test_killed_zygote_is_replaced_and_its_guards_go_on(world: World) -> None:
    guard = world.start("sh", "-c", "echo up; sleep 60")
    first = world.host.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert world.run("sh", "-c", "exit 5").exit_code == 5
    assert world.host.pid != first
    guard.stop("x")
    ending = guard.wait(20)
    assert ending is not None
    assert ending.ended_by == "stop"


def test_zygote_goes_with_its_host(tmp_path: Path) -> None:
    world = World(tmp_path)
    guard = world.start("sleep", "60")
    zygote = psutil.Process(world.host.pid)
    closing = threading.Thread(target=world.host.close)
    closing.start()
    guard.kill("x")
    assert guard.wait(20) is not None
    closing.join()
    assert not zygote.is_running()


def test_zygote_that_cannot_work_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "_ZYGOTE", str(tmp_path / "missing.py"))
    world = World(tmp_path)
    with pytest.raises(ParallelError, match="cannot start a guard process") as caught:
        world.start("true")
    assert caught.value.hints == (f"see {tmp_path / 'guard.log'}",)
    world.host.close()


# Systems without subreapers.

ELSEWHERE = """
import sys
sys.path[:0] = sys.argv.pop(1).split(":")
from git_parallel.supervisor import processes
processes.LINUX = False
from git_parallel.supervisor import zygote
zygote.main()
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world whose zygote and guards believe that they are not on Linux."""
    script = tmp_path / "elsewhere.py"
    script.write_text(ELSEWHERE.replace("sys.argv.pop(1)", repr(str(HERE.parent.parent))))
    monkeypatch.setattr(host_module, "_ZYGOTE", str(script))
    made = World(tmp_path)
    yield made
    made.host.close()
    assert (tmp_path / "guard.log").read_text() == ""


@pytest.mark.parametrize("exit_code", [(), ("0",)])
def test_without_subreaper_parent_group_and_marker_find_the_rest(elsewhere: World, exit_code: tuple[str, ...]) -> None:
    ways = "child,setsid,double_fork,changed_directory,closed_descriptors,ignores_term,stopped,holds_log"
    packages = os.path.dirname(os.path.dirname(psutil.__file__))
    guard = elsewhere.escape(ways, *exit_code, psutil_path=packages)
    if not exit_code:
        guard.stop("x")
    ending = guard.wait(30)
    assert ending is not None
    assert alive(elsewhere.mark) == []
    assert (ending.killed, ending.survivors) == (8, ())
