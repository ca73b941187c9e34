"""Presets: what is to know about a program in order to drive it, as data.

A preset is one YAML file beside this module, or an entry of the ``agents:`` section of a person's or a
project's configuration, in the same shape. An entry named like a preset of ours, or one that says
``extends: NAME``, starts from that preset: ``options``, ``env``, ``root_env`` and ``exits`` are merged
key by key, everything else is replaced.
"""

# Annotations are types at once, not strings: msgspec would have to evaluate these at every start.

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from git_parallel.agents import prices, template
from git_parallel.agents.claim import Exit
from git_parallel.agents.parts import Channel, Event, Interactive, Option, Version
from git_parallel.agents.prices import Price
from git_parallel.agents.readers import READERS
from git_parallel.errors import UsageError

Cap = Literal["budget", "timeout", "max_steps"]
Path = tuple[str, ...]

# Programs that people know by name, so that `--agent claude` can be told from a role. Not all have a preset.
KNOWN_PROGRAMS = (
    "aider",
    "amp",
    "architect",
    "claude",
    "cline",
    "codex",
    "command",
    "copilot",
    "crush",
    "cursor-agent",
    "gemini",
    "goose",
    "mini-swe-agent",
    "oh-my-opencode",
    "opencode",
    "pi",
    "qwen",
    "shell",
)

_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to start one program, what its output means, and what it can and cannot do.

    ``command``
        The program and the arguments that are always there, as templates (see :mod:`.template`).
    ``options``
        Arguments that are added, in the order written, when the value is known: ``model``, ``role``,
        ``max_steps``, ``budget``, ``timeout``; ``read_only`` for tasks that may change nothing,
        ``write`` for all others; ``session`` to begin a conversation under an id that we choose,
        ``resume`` to go on with one.
    ``prompt``
        The ways to hand over the task, best first, each with the arguments it adds at the end:
        ``argv`` (holds ``{task}``), ``file`` (holds ``{task_file}``), ``stdin``. The first that can
        carry a task's text unchanged is taken. Left out, ``{task}`` or ``{task_file}`` stands in
        ``command``, or else the task goes to standard input.
    ``env``, ``root_env``
        Variables to set (templates; null: to unset); those of ``root_env`` only when running as root.
    ``output``, ``stderr``
        The reader of standard output (a key of ``READERS``), and whether standard error goes into the
        same log (``merge``) or its own (``separate``: standard output is data).
    ``events``
        What the events mean that a program without a reader of its own writes, a JSON object a line: for
        ``output: events`` (see :class:`.Event`).
    ``report``
        A file that the program writes and the reader needs, a template with ``{log_dir}`` alone.
    ``unknown_roles``
        Roles that ``role`` does not hand on: the program's own names differ. ``plan`` among them, or
        without a ``role`` at all, is ``read_only``.
    ``exits``
        Exit codes that mean more than "0 is done, anything else failed".
    ``money``
        ``reported`` in US dollars, only ``tokens``, or ``none``. ``cumulative`` names the totals that go
        on counting over a resumed session. ``prices`` make dollars of tokens (see :mod:`.prices`).
    ``stop``
        Signals that ask it to end, in order, each with an equal part of the grace; KILL follows anyway.
    ``leaves``
        What it drops in the worktree and nobody wants committed, as .gitignore patterns.
    ``interactive``
        What is different when the run gives its agents terminals: the program as a person knows it, which
        begins with the task and lasts until they leave it. On top of the entry as with ``extends``, an
        option that is null is taken away. Left out, the program works unattended there too.
    ``configured``
        What shows that it has an account or a model to work with: variables, and files (with a ``/``, ``~`` and
        ``$NAME`` in them filled in). One of them is enough.
    ``about``, ``install``, ``sandbox``, ``version``
        One line about it, how to get it, one line on what its own sandbox needs and what that keeps it from,
        and how to ask for its version.
    """

    name: str
    about: str = ""
    install: str = ""
    sandbox: str = ""
    command: tuple[str, ...] = ()
    options: dict[Option, tuple[str, ...]] = {}
    prompt: dict[Channel, tuple[str, ...]] = {}
    env: dict[str, str | None] = {}
    root_env: dict[str, str] = {}
    output: str = "plain"
    events: tuple[Event, ...] = ()
    report: str | None = None
    stderr: Literal["merge", "separate"] = "merge"
    unknown_roles: tuple[str, ...] = ()
    exits: dict[int, Exit] = {}
    money: Literal["reported", "tokens", "none"] = "none"
    cumulative: tuple[Literal["cost", "tokens"], ...] = ()
    prices: dict[str, Price] = {}
    stop: tuple[Literal["INT", "TERM", "HUP", "QUIT"], ...] = ("TERM",)
    leaves: tuple[str, ...] = ()
    configured: tuple[str, ...] = ()
    interactive: Interactive | None = None
    version: Version | None = None

    @property
    def caps(self) -> frozenset[Cap]:
        """The limits that the program itself can be told to keep."""
        return frozenset(cap for cap in get_args(Cap) if cap in self.options)

    @property
    def channels(self) -> dict[Channel, tuple[str, ...]]:
        """The ways to hand over the task, best first; empty when ``command`` says itself where it goes."""
        if self.prompt or template.uses(self.command, "task") or template.uses(self.command, "task_file"):
            return self.prompt
        return {"stdin": ()}


Locate = Callable[[Path], str]
"""Says where a key of the configuration stands (``FILE:LINE``), given its path from ``agents`` on."""


def known_programs() -> frozenset[str]:
    """Names that people give to programs, for telling them from roles."""
    return frozenset((*KNOWN_PROGRAMS, *_built_in()))


def names(extra: Mapping[str, object]) -> list[str]:
    """Return the names of all presets: ours and those of the configuration's ``agents:`` section."""
    return sorted({*_built_in(), *extra})


