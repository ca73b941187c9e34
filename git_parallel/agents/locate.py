"""Finds where a key of the ``agents:`` section stands in its file. Only on the way to an error."""

from __future__ import annotations

import os
from typing import Any

from git_parallel.agents.preset import Locate, Path


def in_file(file: str) -> Locate:
    """Return a function that names the line of a key's path in a YAML file (``FILE:LINE``).

    A path that is not there, as that of a missing key, is found as far as it goes.
    """

    def locate(path: Path) -> str:
        import yaml  # noqa: PLC0415 (10 ms)

        try:
            with open(file, "rb") as stream:
                node: Any = yaml.compose(stream, Loader=yaml.SafeLoader)
        except (OSError, yaml.YAMLError):
            return f"{os.path.basename(file)}: {'.'.join(path)}"
        line = node.start_mark.line if node is not None else 0
        for key in path:
            found = _child(node, key)
            if found is None:
                break
            line, node = found
        return f"{os.path.basename(file)}:{line + 1}: {'.'.join(path)}"

    return locate


def _child(node: Any, key: str) -> tuple[int, Any] | None:
    """Return the line of a key (of a list: of an element) and what stands under it."""
    if node is None or isinstance(node.value, str):
        return None
    if key.isdecimal() and node.id == "sequence":
        item = node.value[int(key)] if int(key) < len(node.value) else None
        return (item.start_mark.line, item) if item is not None else None
    if node.id != "mapping":
        return None
    return next(((name.start_mark.line, value) for name, value in node.value if name.value == key), None)
