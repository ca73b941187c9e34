"""What a reviewer looks at: diffs through git and the person's pager, the agent's output, the siblings."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress

from git_parallel.cli import _common, _keys
from git_parallel.git import Git, Repository
from git_parallel.integrate.review.facts import Facts, fork_of
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import State, logs_ref
from git_parallel.render import terminal

_STAT_LINES = 50
_CHUNK = 1 << 16


def _here(repo: Repository) -> Git:
    """Git where the person stands, so that its settings and attributes are those they know."""
    return repo.git


def stat(repo: Repository, facts: Facts) -> None:
    """git's own diffstat, in the person's colours."""
    sys.stdout.flush()
    _here(repo).show("--no-pager", "diff", "--stat", f"--stat-count={_STAT_LINES}", facts.fork, facts.tip, "--")


def diff(repo: Repository, facts: Facts) -> None:
    """The change, through the person's pager."""
    with _keys.given_away():
        _here(repo).show("diff", facts.fork, facts.tip, "--")


def difftool(repo: Repository, facts: Facts) -> None:
    """The change in the person's difftool."""
    with _keys.given_away():
        code = _here(repo).show("difftool", "--dir-diff", facts.fork, facts.tip, "--")
    if code:
        _common.say("hint", "name a tool with: git config diff.tool NAME (git difftool --tool-help lists them)")


def interdiff(repo: Repository, facts: Facts, old: str) -> None:
    """How the branch came from ``old`` to its tip: commit by commit, then what that made of the files."""
    fork = fork_of(repo, facts.candidate.base, old, facts.candidate.spec.target)
    with _keys.given_away(), suppress(BrokenPipeError), terminal.paged(repo.git):
        _say(f"# from {old[:12]} to {facts.tip[:12]}, commit by commit (git range-diff)\n")
        _here(repo).show("range-diff", "--no-notes", f"{fork}..{old}", f"{facts.fork}..{facts.tip}", "--")
        _say("\n# and in the files (git diff)\n")
        _here(repo).show("diff", old, facts.tip, "--")


def known(repo: Repository, commit: str) -> bool:
    """Whether a commit is still in this repository."""
    return repo.common.run("cat-file", "-e", f"{commit}^{{commit}}", ok=(0, 1, 128)).returncode == 0


def log(repo: Repository, candidate: Candidate) -> None:
    """The agent's output: the live file, or what was kept of it in git."""
    path = State(repo.common_dir).run(candidate.run).worker(candidate.worker).log
    if os.path.exists(path):
        if os.path.getsize(path):
            _page(repo, _file(path))
        else:
            _common.say("note", f"worker {candidate.worker} has written nothing")
        return
    name = f"{logs_ref(candidate.run)}:{candidate.worker}/output.log"
    kept = repo.common.run("cat-file", "blob", name, ok=(0, 128))
    if kept.returncode:
        _common.say("note", f"there is no output of worker {candidate.worker}")
        return
    _common.say("note", "the whole output is gone; these are the parts that were kept in git")
    _page(repo, [kept.stdout])


def compare(repo: Repository, siblings: Iterable[Candidate], *, coloured: bool) -> None:
    """The workers of one task side by side, as ``git parallel compare`` shows them."""
    from git_parallel.integrate import compare as comparing  # noqa: PLC0415 (few reviews compare)
    from git_parallel.render import comparison  # noqa: PLC0415

    handles = [one.handle for one in siblings]
    if len(handles) < 2:
        _common.say("note", "no other worker has this task")
        return
    width = terminal.width()
    pages = [
        comparison.described(comparing.compare(repo, group), ranked=False, width=width, colour=coloured)
        for group in comparing.groups(repo, handles)
    ]
    _page(repo, ["\n".join(pages).encode("utf-8", "surrogateescape")])


def _page(repo: Repository, chunks: Iterable[bytes]) -> None:
    with _keys.given_away(), suppress(BrokenPipeError), terminal.paged(repo.git):
        for chunk in chunks:
            _put(chunk)


def _file(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            yield data


def _say(line: str) -> None:
    _put(line.encode())


def _put(data: bytes) -> None:
    """Write past Python's buffer: what a pager left unread must not come out afterwards."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
