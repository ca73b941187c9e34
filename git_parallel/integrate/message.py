"""The message of what lands: a template's text and the trailers that say where it came from. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from git_parallel.integrate.plan import Branch, Strategy
from git_parallel.layout import branch_name
from git_parallel.render import text

_DEFAULT = {
    "merge": "Merge worker {n}: {title}\n\n{body}",
    "squash": "{title}\n\n{body}",
}
_TRAILER = re.compile(r"(?P<key>[A-Za-z0-9][A-Za-z0-9-]*): \S.*")
_MOST_BODY = 4000  # characters of a task's text: a prompt may be a book


def compose(branch: Branch, strategy: Strategy, template: str | None = None) -> str:
    """Return the message of the commit that lands a branch, with its trailers.

    A message that the person edited is kept, and gets the trailers that it lacks.
    """
    if branch.message is not None:
        return with_trailers(branch.message, trailers(branch))
    chosen = template or _DEFAULT.get(strategy, _DEFAULT["squash"])
    values = {
        "n": str(branch.worker),
        "run": branch.run,
        "title": text.one_line(branch.title),
        "body": _body(branch.body),
        "agent": branch.agent,
        "model": branch.model or "",
        "branch": branch_name(branch.branch),
    }
    subject, _, rest = chosen.format(**values).strip().partition("\n")
    return with_trailers(f"{text.subject(subject)}\n\n{rest.strip()}", trailers(branch))


def trailers(branch: Branch) -> list[tuple[str, str]]:
    """Return the trailers of what lands; what is not known is left out."""
    found = [("Parallel-Run", branch.run), ("Parallel-Worker", str(branch.worker)), ("Agent", branch.agent)]
    if branch.model:
        found.append(("Model", text.one_line(branch.model)))
    if branch.cost is not None:
        found.append(("Cost", text.money(branch.cost)))
    if branch.by:
        found.append(("Reviewed-by", branch.by))
    return [(key, value) for key, value in found if value]


def with_trailers(message: str, added: Sequence[tuple[str, str]]) -> str:
    """Return a message with these trailers at its end; a key that it has with the same value is not repeated.

    ``Parallel-Worker`` and its kin may stand in the message of an agent's own commit: they are kept.
    """
    body = message.rstrip()
    last = body.rpartition("\n\n")[2].split("\n")
    has_block = "\n\n" in body and all(_TRAILER.fullmatch(line) for line in last)
    present = set(last) if has_block else set()
    keys = {match["key"] for line in present if (match := _TRAILER.fullmatch(line))}
    lines = [
        f"{key}: {value}"
        for key, value in added
        if f"{key}: {value}" not in present and (key == "Reviewed-by" or key not in keys)
    ]
    if not lines:
        return body + "\n"
    return body + ("\n" if has_block else "\n\n") + "\n".join(lines) + "\n"


def _body(body: str) -> str:
    """A task's text as the body of a message: safe lines, none of which git would take for a trailer's block."""
    lines = [text.printable(line.rstrip()) for line in body[:_MOST_BODY].splitlines()]
    if len(body) > _MOST_BODY:
        lines.append(text.ELLIPSIS)
    return "\n".join(lines)
