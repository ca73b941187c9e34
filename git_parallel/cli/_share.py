"""What ``push`` and ``fetch`` share: the remote, and a line for each thing that moved."""

from __future__ import annotations

import sys
from typing import Any

import click

from git_parallel.cli import _common
from git_parallel.git import Repository
from git_parallel.store import reading, sharing
from git_parallel.store.sharing import Change, Shared
from git_parallel.supervisor import view

_WORDS = {"new": "new", "updated": "updated", "joined": "joined with ours", "ours": "left as it is"}


def move(remote: str | None, *, push: bool, logs: bool, as_json: bool, quiet: bool) -> int:
    """Push or fetch, and say what happened."""
    repo = Repository.discover()
    name = remote or sharing.default_remote(repo, push=push)
    act = sharing.push if push else sharing.fetch
    done = act(repo, name, logs=logs, prompt=sys.stdin.isatty() and sys.stderr.isatty())
    for change in done.changes:
        if change.how == "ours":
            _common.say("warning", f"{_name(change)} is left as it is: {change.note}")
    if as_json:
        _common.write(view.dumps(document(done)) + "\n")
    elif not quiet:
        _tell(repo, done, push)
    return 0


def document(done: Shared) -> dict[str, Any]:
    """The JSON that both print."""
    fetched = [{"kind": one.kind, "name": one.name, "how": one.how, "note": one.note} for one in done.changes]
    return {"v": 1, "remote": done.remote, "fetched": fetched, "pushed": done.pushed}


def _tell(repo: Repository, done: Shared, push: bool) -> None:
    titles = {one.run: one.title for one in reading.list_runs(repo)} if done.changes else {}
    lines = []
    for change in done.changes:
        if change.how != "ours":
            title = titles.get(change.name, "")
            lines.append(f"{_name(change)}: {_WORDS[change.how]}" + (f" ({title})" if title else ""))
    lines += [f"pushed {ref}" for ref in done.pushed]
    _common.write("".join(f"{line}\n" for line in lines))
    if not lines:
        click.echo("everything is there already" if push else "nothing new", err=True)
    elif new := [change.name for change in done.changes if change.kind == "run" and change.how == "new"]:
        _common.say("hint", f"review them with: git parallel review {new[-1]}")


def _name(change: Change) -> str:
    return "the notes" if change.kind == "notes" else f"{change.kind} {change.name}"
