"""A preset and one worker's values into the command that is started. Pure, but for looking for the program."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from git_parallel import system
from git_parallel.agents import preset as presets
from git_parallel.agents import template
from git_parallel.agents.parts import Channel
from git_parallel.agents.preset import Preset
from git_parallel.errors import UsageError

# Linux refuses one argument of 128 KiB or more, its NUL counted (E2BIG; MAX_ARG_STRLEN).
ARGUMENT_LIMIT = 131_071
# Where there is another way, take it sooner: wrappers quote and add to arguments.
ARGUMENT_COMFORT = 100_000

_SOURCES = {
    "model": "--models",
    "budget": "--budget-per-worker",
    "timeout": "--timeout-per-worker",
    "soft_timeout": "--timeout-per-worker",
    "max_steps": "--max-steps",
    "role": "--agent",
}


class LaunchValues(Struct, frozen=True, kw_only=True):
    """What a command line may be told. None: not known, or no limit.

    ``task_file`` exists and holds ``task`` byte for byte. ``budget`` is in US dollars, ``timeout`` in
    seconds. ``session`` begins a conversation under that id, or goes on with it when ``resume`` is set.
    ``first_port`` is the first of the worker's own. ``root`` says that the program will run as root.
    """

    task: str
    task_file: str
    worktree: str
    role: str | None = None
    model: str | None = None
    budget: float | None = None
    timeout: float | None = None
    max_steps: int | None = None
    session: str | None = None
    resume: bool = False
    read_only: bool = False
    attempt: int = 1
    first_port: int | None = None
    root: bool = False


class Launch(Struct, frozen=True):
    """What is started. ``env`` is added to the worker's environment, ``unset`` taken from it.

    ``stdin_file`` None means /dev/null: a program that finds an open, silent pipe there waits for ever.
    ``note`` tells when the task took another way than the command line says.
    """

    argv: tuple[str, ...]
    stdin_file: str | None
    env: dict[str, str]
    unset: tuple[str, ...]
    separate_errors: bool
    channel: Channel
    note: str | None = None


def build(preset: Preset, values: LaunchValues) -> Launch:
    """Return the command of one attempt. Raises UsageError when a value that it needs is not known."""
    fields = _fields(values)
    try:
        command = [*preset.command]
        for name, fragment in preset.options.items():
            if _wanted(name, preset, values):
                command += fragment
        channel, arguments, note = _hand_over(preset, command, values.task)
        argv = tuple(template.expand(argument, fields) for argument in arguments)
    except template.MissingError as missing:
        source = _SOURCES.get(missing.field)
        raise UsageError(
            f"program '{preset.name}' needs {{{missing.field}}}, which is not known",
            *((f"give it with {source}",) if source else ()),
        ) from None
    env, unset = _environment(preset, fields, values.root)
    return Launch(
        argv=argv,
        stdin_file=values.task_file if channel == "stdin" else None,
        env=env,
        unset=unset,
        separate_errors=preset.stderr == "separate",
        channel=channel,
        note=note,
    )


def check_task(preset: Preset, task: str) -> None:
    """Raise UsageError when there is no way to hand this task over unchanged: to be asked before anything starts."""
    _hand_over(preset, [*preset.command], task)


def resolve(preset: Preset, *, path: str | None = None, cwd: str | None = None) -> str:
    """Return the absolute path of the preset's program, looked for on ``path`` (default: our PATH).

    A name with a ``/`` is a file, relative to ``cwd`` (default: where we are). Raises UsageError.
    """
    program = preset.command[0]
    if "/" in program:
        file = os.path.join(cwd or os.getcwd(), os.path.expanduser(program))
        if not os.path.isfile(file):
            raise UsageError(f"program '{program}' does not exist")
        if not os.access(file, os.X_OK):
            raise UsageError(f"program '{program}' is not executable", f"chmod +x {program}")
        return os.path.abspath(file)
    found = system.which(program, path=path)
    if found is None:
        hints = (f"install it: {preset.install}",) if preset.install else ()
        if "=" in program:
            hints = (f"to set a variable: --program 'env {program} …'",)
        raise UsageError(f"program '{program}' not found on PATH", *hints)
    return os.path.abspath(found)


def resolved(preset: Preset, *, path: str | None = None, cwd: str | None = None) -> Preset:
    """Return the preset with its program as an absolute path: worktrees change directory. Raises UsageError.

    So is the program at a terminal, which may be another one.
    """
    program = resolve(preset, path=path, cwd=cwd)
    found = msgspec.structs.replace(preset, command=(program, *preset.command[1:]))
    if preset.interactive is None or preset.interactive.command is None:
        return found
    program = resolve(presets.settled(preset, "tmux"), path=path, cwd=cwd)
    command = (program, *preset.interactive.command[1:])
    return msgspec.structs.replace(found, interactive=msgspec.structs.replace(preset.interactive, command=command))


def soft_timeout(timeout: float) -> int:
    """Return the limit that a program is told: a tenth below ours, at most 15 s, so that it ends by itself first."""
    return max(1, math.floor(timeout - min(15.0, max(1.0, timeout / 10))))


def report_file(preset: Preset, log_dir: str) -> str | None:
    """Return the path of the file that the program reports to beside its log (``report``), or None."""
    return None if preset.report is None else template.expand(preset.report, {"log_dir": log_dir})


def pathspecs(preset: Preset) -> list[str]:
    """Return git pathspecs that leave out what the program drops (``leaves``), at any depth.

    For untracked files only: a repository may track a file of such a name, and a task may change it.
    """
    specs = []
    for pattern in preset.leaves:
        name = pattern.strip("/")
        base = name if "/" in pattern.rstrip("/") else f"**/{name}"
        specs += [f":(top,exclude,glob){base}/**"]
        if not pattern.endswith("/"):
            specs += [f":(top,exclude,glob){base}"]
    return specs


def _wanted(option: str, preset: Preset, values: LaunchValues) -> bool:
    """Say whether an option's arguments are to be there."""
    if option in ("read_only", "write"):
        return _read_only(preset, values) == (option == "read_only")
    if option == "role":
        return values.role is not None and _hands_on_role(preset, values.role) and not _replaced(preset, values)
    if option in ("session", "resume"):
        return values.session is not None and values.resume == (option == "resume")
    return getattr(values, option) is not None


