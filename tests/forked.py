"""Starts the program as ``python -m git_parallel`` would be, in a process forked from one that has loaded it already.

Python and the program take 60 to 100 ms of CPU to load, and the tests start them thousands of times. So a process of
pytest that calls :func:`run` has one server: this file run as a script, which imports the program and forks for each
call. The forked process is given what a new one would have been (arguments, directory, environment, input and output,
signals), and calls ``main()``. Nothing of the program has run before that: ``test_forked.py`` holds the modules to
keeping nothing of their surroundings when they are imported, and compares both ways to start. What tests do not change
in their own process (limits, umask, session) comes from there through the server; Python's hash seed is the server's.

Really started are calls with other variables for Python itself than the server's (``PYTHON…``, the locale), and those
with more input than a pipe is sure to take at once.

The server ends with the process that holds the other end of its socket, and takes the calls that run with it.
"""

from __future__ import annotations

import gc
import json
import os
import pkgutil
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, NamedTuple

_OF_PYTHON = ("PYTHON", "LC_", "LANG", "LD_")  # variables that count before the first line of a program
_AT_ONCE = 4096  # bytes that every pipe takes, whether or not anybody reads yet

# What the program imports when it needs it. A name that is missing here costs time, and no more.
_LATER = (
    *("concurrent.futures.thread", "ctypes", "difflib", "dulwich.objects", "inspect", "platform", "psutil"),
    *("resource", "rich.console", "rich.live", "rich.text", "shutil", "sysconfig", "tempfile", "tty", "uuid", "yaml"),
)

# ---- In pytest


