"""``git parallel demo``: a two-minute tour in a small real repository, with no model, account or network."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile

import click

from git_parallel import system
from git_parallel.errors import UsageError
from git_parallel.git import Git, Repository

# A tiny shell project: something to translate, to test and to document.
_FILES = {
    "README.md": "# greet\n\nSays hello.\n",
    "greet.sh": '#!/bin/sh\n# Greets whoever is named on the command line.\necho "Hello, ${1:-world}!"\n',
    "lang/en.txt": "Hello\nGoodbye\n",
    "lang/es.txt": "Hola\n",
    "check.sh": (
        '#!/bin/sh\n# Every script must be valid shell.\nfor script in *.sh; do sh -n "$script" || exit 1; done\n'
    ),
}

# Real edits by real commands. Each sleeps a little, so that there is something to watch.
_TASKS = (
    "for word in Adiós Gracias Salud; do echo adding $word; sleep 1; echo $word >> lang/es.txt; done",
    "echo writing; sleep 2; printf '\\n## Usage\\n\\n    sh greet.sh NAME\\n' >> README.md; echo documented",
    "sleep 1; sed -i.bak 's/Hello/Good morning/' greet.sh && rm greet.sh.bak && git commit -qam 'greet: be polite'",
    "echo looking; sleep 1; echo 'I have fixed everything.'",
)


@click.command()
@click.argument("directory", required=False, metavar="[DIRECTORY]")
def command(directory: str | None) -> int:
    """Make a small repository in DIRECTORY (default: a new temporary one) and run four workers in it.

    The workers are plain command lines (--program shell). One of them claims success and changes nothing.
    """
    from git_parallel.cli import _supervise  # noqa: PLC0415 (imports the loop)
    from git_parallel.plan.config import load  # noqa: PLC0415
    from git_parallel.supervisor import start  # noqa: PLC0415

    path = _make(directory)
    click.echo(f"a small repository for the tour: {path}", err=True)
    os.chdir(path)
    repo = Repository.discover()
    flags = {"program": "shell", "workers": "3", "check": ["sh check.sh"]}
    request = start.Request(
        tasks=_TASKS, config=load(repo, flags), argv=["git", "parallel", *sys.argv[1:]], workers=None
    )
    click.echo("four tasks, three at once, each in its own worktree and branch:\n", err=True)
    code = _supervise.run(start.plan_run(repo, request), detach=False, as_json=False, quiet=False)
    if code not in (0, 1):
        return code
    beside = os.path.dirname(sys.executable)
    unknown = system.which("git-parallel") is None and system.which("git-parallel", beside) is not None
    found = f'    export PATH={shlex.quote(beside)}:"$PATH"  # where git finds git-parallel\n' if unknown else ""
    click.echo(_NEXT.format(found=found, quoted=shlex.quote(path)), nl=False)
    return 0


def _make(directory: str | None) -> str:
    """Create the repository and return its absolute path."""
    if directory is None:
        path = tempfile.mkdtemp(prefix="git-parallel-demo-")
    else:
        path = os.path.abspath(directory)
        if os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path)):
            raise UsageError(f"'{directory}' exists and is not empty", "name a new directory for the demo")
        os.makedirs(path, exist_ok=True)
    git = Git(("-C", path))
    git.run("init", "-q", "-b", "main")
    git.run("config", "user.name", "Demo")
    git.run("config", "user.email", "demo@example.com")
    for name, content in _FILES.items():
        target = os.path.join(path, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(content)
    git.run("add", "-A")
    git.run("commit", "-q", "-m", "first version")
    return path


_NEXT = """
Worker 4 said that it had fixed everything; git shows no change, so it failed. What to try next:

{found}    cd {quoted}
    git parallel status
    git parallel diff 1
    git parallel review
    git parallel merge
    git log --graph --notes=architect
    git parallel cleanup

When you have seen enough, the directory is all there is to remove:

    rm -rf {quoted}
"""
