"""``git parallel agents``: the programs that can do the work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from git_parallel.cli import _common
from git_parallel.errors import ParallelError
from git_parallel.git import Repository

if TYPE_CHECKING:
    from git_parallel.agents.installed import Program
    from git_parallel.plan.programs import Programs


@click.command()
@_common.json_option
def command(as_json: bool) -> int:
    """List the programs that can do the work: which are installed, and what each can do.

    Each installed program is asked for its version; those of which the project's .git-parallel.yaml says
    something are not started. A limit that a program does not know itself is kept by git parallel.
    """
    from git_parallel.agents import installed  # noqa: PLC0415 (not needed for -h)
    from git_parallel.render import terminal  # noqa: PLC0415
    from git_parallel.supervisor import view  # noqa: PLC0415

    known, repo = _configured()
    top = repo.top if repo is not None else None
    programs = installed.look(known.agents, known.locate, unapproved=known.project, cwd=top)
    default = _default(programs)
    if as_json:
        _common.write(view.dumps({"v": 1, "programs": [as_document(one, default) for one in programs]}) + "\n")
        return 0
    colour = repo is not None and terminal.colour(repo.git, sys.stdout)
    _common.write(described(programs, width=terminal.width(), colour=colour))
    for one in programs:
        if one.outdated:
            _common.say("warning", f"{one.name} {one.version} is older than {one.minimum}, the oldest known to work")
    if default is not None:
        _common.say("hint", f"without --program, {default} does the work")
    return 0


def _configured() -> tuple[Programs, Repository | None]:
    """What the person and the project say of programs; outside a repository, the person alone."""
    from git_parallel.plan import config, programs  # noqa: PLC0415 (not needed for -h)

    try:
        repo = Repository.discover()
    except ParallelError:
        return programs.load({}, None), None
    return programs.load(config.load(repo).raw, repo.top), repo


def _default(programs: Sequence[Program]) -> str | None:
    from git_parallel.supervisor.start import DEFAULT_PROGRAMS  # noqa: PLC0415 (imports much)

    here = {one.name for one in programs if one.path is not None}
    return next((name for name in DEFAULT_PROGRAMS if name in here), None)


def as_document(program: Program, default: str | None) -> Mapping[str, object]:
    """A program in the JSON: ``{"v": 1, "programs": [these]}``; ``cost`` is reported, tokens or none."""
    return {
        "name": program.name,
        "about": program.about,
        "install": program.install or None,
        "path": program.path,
        "version": program.version,
        "minimum": program.minimum,
        "outdated": program.outdated,
        "default": program.name == default,
        "supports": {
            "max_steps": program.steps,
            "budget": program.budget,
            "resume": program.resume,
            "read_only": program.read_only,
        },
        "cost": program.cost,
    }


def described(programs: Sequence[Program], *, width: int, colour: bool) -> str:
    """The table for people. Pure."""
    from git_parallel.render import table  # noqa: PLC0415 (not needed for -h)
    from git_parallel.render.table import Column  # noqa: PLC0415

    columns = [
        Column("program", [one.name for one in programs]),
        Column("version", [_version(one) for one in programs], colours=[_colour(one) for one in programs]),
        Column("steps", [_yes(one.steps) for one in programs], rank=3),
        Column("budget", [_yes(one.budget) for one in programs], rank=3),
        Column("resume", [_yes(one.resume) for one in programs], rank=2),
        Column("read-only", [_yes(one.read_only) for one in programs], rank=2),
        Column("cost", [_cost(one.cost) for one in programs], rank=1),
        Column("about", [one.about for one in programs], rank=4, least=16),
    ]
    return "".join(f"{line}\n" for line in table.lay_out(columns, width=width, colour=colour))


def _version(program: Program) -> str:
    if program.path is None:
        return "not installed"
    return program.version or "installed"


def _yes(supported: bool) -> str:
    return "yes" if supported else "-"


def _cost(money: str) -> str:
    return {"reported": "dollars", "tokens": "tokens"}.get(money, "-")


def _colour(program: Program) -> str | None:
    return "dim" if program.path is None else "yellow" if program.outdated else "green"
