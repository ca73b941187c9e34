"""What the documents show is what happens: their commands are run, and their output compared.

UPDATE_DOCS=1 pytest tests/docs writes the real output into README.md where it differs.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click
import console
import pytest

from git_parallel.cli import COMMANDS, git_parallel

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "man").glob("*.1"))


@pytest.fixture
def sandbox(make_repo, tmp_path, monkeypatch) -> Path:
    """A repository to type in, where documents have /home/you/project."""
    repo = make_repo("project")
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    for name, value in {"user.name": "You", "user.email": "you@example.com"}.items():
        repo.git("config", "--global", name, value)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.delenv(name)
    return repo.path


def ran(commands: list[console.Command], sandbox: Path) -> list[console.Ran]:
    """Run commands in the sandbox, and write its paths as documents do."""
    found = console.execute(commands, sandbox, {})
    places = {os.environ["TMPDIR"]: "/tmp", os.environ["HOME"]: console.HOME, str(sandbox.parent): console.HOME}
    shown = []
    for one in found:
        output = one.output
        for place, name in places.items():
            output = output.replace(place, name)
        shown.append(replace(one, output=output))
    return shown


def test_the_readme_shows_what_happens(sandbox):
    text = README.read_text()
    commands = [command for block in console.markdown(text) if block.run for command in block.commands]
    pairs = list(zip(commands, ran(commands, sandbox), strict=True))
    problems = [(pair, found) for pair in pairs if (found := console.problem(*pair)) is not None]
    if os.environ.get("UPDATE_DOCS"):
        README.write_text(console.updated(text, [pair for pair, _ in problems]))
    assert not problems, "\n\n".join(found for _, found in problems)


@pytest.mark.parametrize("page", [page.name for page in PAGES if '.\\" run\n' in page.read_text()])
def test_the_examples_of_a_manual_page_work(sandbox, make_repo, page):
    for number, block in enumerate(console.manual((ROOT / "man" / page).read_text())):
        if block.run:
            repo = make_repo(f"example{number}")
            results = ran(block.commands, repo.path)
            problems = [console.problem(*pair) for pair in zip(block.commands, results, strict=True)]
            assert [found for found in problems if found] == []


def shown_lines() -> list[tuple[str, str]]:
    """Every command line of the documents that calls git parallel, run or not, and where it stands."""
    found = []
    for path in [README, *PAGES]:
        text = path.read_text()
        blocks = console.markdown(text) if path == README else console.manual(text)
        for block in blocks:
            for command in block.commands:
                found += [(f"{path.name}:{command.line}", line) for line in calls(command.text)]
    return found


def calls(text: str) -> list[str]:
    """The calls of git parallel in a shell command, each as a line of quoted words without `git parallel`."""
    lexer = shlex.shlex(text.replace("\\\n", " ").replace("$(", " ; "), posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    lines: list[list[str]] = [[]]
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            lines.append([])
        else:
            lines[-1].append(word)
    return [shlex.join(words[2:]) for words in lines if words[:2] == ["git", "parallel"]]


@pytest.mark.parametrize(("where", "line"), shown_lines())
def test_a_command_line_that_is_shown_is_valid(where, line):
    words = shlex.split(line)
    if words and words[0] in ("-h", "--help", "--version"):
        return
    name, rest = (words[0], words[1:]) if words and words[0] in COMMANDS else ("run", words)
    group = click.Context(git_parallel, info_name="git parallel")
    command = git_parallel.get_command(group, name)
    assert command is not None
    command.make_context(name, rest, parent=group)
