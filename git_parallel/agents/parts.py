"""The parts of a preset that are maps of their own."""

from typing import Literal

import msgspec

Option = Literal["model", "role", "max_steps", "budget", "timeout", "write", "read_only", "session", "resume"]
Channel = Literal["argv", "stdin", "file"]
Tokens = Literal["input", "output", "cache_read", "cache_write", "reasoning"]
Conditions = dict[str, str | int | float | bool | None]


class Version(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to ask the program for its version (arguments after its name) and the oldest that is known to work."""

    probe: tuple[str, ...] = ("--version",)
    minimum: str | None = None


class Interactive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is different about a program that a person is to talk to at a terminal. None: nothing is."""

    command: tuple[str, ...] | None = None
    options: dict[Option, tuple[str, ...] | None] | None = None
    prompt: dict[Channel, tuple[str, ...]] | None = None
    env: dict[str, str | None] | None = None
    output: str | None = None
    stderr: Literal["merge", "separate"] | None = None
    money: Literal["reported", "tokens", "none"] | None = None
    stop: tuple[Literal["INT", "TERM", "HUP", "QUIT"], ...] | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one kind of event means. Of a list of them, every one counts whose ``when`` holds.

    Fields of the event are named by their path, with dots (``message.usage.cost``; ``content.0.text``: the
    first of a list). A condition maps paths to the values that must stand there; an empty one always holds.

    ``when``
        The events that are meant.
    ``session``, ``model``, ``text``, ``steps``, ``cost``, ``tokens``
        Where those stand: the conversation's id, the model's name, what the program says, how many steps it has made,
        US dollars, and counts of tokens. Of totals the last one counts; with ``add`` they are added up.
    ``step``
        Each such event is a step.
    ``tool``, ``arguments``, ``denied``
        A tool is called: where its name and arguments stand; ``denied``: the program may not do that.
    ``asks``
        Where a question stands that a person has to answer.
    ``success``, ``fatal``
        The event is the program's last word, which is overruled only by a later one: with ``success`` all is well
        where that condition holds, and has failed where not; with ``fatal`` it has failed where that holds.
    ``error``, ``status``
        Where the text of an error and its HTTP status stand. Without ``success`` and ``fatal`` it may pass: the
        request is made again.
    """

    when: Conditions = {}
    session: str | None = None
    model: str | None = None
    text: str | None = None
    steps: str | None = None
    cost: str | None = None
    tokens: dict[Tokens, str] = {}
    add: bool = False
    step: bool = False
    tool: str | None = None
    arguments: str | None = None
    denied: bool = False
    asks: str | None = None
    success: Conditions | None = None
    fatal: Conditions | None = None
    error: str | None = None
    status: str | None = None
