"""Shows a run while it goes on: a table that stays in place on a terminal, else one line a transition.

Nothing here may stop a run: a terminal that has gone (EIO, EPIPE) turns the display off, and one that
is held (Ctrl-S) or not read makes it wait its turn instead of the supervisor.
"""

from __future__ import annotations

import io
import os
import select
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, cast

from git_parallel.plan.model import Limits
from git_parallel.render import table, terminal, text
from git_parallel.supervisor.view import WorkerView

if TYPE_CHECKING:
    from rich.live import Live

# A reader that is this far behind sees no more of what is not said again.
_MOST_PENDING = 1 << 20
_LAST_WAIT = 2.0  # seconds that close() gives a held terminal

# Many workers may change at once; a person sees no more than this anyway.
_LEAST_BETWEEN = 0.1
_NO_LIMITS = Limits()

_PASSING = ("queued", "preparing", "finishing")
_BUSY = ("running", "blocked", "paused", "finishing", "preparing")


class Display:
    """The progress of one run on ``stream``.

    ``live`` redraws a table in place and needs a terminal; ``quiet`` shows neither table nor transitions.
    ``limits`` are those of the run, of which the table tells how much is used.
    Nothing here raises when the stream's reader has gone.
    """

    def __init__(
        self, stream: IO[str], *, live: bool, quiet: bool, colour: bool | None = None, limits: Limits = _NO_LIMITS
    ) -> None:
        self._stream = _Patient(stream)
        self._on_terminal = terminal.can_redraw(stream)
        self.quiet = quiet
        self._limits = limits
        self._colour = live and not os.environ.get("NO_COLOR") if colour is None else colour
        self._seen: dict[int, str] = {}
        self._live = _start_live(self._stream) if live and not quiet and terminal.can_redraw(stream) else None
        self._drawn = float("-inf")

    def update(self, views: Sequence[WorkerView], now: float) -> None:
        """Show where the workers are. ``now`` is seconds since the epoch. Cheap when nobody can see it."""
        if self.quiet or self._stream.gone:
            return
        if self._live is None:
            for line in transitions(self._seen, views):
                self._stream.write(line + "\n")
            self._stream.flush()
        elif self._stream.ready and not 0 <= now - self._drawn < _LEAST_BETWEEN:
            self._drawn = now
            from rich.text import Text  # noqa: PLC0415 (only on a terminal)

            columns, lines = self._live.console.size
            drawn = fitted(views, now=now, width=columns, height=lines, colour=self._colour, limits=self._limits)
            self._live.update(Text.from_ansi(drawn, no_wrap=True, overflow="crop", end=""), refresh=True)

    def message(self, line: str, *, always: bool = False) -> None:
        """Print a line above the table. ``always``: also when quiet, for what a person must not miss."""
        if (self.quiet and not always) or self._stream.gone:
            return
        safe = text.printable(line)
        if self._live is None:
            self._stream.write(safe + "\n")
            self._stream.flush()
        else:
            from rich.text import Text  # noqa: PLC0415 (only on a terminal)

            self._live.console.print(Text(safe), soft_wrap=True)

    def sound(self, sequence: str) -> None:
        """Send something that a terminal does not show: a bell, a notification. Elsewhere nothing is sent."""
        if self._on_terminal and not self._stream.gone:
            self._stream.write(sequence)
            self._stream.flush()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the terminal to others while in the block."""
        if self._live is not None:
            self._live.stop()
        self._stream.finish(0.0)
        try:
            yield
        finally:
            if self._live is not None:
                self._live.start()
                self._drawn = float("-inf")

    def close(self) -> None:
        """Take the table away (results follow it) and let go of the stream. May be called twice."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._stream.finish(_LAST_WAIT)


def transitions(seen: dict[int, str], views: Sequence[WorkerView]) -> list[str]:
    """Return a line for each worker whose state is not the one in ``seen``, and bring ``seen`` up to date.

    The short steps between one state that lasts and the next are passed over.
    """
    lines = []
    for view in views:
        current = f"{table.state(view)} #{view.attempt}"
        if seen.get(view.worker) == current:
            continue
        if view.state not in _PASSING:
            lines.append(transition(view))
        seen[view.worker] = current
    return lines


def transition(view: WorkerView) -> str:
    """``[2] running: fix the login test``, ``[2] success: 3 files, +10 -2 ($0.12, 12s)``."""
    if view.state == "ended" and view.result is not None:
        return f"[{view.worker}] {text.outcome_line(view.result)}"
    head = f"[{view.worker}] {table.state(view)}"
    if view.state == "running" and view.attempt > 1:
        return f"{head} (attempt {view.attempt})"
    title = text.fit(view.title, 60) if view.state == "running" else ""
    return f"{head}: {title}" if title else head


