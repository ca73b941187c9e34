"""An agent's terminal, held by its guard: what the agent writes goes into its log, and to windows that show it.

A window (``window.py``) connects to a socket. There may be none, or several; the size is that of the one that
changed last. No window can hold the agent up: what one does not take in time is left out there, and is in the log.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import selectors
import signal
import socket
import struct
import termios

from git_parallel.supervisor.window import KEYS, ROWS_COLUMNS, SIZE, take

ROWS, COLUMNS = 40, 120  # until a window says otherwise
CHUNK = 1 << 16
REPLAYED = 1 << 16  # bytes of output that a new window is shown
MOST_PENDING = 1 << 20  # bytes that wait for a window, or for the agent to read what was typed
LAST_WAIT = 0.5  # seconds that windows have at the end to take the rest

# Questions to a terminal: shown a second time, they would be answered a second time, into the agent's input.
_QUESTIONS = re.compile(
    rb"\x1b\[[?>=0-9;]*[cn]|\x1b\[>[0-9]*q|\x1b\][0-9;]*;\?(?:\x07|\x1b\\)|\x1bP[+$]q[^\x1b]*\x1b\\"
)


class Window:
    """A connected window, and what is on its way from and to it."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.received = bytearray()
        self.pending = bytearray()


class Relay:
    """A pseudo-terminal. ``slave`` is the agent's side; :meth:`serve` when :meth:`fileno` is readable.

    ``address`` is the path of the socket for windows, ``log`` a file to append to. Raises OSError.
    """

    def __init__(self, address: str, log: str) -> None:
        self.address = address
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        self.resize(ROWS, COLUMNS)
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.listener = listen(address)
        self.windows: list[Window] = []
        self.shown = bytearray()  # the end of the output
        self.seen = False  # whether there ever was a window
        self.typed = bytearray()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.master, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to do."""
        return self.selector.fileno()  # type: ignore[attr-defined,no-any-return,unused-ignore] # epoll, kqueue: has one

    def serve(self) -> None:
        """Do what can be done without waiting."""
        for key, events in self.selector.select(0):
            if key.fileobj == self.master:
                if events & selectors.EVENT_WRITE:
                    self._type(b"")
                if events & selectors.EVENT_READ:
                    self._read()
            elif key.fileobj is self.listener:
                self._accept()
            else:
                if events & selectors.EVENT_WRITE:
                    self._send(key.data, b"")
                if events & selectors.EVENT_READ and key.data in self.windows:
                    self._hear(key.data)

    def finish(self) -> None:
        """Everybody on the agent's side is gone: take in what is left, and let the windows go."""
        while self.master in self.selector.get_map() and self._read():
            pass
        for window in list(self.windows):
            window.line.settimeout(LAST_WAIT)
            with contextlib.suppress(OSError):
                window.line.sendall(window.pending)
            window.line.close()
        self.selector.close()
        self.listener.close()
        for descriptor in (self.master, self.slave, self.log):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(self.address)

    def resize(self, rows: int, columns: int) -> None:
        """Give the terminal a size; the kernel tells the agent (SIGWINCH) when it is another one."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # The agent's side.

    def _read(self) -> bool:
        """Take in a piece of output; False when there is none now, or none any more."""
        try:
            data = os.read(self.master, CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:  # the agent, whose terminal it was, has ended
            if error.errno != errno.EIO:
                raise
            data = b""
        if not data:
            self.selector.unregister(self.master)
            return False
        with contextlib.suppress(OSError):  # a full disk stops the record, not the agent
            rest = data
            while rest:
                rest = rest[os.write(self.log, rest) :]
        self.shown += data
        del self.shown[:-REPLAYED]
        for window in list(self.windows):
            self._send(window, data)
        return True

    def _type(self, keys: bytes) -> None:
        """Pass on what was typed, as far as the agent's terminal takes it."""
        if len(self.typed) < MOST_PENDING:
            self.typed += keys
        if self.master not in self.selector.get_map():
            return
        with contextlib.suppress(OSError):
            while self.typed:
                del self.typed[: os.write(self.master, self.typed)]
        more = selectors.EVENT_WRITE if self.typed else 0
        self.selector.modify(self.master, selectors.EVENT_READ | more)

    # The windows.

    def _accept(self) -> None:
        try:
            line, _ = self.listener.accept()
        except OSError:
            return
        line.setblocking(False)
        window = Window(line)
        self.windows.append(window)
        self.selector.register(line, selectors.EVENT_READ, window)
        self._send(window, _QUESTIONS.sub(b"", bytes(self.shown)) if self.seen else bytes(self.shown))
        if self.seen:  # programs that draw the whole screen do it again
            with contextlib.suppress(OSError):
                os.killpg(os.tcgetpgrp(self.master), signal.SIGWINCH)
        self.seen = True

    def _hear(self, window: Window) -> None:
        try:
            data = window.line.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(window)
            return
        window.received += data
        for kind, payload in take(window.received):
            if kind == KEYS:
                self._type(payload)
            elif kind == SIZE and len(payload) == ROWS_COLUMNS.size:
                self.resize(*ROWS_COLUMNS.unpack(payload))

    def _send(self, window: Window, data: bytes) -> None:
        if len(window.pending) < MOST_PENDING:
            window.pending += data
        try:
            while window.pending:
                del window.pending[: window.line.send(window.pending)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(window)
            return
        more = selectors.EVENT_WRITE if window.pending else 0
        self.selector.modify(window.line, selectors.EVENT_READ | more, window)

    def _drop(self, window: Window) -> None:
        self.windows.remove(window)
        self.selector.unregister(window.line)
        window.line.close()


def listen(address: str) -> socket.socket:
    """A socket for ourselves alone at this path, however long that is. Changes the directory to "/"."""
    directory, name = os.path.split(address)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o077)
    try:
        os.chdir(directory)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        listener.bind(name)
        listener.listen(8)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
        os.chdir("/")
    return listener
