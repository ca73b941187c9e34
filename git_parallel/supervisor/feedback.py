"""What a worker is told when it goes on: the words of a review, the task, and what is there already. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from git_parallel.agents.preset import Preset
from git_parallel.integrate.verdicts import Comment, Verdict, where
from git_parallel.plan.model import Result
from git_parallel.render import text

_ASKED = {
    "changes": "Your work on the task below was reviewed, and changes are asked for.",
    "rejected": "Your work on the task below was reviewed and rejected.",
    "more": "There is more to do about the task below.",
}
_EARLY = "\n\nAn earlier attempt at this ended early ("
_THERE = "Your work so far is on the branch that is checked out: go on from there."


def takes_commands(preset: Preset) -> bool:
    """Whether a task is a command line for a shell, which no review's words may be put into."""
    return preset.channels.get("argv", ())[:1] == ("-c",)


def speaks(verdict: Verdict | None) -> bool:
    """Whether a verdict says what should be different."""
    return (
        verdict is not None and verdict.verdict in ("changes", "rejected") and bool(verdict.message or verdict.comments)
    )


def reason(verdict: Verdict) -> str:
    """Why a worker goes on, for the trace."""
    word = "changes asked for" if verdict.verdict == "changes" else verdict.verdict
    return f"{word} by {verdict.by.split(' <')[0]}"


def asked(task: str, verdict: Verdict | None, quotes: Mapping[Comment, str], extra: str | None, stat: str) -> str:
    """The prompt after a review, or with ``extra`` alone. ``quotes`` has the lines that comments are about."""
    why = _ASKED[verdict.verdict if verdict is not None and speaks(verdict) else "more"]
    words: list[str] = []
    if verdict is not None and speaks(verdict):
        words += [verdict.message.strip()] if verdict.message else []
        words += [_remark(comment, quotes.get(comment)) for comment in verdict.comments]
    words += [extra.strip()] if extra else []
    return _sections(f"{why} {_THERE}", "What to change", "\n\n".join(words), task, stat)


def repeated(task: str, before: Result, stat: str) -> str:
    """The prompt of a task that did not come to its end: as it was, with what is there already, if anything is."""
    task = task.partition(_EARLY)[0]
    if not stat:
        return task
    how = text.ending(before.status, before.reason)
    return f"{task.rstrip()}{_EARLY}{how}). {_THERE}\n\n{_indented(stat)}\n"


def _remark(comment: Comment, quote: str | None) -> str:
    place = where(comment)
    lines = [f"{place}:"] if place else []
    if quote is not None:
        lines.append(f"    > {quote}")
    return "\n".join([*lines, comment.text.strip()])


def _sections(opening: str, title: str, words: str, task: str, stat: str) -> str:
    parts = [opening, f"## {title}", words, "## The task", task.rstrip()]
    if stat:
        parts += ["## What the branch has changed so far", _indented(stat)]
    return "\n\n".join(parts) + "\n"


def _indented(stat: str) -> str:
    return textwrap.indent(stat.rstrip("\n"), "    ")


def numbered(comments: Sequence[Comment]) -> list[tuple[Comment, str, int]]:
    """The comments that are about one line: with its path and number."""
    return [(one, one.path, one.line) for one in comments if one.path is not None and one.line is not None]
