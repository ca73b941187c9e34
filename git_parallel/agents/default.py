"""The program that does the work when nobody names one."""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from git_parallel.agents import launch
from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Locate, Preset
from git_parallel.errors import UsageError

PROGRAMS = ("claude", "codex", "opencode", "gemini", "aider", "architect")


class Default(Struct, frozen=True):
    """The program's name, and whether it is known to have an account or a model to work with."""

    name: str
    configured: bool

    @property
    def why(self) -> str:
        """Say why it is this one."""
        return "the first one installed and configured" if self.configured else "installed; none seems to be configured"


def choose(extra: Mapping[str, object], locate: Locate | None = None, *, cwd: str | None = None) -> Default | None:
    """Return the first of ``PROGRAMS`` that is installed and configured, else the first that is installed, or None.

    Nothing is started. Raises UsageError for an entry of the configuration (``extra``) that is none.
    """
    first = None
    for name in PROGRAMS:
        preset = presets.load(name, extra, locate)
        try:
            launch.resolve(preset, cwd=cwd)
        except UsageError:
            continue
        if configured(preset):
            return Default(name, configured=True)
        first = first or Default(name, configured=False)
    return first


def configured(preset: Preset) -> bool | None:
    """Say whether a variable or a file of the preset's ``configured`` is there; None when it names none.

    Files are not opened.
    """
    if not preset.configured:
        return None
    return any(_there(sign) for sign in preset.configured)


def _there(sign: str) -> bool:
    if "/" in sign:
        return os.path.exists(os.path.expandvars(os.path.expanduser(sign)))
    return bool(os.environ.get(sign))