def fitted(
    views: Sequence[WorkerView],
    *,
    now: float,
    width: int,
    height: int,
    colour: bool,
    limits: Limits = _NO_LIMITS,
) -> str:
    """The live table in at most ``height`` lines: workers at work first, the rest folded into a count. Pure."""
    room = max(1, height - 3)  # header, the line below, and one for the cursor
    shown = list(views)
    if len(shown) > room:
        room = max(1, room - 1)
        first = sorted(views, key=_urgency)[:room]
        shown = sorted(first, key=lambda view: view.worker)
    lines = table.workers(shown, now=now, width=width, colour=colour).splitlines()
    chosen = {view.worker for view in shown}
    folded = [view for view in views if view.worker not in chosen]
    if folded:
        counts = table.tallied(Counter(table.standing(view) for view in folded))
        lines.append(text.clip(f"… and {len(folded)} more: {counts}", width))
    lines.append(text.paint(text.clip(_footer(views, now, limits), width), "dim", colour))
    return "\n".join(lines)


def _urgency(view: WorkerView) -> tuple[int, float]:
    """Workers at work, then the latest to end, then those that wait in their order."""
    if view.state in _BUSY:
        return (0, view.worker)
    if view.state == "ended":
        return (1, -(text.moment(view.since) or 0.0))
    return (2, view.worker)


def _footer(views: Sequence[WorkerView], now: float, limits: Limits) -> str:
    starts = [started for view in views if (started := text.moment(view.started)) is not None]
    money = text.total_money([table.cost(view) for view in views if table.began(view)])
    parts = [table.tally(views), f"{money} of {text.money(limits.budget)}" if limits.budget is not None else money]
    if starts:
        past = text.duration(now - min(starts))
        parts.append(f"{past} of {text.duration(limits.timeout)}" if limits.timeout is not None else past)
    return " · ".join(parts)


def _start_live(stream: _Patient) -> Live:
    from rich.console import Console  # noqa: PLC0415 (only on a terminal)
    from rich.live import Live  # noqa: PLC0415

    console = Console(
        file=cast("IO[str]", stream), force_terminal=True, color_system="standard", highlight=False, emoji=False
    )
    live = Live(
        console=console,
        auto_refresh=False,  # no thread: whoever has the state says when to draw
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )
    live.start()
    return live


class _Patient(io.TextIOBase):
    """A text stream over another one that never raises and never blocks.

    Text goes out when the descriptor can take it; what cannot go out waits for the next flush.
    """

    # poll(2) says a pipe is writable when it takes this much without blocking.
    _CHUNK = select.PIPE_BUF

    def __init__(self, stream: IO[str]) -> None:
        self.gone = False
        self._pending = b""
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._plain = stream
        try:
            stream.flush()
            self._descriptor: int | None = stream.fileno()
        except (OSError, ValueError, AttributeError):
            self._descriptor = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    @property
    def ready(self) -> bool:
        """Nothing waits to go out."""
        self.flush()
        return not self._pending

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return terminal.is_terminal(self._plain)

    def fileno(self) -> int:
        if self._descriptor is None:
            raise io.UnsupportedOperation("fileno")
        return self._descriptor

    def write(self, data: str) -> int:
        if not self.gone and len(self._pending) < _MOST_PENDING:
            self._pending += data.encode(self._encoding, "backslashreplace")
        return len(data)

    def flush(self) -> None:
        self._send(0.0)

    def finish(self, seconds: float) -> None:
        """Give the reader ``seconds`` to take what waits."""
        deadline = time.monotonic() + seconds
        while self._pending and not self.gone and (left := deadline - time.monotonic()) > 0:
            self._send(left)

    def _send(self, seconds: float) -> None:
        """Write while the descriptor takes it, waiting at most ``seconds`` for the first chance."""
        try:
            if self._descriptor is None:
                self._plain.write(self._pending.decode(self._encoding))
                self._plain.flush()
                self._pending = b""
                return
            while self._pending and not self.gone and self._takes(seconds):
                sent = os.write(self._descriptor, self._pending[: self._CHUNK])
                self._pending = self._pending[sent:]
                seconds = 0.0
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self.gone, self._pending = True, b""

    def _takes(self, seconds: float) -> bool:
        assert self._descriptor is not None
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        return bool(poll.poll(seconds * 1000))  # POLLERR and POLLHUP too: the write then says what is wrong
