"""Events of a program that has no reader of its own: its preset says what they mean (``output: events``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from git_parallel.agents.claim import Exit
from git_parallel.agents.parts import Conditions, Event
from git_parallel.agents.readers.events import DONE, EventReader, Where, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import number, whole, word


class DescribedReader(EventReader):
    """Folds each event by every description that it fits."""

    def __init__(self, exits: Mapping[int, Exit], where: Where | None, described: Sequence[Event]) -> None:
        super().__init__(exits, where)
        self._described = described

    def event(self, event: dict[str, Any]) -> None:
        for one in self._described:
            if _holds(one.when, event):
                self._fold(one, event)

    def _fold(self, one: Event, event: dict[str, Any]) -> None:
        self.name_session(_at(event, one.session))
        self.name_model(_at(event, one.model))
        if one.step:
            self.step()
        if (steps := whole(_at(event, one.steps))) is not None:
            self.steps = steps + (self.steps or 0 if one.add else 0)
        if (cost := number(_at(event, one.cost))) is not None:
            self.cost = cost + (self.cost or 0.0 if one.add else 0.0)
        for name, path in one.tokens.items():
            if (count := whole(_at(event, path))) is not None:
                known = self.tokens or {}
                self.tokens = {**known, name: count + (known.get(name, 0) if one.add else 0)}
        if one.tool is not None:
            told = self.deny if one.denied else self.act
            told(_at(event, one.tool), _at(event, one.arguments))
        self.say(_at(event, one.text))
        if (question := word(_at(event, one.asks))) is not None:
            self.waiting = one_line(question)
        self._end(one, event)

    def _end(self, one: Event, event: dict[str, Any]) -> None:
        error = word(_at(event, one.error))
        failed = api_failure(error or "it says that it failed", _at(event, one.status))
        if one.fatal is not None and _holds(one.fatal, event):
            self.said = failed
        elif one.success is not None:
            self.said = DONE if _holds(one.success, event) else failed
        elif one.fatal is None and error is not None:
            self.retry(error, failed.reason)


def _holds(conditions: Conditions, event: dict[str, Any]) -> bool:
    return all(_same(_at(event, path), value) for path, value in conditions.items())


def _same(found: object, value: object) -> bool:
    return found == value and isinstance(found, bool) == isinstance(value, bool)  # 1 is not true


def _at(value: Any, path: str | None) -> Any:
    """Return what stands under a path, or None."""
    if path is None:
        return None
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
