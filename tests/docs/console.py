r"""Runs the console blocks of a document and holds their output to what is printed there.

In Markdown a block is fenced with ```console. A line that begins with "$ " is a command (it goes on in
lines that begin with "> ", or after a backslash), and the lines below it are what it prints, standard
error too. All blocks of a document run one after the other in one shell, so that `cd` and variables last.

    <!-- not run: why -->     on the line above the fence: the block is only held to be a valid command line
    <!-- any order -->        there: lines may come in another order, as those of workers that run at once
    ...                       alone on a line: any lines; within a line: anything
    $ command   # exits 1     the exit code, when it is not 0

In a manual page a block is a literal display (.Bd -literal). It runs when the line above it is the
comment  .\" run , each in a repository of its own.

What changes from run to run (ids of runs and commits, times, the sandbox's path) may differ: see `plain`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOME = "/home/you"
"""How documents write the directory that the sandbox's repository lies in."""

END = "\x1e"
_EXITS = re.compile(r"#\s*exits (\d+)\s*$")
_FENCE = re.compile(r"^```(\w*)\s*$")
_NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
_ANY_ORDER = "<!-- any order -->"

_VOLATILE = [
    (re.compile(r"\b\d{8}T\d{6}Z-[0-9a-f]{4}\b"), "RUN"),
    (re.compile(r"\bgit-parallel-demo-\w+"), "git-parallel-demo-XXXX"),
    (re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} +\d+ [\d:]{8} \d{4} [+-]\d{4}"), "DATE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:]{5,8}(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"), "DATE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b(?:a|an|\d+) (?:second|minute|hour)s? ago\b|\bjust now\b"), "AGO"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "OID"),
    (re.compile(r"<?\b\d+(?:\.\d+)?(?:s|ms)\b|\b\d+m\d\ds\b"), "TIME"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:[KMG]i?B|bytes)\b"), "SIZE"),
    (re.compile(r"[─━═-]{4,}"), "----"),
    (re.compile(r" {2,}"), "  "),
]


@dataclass
class Command:
    """One command of a block: where it stands, what is typed, and the lines it prints."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)
    last: int = 0
    """The number of the last line that belongs to it."""
    any_order: bool = False

    @property
    def exit_code(self) -> int:
        found = _EXITS.search(self.text)
        return int(found[1]) if found else 0


@dataclass
class Block:
    """A console block: the number of its first line, whether it is run, and whether the order of lines counts."""

    line: int
    run: bool
    any_order: bool = False
    commands: list[Command] = field(default_factory=list)


@dataclass(frozen=True)
class Ran:
    """What a command did: standard output and error together, and its exit code (None: it was not reached)."""

    output: str
    exit_code: int | None


def markdown(text: str) -> list[Block]:
    """Return the ``console`` blocks of a Markdown document."""
    blocks, lines = [], text.splitlines()
    kind: str | None = None
    above = ""
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence and kind is None:
            kind = fence[1]
            if kind == "console":
                blocks.append(Block(number, not _NOT_RUN.fullmatch(above.strip()), above.strip() == _ANY_ORDER))
        elif fence:
            kind = None
        elif kind == "console":
            _add(blocks[-1], number, line)
        above = line
    return blocks


def manual(text: str) -> list[Block]:
    """Return the literal displays of a manual page that hold commands."""
    blocks: list[Block] = []
    inside, above = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(".Bd -literal"):
            blocks.append(Block(number, above == '.\\" run'))
            inside = True
        elif line == ".Ed":
            inside = False
        elif inside:
            _add(blocks[-1], number, line.replace("\\&", "").replace("\\e", "\\").replace("\\(dq", '"'))
        above = line
    return [block for block in blocks if block.commands]


def _add(block: Block, number: int, line: str) -> None:
    commands = block.commands
    if line.startswith("$ "):
        commands.append(Command(number, line[2:], last=number, any_order=block.any_order))
        return
    if not commands:
        return
    command = commands[-1]
    command.last = number
    if not command.output and (line.startswith("> ") or command.text.endswith("\\")):
        command.text += "\n" + line.removeprefix("> ")
    else:
        command.output.append(line)


def execute(commands: Sequence[Command], cwd: Path, environment: Mapping[str, str]) -> list[Ran]:
    """Run commands one after the other in one shell."""
    script = "".join(f"{{ {command.text}\n}} </dev/null; printf '{END}%d{END}' $?\n" for command in commands)
    done = subprocess.run(
        ["bash", "--norc", "-c", f"exec 2>&1\n{script}"],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    parts = done.stdout.split(END)
    ran = [Ran(output, int(code)) for output, code in zip(parts[:-1:2], parts[1::2], strict=True)]
    return ran + [Ran(parts[-1], None)] * (len(commands) - len(ran))


def plain(text: str) -> str:
    """Take out what differs from run to run, and how wide a column is because of it."""
    lines = [line.rstrip() for line in text.splitlines()]
    text = "\n".join(lines).strip("\n")
    for pattern, word in _VOLATILE:
        text = pattern.sub(word, text)
    return text


def matches(expected: Sequence[str], output: str, *, any_order: bool = False) -> bool:
    """Say whether an output is what the document prints, with its elisions."""
    wanted, printed = plain("\n".join(expected)).splitlines(), plain(output).splitlines()
    if any_order:
        # An elision of lines stands for those that are left over, wherever they are.
        elided = "..." in [line.strip() for line in wanted]
        wanted = sorted(line for line in wanted if line.strip() != "...")
        printed = sorted(line for line in printed if not elided or line in wanted)
    return re.fullmatch("".join(_patterns(wanted)), "".join(f"{line}\n" for line in printed)) is not None


def _patterns(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if line.strip() == "...":
            yield r"(?:.*\n)*?"
        else:
            yield ".*".join(map(re.escape, line.split("..."))) + r"\n"


def problem(command: Command, ran: Ran) -> str | None:
    """Say what differs from the document; None when nothing does."""
    if ran.exit_code != command.exit_code:
        return (
            f"line {command.line}: $ {command.text}\nexited with {ran.exit_code}, not {command.exit_code}\n{ran.output}"
        )
    if not matches(command.output, ran.output, any_order=command.any_order):
        expected = "\n".join(command.output)
        return f"line {command.line}: $ {command.text}\nprints:\n{ran.output}\nbut the document says:\n{expected}"
    return None


def updated(text: str, pairs: Sequence[tuple[Command, Ran]]) -> str:
    """Return a Markdown document with the outputs of these commands put in."""
    lines = text.splitlines()
    for command, ran in reversed(pairs):
        first = command.last - len(command.output)
        lines[first : command.last] = ran.output.rstrip("\n").splitlines()
    return "\n".join(lines) + "\n"
