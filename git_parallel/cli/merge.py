"""``git parallel merge``: land approved branches in sequence, each checked on the integrated tree."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from git_parallel import errors, git
from git_parallel.cli import _common, _trust
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import plan as plans
from git_parallel.integrate.plan import Merge
from git_parallel.plan import config
from git_parallel.plan.config import Config
from git_parallel.plan.settings import BY_NAME
from git_parallel.render import terminal
from git_parallel.supervisor import view

# What a landing needs once it is known what lands, in an order in which each brings little with it.
_LATER = (
    "git_parallel.worktrees",
    "git_parallel.integrate.chain",
    "git_parallel.integrate.checkout",
    "git_parallel.integrate.advance",
    "git_parallel.integrate.landing",
    "git_parallel.integrate.land",
    "git_parallel.cli._landing",
    "hashlib",
    "dulwich.file",
    "dulwich.objects",
    "git_parallel.integrate.union",
)


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--target", metavar="BRANCH", help="Branch to land on (default: the run's own target).")
@click.option(
    "--strategy",
    type=click.Choice(("merge", "squash", "rebase", "ff")),
    help="How it lands (default: parallel.strategy).",
)
@click.option("-y", "--yes", is_flag=True, help="Ask nothing: land what is approved and green.")
@click.option("--no-review", is_flag=True, help="Land what nobody has approved, too; this is recorded.")
@click.option("--batch", is_flag=True, help="Check all together first; if that is red, find the first one that is.")
@click.option("--stop", is_flag=True, help="Stop at a conflict for you to resolve, instead of parking the branch.")
@click.option("--resolve", type=click.Choice(("agent",)), help="Send a parked branch back to its agent to resolve.")
@click.option("--check", multiple=True, metavar="CMD", help="Command that must succeed on each integrated tree.")
@click.option("--no-checks", is_flag=True, help="Run no check.")
@click.option("--check-timeout", metavar="SECONDS", help=f"{BY_NAME['check_timeout'].help.capitalize()}.")
@click.option("--recheck", is_flag=True, help="Run checks again whose result for a tree is known.")
@click.option("--no-verify", is_flag=True, help="Do not run the commit hooks, as in git merge.")
@click.option("--cleanup", is_flag=True, help="Remove branches and worktrees of what landed, safely.")
@click.option("--reject-siblings", is_flag=True, help="Reject the other workers of the same task.")
@click.option("--trust", "trusted", is_flag=True, help="Approve the check commands that come from elsewhere.")
@click.option("-n", "--dry-run", is_flag=True, help="Show the plan with predicted trees and conflicts; change nothing.")
@click.option("--continue", "go_on", is_flag=True, help="Go on after a conflict was resolved, or after a crash.")
@click.option("--skip", is_flag=True, help="Leave out the branch that has stopped the landing, and go on.")
@click.option("--abort", is_flag=True, help="End a stopped landing; what has landed stays.")
@click.option("--undo", metavar="MERGE", help="Take a landing back: move the target back, or revert.")
@_common.json_option
def command(
    *,
    words: Sequence[str],
    strategy: str | None,
    check: Sequence[str],
    check_timeout: str | None,
    go_on: bool,
    skip: bool,
    abort: bool,
    undo: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Land approved branches on the target, one after another, each checked on the integrated tree.

    Only heads that were approved exactly as they are land. Your own local changes are never touched: a branch
    that they are in the way of is refused. A conflicting branch is parked and the rest goes on.

    Exit codes: 0 all that may land has landed, 3 a conflict, 4 a red check, 5 refused; the highest that applies.
    """
    repo = Repository.discover()
    repo.ask_settings()
    git.load_meanwhile(*_LATER)
    flags = {"strategy": strategy, "check": check, "check_timeout": check_timeout}
    settings = config.load(repo, {name: value for name, value in flags.items() if value})
    if options["stop"] and options["resolve"]:
        raise UsageError("--stop leaves a conflict to you, --resolve to the agent")
    if sum(map(bool, (go_on, skip, abort, undo))) > 1:
        raise UsageError("--continue, --skip, --abort and --undo exclude each other")
    if not options["dry_run"]:
        _common.refuse_in_worker(repo, "a landing")
    if undo is not None:
        return _undo(repo, undo, settings, as_json)
    if go_on or skip or abort:
        how = "continue" if go_on else "skip" if skip else "abort"
        return _resume(repo, words, settings, options, how=how, as_json=as_json)
    return _merge(repo, words, settings, options, as_json)


