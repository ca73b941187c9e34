"""``git parallel run``: start a run. The default command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import click

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.plan.config import load
from git_parallel.plan.settings import BY_NAME
from git_parallel.supervisor import surroundings

Decorator = Callable[[Callable[..., int]], Callable[..., int]]


def _setting(name: str, metavar: str, **extra: Any) -> Decorator:
    """An option that sets a setting, with the settings table's own words; its text is checked there too."""
    setting = BY_NAME[name]
    shown = setting.help[:1].upper() + setting.help[1:] + "."
    return click.option(setting.flag, name, metavar=metavar, help=shown, **extra)


class RunCommand(click.Command):
    """Takes a word like ``"- fix the list"`` for what it is: a task, since no option has a blank in its name."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = [option for option in self.params if isinstance(option, click.Option) and not option.is_flag]
        with_value = {name for option in options for name in option.opts}
        words: list[str] = []
        for position, word in enumerate(args):
            if word == "--":
                words += args[position:]
                break
            is_value = bool(words) and args[position - 1] in with_value
            name = word.partition("=")[0]
            a_task = word.startswith("-") and not is_value and any(character.isspace() for character in name)
            words.append(f"--task={word}" if a_task else word)
        return super().parse_args(ctx, words)


@click.command(cls=RunCommand)
@click.argument("words", nargs=-1, metavar="[TASK]")
@click.option("--task", "tasks", multiple=True, metavar="TASK", help="A task (repeatable); '-' reads it from stdin.")
@click.option(
    "--task-file", "task_files", multiple=True, metavar="FILE", help="A file that holds one task (repeatable)."
)
@_setting("workers", "N")
@_setting("models", "CSV")
@_setting("agent", "ROLE")
@_setting("program", "NAME|COMMAND")
@_setting("budget_per_worker", "USD")
@_setting("timeout_per_worker", "SECONDS")
@_setting("idle_timeout", "SECONDS")
@_setting("max_steps", "N")
@_setting("memory_per_worker", "SIZE")
@_setting("memfree", "SIZE")
@_setting("max_output", "SIZE")
@_setting("max_disk", "SIZE")
@_setting("budget", "USD")
@_setting("timeout", "SECONDS")
@_setting("check", "CMD", multiple=True)
@click.option("--base", metavar="COMMIT", help="Commit the workers start from (default: HEAD).")
@_setting("target", "BRANCH")
@click.option("--with-changes", is_flag=True, help="Take uncommitted changes into the base.")
@_setting("halt", "WHEN")
@click.option(
    "--until",
    metavar="N",
    help="End the run with the N-th success, or the first-success; all: when all have ended. Short for --halt.",
)
@_setting("terminal", "WHERE")
@_setting("retries", "N")
@_setting("checkpoint", "SECONDS")
@_setting("keep_ignored", "SIZE")
@click.option("--matrix", is_flag=True, help="Run every task with every model.")
@click.option("--allow-empty", is_flag=True, help="A worker that changes nothing may still succeed.")
@click.option("-c", "--config", "config_file", metavar="FILE", help="Read FILE in place of .git-parallel.yaml.")
@click.option("-n", "--dry-run", is_flag=True, help="Show who would do what, where, from which commit; start nothing.")
@click.option("--detach", is_flag=True, help="Return once the run is up, and print its id.")
@click.option("--trust", is_flag=True, help="Approve the commands that .git-parallel.yaml brings.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output at the end.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the final result.")
def command(
    *,
    words: Sequence[str],
    tasks: Sequence[str],
    task_files: Sequence[str],
    base: str | None,
    until: str | None,
    with_changes: bool,
    matrix: bool,
    allow_empty: bool,
    config_file: str | None,
    dry_run: bool,
    detach: bool,
    trust: bool,
    as_json: bool,
    quiet: bool,
    **flags: Any,
) -> int:
    """Start a run: one worker for each task and model, each in its own worktree and branch.

    TASK, --task and --task-file all name tasks. Workers beyond --workers wait in a queue. The result
    table is printed at the end; exit code 0 means that every worker succeeded.
    """
    prompts = _prompts(words, tasks, task_files)
    if until is not None:
        flags["halt"] = _until(until, flags.get("halt"))
    # Not needed for -h.
    from git_parallel.supervisor import ahead  # noqa: PLC0415

    with ExitStack() as begun:
        early = ahead.take()
        if early is not None:
            begun.enter_context(early)
        repo = early.repo if early is not None else Repository.discover()
        repo.ask_settings()
        looking = begun.enter_context(surroundings.Looking(repo))
        if early is None and not (dry_run or detach):  # the guards' host gets ready meanwhile, as does git
            early = begun.enter_context(ahead.Ahead(repo))
        if early is not None:
            early.expect(len(prompts), flags["workers"])
        from git_parallel.cli import _supervise, _trust  # noqa: PLC0415
        from git_parallel.render import terminal  # noqa: PLC0415
        from git_parallel.supervisor import interrupted, start  # noqa: PLC0415

        if early is not None:
            _supervise.prepare()
        config = load(repo, flags, config_file)
        typed = config.workers if config.layer("workers") == "flag" else None
        request = start.Request(
            tasks=prompts,
            config=config,
            argv=["git", "parallel", *sys.argv[1:]],
            workers=typed,
            matrix=matrix,
            base=base,
            with_changes=with_changes,
            allow_empty=allow_empty,
            ahead=early,
        )
        draft = start.plan_run(repo, request, looking)
        if not quiet:
            for note in draft.notes:
                click.echo(note, err=True)
            for warning in draft.warnings:
                click.echo(f"warning: {warning}", err=True)
        if dry_run:
            return _dry_run(start.place(draft), as_json)
        _trust.ask(
            repo,
            config.repository_commands(),
            told="these commands come with the repository's .git-parallel.yaml",
            approved=trust,
            attended=terminal.is_terminal(sys.stdin),
        )
        for line in interrupted.notice(repo):
            click.echo(line, err=True)
        return _supervise.run(draft, detach=detach, as_json=as_json, quiet=quiet)


def _until(text: str, halted: str | None) -> str:
    from git_parallel.plan import halt  # noqa: PLC0415 (not needed for -h)

    if halted is not None:
        raise UsageError("--until and --halt exclude each other")
    try:
        return halt.until(text)
    except ValueError as error:
        raise UsageError(f"--until {error}, not '{text}'") from None


def _prompts(words: Sequence[str], tasks: Sequence[str], task_files: Sequence[str]) -> list[str]:
    """Gather the tasks, in the order: the word, each --task, each --task-file."""
    if len(words) > 1:
        raise UsageError(
            f"one task was expected, but there are {len(words)} words", f'quote it: git parallel "{" ".join(words)}"'
        )
    prompts = [_stdin() if task == "-" else task for task in (*words, *tasks)]
    for path in task_files:
        if path == "-":
            prompts.append(_stdin())
            continue
        try:
            with open(path, "rb") as file:
                prompts.append(os.fsdecode(file.read()))
        except OSError as error:
            raise UsageError(f"cannot read the task file '{path}': {error.strerror}") from None
    for prompt in prompts:
        if "\0" in prompt:
            raise UsageError("a task holds a NUL byte, which no program can be given")
    return prompts


def _stdin() -> str:
    if sys.stdin.isatty():
        click.echo("reading the task from the terminal; end it with Ctrl-D", err=True)
    return os.fsdecode(sys.stdin.buffer.read())


def _dry_run(spec: Any, as_json: bool) -> int:
    from git_parallel.render import plan  # noqa: PLC0415

    click.echo(plan.document(spec) if as_json else plan.table(spec), nl=False)
    return 0
