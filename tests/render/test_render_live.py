"""The display of a run that goes on: on a terminal, on a pipe, and when nobody is there any more."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import select
import struct
import termios
import threading
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from git_parallel.plan.model import Limits, Result
from git_parallel.render import live, text
from git_parallel.render.live import Display
from git_parallel.supervisor.view import Progress, WorkerView

START = "2026-11-29T16:50:00.000Z"
NOW = text.moment(START) or 0.0


def view(worker: int = 1, **changes: object) -> WorkerView:
    plain = WorkerView(
        worker=worker,
        task=f"t{worker}",
        title=f"task {worker}",
        model=None,
        branch=f"architect/parallel-{worker}",
        worktree="/w",
        since=START,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def success(worker: int, **changes: object) -> WorkerView:
    result = Result(
        worker_id=worker,
        branch="b",
        model=None,
        status="success",
        steps=None,
        cost=0.5,
        duration=12.0,
        files_modified=["a", "b", "c"],
        insertions=10,
        deletions=2,
        worktree_path="/w",
        run="r",
        task="t1",
        agent="shell",
        role="build",
        base="0",
        head=None,
        reason="done",
    )
    return view(worker, state="ended", started=START, result=result, **changes)


class Terminal:
    """A pseudo terminal of 80x12; what is written to it is collected by :meth:`seen`."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
        self.stream = open(slave, "w", encoding="utf-8")  # noqa: SIM115

    def seen(self) -> str:
        data = b""
        while select.select([self.master], [], [], 0.2)[0]:
            data += os.read(self.master, 65536)
        return data.decode()


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "12")
    made = Terminal()
    yield made
    made.stream.close()
    with contextlib.suppress(OSError):  # a test may have closed it
        os.close(made.master)


def test_off_a_terminal_each_transition_is_one_plain_line() -> None:
    stream = io.StringIO()
    display = Display(stream, live=False, quiet=False)
    running = view(2, state="running", started=START)
    for workers in (
        [view(1), view(2)],
        [view(1), view(2, state="preparing")],
        [view(1), running],
        [view(1), replace(running, progress=Progress(step=5))],
        [view(1), replace(running, state="blocked", reason="needs input")],
        [view(1), running],
        [view(1), success(2)],
        [view(1), success(2)],
    ):
        display.update(workers, NOW)
    display.close()
    assert stream.getvalue().splitlines() == [
        "[2] running: task 2",
        "[2] blocked(needs input)",
        "[2] running: task 2",
        "[2] success: 3 files, +10 -2 ($0.50, 12s)",
    ]


def test_a_second_attempt_is_told() -> None:
    seen: dict[int, str] = {}
    assert live.transitions(seen, [view(1, state="running")]) == ["[1] running: task 1"]
    assert live.transitions(seen, [view(1, state="running", attempt=2)]) == ["[1] running (attempt 2)"]


def test_quiet_says_only_what_must_not_be_missed() -> None:
    stream = io.StringIO()
    display = Display(stream, live=False, quiet=True)
    display.update([view(1, state="running")], NOW)
    display.message("chatter")
    display.message("warning: the disk is full", always=True)
    display.close()
    assert stream.getvalue() == "warning: the disk is full\n"


def test_messages_cannot_drive_the_terminal() -> None:
    stream = io.StringIO()
    Display(stream, live=False, quiet=False).message("note: \x1b[2J")
    assert stream.getvalue() == "note: \\x1b[2J\n"


def test_on_a_terminal_the_table_is_drawn_over_itself(screen: Terminal) -> None:
    threads = threading.active_count()
    display = Display(screen.stream, live=True, quiet=False)
    display.update([view(1, state="running", started=START)], NOW + 1)
    display.message("warning: \x1b[2J look")
    display.update([success(1)], NOW + 2)
    assert threading.active_count() == threads
    display.close()
    seen = screen.seen()
    assert "running" in seen
    assert "success" in seen
    assert "warning: \\x1b[2J look" in seen
    assert "\x1b[1A" in seen  # the cursor goes up to draw over what was there
    assert "\x1b[2J" not in seen


