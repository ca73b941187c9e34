"""Writes the report of an unexpected error."""

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


def write_report(error: Exception, argv: Sequence[str]) -> str:
    """Write the report under the journal (outside a repository: the temporary directory); say where it is."""
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
    try:
        directory = State(Repository.discover().common_dir).top
        os.makedirs(directory, exist_ok=True)
    except (ParallelError, OSError):
        directory = tempfile.gettempdir()
    path = os.path.join(directory, name)
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as failure:
        return f"no report could be written: {failure}"
    return f"nothing was removed; a report for the maintainers is in {path}"
