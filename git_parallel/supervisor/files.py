"""Small files that other processes read while we write them."""

from __future__ import annotations

import os


def replace(path: str, data: bytes, *, durable: bool = False) -> None:
    """Write ``data`` to ``path`` so that a reader sees the old content or the new, never a part of it."""
    temporary = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            while data:
                data = data[os.write(descriptor, data) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def read(path: str) -> bytes | None:
    """Return a file's content, or None when it does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
