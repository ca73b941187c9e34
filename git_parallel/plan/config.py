"""The settings in force, and where each comes from.

The nearest layer wins: flags, then git's configuration (``parallel.*``, as personal as git itself
allows), then the project file ``.git-parallel.yaml`` at the top of the caller's worktree, then the
defaults. ``-c FILE`` stands in for the project file's settings: it is read in place of its
``parallel_runs:`` section, while the ``agents:`` and ``prices:`` that the project defines stay.
A layer that sets a list replaces the list of the layers below it. The person's own programs and prices
have a file of their own (:mod:`git_parallel.plan.programs`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.plan import configfile
from git_parallel.plan.settings import BY_NAME, SETTINGS, Setting, by_git_key, near_name

Layer = Literal["flag", "command line", "git", "file", "project", "default"]

# The name of a preset; any other program is a command line.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Origin(Struct, frozen=True):
    """Where a value comes from. ``file`` is the file of ``-c``; ``command line`` is ``git -c parallel.…``."""

    layer: Layer
    text: str


_DEFAULT = Origin("default", "default")
_FLAG = Origin("flag", "flag")


class Config(Struct, frozen=True, kw_only=True):
    """Every setting's value: times in seconds, money in US dollars, None for "no limit" or "not set".

    ``raw`` holds the project file's ``agents:`` and ``prices:`` sections as plain data, unchecked.
    """

    workers: int
    agent: str
    program: str | None
    models: tuple[str, ...]
    max_steps: int | None
    budget_per_worker: float | None
    timeout_per_worker: float | None
    budget: float | None
    timeout: float | None
    idle_timeout: float | None
    memory_per_worker: int | None
    memfree: int | None
    max_output: int | None
    max_disk: int | None
    terminal: str | None
    retries: int
    halt: str
    check: tuple[str, ...]
    target: str | None
    branch: str
    worktree: str
    grace: float
    checkpoint: float | None
    keep_ignored: int | None
    strategy: str
    message: str | None
    check_timeout: float | None
    notify: str | None
    bell: bool
    herdr: bool
    trash_expire: float | None
    lfs: str
    origins: Mapping[str, Origin]
    raw: Mapping[str, Any]

    def origin(self, name: str) -> str:
        """Say where a value is from: ``default``, ``file:NAME:LINE``, ``git:ORIGIN``, ``command line``, ``flag``."""
        return self.origins[name].text

    def layer(self, name: str) -> Layer:
        """Name the layer that a setting comes from."""
        return self.origins[name].layer

    def repository_commands(self) -> tuple[str, ...]:
        """Return the commands that come with the repository: nobody on this machine has typed or seen them.

        These are commands among the project file's settings, and what it says of programs: an entry
        of ``agents:`` may stand under the name of a program that the person trusts.
        """
        commands = [
            command
            for setting in SETTINGS
            if setting.runs and self.layer(setting.name) == "project"
            for command in setting.show(getattr(self, setting.name))
        ]
        if self.program is not None and self.layer("program") == "project" and not _NAME.fullmatch(self.program):
            commands.append(self.program)
        agents = self.raw.get("agents")
        if agents:
            from json import dumps  # noqa: PLC0415 (few projects define programs)

            entries = agents.items() if isinstance(agents, Mapping) else (("", agents),)
            commands += [f"agents: {name}: {dumps(entry, default=str)}" for name, entry in entries]
        return tuple(commands)


def load(repo: Repository, flags: Mapping[str, object] | None = None, file: str | None = None) -> Config:
    """Read all layers; one git call, and YAML is imported only when there is a file.

    ``flags`` maps names of settings to what was typed (text, number, or a sequence of texts); None and
    empty sequences mean "not given". ``file`` is the path of ``-c``, from the current directory.
    Raises UsageError for the first wrong name or value; GitError when git cannot read its configuration.
    """
    project = configfile.read_project(repo.top, settings=file is None)
    named = None if file is None else configfile.read_named(file)
    values: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS}
    origins = {setting.name: _DEFAULT for setting in SETTINGS}
    for layer in (
        _from_document(project, "project") if named is None else _from_document(named, "file"),
        _from_git(repo),
        _from_flags(flags or {}),
    ):
        for name, (value, origin) in layer.items():
            values[name], origins[name] = value, origin
    return Config(**values, origins=origins, raw=project.raw)


_Values = dict[str, tuple[Any, Origin]]


def _from_document(document: configfile.Document, layer: Layer) -> _Values:
    values: _Values = {}
    for written in document.settings:
        setting = written.setting
        try:
            if written.texts is not None:
                value = setting.parse(written.texts)
            elif setting.optional or setting.shape != "one":
                value = () if setting.shape != "one" else None
            else:
                raise ValueError(f"must be {setting.kind.wants}, not null")
        except ValueError as error:
            raise UsageError(f"{written.where}:{written.column}: {setting.name} {error}") from None
        values[setting.name] = value, Origin(layer, f"file:{written.where}")
    return values


def _from_git(repo: Repository) -> _Values:
    """Read ``parallel.*``; keys with a subsection (``parallel.NAME.key``) are kept free for later."""
    values: _Values = {}
    for source, key, text, given in repo.settings:
        if not key.startswith("parallel."):
            continue
        if key.count(".") > 1:
            continue
        setting = by_git_key(key)
        if setting is None:
            raise _unknown_key(key, source)
        if not given:
            raise _bad_key(setting, source, "has no value")
        origin = _git_origin(source)
        if setting.shape == "list":
            # As with git's own lists: values add up over all files, and an empty one starts afresh.
            before = values.get(setting.name, ((), origin))[0]
            value = (*before, *_parsed(setting, text, source)) if text else ()
        else:
            value = _parsed(setting, text, source)
        values[setting.name] = value, origin
    return values


def _parsed(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.parse((text,))
    except ValueError as error:
        raise _bad_key(setting, source, str(error)) from None


def _git_origin(source: str) -> Origin:
    return Origin("command line", "command line") if _typed(source) else Origin("git", f"git:{source}")


def _typed(source: str) -> bool:
    return source.startswith("command line:")


def _git_place(source: str) -> str:
    return "git -c" if _typed(source) else source.removeprefix("file:")


def _bad_key(setting: Setting, source: str, problem: str) -> UsageError:
    hint = f"see where it is set: git config --show-origin --get-all {setting.git_key}"
    return UsageError(f"{_git_place(source)}: {setting.git_key} {problem}", *(() if _typed(source) else (hint,)))


def _unknown_key(key: str, source: str) -> UsageError:
    near = near_name(key)
    hint = f"did you mean '{near.git_key}'?" if near else "see 'git parallel config' for all settings"
    return UsageError(f"{_git_place(source)}: unknown setting '{key}'", hint)


def _from_flags(flags: Mapping[str, object]) -> _Values:
    values: _Values = {}
    for name, given in flags.items():
        setting = BY_NAME[name]
        texts = _texts(given)
        if not texts:
            continue
        try:
            values[name] = setting.parse(texts), _FLAG
        except ValueError as error:
            raise UsageError(f"{setting.flag} {error}") from None
    return values


def _texts(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Sequence):
        return tuple(str(item) for item in given)
    return (str(given),)
