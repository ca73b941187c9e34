"""``git parallel agents``: the programs that can do the work."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from git_parallel.cli import _common
from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository

if TYPE_CHECKING:
    from git_parallel.agents.installed import Program
    from git_parallel.plan.programs import Programs
    from git_parallel.supervisor.trial import Trial


@click.command()
@click.argument("words", nargs=-1, metavar="[test PROGRAM]")
@click.option("--model", metavar="MODEL", help="Model for the test (default: the first that is configured).")
@click.option("--timeout", type=float, default=300.0, metavar="SECONDS", help="Time for the test (default: 300).")
@click.option("--trust", is_flag=True, help="Approve what .git-parallel.yaml says of programs.")
@_common.json_option
def command(words: Sequence[str], *, model: str | None, timeout: float, trust: bool, as_json: bool) -> int:
    """List the programs that can do the work: which are installed, and what each can do.

    'test PROGRAM' tries one: it gets a tiny task in a repository made for it and removed again, and what worked
    is told. That may cost a little money. The exit code is 1 when something did not work.

    Each installed program is asked for its version; those of which the project's .git-parallel.yaml says
    something are not started. A limit that a program does not know itself is kept by git parallel.
    """
    from git_parallel.agents import installed  # noqa: PLC0415 (not needed for -h)
    from git_parallel.agents.default import choose  # noqa: PLC0415
    from git_parallel.render import terminal  # noqa: PLC0415
    from git_parallel.supervisor import view  # noqa: PLC0415

    if words:
        return _test(words, model=model, timeout=timeout, trusted=trust, as_json=as_json)
    known, repo, _ = _configured()
    top = repo.top if repo is not None else None
    programs = installed.look(known.agents, known.locate, unapproved=known.project, cwd=top)
    chosen = choose(known.agents, known.locate, cwd=top)
    default = chosen.name if chosen is not None else None
    if as_json:
        _common.write(view.dumps({"v": 1, "programs": [as_document(one, default) for one in programs]}) + "\n")
        return 0
    colour = repo is not None and terminal.colour(repo, sys.stdout)
    _common.write(described(programs, width=terminal.width(), colour=colour))
    for one in programs:
        if one.outdated:
            _common.say("warning", f"{one.name} {one.version} is older than {one.minimum}, the oldest known to work")
    if chosen is not None:
        _common.say("hint", f"without --program, {chosen.name} does the work ({chosen.why})")
    return 0


def _test(words: Sequence[str], *, model: str | None, timeout: float, trusted: bool, as_json: bool) -> int:
    from git_parallel.cli import _trust  # noqa: PLC0415 (not needed for the list)
    from git_parallel.render import terminal  # noqa: PLC0415
    from git_parallel.supervisor import trial, view  # noqa: PLC0415

    if words[0] != "test":
        raise UsageError(f"unknown word '{words[0]}'", "try a program with: git parallel agents test PROGRAM")
    if len(words) != 2:
        raise UsageError("test takes one program", "as in: git parallel agents test claude")
    known, repo, commands = _configured()
    if repo is not None and known.project:
        told = "these programs come with the repository's .git-parallel.yaml"
        _trust.ask(repo, commands, told=told, approved=trusted, attended=False)
    tried = trial.run(words[1], known, repo, model=model, timeout=timeout)
    if as_json:
        _common.write(view.dumps(trial.document(tried)) + "\n")
    else:
        colour = repo is not None and terminal.colour(repo, sys.stdout)
        _common.write(trial_table(tried, width=terminal.width(), colour=colour))
    if tried.interrupted is not None:
        return 128 + tried.interrupted
    return 0 if tried.ok else 1


def _configured() -> tuple[Programs, Repository | None, Sequence[str]]:
    """What the person and the project say of programs, and the project's part of it as it has to be approved.

    Outside a repository, it is the person alone.
    """
    from git_parallel.plan import config, programs  # noqa: PLC0415 (not needed for -h)

    try:
        repo = Repository.discover()
    except ParallelError:
        return programs.load({}, None), None, ()
    found = config.load(repo)
    theirs = [line for line in found.repository_commands() if line.startswith("agents: ")]
    return programs.load(found.raw, repo.top), repo, theirs


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
        "configured": program.configured,
        "default": program.name == default,
        "supports": {
            "max_steps": program.steps,
            "budget": program.budget,
            "resume": program.resume,
            "read_only": program.read_only,
        },
        "cost": program.cost,
        "sandbox": program.sandbox or None,
    }


def described(programs: Sequence[Program], *, width: int, colour: bool) -> str:
    """The table for people. Pure."""
    from git_parallel.render import table  # noqa: PLC0415 (not needed for -h)
    from git_parallel.render.table import Column  # noqa: PLC0415

    columns = [
        Column("program", [one.name for one in programs]),
        Column("version", [_version(one) for one in programs], colours=[_colour(one) for one in programs]),
        Column("configured", [_configured_word(one) for one in programs], rank=4),
        Column("minimum", [one.minimum or "-" for one in programs], rank=5),
        Column("steps", [_yes(one.steps) for one in programs], rank=3),
        Column("budget", [_yes(one.budget) for one in programs], rank=3),
        Column("resume", [_yes(one.resume) for one in programs], rank=2),
        Column("read-only", [_yes(one.read_only) for one in programs], rank=2),
        Column("cost", [_cost(one.cost) for one in programs], rank=1),
        Column("about", [one.about for one in programs], rank=4, least=16),
    ]
    return "".join(f"{line}\n" for line in table.lay_out(columns, width=width, colour=colour))


def trial_table(tried: Trial, *, width: int, colour: bool) -> str:
    """What was looked at, a line each, and why it failed. Pure."""
    from git_parallel.render import table, text  # noqa: PLC0415 (not needed for -h)
    from git_parallel.render.table import Column  # noqa: PLC0415

    shown = {True: ("ok", "green"), False: ("failed", "red"), None: ("-", "dim")}
    columns = [
        Column("", [one.what for one in tried.findings]),
        Column("", [shown[one.ok][0] for one in tried.findings], colours=[shown[one.ok][1] for one in tried.findings]),
        Column("", [text.fit(one.detail, 400) for one in tried.findings], least=16),
    ]
    _, *lines = table.lay_out(columns, width=width, colour=colour)
    verdict = f"{tried.program}: {'works' if tried.ok else 'does not work as its preset says'}"
    if not tried.ok and tried.detail:
        lines.append(text.printable(tried.detail))
    return "".join(f"{line}\n" for line in (*lines, "", verdict))


def _version(program: Program) -> str:
    if program.path is None:
        return "not installed"
    return program.version or "installed"


def _configured_word(program: Program) -> str:
    return {True: "yes", False: "no", None: "-"}[program.configured if program.path is not None else None]


def _yes(supported: bool) -> str:
    return "yes" if supported else "-"


def _cost(money: str) -> str:
    return {"reported": "dollars", "tokens": "tokens"}.get(money, "-")


def _colour(program: Program) -> str | None:
    return "dim" if program.path is None else "yellow" if program.outdated else "green"
