"""What a program is doing, in a few words: ``editing src/a.py``, ``running make test``."""

from __future__ import annotations

import os
import re
from typing import Any

from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, items, word

# Names of tools without their case, hyphens and underscores.
_TOOLS = {
    "editing": (
        "write edit multiedit notebookedit writefile replace patch applypatch editfile createfile create "
        "strreplace strreplaceeditor editor writetofile replaceinfile insert filechange"
    ),
    "reading": "read readfile readmanyfiles view notebookread",
    "running": "bash shell execute runshellcommand commandexecution runcommand executecommand powershell exec",
    "searching": "grep glob search searchfilecontent grepsearch find list ls listdirectory listfiles searchfiles",
    "looking up": "webfetch websearch googlewebsearch fetch",
    "asking": "askuserquestion askuser askfollowupquestion question userinput requestuserinput",
}
_VERBS = {tool: verb for verb, tools in _TOOLS.items() for tool in tools.split()}
_PATHS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "filename")
_OBJECTS = {
    "editing": _PATHS,
    "reading": _PATHS,
    "running": ("command", "cmd", "script"),
    "searching": ("pattern", "query", "regex", *_PATHS),
    "looking up": ("url", "query", "prompt"),
    "asking": ("question", "prompt", "header"),
}
_SHELL = re.compile(r"(?:\S*/)?(?:ba|z|da)?sh -l?c (.*)\Z", re.DOTALL)


def edits(tool: str) -> bool:
    """Say whether a tool of this name changes files."""
    return _VERBS.get(_plain(tool)) == "editing"


def asks(tool: str) -> bool:
    """Say whether a tool of this name waits for a person's answer."""
    return _VERBS.get(_plain(tool)) == "asking"


def path_of(arguments: Any) -> str | None:
    """Return the file that a call's arguments name."""
    return next((found for name in _PATHS if (found := word(at(arguments, name)))), None)


def describe(tool: str, arguments: Any, top: str | None = None) -> str:
    """Return one printable line about the call of a tool; paths below ``top`` are shown from there."""
    verb = _VERBS.get(_plain(tool))
    if verb is None:
        return f"using {one_line(tool, 60) or 'a tool'}"
    names = _OBJECTS[verb]
    if verb == "asking":  # several questions at once: the first one
        arguments = next(iter(items(at(arguments, "questions"))), arguments)
    what = next((found for name in names if (found := word(at(arguments, name)))), None)
    if what is None:
        return {"editing": "editing files", "reading": "reading files", "asking": "asking a question"}.get(verb, verb)
    if verb == "running":
        what = unwrapped(what)
    elif top is not None:
        what = shown_path(what, top)
    return f"{verb} {one_line(what, 160) or '?'}"


def shown_path(path: str, top: str | None) -> str:
    """Return a path from the top of the worktree where it lies below it."""
    inside = top is not None and path.startswith(top.rstrip(os.sep) + os.sep)
    return path[len(top.rstrip(os.sep)) + 1 :] if inside and top is not None else path


def unwrapped(command: str) -> str:
    """Return the command line that ``bash -lc '…'`` runs."""
    found = _SHELL.match(command)
    if found is None:
        return command
    import shlex  # noqa: PLC0415 (only for programs that call a shell)

    try:
        words = shlex.split(found[1])
    except ValueError:
        return command
    return words[0] if len(words) == 1 else command


def _plain(tool: str) -> str:
    return tool.lower().replace("_", "").replace("-", "")
