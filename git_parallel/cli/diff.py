"""``git parallel diff``: what a worker changed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from git_parallel.cli import _common, _runs
from git_parallel.errors import ParallelError
from git_parallel.git import Git, Repository
from git_parallel.integrate import owners
from git_parallel.layout import HEADS, State
from git_parallel.store import refs
from git_parallel.supervisor.view import RunView, WorkerView


class _ForGit(click.Command):
    """Takes every argument as it is, for git to read; only -h and --help are its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first_path = args.index("--") if "--" in args else len(args)
        asked = [argument for argument in args[:first_path] if argument in ("-h", "--help")]
        super().parse_args(ctx, asked[:1])
        ctx.params["arguments"] = tuple(args)
        return []


@click.command(cls=_ForGit, options_metavar="")
@click.argument("arguments", nargs=-1, metavar="[WORKER] [GIT-DIFF-OPTION]... [[--] PATH...]")
def command(arguments: Sequence[str]) -> int:
    """Show what a worker changed, through git's own diff, colours and pager.

    Of a worker that has ended: from where it started to its recorded head. Of one at work: its worktree
    as it is now, with new files. Options and paths are git diff's: git parallel diff 2 --stat -- src
    """
    words, rest = split(arguments)
    repo = Repository.discover()
    run, worker = _runs.choose_worker(repo, words)
    if worker.state == "ended":
        return _recorded(repo, run, worker, rest)
    if worker.state in ("queued", "preparing") or not os.path.isdir(worker.worktree):
        raise ParallelError(
            f"worker {worker.worker} has no worktree to compare: it is {worker.state}",
            f"see how it stands with: git parallel status {run.spec.run}",
        )
    away = owners.given_away(repo, run.spec.run, [run.spec.job(worker.worker)])
    if worker.worktree in away:
        raise ParallelError(
            f"worker {worker.worker} of run {run.spec.run} has no worktree to compare: its number was given away",
            f"its work under another name: git parallel restore {run.spec.run}/{worker.worker} --branch NAME",
        )
    return _at_work(repo, run, worker, rest)


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the worker from what is git's: it comes first, or is left out."""
    if arguments and not arguments[0].startswith("-"):
        return [arguments[0]], list(arguments[1:])
    return [], list(arguments)


def _recorded(repo: Repository, run: RunView, worker: WorkerView, rest: Sequence[str]) -> int:
    result = worker.result
    tip = None if result is None else result.snapshot or result.head
    if result is None or tip is None:
        reason = f": {result.status}/{result.reason}" if result else ""
        raise ParallelError(f"worker {worker.worker} of run {run.spec.run} left nothing to compare{reason}")
    if result.snapshot:
        _common.say("note", f"its work could not go onto the branch; this is its snapshot {tip[:12]}")
    else:
        ref = HEADS + result.branch
        now = refs.read(repo, ref).get(ref)
        if now is not None and now != tip:
            away = owners.given_away(repo, run.spec.run, [run.spec.job(worker.worker)], {result.branch})
            successor = away.get(result.branch)
            what = f"is {successor}'s now" if successor is not None else "has moved since"
            _common.say("note", f"'{result.branch}' {what}; this is what the worker left at {tip[:12]}")
    if tip == result.base:
        _common.say("note", f"worker {worker.worker} changed nothing")
    return _here(repo).show("diff", f"{result.base}...{tip}", *rest)


def _here(repo: Repository) -> Git:
    """Git in the person's own directory, so that paths mean what they mean there."""
    if repo.top is None:
        return Git((f"--git-dir={repo.git_dir}",))
    return Git((f"--git-dir={repo.git_dir}", f"--work-tree={repo.top}"))


def _at_work(repo: Repository, run: RunView, worker: WorkerView, rest: Sequence[str]) -> int:
    """Compare the worktree as it is now. The agent's index is copied: neither locked nor written."""
    inner = os.path.join(worker.worktree, repo.prefix)
    place = inner if os.path.isdir(inner) else worker.worktree
    git = Git(("-C", place, "-c", "core.fsmonitor=false", "-c", "advice.addEmbeddedRepo=false"))
    _common.say("note", f"worker {worker.worker} is {worker.state}; this is its worktree as it is now")
    with _index_with_new_files(git, State(repo.common_dir).run(run.spec.run).worker(worker.worker).top) as index:
        return git.show("diff", run.spec.base, *rest, env={"GIT_INDEX_FILE": index, "GIT_OPTIONAL_LOCKS": "0"})


@contextmanager
def _index_with_new_files(git: Git, directory: str) -> Iterator[str]:
    """A copy of a worktree's index that also knows its untracked files, without their content being stored."""
    copy = os.path.join(directory, f"diff.{os.getpid()}.index")
    try:
        with suppress(FileNotFoundError):  # no index yet: git starts from an empty one
            shutil.copy2(git.text("rev-parse", "--path-format=absolute", "--git-path", "index"), copy)
        # An unreadable file is left out rather than an end to the whole diff.
        git.run("add", "-A", "-N", "--ignore-errors", "--", ":/", env={"GIT_INDEX_FILE": copy}, ok=(0, 1))
        yield copy
    finally:
        for name in (copy, f"{copy}.lock"):
            with suppress(FileNotFoundError):
                os.unlink(name)
