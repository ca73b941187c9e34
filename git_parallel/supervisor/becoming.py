"""The forked child of a guard on its way to becoming the agent. Standard library only."""

from __future__ import annotations

import os
import signal

from git_parallel.supervisor.processes import PR_SET_PDEATHSIG, prctl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# A hang-up, Ctrl-C or a stray kill must not part guard and agent; a closed socket is an answer, not a death.
SURVIVED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP)


def to_bytes(text: str) -> bytes:
    """Undo the supervisor's decoding: the same bytes in every locale."""
    return text.encode("utf-8", "surrogateescape")


def to_path(text: str) -> str:
    """The same as a path of this process."""
    return os.fsdecode(to_bytes(text))


def take_terminal(terminal: int) -> None:
    """Make it the controlling terminal of our new session, and our input and output."""
    import fcntl  # noqa: PLC0415 (most agents have none)
    import termios  # noqa: PLC0415

    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    for target in (0, 1, 2):
        os.dup2(terminal, target)


def become_agent(spec: dict[str, Any], guard: int, writer: int, terminal: int | None) -> NoReturn:
    """Turn the forked child into the agent, or say on ``writer`` why not, and exit.

    ``terminal``: it becomes the agent's own, and its input and output unless these are files of their own.
    """
    act, path = "make", "a session"
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:  # it died before the line above took effect
            os._exit(127)
        if terminal is not None:
            take_terminal(terminal)
        append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        for source, flags, targets in (
            (spec["stdin"] or (os.devnull if terminal is None else None), os.O_RDONLY, (0,)),
            (spec["stdout"] if terminal is None else None, append, (1, 2)),
            (spec["stderr"], append, (2,)),
        ):
            if source is not None:
                act, path = "open", source
                descriptor = os.open(to_bytes(path), flags | os.O_NOCTTY, 0o600)
                for target in targets:
                    os.dup2(descriptor, target)
        act, path = "change to directory", spec["cwd"]
        os.chdir(to_bytes(path))
        for number in (*SURVIVED, signal.SIGXFSZ):  # CPython ignores the last one, and exec(2) would keep that
            signal.signal(number, signal.SIG_DFL)
        act, path = "run", spec["argv"][0]
        argv = [to_bytes(word) for word in spec["argv"]]
        os.execvpe(argv[0], argv, {to_bytes(name): to_bytes(value) for name, value in spec["env"].items()})  # noqa: S606
    except (OSError, ValueError) as error:  # ValueError: a NUL byte
        os.write(writer, to_bytes(f"cannot {act} '{path}': {getattr(error, 'strerror', error)}"))
    finally:
        os._exit(127)
