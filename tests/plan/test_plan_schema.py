"""The schema that is printed fits what is read: the built-in presets, the documents' examples, and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from git_parallel.agents import preset
from git_parallel.plan.schema import schema
from git_parallel.plan.settings import SETTINGS

ROOT = Path(__file__).parents[2]
SCHEMA = schema()
_TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool, "null": type(None)}


def misfits(value: Any, rule: dict[str, Any], place: str = "$") -> list[str]:
    """Say where a value does not fit: the part of JSON schema that ours uses."""
    known = {"$ref", "type", "enum", "anyOf", "items", "properties", "additionalProperties", "propertyNames", "pattern"}
    assert rule.keys() <= known | {"required", "default", "description", "title", "$defs", "$schema"}
    if "$ref" in rule:
        return misfits(value, SCHEMA["$defs"][rule["$ref"].removeprefix("#/$defs/")], place)
    types = rule.get("type")
    types = [types] if isinstance(types, str) else types or []
    if types and not any(
        isinstance(value, _TYPES[name]) and (name != "number" or not isinstance(value, bool)) for name in types
    ):
        return [f"{place}: not {types}"]
    found = [f"{place}: not one of {rule['enum']}"] if "enum" in rule and value not in rule["enum"] else []
    if "pattern" in rule and isinstance(value, str) and not re.search(rule["pattern"], value):
        found.append(f"{place}: not like {rule['pattern']}")
    if "anyOf" in rule and all(misfits(value, one, place) for one in rule["anyOf"]):
        found.append(f"{place}: fits nothing")
    if isinstance(value, list) and "items" in rule:
        found += [line for index, item in enumerate(value) for line in misfits(item, rule["items"], f"{place}.{index}")]
    if isinstance(value, dict):
        inner = rule.get("properties", {})
        found += [f"{place}: no {name}" for name in rule.get("required", ()) if name not in value]
        for name, item in value.items():
            found += misfits(str(name), rule.get("propertyNames", {}), f"{place}.{name} (name)")
            further = inner.get(name, rule.get("additionalProperties", {}))
            found += [f"{place}: unknown {name}"] if further is False else misfits(item, further, f"{place}.{name}")
    return found


def entry(**values: Any) -> dict[str, Any]:
    return {"agents": {"x": {"command": ["x"], **values}}}


@pytest.mark.parametrize("name", preset.names({}))
def test_built_in_presets_fit(name) -> None:
    assert misfits({"agents": {name: preset.read(preset.file_of(name))}}, SCHEMA) == []


def test_examples_of_the_manual_fit() -> None:
    found = []
    for page in (ROOT / "man").glob("*.1"):
        blocks = re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page.read_text(), re.MULTILINE | re.DOTALL)
        found += [block for block in blocks if re.match(r"(agents|prices|parallel_runs|parallel):", block)]
    assert len(found) >= 2
    for block in found:
        assert misfits(yaml.safe_load(block), SCHEMA) == []


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"agnts": {}}, "$: unknown agnts"),
        ({"parallel_runs": {"workrs": 3}}, "$.parallel_runs: unknown workrs"),
        ({"parallel": {"strategy": "merg"}}, "$.parallel.strategy: not one of"),
        ({"parallel": {"workers": [3]}}, "$.parallel.workers: not"),
        (entry(comand=[]), "$.agents.x: unknown comand"),
        (entry(name="y"), "$.agents.x: unknown name"),
        (entry(stop=["KIL"]), "$.agents.x.stop.0: not one of"),
        (entry(output="plian"), "$.agents.x.output: not one of"),
        (entry(interactive={"output": "plian"}), "$.agents.x.interactive: fits nothing"),
        (entry(interactive={"about": "x"}), "$.agents.x.interactive: fits nothing"),
        (entry(options={"modle": []}), "$.agents.x.options.modle (name): not one of"),
        (entry(events=[{"stpes": "x"}]), "$.agents.x.events.0: unknown stpes"),
        (entry(exits={"one": None}), "$.agents.x.exits.one (name): not like"),
        (entry(exits={1: {"outcome": "dun", "reason": "x"}}), "$.agents.x.exits.1: fits nothing"),
        ({"prices": {"m": {"input": 1}}}, "$.prices.m: no output"),
    ],
)
def test_mistakes_do_not_fit(document, complaint) -> None:
    assert [line for line in misfits(document, SCHEMA) if line.startswith(complaint)]


def test_what_may_be_written_fits() -> None:
    for document in (
        None,
        {"parallel_runs": None, "agents": None},
        {"parallel_runs": {"workers": "3", "models": ["a", "b"], "check": "make", "budget": None, "max_steps": "none"}},
        {"parallel": {"models": "a,b", "bell": False, "timeout": 3, "terminal": "none", "checkpoint": "never"}},
        entry(extends="claude", options={"model": None}, env={"A": None}, exits={3: None}, version={"minimum": "1"}),
    ):
        assert misfits(document, SCHEMA) == []


def test_every_setting_and_every_field_is_there_with_a_word_about_it() -> None:
    settings = SCHEMA["$defs"]["Settings"]["properties"]
    assert list(settings) == [setting.name for setting in SETTINGS]
    fields = SCHEMA["$defs"]["Agent"]["properties"]
    assert set(fields) == {*preset.Preset.__struct_fields__, "extends"} - {"name"}
    assert all(one["description"] for one in (*settings.values(), *fields.values()))


def test_the_command_prints_it_anywhere(repo, tmp_path) -> None:
    done = repo.parallel("config", "--schema", cwd=tmp_path)
    assert json.loads(done.stdout) == json.loads(json.dumps(SCHEMA))
