"""A command line of the person's own as a preset: ``--program 'PROG --flag {task}'``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence

from git_parallel.agents import preset as presets
from git_parallel.agents import template
from git_parallel.agents.preset import Preset
from git_parallel.errors import UsageError


def own(line: str) -> Preset:
    """Return the preset of a person's own command line, split as a shell splits words. Raises UsageError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"program '{line}': {str(error).lower()}") from None
    if not words:
        raise UsageError("the program's command line is empty")
    for word in words:
        for field in template.names(word):
            if field not in template.FIELDS and (near := presets.nearest(field, template.FIELDS)):
                raise UsageError(f"program '{line}': there is no field {{{field}}}", f"did you mean {{{near}}}?")
    if shell := _shell_with_task(words):
        # The task's quotes, dollars and newlines would become the shell's.
        raise UsageError(
            f"program '{line}': {{task}} inside a shell's command line is not safe",
            f"hand it over as an argument: {shell} -c 'PROG \"$1\"' {shell} {{task}}",
        )
    return presets.convert("command", {**presets.read(presets.file_of("command")), "command": words}, lambda path: line)


def _shell_with_task(words: Sequence[str]) -> str | None:
    """Return the shell whose ``-c`` string has the task's text in the middle, or None."""
    shell = None
    for before, word in zip(("", *words), words, strict=False):
        if shell and re.fullmatch("-[a-z]*c", before) and word != "{task}" and template.uses([word], "task"):
            return shell
        shell = word if os.path.basename(word) in ("sh", "bash", "dash", "zsh", "ksh", "fish") else shell
    return None
