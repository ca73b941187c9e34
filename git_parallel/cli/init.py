"""``git parallel init``: show the notes of runs in ``git log``, or tell agents of this program."""

from __future__ import annotations

from fnmatch import fnmatchcase

import click

from git_parallel.cli import _common
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.layout import NOTES

KEY = "notes.displayRef"


@click.command()
@click.option(
    "--agent-docs", is_flag=True, help="Tell coding agents how to start runs: a skill, and a block in AGENTS.md."
)
@click.option("--undo", is_flag=True, help="Take back what init has set or written, and nothing else.")
def command(agent_docs: bool, undo: bool) -> int:
    """Make 'git log' show what 'git parallel' notes on workers' commits and merges, in this repository.

    Adds refs/notes/architect to notes.displayRef in the repository's own configuration; other values
    stay. Nothing else needs it: git log --notes=architect shows the notes without.

    With --agent-docs, that is left alone, and .claude/skills/git-parallel/SKILL.md and a marked block in
    AGENTS.md are written, for you to commit.
    """
    repo = Repository.discover()
    if agent_docs:
        _write_agent_docs(repo, undo)
    elif undo:
        _undo(repo)
    else:
        _do(repo)
    return 0


def _do(repo: Repository) -> None:
    set_already = next((value for value in _values(repo) if fnmatchcase(NOTES, value)), None)
    if set_already is not None:
        _common.write(f"git log shows the notes already ({KEY} = {set_already})\n")
        return
    repo.common.run("config", "--local", "--add", KEY, NOTES)
    _common.write(f"set {KEY} = {NOTES} in this repository: git log now shows the notes\n")
    _common.say("hint", "to take it back: git parallel init --undo")


def _undo(repo: Repository) -> None:
    removed = NOTES in _values(repo, "--local")
    if removed:
        repo.common.run("config", "--local", "--fixed-value", "--unset-all", KEY, NOTES)
        _common.write(f"removed {KEY} = {NOTES} from this repository\n")
    left = next((value for value in _values(repo) if fnmatchcase(NOTES, value)), None)
    if left is not None:
        _common.say("note", f"git log still shows the notes: {KEY} = {left} is set elsewhere")
    elif not removed:
        _common.write("nothing to take back\n")


def _write_agent_docs(repo: Repository, undo: bool) -> None:
    from git_parallel.agents import docs  # noqa: PLC0415 (only when asked for)

    if repo.top is None:
        raise UsageError("there is no worktree here to write into", "call it from a checkout of this repository")
    for path, done in docs.remove(repo.top) if undo else docs.write(repo.top):
        _common.write(f"{done} {path}\n")
    if not undo:
        _common.say("hint", "look at them and commit them; to take them back: git parallel init --agent-docs --undo")


def _values(repo: Repository, *scope: str) -> list[str]:
    done = repo.common.run("config", *scope, "-z", "--get-all", KEY, ok=(0, 1))
    return done.fields