def _read_only(preset: Preset, values: LaunchValues) -> bool:
    """Say whether nothing may be changed: asked for, or by the role ``plan`` of a program that has no roles."""
    return values.read_only or (values.role == "plan" and not _hands_on_role(preset, "plan"))


def _replaced(preset: Preset, values: LaunchValues) -> bool:
    """Say whether the role gives way to the one that changes nothing: few programs take an option twice."""
    role, read_only = preset.options.get("role", ()), preset.options.get("read_only", ())
    return values.read_only and role[:1] == read_only[:1]


def _hands_on_role(preset: Preset, role: str) -> bool:
    return "role" in preset.options and role not in preset.unknown_roles


def _hand_over(preset: Preset, command: list[str], task: str) -> tuple[Channel, list[str], str | None]:
    """Choose how the task goes in: the channel, the whole command line as templates, and a note."""
    channels = preset.channels
    if not channels:
        return _in_place(preset, command, task)
    for channel, arguments in channels.items():
        if channel != "argv" or _refusal(arguments, task, ARGUMENT_COMFORT) is None:
            return channel, [*command, *arguments], None
    refusal = _refusal(channels["argv"], task, ARGUMENT_LIMIT)
    if refusal is not None:
        raise UsageError(
            f"program '{preset.name}' takes a task only on its command line, and {refusal}",
            "put the text into a file of the repository and let the task name it",
        )
    return "argv", [*command, *channels["argv"]], None


def _in_place(preset: Preset, command: list[str], task: str) -> tuple[Channel, list[str], str | None]:
    """Hand the task over where the command line itself says so.

    It is the person's line: a task that begins with ``-`` goes where they put it. A task that no
    argument can hold goes to standard input instead of the argument that was to be it, which is
    where programs look when the argument is missing.
    """
    if not template.uses(command, "task"):
        return "file", command, None
    refusal = _refusal(command, task, ARGUMENT_LIMIT, dash=False)
    if refusal is None:
        return "argv", command, None
    rest = [argument for argument in command if argument != "{task}"]
    if template.uses(rest, "task"):
        raise UsageError(
            f"program '{preset.name}' takes the task inside an argument, and {refusal}",
            "write {task_file} where the program can read a file, or leave {task} out to have it on standard input",
        )
    return "stdin", rest, f"{refusal}: given on standard input instead"


def _refusal(arguments: tuple[str, ...] | list[str], task: str, limit: int, *, dash: bool = True) -> str | None:
    """Say why these arguments cannot carry the task unchanged, or None."""
    if "\0" in task:
        return "the task holds a NUL byte"
    try:
        size = len(os.fsencode(task))
    except UnicodeEncodeError:
        return "the task holds characters that no argument can"
    for before, argument in zip(("", *arguments), arguments, strict=False):
        count = template.names(argument).count("task")
        if not count:
            continue
        if size * count + len(os.fsencode(argument)) - len("{task}") * count > limit:
            return f"the task is too long for an argument ({size} bytes)"
        # `sh -c -x` and `prog +x` take it for an option, whatever stands before, but for `--`.
        if dash and before != "--" and argument.startswith("{task}") and task.startswith(("-", "+")):
            return f"the task begins with '{task[0]}', as an option does"
    return None


def _fields(values: LaunchValues) -> dict[str, str | None]:
    return {
        "task": values.task,
        "task_file": values.task_file,
        "model": values.model,
        "role": values.role,
        "worktree": values.worktree,
        "log_dir": os.path.dirname(values.task_file),
        "budget": None if values.budget is None else _number(values.budget),
        "timeout": None if values.timeout is None else _number(values.timeout),
        "soft_timeout": None if values.timeout is None else str(soft_timeout(values.timeout)),
        "max_steps": None if values.max_steps is None else str(values.max_steps),
        "session": values.session,
        "first_port": None if values.first_port is None else str(values.first_port),
        "attempt": str(values.attempt),
    }


def _environment(
    preset: Preset, fields: Mapping[str, str | None], root: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    env: dict[str, str] = {}
    unset: list[str] = []
    for name, value in {**preset.env, **(preset.root_env if root else {})}.items():
        if value is None:
            unset.append(name)
            continue
        try:
            env[name] = template.expand(value, fields)
        except template.MissingError:
            continue  # nothing to say: the variable stays as the person has it
    return env, tuple(unset)


def _number(value: float) -> str:
    """Write a number as people do: no exponent, no trailing zeros."""
    text = f"{value:.9f}".rstrip("0").rstrip(".")
    return text if float(text) == value else repr(value)
