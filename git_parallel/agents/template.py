"""The ``{field}`` templates of command lines and environments: one argument is one element, never a shell string."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

FIELDS: dict[str, str] = {
    "task": "the task's text",
    "task_file": "a file that holds the task's text, byte for byte",
    "model": "the worker's model",
    "role": "the value of --agent",
    "worktree": "the top of the worker's worktree",
    "budget": "US dollars that the worker may spend",
    "timeout": "seconds until the worker is stopped",
    "soft_timeout": "whole seconds, a little less, for a program that stops by itself",
    "max_steps": "steps that the worker may take",
    "log_dir": "the directory of the worker's log, for files of the program's own",
    "session": "the program's own name for the conversation",
    "first_port": "the first of the network ports that no other worker is given",
    "attempt": "1, then 2 for the first retry",
}

# `${task}` is a shell's, `{{task}}` stands for `{task}`, and braces round anything but a word are
# left alone: `awk '{print $1}'`, `find -exec … {}`.
_FIELD = re.compile(r"(?<!\$)(\{?)\{([a-z][a-z_]*)\}(\}?)")


class MissingError(Exception):
    """A template names a field whose value is not known; ``field`` is its name."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.field = field


def names(template: str) -> list[str]:
    """Return the words in braces of a template, known or not."""
    return [match[2] for match in _FIELD.finditer(template) if not _escaped(match)]


def uses(templates: Iterable[str], field: str) -> bool:
    """Say whether any of the templates names the field."""
    return any(field in names(template) for template in templates)


def expand(template: str, values: Mapping[str, str | None]) -> str:
    """Put the values in, once: a value that holds ``{model}`` stays as it is. Raises :class:`MissingError`."""

    def value(match: re.Match[str]) -> str:
        if _escaped(match):
            return match[0][1:-1] if match[2] in values else match[0]
        if match[2] not in values:
            return match[0]
        known = values[match[2]]
        if known is None:
            raise MissingError(match[2])
        return match[1] + known + match[3]

    return _FIELD.sub(value, template)


def _escaped(match: re.Match[str]) -> bool:
    return bool(match[1] and match[3])
