"""The JSON schema (draft 2020-12) of ``.git-parallel.yaml``, made from what reads it: for editors and other programs.

A person's own file has the same sections but the settings. What a schema cannot say (fields of templates, amounts,
times) is checked when the file is read.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from git_parallel.agents.parts import Event
from git_parallel.agents.preset import Preset
from git_parallel.agents.prices import Price
from git_parallel.agents.readers import READERS
from git_parallel.plan.configfile import SECTIONS
from git_parallel.plan.settings import SETTINGS, Setting

_SCALARS = ["string", "number", "boolean"]  # YAML's guess at what was written does not count: the text does
_REF = "#/$defs/{name}"


def schema() -> dict[str, Any]:
    """Return the schema as plain data; ``$defs`` has one entry of ``agents:`` as ``Agent``."""
    _, defs = msgspec.json.schema_components([Preset, Price], ref_template=_REF)
    agent = defs.pop("Preset")
    del agent["properties"]["name"], agent["required"]  # the key that an entry stands under; the rest may be extended
    agent["properties"]["extends"] = {"type": "string"}
    agent["properties"]["output"]["enum"] = sorted(READERS)
    defs["Interactive"]["properties"]["output"] = {"enum": [*sorted(READERS), None]}
    for name in ("options", "root_env"):  # nothing takes away what the program that is extended has
        taken = agent["properties"][name]
        taken["additionalProperties"] = {"anyOf": [taken["additionalProperties"], {"type": "null"}]}
    # The keys of these are the exit codes, which YAML and JSON write differently.
    agent["properties"]["exits"]["propertyNames"] = {"pattern": "^[0-9]+$"}
    exits = agent["properties"]["exits"]
    exits["additionalProperties"] = {"anyOf": [exits["additionalProperties"], {"type": "null"}]}
    about = {**_told(Preset), "extends": "The program whose entry this one starts from."}
    for name, described in agent["properties"].items():
        described["description"] = about[name]
    agent["description"] = "A program: how it is started, what its output means, and what it can and cannot do."
    defs["Agent"] = agent
    defs["Event"]["description"] = (Event.__doc__ or "").partition("\n")[0]
    for name, said in _told(Event).items():
        defs["Event"]["properties"][name]["description"] = said
    defs["Settings"] = {
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {setting.name: _setting(setting) for setting in SETTINGS},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": ".git-parallel.yaml",
        "type": ["object", "null"],
        "additionalProperties": False,
        "properties": {
            **{section: {"$ref": _REF.format(name="Settings")} for section in SECTIONS},
            "agents": {"type": ["object", "null"], "additionalProperties": {"$ref": _REF.format(name="Agent")}},
            "prices": {"type": ["object", "null"], "additionalProperties": {"$ref": _REF.format(name="Price")}},
        },
        "$defs": dict(sorted(defs.items())),
    }


def _setting(setting: Setting) -> dict[str, Any]:
    words = setting.kind.words
    if words:
        fits: dict[str, Any] = {"enum": [*words, *([setting.nothing] if setting.nothing else [])]}
    else:
        fits = {"type": _SCALARS}
    if setting.shape != "one":
        fits = {"anyOf": [fits, {"type": "array", "items": fits}]}
    if setting.optional or setting.shape != "one":
        fits = {"anyOf": [fits, {"type": "null"}]}
    described = f"{setting.help[:1].upper()}{setting.help[1:]}: {setting.kind.wants}"
    return {**fits, "description": described + (f", or {setting.nothing}" if setting.nothing else "")}


def _told(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the docstring says of each field: a line with their names, and indented lines below."""
    found = {}
    for names, text in re.findall(r"^(``.*``)\n((?:    .*\n?)+)", inspect.cleandoc(struct.__doc__ or ""), re.MULTILINE):
        said = re.sub(r":mod:`\.(\w+)`", r"\1", " ".join(text.split())).replace("``", "")
        found.update(dict.fromkeys(re.findall("``(.*?)``", names), said))
    for name in struct.__struct_fields__:  # told with another one
        found.setdefault(name, next((text for text in found.values() if re.search(rf"\b{name}\b", text)), ""))
    return found
