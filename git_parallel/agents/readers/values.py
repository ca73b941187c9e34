"""Reads of data that a program wrote: whatever has not the expected shape is None, nothing raises."""

from __future__ import annotations

import math
from typing import Any

import msgspec

_LARGEST = 2**53  # above it JSON's numbers are no longer whole


def decode(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object that ``data`` is, or None. Bytes that are no UTF-8 become replacement characters."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        try:
            import json  # noqa: PLC0415 (rare: 2 ms)

            found = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return found if isinstance(found, dict) else None


def at(value: object, *path: str) -> Any:
    """Return what stands under the path of keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def word(value: object) -> str | None:
    """Return a text that says something, or None."""
    return value if isinstance(value, str) and value.strip() else None


def items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def number(value: object) -> float | None:
    """Return an amount that may have been written as text; None for anything that cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value)
    except (ValueError, OverflowError):
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def whole(value: object) -> int | None:
    """Return a count, or None."""
    if type(value) is int and 0 <= value <= _LARGEST:  # as nearly all are
        return value
    amount = number(value)
    return None if amount is None or amount > _LARGEST else int(amount)


def counts(value: object, names: dict[str, str]) -> dict[str, int] | None:
    """Return the counts of an object under our names: ``names`` maps ours to theirs. None when there is none."""
    found = {ours: count for ours, theirs in names.items() if (count := whole(at(value, theirs))) is not None}
    return found or None
