"""Who is asked and told while a landing goes on: a person at the terminal, or nobody (``--yes``)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from git_parallel.git import Repository
from git_parallel.integrate.person import Answer, Link
from git_parallel.integrate.plan import Branch, Merge
from git_parallel.layout import State
from git_parallel.render import landing as words
from git_parallel.render import terminal, text

_HELP = """\
y - land it on the target
n - do not land it
e - edit the message of its commit first
d - show the whole change
s - leave it for later
q - quit; what has landed stays
? - print this help
"""


class Unattended:
    """Says yes, and tells what happens on standard error."""

    def __init__(self, repo: Repository, *, quiet: bool = False) -> None:
        self.repo = repo
        self.quiet = quiet
        self.colour = not quiet and terminal.is_terminal(sys.stderr) and terminal.colour(repo, sys.stderr)

    def asked(self, merge: Merge, link: Link) -> Answer:
        return Answer("yes")

    def asked_together(self, merge: Merge, links: Sequence[Link]) -> Answer:
        return Answer("yes")

    def told(self, merge: Merge, branch: Branch) -> None:
        self._say(words.settled(merge, branch, colour=self.colour))

    def checking(self, branch: Branch, command: str) -> None:
        self._say(f"checking worker {branch.worker}: {text.fit(command, 80)}")

    def noted(self, line: str) -> None:
        self._say(f"note: {text.printable(line)}")

    def _say(self, said: str) -> None:
        if not self.quiet:
            click.echo(said, err=True)


class AtTerminal(Unattended):
    """Shows what will land and asks, branch by branch."""

    def __init__(self, repo: Repository) -> None:
        from git_parallel.cli import _keys  # noqa: PLC0415 (only for a person)

        super().__init__(repo)
        self._edit_files = _keys.edit
        self.keys = _keys.Keys.of(repo.git)

    def asked(self, merge: Merge, link: Link) -> Answer:
        self._show(merge, link)
        fixed = merge.strategy in ("ff", "rebase")  # the commits have their messages
        offered = ("y", "n", "d", "s", "q", "?") if fixed else ("y", "n", "e", "d", "s", "q", "?")
        while True:
            key = self._ask(f"land it on {words.short(merge.target)}", offered)
            if key == "y":
                return Answer("yes")
            if key in ("n", "s"):
                return Answer("no" if key == "n" else "skip")
            if key in ("q", ""):
                return Answer("quit")
            if key == "e":
                edited = self._edit(merge, link)
                if edited is not None:
                    return Answer("edit", edited)
            elif key == "d":
                self.repo.git.show("diff", link.step.onto, link.step.commit)
            else:
                click.echo(_HELP, nl=False)

    def asked_together(self, merge: Merge, links: Sequence[Link]) -> Answer:
        for link in links:
            self._show(merge, link)
        number = text.count(len(links), "branch").replace("branchs", "branches")
        key = self._ask(f"land these {number} on {words.short(merge.target)}", ("y", "q"))
        return Answer("yes" if key == "y" else "quit")

    def _ask(self, question: str, offered: Sequence[str]) -> str:
        """Ask; what is told after Ctrl-C or Ctrl-D begins on a line of its own."""
        answer = ""
        try:
            answer = self.keys.ask(question, offered)
        finally:
            if not answer:
                click.echo()
                sys.stdout.flush()
        return answer

    def _show(self, merge: Merge, link: Link) -> None:
        lines = ["", *words.header(merge, link.branch, colour=self.colour)]
        subject = link.step.message.partition("\n")[0]
        lines.append(f"  {merge.strategy}: {text.fit(subject, 90)}")
        click.echo("\n".join(lines))
        sys.stdout.flush()
        self.repo.git.show("--no-pager", "diff", "--stat=80", link.step.onto, link.step.commit)
        for line in words.checks(link.checks, colour=self.colour):
            click.echo(line)

    def _edit(self, merge: Merge, link: Link) -> str | None:
        """Let the person edit the message; None when they leave it empty or their editor fails."""
        path = os.path.join(State(self.repo.common_dir).merge(merge.merge).top, "COMMIT_EDITMSG")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(link.step.message)
        code = self._edit_files(self.repo.git, [path], cwd=self.repo.top)
        with open(path, "rb") as file:
            data = file.read()
        os.unlink(path)
        cleaned = self.repo.common.run("stripspace", stdin=data).stdout
        if code or not cleaned.strip():
            self.noted("the message is as it was")
            return None
        return os.fsdecode(cleaned)
