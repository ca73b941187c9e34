"""``--help``: the man pages, wherever pip put them."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator

from git_parallel.git import Git


def show(page: str) -> int | None:
    """Open ``page`` as ``git help`` does, and return git's exit code; None when the page or man(1) is missing.

    man finds a page by PATH only when the command is on it; it also gets the place where pip put ours.
    """
    below = next((place for place in _places() if os.path.exists(os.path.join(place, "man1", f"{page}.1"))), None)
    if below is None or shutil.which("man") is None:
        return None
    # An empty part of MANPATH stands for man's own search path.
    return Git().show("help", page, env={"MANPATH": f"{below}:{os.environ.get('MANPATH', '')}"})


def _places() -> Iterator[str]:
    """Where the installation schemes put shared data: beside the script (any prefix), here, for the user."""
    prefixes = (
        os.path.dirname(os.path.dirname(os.path.realpath(sys.argv[0]))),
        sysconfig.get_path("data"),
        sysconfig.get_path("data", sysconfig.get_preferred_scheme("user")),
    )
    for prefix in prefixes:
        yield os.path.join(prefix, "share", "man")
