"""Finds where a key of the ``agents:`` section stands in its file. Only on the way to an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from git_parallel.agents.preset import Locate, Path


def in_files(files: Sequence[tuple[str, str]]) -> Locate:
    """Return a function that names the line of a key's path (``FILE:LINE``) in YAML files.

    ``files`` are names to show and paths, the one that counts most first. A path that is not there, as that of a
    missing key, is found as far as it goes, in the file where it goes furthest.
    """

    def locate(path: Path) -> str:
        found = [(depth, shown, line) for shown, file in files for depth, line in _line(file, path)]
        if not found:
            return f"{files[0][0] if files else 'configuration'}: {'.'.join(path)}"
        _, shown, line = max(found, key=lambda one: one[0])
        return f"{shown}:{line}: {'.'.join(path)}"

    return locate


def _line(file: str, path: Path) -> list[tuple[int, int]]:
    """Return how far the path goes in a file, and the line there; nothing for what is no YAML file."""
    import yaml  # noqa: PLC0415 (10 ms)

    try:
        with open(file, "rb") as stream:
            node: Any = yaml.compose(stream, Loader=yaml.SafeLoader)
    except (OSError, yaml.YAMLError):
        return []
    line, depth = node.start_mark.line if node is not None else 0, 0
    for key in path:
        found = _child(node, key)
        if found is None:
            break
        line, node = found
        depth += 1
    return [(depth, line + 1)]


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