def find(program: str, extra: Mapping[str, object], locate: Locate | None = None) -> Preset:
    """Return what ``--program`` stands for: a preset's name, or a command line of the person's own.

    A command line is anything that holds white space, a ``{field}`` or a ``/``. Raises UsageError.
    """
    if re.search(r"[\s/]", program) or template.names(program):
        from git_parallel.agents.own import own  # noqa: PLC0415 (few name a command line)

        return own(program)
    return load(program, extra, locate)


def load(name: str, extra: Mapping[str, object], locate: Locate | None = None) -> Preset:
    """Return the preset of this name. ``extra`` is the ``agents:`` section as plain data. Raises UsageError."""
    where = locate or (lambda path: f".git-parallel.yaml: {'.'.join(path)}")
    if name in extra:
        return _configured(name, extra, where)
    if name not in _built_in():
        raise _no_such_preset(name, extra)
    file = file_of(name)
    return convert(name, read(file), lambda path: f"{file}: {'.'.join(path[2:]) or 'top'}")


def layered(below: Mapping[str, object], above: Mapping[str, object]) -> dict[str, object]:
    """Return the entries of two sections as one.

    An entry that both have is the upper one on top of the lower, unless it says itself what it extends.
    """
    both = {**below, **above}
    for name in below.keys() & above.keys():
        lower, upper = below[name], above[name]
        if isinstance(lower, Mapping) and isinstance(upper, Mapping) and "extends" not in upper:
            both[name] = _on_top(lower, upper)
    return both


def priced(preset: Preset, section: object, locate: Locate | None = None) -> Preset:
    """Return a preset that reports tokens with the prices of a ``prices:`` section. Raises UsageError."""
    table = prices.parse(section, locate or ": ".join)
    if preset.money != "tokens" or not table:
        return preset
    # Dollars that are made of totals are totals.
    totals = (*preset.cumulative, "cost") if "tokens" in preset.cumulative else preset.cumulative
    return msgspec.structs.replace(preset, prices=table, cumulative=totals)


def settled(preset: Preset, terminal: str | None) -> Preset:
    """Return the preset as it counts for a run with, or without, terminals for its agents (``spec.terminal``)."""
    if terminal is None or preset.interactive is None:
        return preset
    return from_data(_without_nulls(_on_top(as_data(preset), msgspec.to_builtins(preset.interactive))))


