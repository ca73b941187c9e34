"""What every run needs of :mod:`shutil` and :mod:`tempfile`, without their archives and generators (5 ms to import)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def which(program: str, path: str | None = None) -> str | None:
    """Return the executable that a name without a slash stands for on ``path`` (default: PATH), or None."""
    for directory in os.get_exec_path() if path is None else path.split(os.pathsep) if path else ():
        found = os.path.join(directory or os.curdir, program)
        if os.access(found, os.X_OK) and os.path.isfile(found):
            return found
    return None


def read(path: str) -> bytes | None:
    """Return the content of a small file (up to 64 KiB), None for none: in fewer system calls than open() makes.

    Each of these lets another thread go on before this one, which a run has many of.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # a directory
        return None
    finally:
        os.close(descriptor)


def copy(source: str, target: str) -> None:
    """Copy a file with its permissions and time stamps, in as few system calls as :func:`read`. Raises OSError."""
    with _opened(source, os.O_RDONLY) as file, _opened(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as other:
        while data := os.read(file, 1 << 20):
            while data:
                data = data[os.write(other, data) :]
        about = os.fstat(file)
        os.fchmod(other, about.st_mode & 0o7777)
        os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))


@contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def temporary() -> str:
    """Return the directory in which programs put temporary files."""
    places = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    usual = [*filter(None, places), "/tmp", "/var/tmp"]  # noqa: S108 (only named here)
    found = (place for place in usual if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK))
    return os.path.abspath(next(found, os.curdir))


def remove(directory: str) -> None:
    """Remove a directory and all that is in it, as far as possible: nothing raises."""
    try:
        os.rmdir(directory)
    except OSError:
        import shutil  # noqa: PLC0415 (only where there is something in it)

        shutil.rmtree(directory, ignore_errors=True)
