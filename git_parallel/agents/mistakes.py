"""What msgspec has against an entry of the configuration, in our words: only loaded when there is a mistake."""

from __future__ import annotations

import re
from typing import get_args

import msgspec

from git_parallel.agents import preset as presets
from git_parallel.agents.claim import Exit
from git_parallel.agents.parts import Channel, Event, Interactive, Option, Version
from git_parallel.agents.preset import Locate, Path, Preset
from git_parallel.agents.prices import Price
from git_parallel.errors import UsageError

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`\Z", re.DOTALL)
_BAD_KEY = re.compile(r"Invalid enum value '?(.*?)'?\Z", re.DOTALL)
_WORDS: dict[str, tuple[str, ...]] = {
    "options": get_args(Option),
    "prompt": get_args(Channel),
    "stderr": ("merge", "separate"),
    "money": ("reported", "tokens", "none"),
    "cumulative": ("cost", "tokens"),
    "stop": ("INT", "TERM", "HUP", "QUIT"),
    "exits": ("done", "failed", "partial", "unknown", "stop_run"),
}
_KEYS: dict[str, tuple[str, ...]] = {
    "": (*(field for field in Preset.__struct_fields__ if field != "name"), "extends"),
    "interactive": Interactive.__struct_fields__,
    "version": Version.__struct_fields__,
    "exits": Exit.__struct_fields__,
    "events": Event.__struct_fields__,
    "prices": Price.__struct_fields__,
}
_PLAIN_WORDS = {
    "array": "a list",
    "object": "a map",
    "str": "a text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "null": "nothing",
}


def explain(error: msgspec.ValidationError, top: Path, where: Locate) -> UsageError:
    """Turn msgspec's complaint into ours: the key's place, what is wrong, the nearest valid word."""
    reason, _, place = str(error).partition(" - at ")
    path = tuple(part for part in re.split(r"[.\[\]`$ ]+", place) if part not in ("", "in", "key", "..."))
    inner = path[1:] if path[:1] == ("interactive",) else path  # it has the sections of the entry that it is in
    section = inner[0] if inner else path[0] if path else "prices" if top[:1] == ("prices",) else ""
    if match := _UNKNOWN_FIELD.match(reason):
        word = match[1]
        hints = presets.hint(word, _KEYS.get(section, ()))
        return UsageError(f"{where((*top, *path, word))}: unknown key '{word}'", *hints)
    if match := _BAD_KEY.match(reason):
        words = _WORDS.get(section, ())
        hints = presets.hint(match[1], words) or ((f"it can be {', '.join(words)}",) if words else ())
        here = (*path, match[1]) if place.startswith("`key`") else path
        return UsageError(f"{where((*top, *here))}: '{match[1]}' is not valid here", *hints)
    if match := re.fullmatch("Object missing required field `(.*)`", reason):
        return UsageError(f"{where((*top, *path))}: '{match[1]}' is missing")
    for theirs, ours in _PLAIN_WORDS.items():
        reason = re.sub(rf"`?\b{theirs}\b`?", ours, reason)
    reason = reason.replace(" | ", " or ")
    return UsageError(f"{where((*top, *path))}: {reason[:1].lower()}{reason[1:]}")
