"""What a program says of itself, and what its exit says: the shapes every reader answers with.

Nothing here is believed on its own: the supervisor holds a claim against what git shows.
"""

import signal as signals
from collections.abc import Mapping
from typing import Literal

import msgspec

Outcome = Literal["done", "failed", "partial", "unknown", "stop_run"]
Trouble = Literal["rate limited", "retrying"]


class Exit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one exit code of a program means, where it means more than "failed"."""

    outcome: Outcome
    reason: str


class Progress(msgspec.Struct, frozen=True):
    """Where a program is now, as far as its output tells. Unknown is None.

    ``cost`` is in US dollars; ``tokens`` counts under the names ``input``, ``output``, ``cache_read``,
    ``cache_write`` and ``reasoning``; ``action`` is one printable line. ``retries`` counts requests that
    failed and were made again, and ``trouble`` says that one is being made again now; ``denials`` counts
    what the program was not allowed to do. ``waiting`` is what it wants a person to answer, in one line: it
    does nothing until then.
    """

    step: int | None = None
    cost: float | None = None
    action: str | None = None
    tokens: dict[str, int] | None = None
    retries: int = 0
    trouble: Trouble | None = None
    denials: int = 0
    waiting: str | None = None
    session: str | None = None


class Claim(msgspec.Struct, frozen=True):
    """How a program says it ended.

    ``outcome`` is ``done`` only where the exit code agrees; ``unknown`` means that nobody can tell, and
    ``stop_run`` that starting further workers is pointless. ``reason`` is one of ``done``, ``budget``,
    ``max_steps``, ``timeout``, ``rate_limit``, ``api_error`` (these two may pass), ``auth``, ``permission``,
    ``agent_error``, ``signal``, ``no_result``, ``no_exit`` or what the preset's ``exits`` names.
    ``detail`` is one line for a person; ``text`` the program's last words; ``denials`` how often it was not
    allowed to do something. ``edited`` are the files that it changed by its own account, from the top of the
    worktree (relative ones as it wrote them).
    """

    outcome: Outcome
    reason: str
    detail: str | None = None
    steps: int | None = None
    cost: float | None = None
    tokens: dict[str, int] | None = None
    session: str | None = None
    text: str | None = None
    model: str | None = None
    denials: int = 0
    edited: tuple[str, ...] = ()


def claim_of_exit(exit_code: int | None, signal: int | None, exits: Mapping[int, Exit]) -> Claim:
    """Say what an exit means when the program's output says nothing."""
    if signal is not None:
        return Claim("failed", "signal", f"killed by {signal_name(signal)}")
    if exit_code is None:
        return Claim("unknown", "no_exit", "nobody saw how the program ended")
    if exit_code in exits:
        meaning = exits[exit_code]
        return Claim(meaning.outcome, meaning.reason, f"exited with {exit_code}" if exit_code else None)
    if exit_code == 0:
        return Claim("done", "done")
    return Claim("failed", "agent_error", f"exited with {exit_code}")


def signal_name(number: int) -> str:
    """Return ``SIGTERM`` for 15; a number without a name as ``signal 99``."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