class _Server(NamedTuple):
    """The server as pytest holds it; ``variables`` are all that its Python was started with."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    variables: dict[str, str]


_server: _Server | None = None
_starting = threading.Lock()


def run(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Do what :func:`start` does, in a forked process. Raises RuntimeError when the server has failed."""
    server = _started(env)
    if _of_python(env) != server.variables or len(stdin or b"") > _AT_ONCE:
        return start(arguments, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
    argv = [*_program(), *arguments]
    try:
        with ExitStack() as ours:
            line, stdout, stderr = _begin(ours, server, cwd, stdin)
            try:
                line.sendall(json.dumps([list(arguments), dict(env)]).encode() + b"\n")
                code, *output = _read([line, stdout, stderr], time.monotonic() + timeout)
                if not code:
                    raise ConnectionError("it said nothing")
            finally:
                _end(line)
    except TimeoutError:
        raise subprocess.TimeoutExpired(argv, timeout) from None
    except ConnectionError as error:
        raise RuntimeError(f"the server of {__file__} has failed") from error
    return subprocess.CompletedProcess(argv, int(code), *map(_text, output))


def start(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes | None, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m git_parallel`` and take its output, as text with surrogates; no ``stdin`` is /dev/null."""
    return subprocess.run(
        [*_program(), *arguments],
        cwd=cwd,
        env=env,
        input=None if stdin is None else os.fsdecode(stdin),
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        timeout=timeout,
    )


def server_pid() -> int | None:
    """The server's process id, when there is one."""
    return _server.process.pid if _server is not None else None


def _program() -> tuple[str, ...]:
    return (sys.executable, "-m", "git_parallel")


def _of_python(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_OF_PYTHON)}


def _text(data: bytes) -> str:
    return os.fsdecode(data).replace("\r\n", "\n").replace("\r", "\n")  # as subprocess does


def _started(env: Mapping[str, str]) -> _Server:
    global _server  # noqa: PLW0603 (one in a process)
    with _starting:
        if _server is None:
            variables = _of_python(env)  # and no more: processes look for variables of those above them
            control, theirs = socket.socketpair()
            with theirs:
                argv = [sys.executable, __file__, str(theirs.fileno())]
                null, passed = subprocess.DEVNULL, [theirs.fileno()]
                process = subprocess.Popen(argv, stdin=null, stdout=null, env=variables, cwd="/", pass_fds=passed)
            _server = _Server(process, control, variables)
        return _server


def _begin(
    ours: ExitStack, server: _Server, cwd: Path, stdin: bytes | None
) -> tuple[socket.socket, IO[bytes], IO[bytes]]:
    """Ask for a process; return a line to tell it more, on which its exit code will come, its output and its errors.

    Raises OSError where there is no such directory.
    """
    with ExitStack() as theirs:
        line, far_line = _closed_by(ours, theirs, socket.socketpair())
        stdout, far_stdout = _closed_by(ours, theirs, _pipe())
        stderr, far_stderr = _closed_by(ours, theirs, _pipe())
        if stdin is None:
            far_stdin = theirs.enter_context(open(os.devnull, "rb"))
        else:
            far_stdin, feed = _closed_by(theirs, theirs, _pipe())
            feed.write(stdin)
        directory = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        theirs.callback(os.close, directory)
        passed = [far_line.fileno(), directory, far_stdin.fileno(), far_stdout.fileno(), far_stderr.fileno()]
        socket.send_fds(server.control, [b"\n"], passed)
    return line, stdout, stderr


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    reader, writer = os.pipe()
    return open(reader, "rb", buffering=0), open(writer, "wb", buffering=0)


def _closed_by(one: ExitStack, other: ExitStack, pair):
    return one.enter_context(pair[0]), other.enter_context(pair[1])


def _read(files: Sequence[socket.socket | IO[bytes]], deadline: float) -> list[bytes]:
    """Read each until nobody has it open for writing. Raises TimeoutError when somebody has at the deadline."""
    found = {file: bytearray() for file in files}
    with selectors.DefaultSelector() as selector:
        for file in files:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                found[key.fileobj] += data
                if not data:
                    selector.unregister(key.fileobj)
    return [bytes(data) for data in found.values()]


def _end(line: socket.socket) -> None:
    """Outlast the process: it is killed if it still runs."""
    with suppress(OSError):  # it has ended
        line.shutdown(socket.SHUT_WR)
    while line.recv(64):
        pass


# ---- In the server


def _load() -> None:
    from git_parallel import __path__, later

    later.load_msgspec()
    from git_parallel import cli

    names = dict(vars(cli))
    for module in pkgutil.walk_packages(__path__, "git_parallel."):
        import_module(module.name)
    vars(cli).clear()  # `run` and `list` are modules there from when these commands are called, and not before
    vars(cli).update(names)
    for name in _LATER:
        import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy every page of all this


def _serve(control: socket.socket) -> tuple[list[str], dict[str, str], list[int]]:
    """Fork for each call, and return in the forked process: arguments, environment, and descriptors as they came."""
    wake, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C for pytest; it ends us
    lines: dict[int, socket.socket] = {}  # by process id: silent until the call is given up
    while True:
        ready, _, _ = select.select([control, wake, *lines.values()], [], [])
        if wake in ready:
            os.read(wake, 1 << 16)
        for pid, line in list(lines.items()):
            if line in ready:
                os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with suppress(OSError), lines.pop(pid):
                    line.sendall(b"%d" % os.waitstatus_to_exitcode(status))
        if control in ready:
            message, descriptors, _, _ = socket.recv_fds(control, 1, 5)
            if not message:
                for pid in lines:
                    os.kill(pid, signal.SIGKILL)
                sys.exit()
            line = socket.socket(fileno=descriptors.pop(0))
            arguments, environment = json.loads(line.makefile("rb").readline())
            pid = os.fork()
            if pid == 0:
                return arguments, environment, descriptors
            lines[pid] = line
            for descriptor in descriptors:
                os.close(descriptor)


def _become(arguments: list[str], environment: dict[str, str], descriptors: list[int]) -> None:
    """Turn the forked process into one that Python has just started."""
    from git_parallel import __main__

    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    directory, *standard = descriptors
    os.fchdir(directory)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            with suppress(OSError):  # the listing's own is closed already
                os.close(int(name))
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv = [__main__.__file__, *arguments]
    sys.path[0] = os.getcwd()  # as `-m` has it
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        new = open(number, old.mode, encoding=old.encoding, errors=old.errors, newline="\n", closefd=False)  # noqa: SIM115
        if name == "stderr":
            new.reconfigure(line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    _load()
    _become(*_serve(socket.socket(fileno=int(sys.argv[1]))))
    from git_parallel.__main__ import main

    main()