def _merge(repo: Repository, words: Sequence[str], settings: Config, options: dict[str, Any], as_json: bool) -> int:
    from git_parallel.integrate import merges, prepare  # noqa: PLC0415 (after the options are known to be right)

    attended = not options["yes"] and not options["dry_run"]
    if attended:
        _require_terminal(as_json)
    if not options["dry_run"] and merges.live(repo):
        from git_parallel.integrate import land  # noqa: PLC0415 (it is being loaded)

        _say_lines(land.close_interrupted(repo, settings.worktree))
    request = prepare.Request(
        words=words,
        config=settings,
        argv=["git", "parallel", *sys.argv[1:]],
        target=options["target"],
        review=not options["no_review"],
        yes=options["yes"],
        terminal=terminal.is_terminal(sys.stdin),
        batch=options["batch"],
        stop=options["stop"],
        verify=not options["no_verify"],
        checks=not options["no_checks"],
    )
    draft = prepare.prepare(repo, request)
    for doubt in draft.doubts:
        _common.say("warning", doubt)
    if options["dry_run"]:
        return _dry_run(repo, draft.merge, as_json)
    person = _person(repo, attended, as_json)
    for branch in draft.merge.branches:
        if branch.state != "waiting":
            person.told(draft.merge, branch)
    if not draft.merge.waiting:
        draft.merge.state = "ended"
        return _print(repo, draft.merge, as_json, recorded=False)
    if draft.merge.checks:
        brought = settings.check if settings.layer("check") == "project" else ()
        _trust.ask(
            repo,
            (*brought, *draft.foreign),
            told="these checks come with the repository or from another clone",
            approved=options["trusted"],
            attended=attended,
            hints=("land without checks: --no-checks",),
        )
    from git_parallel.integrate import land  # noqa: PLC0415

    landing = land.begin(repo, draft.merge, person, settings.worktree, again=options["recheck"])
    with _ended_in_order():
        merge = landing.run()
    return _finish(repo, merge, options, as_json)


def _resume(
    repo: Repository, words: Sequence[str], settings: Config, options: dict[str, Any], *, how: str, as_json: bool
) -> int:
    from git_parallel.integrate import land, merges  # noqa: PLC0415

    if len(words) > 1:
        raise UsageError(f"--{how} takes at most the id of one landing")
    merge = merges.in_progress(repo, words[0] if words else None)
    attended = not (merge.yes or options["yes"]) and how != "abort"
    if attended:
        _require_terminal(as_json)
    person = _person(repo, attended, as_json)
    landing = land.reopened(repo, merge, person, settings.worktree, again=options["recheck"])
    if options["yes"]:
        landing.merge.yes = True
    with _ended_in_order():
        merge = land.resume(landing, how)
    return _finish(repo, merge, options, as_json)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that is closed, end a landing as Ctrl-C does; a second one at once."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGHUP:  # nobody reads any more, and a write to what was a terminal fails
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        raise KeyboardInterrupt(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _undo(repo: Repository, word: str, settings: Config, as_json: bool) -> int:
    from git_parallel.integrate import undo  # noqa: PLC0415

    done = undo.undo(repo, word, settings.worktree)
    if as_json:
        _common.write(view.dumps(done.document()) + "\n")
    else:
        click.echo(done.said)
    return errors.OK


def _finish(repo: Repository, merge: Merge, options: dict[str, Any], as_json: bool) -> int:
    if merge.landed and options["reject_siblings"]:
        from git_parallel.integrate import land  # noqa: PLC0415

        _say_lines(land.reject_siblings(repo, merge))
    code = _print(repo, merge, as_json)
    if options["resolve"] and any(branch.state == "parked" for branch in merge.branches):
        from git_parallel.integrate import land  # noqa: PLC0415

        _say_lines(land.send_back(repo, merge))
    if merge.landed and options["cleanup"]:
        from git_parallel.integrate import land  # noqa: PLC0415

        _say_lines(land.clean_up(repo, merge))
    return code


def _print(repo: Repository, merge: Merge, as_json: bool, *, recorded: bool = True) -> int:
    from git_parallel.render import landing as words  # noqa: PLC0415

    if as_json:
        _common.write(view.dumps({**plans.document(merge), **({} if recorded else {"merge": None})}) + "\n")
        return plans.exit_code(merge)
    click.echo(words.total(merge))
    for hint in words.hints(merge):
        _common.say("hint", hint)
    return plans.exit_code(merge)


def _dry_run(repo: Repository, merge: Merge, as_json: bool) -> int:
    from git_parallel.integrate import land  # noqa: PLC0415
    from git_parallel.render import landing as words  # noqa: PLC0415

    links = land.predict(repo, merge)
    if as_json:
        document = plans.document(merge)
        trees = {link.branch.handle: link.step.tree for link in links}
        for branch, shown in zip(merge.branches, document["branches"], strict=True):
            shown["tree"] = trees.get(branch.handle)
        _common.write(view.dumps({**document, "merge": None, "dry_run": True}) + "\n")
    else:
        _common.write(words.preview(merge, links))
    return plans.exit_code(merge)


def _person(repo: Repository, attended: bool, as_json: bool) -> Any:
    from git_parallel.cli import _landing  # noqa: PLC0415

    return _landing.AtTerminal(repo) if attended else _landing.Unattended(repo, quiet=as_json)


def _require_terminal(as_json: bool) -> None:
    if as_json:
        raise UsageError("--json asks nothing", "say what to land, with: --yes --json; nothing was done")
    from git_parallel.cli import _keys  # noqa: PLC0415 (only for a person)

    if not _keys.at_terminal():
        raise UsageError(
            "there is no terminal to ask on, and nothing was done",
            "land what is approved without being asked: git parallel merge --yes",
            "or look at the plan: git parallel merge --dry-run",
        )


def _say_lines(lines: Sequence[str]) -> None:
    for line in lines:
        _common.say("note", line)
