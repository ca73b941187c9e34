"""``git parallel review``: walk the branches for a person's verdicts, or give verdicts by flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

import click
from msgspec import Struct, field

from git_parallel import errors
from git_parallel.cli import _common, _keys
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts, workers
from git_parallel.integrate.verdicts import Verdict, Word
from git_parallel.integrate.workers import Candidate
from git_parallel.render import terminal
from git_parallel.supervisor import view

_ORDERS: dict[str, Word] = {"--approve": "approved", "--reject": "rejected", "--changes": "changes"}
_MESSAGE = ("-m", "--message")
_FILE = ("-F", "--file")


class Order(Struct):
    """A verdict asked for on the command line: what follows its option, up to the next one."""

    option: str
    words: list[str] = field(default_factory=list)
    message: str | None = None
    file: str | None = None

    @property
    def word(self) -> Word:
        return _ORDERS[self.option]


class _WithOrders(click.Command):
    """Takes the words behind ``--approve`` and its kin as that option's, however many there are."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest, orders = split(args)
        left = super().parse_args(ctx, rest)
        ctx.params["orders"] = orders
        return left


@click.command(cls=_WithOrders)
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--follow", is_flag=True, help="Wait for workers that have not ended, and go on with each.")
@click.option("--approve", metavar="WORKER", expose_value=False, help="Approve these workers' heads; ask nothing.")
@click.option("--reject", metavar="WORKER", expose_value=False, help="Reject these; -m says why.")
@click.option("--changes", metavar="WORKER", expose_value=False, help="Ask these for changes: those in -m or -F.")
@click.option("-m", "--message", metavar="TEXT", help="What the verdict before it says.")
@click.option("-F", "--file", metavar="FILE", help="The same from a file; '-' is standard input.")
@click.option("--list", "listed", is_flag=True, help="List the workers and their verdicts; ask nothing.")
@_common.json_option
@_common.porcelain_options
def command(
    *,
    words: Sequence[str],
    follow: bool,
    message: str | None,
    file: str | None,
    listed: bool,
    as_json: bool,
    porcelain: bool,
    nul: bool,
    orders: Sequence[Order],
) -> int:
    """Walk the workers that have ended, one after another, and decide: approve, reject, ask for changes.

    Each verdict is recorded at once and counts for the head that was shown: a later commit voids it.
    --approve, --reject, --changes, --list and --json ask nothing. Exit code 1: a worker was rejected in the walk.

    --porcelain prints a line a worker, fields parted by TAB: run, worker, state, status, reason, verdict
    (or void), head, verdict's head, time, behind, files, branch, by.
    """
    _common.one_format(as_json, porcelain, nul)
    if message is not None or file is not None:
        raise UsageError("-m and -F go behind the verdict they are about", 'as in: --reject 2 -m "why"')
    if orders and (words or listed or follow):
        raise UsageError(
            f"workers, --list and --follow do not go with {orders[0].option}", f"try: {orders[0].option} WORKER..."
        )
    silent = listed or as_json or porcelain or nul
    if follow and silent:
        raise UsageError("--follow is for the walk; --list, --json and --porcelain do not wait")
    repo = Repository.discover()
    if orders or not silent:
        _common.refuse_in_worker(repo, "a verdict")
    if orders:
        given = _give(repo, orders)
        if as_json or porcelain or nul:
            _print(repo, [f"{run}/{worker}" for run, worker in given], as_json, nul, porcelain)
        return errors.OK
    if silent:
        _print(repo, words, as_json, nul, porcelain)
        return errors.OK
    if not _keys.at_terminal():
        raise _no_terminal()
    from git_parallel.cli import _walk  # noqa: PLC0415 (only for a person)

    return _walk.walk(repo, words, follow=follow)


def split(args: Sequence[str]) -> tuple[list[str], list[Order]]:
    """Part the verdicts, with their workers and messages, from the other arguments. Pure; raises UsageError."""
    rest: list[str] = []
    orders: list[Order] = []
    left = iter(args)
    for argument in left:
        name, equals, value = argument.partition("=")
        if name in _ORDERS:
            orders.append(Order(name, [value] if equals else []))
        elif argument == "--":
            (orders[-1].words.extend if orders else rest.extend)([*([] if orders else ["--"]), *left])
        elif orders and (given := _value(argument, left)) is not None:
            option, text = given
            order = orders[-1]
            if order.message is not None or order.file is not None:
                raise UsageError(f"{order.option} takes one -m or one -F")
            order.message, order.file = (text, None) if option in _MESSAGE else (None, text)
        elif orders and not argument.startswith("-"):
            orders[-1].words.append(argument)
        else:
            rest.append(argument)
    return rest, orders


