"""What runs in a window: shows an agent's terminal and passes on what is typed.

Run as ``python -I -S window.py DIRECTORY NAME WORDS``: standard library only. NAME is the guard's socket in
DIRECTORY (a path by itself may be too long for one). The guard sends the terminal's bytes; we send frames: a kind,
a length (2 bytes, big endian) and that many bytes: keys as they are typed, or the window's size as two numbers of
2 bytes, rows and columns. WORDS are shown at the end. Whatever ends us changes nothing for the agent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys

KEYS, SIZE = b"k", b"s"
HEADER = struct.Struct("!cH")
ROWS_COLUMNS = struct.Struct("!HH")
MOST = 4096  # bytes in one frame


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame of what a window sends."""
    return HEADER.pack(kind, len(payload)) + payload


def take(received: bytearray) -> list[tuple[bytes, bytes]]:
    """Remove the whole frames from ``received`` and return them: kind and payload."""
    frames = []
    while len(received) >= HEADER.size:
        kind, length = HEADER.unpack_from(received)
        end = HEADER.size + length
        if len(received) < end:
            break
        frames.append((kind, bytes(received[HEADER.size : end])))
        del received[:end]
    return frames


def show(line: socket.socket) -> None:
    """Pass bytes between our terminal and the agent's until one of them is gone."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    line.sendall(frame(SIZE, size()))
    poll = select.poll()
    for descriptor in (0, line.fileno(), reader):
        poll.register(descriptor, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if reader in ready:
            os.read(reader, 64)
            line.sendall(frame(SIZE, size()))
        if line.fileno() in ready:
            data = line.recv(1 << 16)
            if not data:
                return
            write(data)
        if 0 in ready:
            keys = os.read(0, MOST)
            if not keys:
                return
            line.sendall(frame(KEYS, keys))


def size() -> bytes:
    """The size of our terminal, as a frame has it."""
    columns, rows = os.get_terminal_size(0)
    return ROWS_COLUMNS.pack(rows, columns)


def write(data: bytes) -> None:
    """Write all of it to our terminal."""
    while data:
        data = data[os.write(1, data) :]


def main() -> None:
    """Be the window of the agent behind the socket in argv."""
    import termios  # noqa: PLC0415 (the guard needs the frames alone)
    import tty  # noqa: PLC0415

    directory, name, words = sys.argv[1:]
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0, termios.TCSADRAIN)  # what was typed already is for the agent, too
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
            os.chdir(directory)
            line.connect(name)
            show(line)
        write(f"\r\n\x1b[0m\x1b[?25h[{words}]\r\n".encode("utf-8", "replace"))
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
