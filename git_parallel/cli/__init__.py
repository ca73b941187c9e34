"""The command line: the table of commands, loaded one at a time, and the one place that maps errors to exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from git_parallel import __version__, errors

# name: what it does, in the words of `git parallel -h`. Each lives in a module of its name as `command`.
COMMANDS: dict[str, str] = {
    "run": "start a run (the default command)",
    "status": "where every worker is now",
    "watch": "the same, live",
    "list": "the runs of this repository",
    "show": "one run or worker as it was recorded",
    "log": "an agent's output (-f follows it)",
    "diff": "what a worker changed",
    "attach": "get into a worker's terminal",
    "stop": "end a run or a worker gracefully",
    "pause": "let workers stand still",
    "unpause": "let them go on",
    "wait": "wait for a run and exit as it does",
    "resume": "go on after a crash or an interrupt",
    "retry": "send workers back, after a review or a failure",
    "compare": "the workers of one task side by side",
    "conflicts": "which branches collide, and a good order",
    "review": "walk the branches in sequence for human approval",
    "merge": "land approved branches in sequence",
    "cleanup": "remove worktrees and branches safely",
    "restore": "get a removed branch or snapshot back",
    "push": "give records of runs to a remote",
    "fetch": "get records of runs from a remote",
    "agents": "the programs that can do the work",
    "config": "what is in force, and from where",
    "init": "notes in every git log, docs for agents (opt-in)",
    "doctor": "find and repair trouble",
    "demo": "a two-minute tour with no model",
}

# Not for people: name as typed, and module. No task is one word that begins with two underscores.
HIDDEN = {"__complete": "complete"}

# What the system refuses, not a fault of the program: full, read-only, or somebody else's.
_OUTSIDE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)

_TOP_LEVEL = {"-h", "--help", "--version"}


class Commands(click.Group):
    """A group that imports a command when it is called, and takes a first word that is none as a task."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        module = HIDDEN.get(cmd_name, cmd_name)
        command: click.Command = import_module(f"git_parallel.cli.{module}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["help"] and (len(args) == 1 or (len(args) == 2 and args[1] in COMMANDS)):
            args = [*args[1:], "--help"]  # as `git help parallel`: nobody wants an agent to do the task "help"
        first = args[0] if args else "-h"
        if first not in COMMANDS and first not in _TOP_LEVEL and first not in HIDDEN:
            _refuse_misspelt(args)
            args = ["run", *args]
        return super().parse_args(ctx, args or ["-h"])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _refuse_misspelt(args: Sequence[str]) -> None:
    """Raise when the only word looks like a misspelt command: a task of one such word would cost money."""
    word = args[0]
    if word.startswith("-") or " " in word or any(not argument.startswith("-") for argument in args[1:2]):
        return
    from difflib import get_close_matches  # noqa: PLC0415 (only on the way to an error)

    near = get_close_matches(word, COMMANDS, n=1, cutoff=0.75)
    if near:
        raise errors.UsageError(
            f"'{word}' is not a git parallel command",
            f"did you mean 'git parallel {near[0]}'?",
            f"to run it as a task: git parallel run -- {word}",
        )


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "--version", message="git-parallel version %(version)s")
def git_parallel() -> None:
    """Run many coding agents (or any commands) at once on one repository.

    Each task gets its own git worktree and branch; every fact of the run is kept in git. A first word
    that is no command is a task: git parallel "fix the login test" --models a,b
    """


def run(argv: list[str]) -> int:
    """Run one command line and return the process's exit code."""
    try:
        if "--help" in argv[:2] and (code := _show_manual(argv)) is not None:
            return code
        code = git_parallel.main(args=argv, prog_name="git parallel", standalone_mode=False)
        sys.stdout.flush()
    except errors.ParallelError as error:
        return _complain(error)
    except click.exceptions.Abort as error:
        return _interrupted(error.__cause__)
    except click.ClickException as error:
        _say("error", error.format_message())
        context = getattr(error, "ctx", None)
        if context is not None:
            _say("hint", f"see '{context.command_path} -h'")
        return errors.USAGE
    except KeyboardInterrupt as error:
        return _interrupted(error)
    except BrokenPipeError:
        # The reader went away (`git parallel log | head`): end as a program killed by SIGPIPE does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno not in _OUTSIDE:
            return _report(error, argv)
        _say("fatal", f"{(error.strerror or str(error)).lower()}: {error.filename or 'while writing'}")
        _say("hint", "what is recorded is kept; put that right and repeat the command")
        return errors.FATAL
    except Exception as error:
        return _report(error, argv)
    return code if isinstance(code, int) else 0


def _interrupted(error: BaseException | None) -> int:
    """130 after Ctrl-C; a command that was ended by another signal says by which."""
    return int(error.args[0]) if isinstance(error, KeyboardInterrupt) and error.args else errors.INTERRUPTED


def _show_manual(argv: Sequence[str]) -> int | None:
    """Open the man page that ``--help`` asks for where git knows it too; None when there is none to open."""
    if argv[0] == "--help":
        page = "git-parallel"
    elif argv[0] in COMMANDS and argv[1] == "--help":
        page = f"git-parallel-{argv[0]}"
    else:
        return None
    from git_parallel.cli import _manual  # noqa: PLC0415 (only for --help)

    return _manual.show(page)


def _complain(error: errors.ParallelError) -> int:
    _say(error.label, error.message)
    for hint in error.hints:
        _say("hint", hint)
    return error.exit_code


def _say(label: str, message: str) -> None:
    for line in message.splitlines() or [""]:
        click.echo(f"{label}: {line}", err=True)


def _report(error: Exception, argv: Sequence[str]) -> int:
    """Write what a maintainer needs to a file and tell the person where it is: no traceback on the terminal."""
    from git_parallel.report import write_report  # noqa: PLC0415 (only on the way to an error)

    _say("fatal", f"unexpected error: {type(error).__name__}: {error}")
    _say("hint", write_report(error, argv))
    return errors.FATAL