def test_the_table_fits_the_height_and_folds_those_who_wait() -> None:
    views = [success(n, since=f"2026-11-29T16:50:0{n}.000Z") for n in range(1, 6)]
    views += [view(n, state="running", started=START) for n in range(6, 9)]
    views += [view(n) for n in range(9, 40)]
    drawn = live.fitted(views, now=NOW, width=80, height=10, colour=False).splitlines()
    assert len(drawn) <= 9
    assert [line.split()[0] for line in drawn[1:7]] == ["3", "4", "5", "6", "7", "8"]
    assert drawn[7] == "… and 33 more: 2 success, 31 queued"
    assert drawn[8].startswith("5 success, 3 running, 31 queued · $2.50 + ?")


def test_the_last_line_tells_how_much_of_the_runs_limits_is_used() -> None:
    views = [success(1, since="2026-11-29T16:50:01.000Z"), view(2, state="running", started=START)]
    limits = Limits(budget=5.0, timeout=1800.0)
    last = live.fitted(views, now=NOW, width=80, height=10, colour=False, limits=limits).splitlines()[-1]
    assert (
        last
        == live.fitted(views, now=NOW, width=80, height=10, colour=False)
        .splitlines()[-1]
        .replace("$0.50 + ?", "$0.50 + ? of $5.00")
        + " of 30m00s"
    )


@pytest.mark.parametrize("height", [1, 2, 4, 5, 24])
def test_any_height_shows_something_and_never_more_than_fits(height: int) -> None:
    drawn = live.fitted([view(n) for n in range(1, 30)], now=NOW, width=80, height=height, colour=False)
    assert 3 <= len(drawn.splitlines()) <= max(4, height)


def test_a_terminal_that_has_gone_turns_the_display_off(screen: Terminal) -> None:
    display = Display(screen.stream, live=True, quiet=False)
    display.update([view(1, state="running", started=START)], NOW)
    os.close(screen.master)
    for second in range(3):
        display.update([view(1, state="running", started=START)], NOW + second)
        display.message("still here")
    display.close()
    assert display._stream.gone


def test_a_pipe_whose_reader_has_gone_turns_the_display_off() -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        display = Display(stream, live=False, quiet=False)
        os.close(reader)
        display.update([view(1, state="running")], NOW)
        display.message("more", always=True)
        display.close()
        assert display._stream.gone


def test_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    display = Display(stream, live=False, quiet=False)
    stream.close()
    display.update([view(1, state="running")], NOW)
    display.close()
    assert display._stream.gone


def test_a_reader_that_does_not_read_holds_nothing_up_and_misses_nothing() -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as stream:
        display = Display(stream, live=False, quiet=False)
        began = time.monotonic()
        for number in range(3000):  # 64 kB fill the pipe
            display.message(f"{number:05} " + "x" * 40)
        assert time.monotonic() - began < 5
        received = b""
        drain = threading.Thread(target=display.close)
        drain.start()
        while drain.is_alive() or select.select([reader], [], [], 0.1)[0]:
            if select.select([reader], [], [], 0.1)[0]:
                received += os.read(reader, 65536)
        drain.join()
    os.close(reader)
    assert [line[:5] for line in received.decode().splitlines()] == [f"{number:05}" for number in range(3000)]


def test_a_held_terminal_does_not_hold_the_caller(screen: Terminal) -> None:
    display = Display(screen.stream, live=True, quiet=False)
    termios.tcflow(screen.stream.fileno(), termios.TCOOFF)  # Ctrl-S
    began = time.monotonic()
    for second in range(200):
        display.update([view(n, state="running", started=START) for n in range(8)], NOW + second)
    assert time.monotonic() - began < 5
    termios.tcflow(screen.stream.fileno(), termios.TCOON)
    screen.seen()
    display.update([success(1)], NOW + 300)
    assert "success" in screen.seen()
    display.close()


def test_what_the_encoding_cannot_say_is_written_out() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    display = Display(stream, live=False, quiet=False)
    display.message("naïve")
    display.close()
    stream.flush()
    assert raw.getvalue() == b"na\\xefve\n"