def as_data(preset: Preset) -> dict[str, Any]:
    """Return a preset as plain data, for a file."""
    data: dict[str, Any] = msgspec.to_builtins(preset, str_keys=True)
    return data


def from_data(data: Mapping[str, Any]) -> Preset:
    """Return the preset that :func:`as_data` wrote. Raises msgspec.ValidationError."""
    return msgspec.convert(data, Preset, str_keys=True)


def nearest(word: str, known: Sequence[str] | Mapping[str, object] | frozenset[str]) -> str | None:
    """Return the known word that ``word`` is most likely meant to be."""
    from difflib import get_close_matches  # noqa: PLC0415 (only on the way to an error)

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def _built_in() -> list[str]:
    return [entry[: -len(".yaml")] for entry in os.listdir(_HERE) if entry.endswith(".yaml")]


def file_of(name: str) -> str:
    """Return the file of a preset of ours."""
    return os.path.join(_HERE, f"{name}.yaml")


def read(file: str) -> dict[str, Any]:
    """Read a preset file of ours. JSON is YAML: one written so is read without loading the YAML library (10 ms)."""
    with open(file, "rb") as stream:
        data = stream.read()
    if data.startswith(b"{"):
        decoded: dict[str, Any] = msgspec.json.decode(data)
        return decoded
    import yaml  # noqa: PLC0415 (10 ms)

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loaded: dict[str, Any] = yaml.load(data, Loader=loader)  # noqa: S506 (a safe loader, both of them)
    return loaded


def _configured(name: str, extra: Mapping[str, object], where: Locate) -> Preset:
    if not isinstance(name, str) or not _NAME.match(name):
        raise UsageError(
            f"{where(('agents', str(name)))}: '{name}' is not a name for a program",
            "use letters, digits, '-', '_', '.'",
        )
    return convert(name, _merged(name, extra, where, ()), where)


def _merged(name: str, extra: Mapping[str, object], where: Locate, below: tuple[str, ...]) -> dict[str, Any]:
    """Return an entry's data on top of what it extends."""
    if name not in extra or name in below:
        if name not in _built_in():
            raise _no_such_preset(name, extra, where(("agents", below[-1], "extends")) if below else "")
        return read(file_of(name))
    entry = extra[name]
    if not isinstance(entry, Mapping):
        raise UsageError(f"{where(('agents', name))}: expected a map, got {_kind(entry)}")
    data = dict(entry)
    base = data.pop("extends", name if name in _built_in() else None)
    if base is None:
        return data
    if not isinstance(base, str):
        raise UsageError(f"{where(('agents', name, 'extends'))}: expected the name of a program, got {_kind(base)}")
    if base in (*below, name) and base not in _built_in():
        raise UsageError(f"{where(('agents', name, 'extends'))}: '{base}' extends itself")
    return _without_nulls(_on_top(_merged(base, extra, where, (*below, name)), data))


