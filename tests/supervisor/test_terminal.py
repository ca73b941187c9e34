"""An agent with a terminal of its own: held by its guard, shown by windows that come and go."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from test_guard import EVERY_WAY, World, alive, until

from git_parallel.supervisor import window
from git_parallel.supervisor.window import KEYS, ROWS_COLUMNS, SIZE, frame, take


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    # The path is longer than a socket's may be.
    top = tmp_path / ("d" * 120)
    top.mkdir()
    made = World(top)
    yield made
    made.host.close()
    assert (top / "guard.log").read_text() == ""


class Window:
    """What a window does, without a terminal behind it."""

    def __init__(self, path: Path) -> None:
        self.line = socket.socket(socket.AF_UNIX)
        descriptor = os.open(path.parent, os.O_RDONLY)
        self.line.connect(f"/proc/self/fd/{descriptor}/{path.name}")
        os.close(descriptor)
        self.line.settimeout(20)
        self.shown = b""

    def type(self, keys: str) -> None:
        self.line.sendall(frame(KEYS, keys.encode()))

    def resize(self, rows: int, columns: int) -> None:
        self.line.sendall(frame(SIZE, ROWS_COLUMNS.pack(rows, columns)))

    def wait(self, pattern: bytes) -> None:
        while not re.search(pattern, self.shown):
            data = self.line.recv(65536)
            assert data, self.shown
            self.shown += data

    def end(self) -> bytes:
        while data := self.line.recv(65536):
            self.shown += data
        return self.shown


def start(world: World, script: str, **options: object):
    address = world.top / f"terminal-{world.count + 1}"
    guard = world.start("sh", "-c", script, terminal=str(address), **options)
    return guard, address


def test_what_is_printed_is_in_the_log_and_how_it_ends_is_told(world: World) -> None:
    guard, address = start(world, "tty; test -t 0 && test -t 2 && echo all; stty size; echo err >&2; exit 3")
    ending = guard.wait(20)
    assert ending is not None
    assert (ending.exit_code, ending.ended_by, world.recorded()) == (3, "exit", ending)
    name, *lines = world.output().splitlines()
    assert name.startswith("/dev/")
    assert lines == ["all", "40 120", "err"]
    assert not address.exists()


def test_input_and_errors_may_be_files_of_their_own(world: World, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("prompt\n")
    guard, _ = start(
        world, "cat; echo err >&2; test -t 1; echo $?; echo tty > /dev/tty", stdin=str(tmp_path / "in"),
        stderr=str(tmp_path / "err"),
    )  # fmt: skip
    guard.wait(20)
    assert world.output().splitlines() == ["prompt", "0", "tty"]
    assert (tmp_path / "err").read_text() == "err\n"


def test_a_window_sees_what_was_written_before_it_came_and_what_it_types_arrives(world: World) -> None:
    guard, address = start(world, "echo before; read answer; echo got $answer; read more; echo and $more")
    until(lambda: "before" in world.output())
    window = Window(address)
    window.wait(b"before")
    window.type("yes\r")
    window.wait(b"got yes")
    other = Window(address)
    other.wait(b"got yes")
    window.line.close()
    other.type("no\r")
    assert b"and no" in other.end()
    ending = guard.wait(20)
    assert ending is not None
    assert ending.exit_code == 0
    assert world.output().splitlines() == ["before", "yes", "got yes", "no", "and no"]


def test_what_is_typed_before_the_window_is_ready_arrives(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "line"))
        listener.listen()
        os.write(ours, b"early\r")
        argv = [sys.executable, "-I", "-S", window.__file__, str(tmp_path), "line", "over"]
        with subprocess.Popen(argv, stdin=theirs, stdout=theirs) as process:
            line, _ = listener.accept()
            with line:
                line.settimeout(20)
                received, typed = bytearray(), b""
                while not typed.endswith((b"\r", b"\n")):
                    data = line.recv(4096)
                    assert data, typed
                    received += data
                    typed += b"".join(payload for kind, payload in take(received) if kind == KEYS)
            assert process.wait(20) == 0
    for descriptor in (ours, theirs):
        os.close(descriptor)
    assert typed.strip() == b"early"


def test_the_size_of_a_window_reaches_the_agent(world: World) -> None:
    script = "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"
    guard, address = start(world, script)
    window = Window(address)
    window.wait(b"up")
    window.resize(33, 77)
    window.wait(b"33 77")
    guard.kill("test")
    guard.wait(20)


def test_questions_to_the_terminal_are_not_shown_twice(world: World) -> None:
    guard, address = start(world, "printf 'one\\033[6n\\033[c\\033]11;?\\007two\\n'; read x")
    first = Window(address)
    first.wait(b"two")
    assert first.shown == b"one\x1b[6n\x1b[c\x1b]11;?\x07two\r\n"
    second = Window(address)
    second.wait(b"two")
    assert second.shown == b"onetwo\r\n"
    guard.kill("test")
    guard.wait(20)


def test_all_output_is_there_though_a_window_takes_none(world: World) -> None:
    guard, address = start(world, "read x; seq 1 400000")
    window = Window(address)
    window.type("\r")
    ending = guard.wait(60)
    assert ending is not None
    assert world.output().splitlines()[1:] == [str(number) for number in range(1, 400001)]


def test_much_that_is_typed_arrives(world: World) -> None:
    guard, address = start(world, "stty raw -echo; echo up; head -c 300000 | cksum; stty sane")
    window = Window(address)
    window.wait(b"up")
    for _ in range(75):  # and no more: after `stty sane` the rest would be echoed
        window.type("x" * 4000)
    window.end()
    guard.wait(60)
    assert world.output().splitlines()[-1].split()[1] == "300000"


def test_whatever_gets_away_from_the_terminal_dies(world: World) -> None:
    guard = world.escape(EVERY_WAY, terminal=str(world.top / "terminal"))
    guard.stop("test")
    ending = guard.wait(30)
    assert ending is not None
    assert ending.survivors == ()
    assert alive(world.mark) == []


def test_the_agent_dies_with_its_guard_and_the_window_hears_of_it(world: World) -> None:
    guard, address = start(world, "echo up; trap '' HUP; while :; do sleep 0.1; done")
    window = Window(address)
    window.wait(b"up")
    started = guard.started()
    assert started is not None
    assert guard.pid is not None
    os.kill(guard.pid, signal.SIGKILL)
    window.end()
    until(lambda: not psutil.pid_exists(started.pid))
    ending = guard.wait(20)
    assert ending is not None
    assert ending.ended_by == "guard-died"
    assert world.output().splitlines() == ["up"]


def test_a_terminal_that_cannot_be_had_is_told(world: World) -> None:
    ending = world.run("true", terminal="/no/where/terminal")
    assert ending.spawn_error == "cannot open a terminal: No such file or directory"


def test_a_guard_with_a_quiet_agent_does_nothing(world: World) -> None:
    guard, address = start(world, "exec 0<&- 1>&- 2>&-; exec sleep 600")  # nobody holds the terminal any more
    window = Window(address)
    time.sleep(0.3)
    before = psutil.Process(guard.pid).cpu_times()
    time.sleep(1.0)
    after = psutil.Process(guard.pid).cpu_times()
    assert sum(after[:2]) - sum(before[:2]) < 0.05
    window.line.close()
    guard.kill("test")
    guard.wait(20)


def test_frames_are_taken_whole_however_they_arrive() -> None:
    data = frame(KEYS, b"abc") + frame(SIZE, ROWS_COLUMNS.pack(1, 2)) + frame(KEYS, b"")
    received, found = bytearray(), []
    for byte in data:
        received.append(byte)
        found += take(received)
    assert found == [(KEYS, b"abc"), (SIZE, b"\x00\x01\x00\x02"), (KEYS, b"")]
    assert received == b""
