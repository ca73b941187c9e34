"""Which programs are here, which versions they are of, and what each can do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from msgspec import Struct

from git_parallel.agents import default, launch
from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Locate, Preset
from git_parallel.errors import UsageError

PROBE = 15.0  # seconds; the slowest of them needs five to start
_AT_ONCE = 4
_KEPT = 4096  # bytes of what a program says of its version
_VERSION = re.compile(r"(?<![\w.])v?(\d+(?:\.\d+)+)")


class Program(Struct, frozen=True):
    """A preset and what was found of it. ``path`` None: not installed; ``version`` None: not known.

    ``configured`` says whether there is an account or a model for it, None: not known;
    ``outdated`` says that the version is below ``minimum``. ``steps``, ``budget``, ``resume`` and
    ``read_only`` say what the program itself can be told; ``cost`` whether it reports dollars
    (``reported``), only ``tokens``, or ``none``; ``sandbox`` is what its own sandbox needs, in a line.
    """

    name: str
    about: str
    install: str
    path: str | None
    configured: bool | None
    version: str | None
    minimum: str | None
    outdated: bool
    steps: bool
    budget: bool
    resume: bool
    read_only: bool
    cost: str
    sandbox: str


def look(
    extra: Mapping[str, object],
    locate: Locate | None = None,
    *,
    unapproved: Collection[str] = (),
    cwd: str | None = None,
    timeout: float = PROBE,
) -> list[Program]:
    """Return all presets, those of the configuration (``extra``) too, in the order of their names.

    Programs of the names ``unapproved`` are looked for, but not started. Raises UsageError for a preset that
    is none.
    """
    found = []
    for name in presets.names(extra):
        if name != "command":  # it stands for a person's own command line
            preset = presets.load(name, extra, locate)
            found.append((preset, _path(preset, cwd), name not in unapproved))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda one: _program(one[0], one[1], one[2], timeout), found))


def _path(preset: Preset, cwd: str | None) -> str | None:
    try:
        return launch.resolve(preset, cwd=cwd)
    except UsageError:
        return None


def _program(preset: Preset, path: str | None, may_start: bool, timeout: float) -> Program:
    asked = path is not None and preset.version is not None and may_start
    version = probe([path or "", *preset.version.probe], timeout) if asked and preset.version else None
    minimum = preset.version.minimum if preset.version else None
    return Program(
        name=preset.name,
        about=preset.about,
        install=preset.install,
        path=path,
        configured=default.configured(preset),
        version=version,
        minimum=minimum,
        outdated=version is not None and minimum is not None and older(version, minimum),
        steps="max_steps" in preset.options,
        budget="budget" in preset.options,
        resume="resume" in preset.options,
        read_only="read_only" in preset.options,
        cost=preset.money,
        sandbox=preset.sandbox,
    )


def probe(argv: Sequence[str], timeout: float) -> str | None:
    """Ask a program for its version; None when it says none, or nothing within ``timeout`` seconds."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "NO_COLOR": "1", "GEMINI_CLI_NO_RELAUNCH": "true"},
        )
    except OSError:
        return None
    try:
        said, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        said = b""
    finally:
        with suppress(ProcessLookupError):  # what it left behind, too
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    match = _VERSION.search(said[:_KEPT].decode("utf-8", "replace"))
    return match[1] if match else None


def older(version: str, minimum: str) -> bool:
    """Say whether a version comes before another: numbers between dots, as many as there are."""
    ours, least = (tuple(int(part) for part in text.split(".") if part.isdecimal()) for text in (version, minimum))
    return ours < least