def _on_top(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    if "command" in upper:
        merged.pop("interactive", None)  # it belongs to the command line that is replaced
    for key, value in upper.items():
        beneath = merged.get(key)
        if key in _BY_KEY and isinstance(value, Mapping) and isinstance(beneath, Mapping):
            merged[key] = {**beneath, **value}
        else:
            merged[key] = value
    return merged


def _without_nulls(data: dict[str, Any]) -> dict[str, Any]:
    for key in ("options", "root_env", "exits"):
        if isinstance(data.get(key), Mapping):
            data[key] = {inner: value for inner, value in data[key].items() if value is not None}
    return data


# Maps that an entry adds to, where null takes a key away again. `prompt` is an order and so is replaced.
_BY_KEY = ("options", "env", "root_env", "exits")


def convert(name: str, data: Mapping[str, Any], where: Locate) -> Preset:
    """Return the preset that plain data describes. Raises UsageError."""
    top: Path = ("agents", name)
    if "name" in data:
        raise UsageError(f"{where((*top, 'name'))}: unknown key 'name'", "a program's name is the key it stands under")
    try:
        # JSON and YAML differ in what a number may be a key of; both spell exit codes as they like.
        exits = data.get("exits")
        if isinstance(exits, Mapping):
            data = {**data, "exits": {_whole(code): meaning for code, meaning in exits.items()}}
        preset = msgspec.convert({**data, "name": name}, Preset)
    except msgspec.ValidationError as error:
        from git_parallel.agents.mistakes import explain  # noqa: PLC0415 (only on the way to an error)

        raise explain(error, top, where) from None
    _check(preset, top, where)
    if preset.interactive is not None:
        _check(settled(preset, "tmux"), (*top, "interactive"), where)  # what is wrong now is so by this section
    return preset


def _check(preset: Preset, top: Path, where: Locate) -> None:
    """Raise UsageError for what the shapes alone do not forbid."""
    if not preset.command:
        if preset.name == "command":
            raise UsageError("'command' needs a command line", "give it as the program: --program 'PROG {task}'")
        raise UsageError(f"{where((*top, 'command'))}: the program's command line is empty")
    if template.names(preset.command[0]):
        raise UsageError(f"{where((*top, 'command'))}: the program's name cannot be {preset.command[0]}")
    if preset.output not in READERS:
        raise UsageError(f"{where((*top, 'output'))}: no reader '{preset.output}'", *hint(preset.output, READERS))
    if preset.output == "events" and not preset.events:
        raise UsageError(f"{where((*top, 'output'))}: no 'events' list says what the events mean")
    places: list[tuple[Path, tuple[str, ...]]] = [
        (("command",), preset.command),
        *((("options", key), value) for key, value in preset.options.items()),
        *((("prompt", key), value) for key, value in preset.prompt.items()),
        *((("env", key), (value,)) for key, value in {**preset.env, **preset.root_env}.items() if value is not None),
    ]
    strict = preset.name != "command"  # a person's own command line may hold braces of its own
    for path, values in places:
        for field in (field for value in values for field in template.names(value)):
            if strict and field not in template.FIELDS:
                raise UsageError(
                    f"{where((*top, *path))}: there is no field {{{field}}}", *hint(field, template.FIELDS)
                )
    _check_report(preset, (*top, "report"), where)
    for channel, field in (("argv", "task"), ("file", "task_file")):
        if channel in preset.prompt and not template.uses(preset.prompt[channel], field):
            raise UsageError(f"{where((*top, 'prompt', channel))}: {{{field}}} is not in it")
    if preset.prompt and (template.uses(preset.command, "task") or template.uses(preset.command, "task_file")):
        raise UsageError(f"{where((*top, 'prompt'))}: 'command' says already where the task goes")


def _check_report(preset: Preset, path: Path, where: Locate) -> None:
    for field in template.names(preset.report or ""):
        if field != "log_dir":
            raise UsageError(f"{where(path)}: only {{log_dir}} can stand there, not {{{field}}}")


def _no_such_preset(name: str, extra: Mapping[str, object], where: str = "") -> UsageError:
    near = nearest(name, names(extra))
    prefix = f"{where}: " if where else ""
    if name in KNOWN_PROGRAMS:
        return UsageError(
            f"{prefix}there is no preset for '{name}' yet", f"give its command line: --program '{name} … {{task}}'"
        )
    return UsageError(
        f"{prefix}unknown program '{name}'",
        *((f"did you mean '{near}'?",) if near else (f"presets: {', '.join(names(extra))}",)),
        f"for a program of your own give its command line: --program '{name} {{task}}'",
    )


def hint(word: str, known: Sequence[str] | Mapping[str, object]) -> tuple[str, ...]:
    """Return the hint that names the nearest known word, if one is near."""
    near = nearest(word, known)
    return (f"did you mean '{near}'?",) if near else ()


def _whole(code: object) -> object:
    return int(code) if isinstance(code, str) and code.isdecimal() else code


def _kind(value: object) -> str:
    return {dict: "a map", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}.get(
        type(value), "a number"
    )