def _value(argument: str, left: Iterator[str]) -> tuple[str, str] | None:
    """Read -m or -F in any of its forms, with its value; None when the argument is something else."""
    name, equals, value = argument.partition("=")
    if argument in (*_MESSAGE, *_FILE):
        found = next(left, None)
        if found is None:
            raise UsageError(f"{argument} needs a value")
        return argument, found
    if equals and name.startswith("--") and name in (*_MESSAGE, *_FILE):
        return name, value
    return (argument[:2], argument[2:]) if argument[:2] in (_MESSAGE[0], _FILE[0]) else None


# --- by flags --------------------------------------------------------------------------------------


def _give(repo: Repository, orders: Sequence[Order]) -> dict[tuple[str, int], Verdict]:
    """Record the verdicts that were asked for: all of them can be given, or none is."""
    from git_parallel.integrate.review import decide  # noqa: PLC0415 (writes, and so loads more than a list needs)

    _notice(repo)
    meant: dict[tuple[str, int], tuple[Candidate, Order, str | None]] = {}
    for order in orders:
        message = _message(order)
        for candidate in _meant(repo, order):
            address = (candidate.run, candidate.worker)
            if address in meant:
                raise UsageError(f"worker {candidate.worker} is named twice", "nothing was recorded")
            if (refused := decide.refusal(candidate)) is not None:
                raise UsageError(refused.message, *refused.hints, "nothing was recorded")
            meant[address] = candidate, order, message
    given = {}
    attended = terminal.is_terminal(sys.stdin)
    for address, (candidate, order, message) in meant.items():
        verdict = decide.give(repo, candidate, order.word, message=message, explicit=True, terminal=attended)
        given[address] = verdict
        click.echo(f"worker {candidate.worker}: {verdict.verdict} at {verdict.head[:12]}", err=True)
        if order.word == "approved":
            for doubt in decide.doubts(repo, candidate):
                _common.say("warning", doubt)
    return given


def _meant(repo: Repository, order: Order) -> list[Candidate]:
    """The workers of an order, each named: no flag approves what nobody typed."""
    if not order.words:
        raise UsageError(f"{order.option} needs a worker", f"as in: git parallel review {order.option} 2")
    found = []
    for word in order.words:
        named = workers.gather(repo, [word])
        if len(named) != 1:
            handles = ", ".join(one.handle for one in named)
            raise UsageError(f"'{word}' is a run of {len(named)} workers", f"name those you mean: {handles}")
        found += named
    return list({(one.run, one.worker): one for one in found}.values())


def _message(order: Order) -> str | None:
    message = order.message
    if order.file == "-":
        message = os.fsdecode(sys.stdin.buffer.read())
    elif order.file is not None:
        try:
            with open(order.file, "rb") as file:
                message = os.fsdecode(file.read())
        except OSError as error:
            raise UsageError(f"cannot read '{order.file}': {error.strerror}") from None
    if order.word == "changes" and not (message or "").strip():
        raise UsageError("--changes needs to say which", "with -m TEXT or -F FILE")
    return message


def _notice(repo: Repository) -> None:
    from git_parallel.supervisor import interrupted  # noqa: PLC0415 (not needed for -h)

    for line in interrupted.notice(repo):
        click.echo(line, err=True)


# --- the list --------------------------------------------------------------------------------------


def _print(repo: Repository, words: Sequence[str], as_json: bool, nul: bool, porcelain: bool) -> None:
    from git_parallel.integrate.review import facts  # noqa: PLC0415 (not needed for -h)
    from git_parallel.render import review  # noqa: PLC0415

    candidates = workers.gather(repo, words, default=workers.going_on(repo))
    given = {run: verdicts.of_run(repo, run) for run in {one.run for one in candidates}}
    found = [facts.gather(repo, one, given[one.run].get(one.worker, [])) for one in candidates]
    if as_json:
        _common.write(view.dumps(review.document(found)) + "\n")
    elif porcelain or nul:
        _common.write_lines(review.rows(found), nul=nul)
    elif found:
        colour = terminal.colour(repo, sys.stdout)
        _common.write(review.listing(found, width=terminal.width(), colour=colour))
    else:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')


def _no_terminal() -> UsageError:
    if terminal.pager_in_use():
        return UsageError("git has put a pager before the terminal", "try: git --no-pager parallel review")
    return UsageError(
        "a review asks a person, and there is no terminal",
        "give verdicts with --approve, --reject or --changes; see them with --list",
    )
