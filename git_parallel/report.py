"""Writes the report of an unexpected error: a traceback belongs in a file, not on a terminal."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence

from git_parallel import __version__
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.layout import State


def write_report(error: BaseException, argv: Sequence[str], directory: str | None = None) -> str:
    """Write a report into ``directory`` (default: the journal; outside a repository, the temporary directory).

    Returns one line that says where it is, or why there is none.
    """
    text = "\n".join(
        (
            f"git-parallel {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {list(argv)!r}",
            f"executable: {sys.executable}",
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    name = time.strftime("report-%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{os.getpid()}.txt"
    path = os.path.join(directory or _journal(), name)
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as failure:
        return f"no report could be written: {failure}"
    return f"nothing was removed; a report for the maintainers is in {path}"


def _journal() -> str:
    try:
        directory = State(Repository.discover().common_dir).top
        os.makedirs(directory, exist_ok=True)
    except (ParallelError, OSError):
        return tempfile.gettempdir()
    return directory
