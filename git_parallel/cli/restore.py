"""``git parallel restore``: bring back what cleanup removed, or what a running worker had at some time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import click

from git_parallel.cli import _common
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.integrate import checkpoints, restorable, restore
from git_parallel.integrate.removal import Address
from git_parallel.integrate.restorable import Restorable
from git_parallel.integrate.restore import Restored
from git_parallel.plan import config
from git_parallel.render import removals, terminal, text
from git_parallel.store.snapshots import Snapshot
from git_parallel.supervisor import view
from git_parallel.worktrees.uncaptured import Size, measure

SHORT = removals.SHORT


class _Command(click.Command):
    """Reads ``--worktree=PATH``: as with git's own options, an optional value is stuck to its option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        spelt = [_unstick(word) if at < end else [word] for at, word in enumerate(args)]
        return super().parse_args(ctx, [word for words in spelt for word in words])


def _unstick(word: str) -> list[str]:
    return ["--path", word.partition("=")[2]] if word.startswith("--worktree=") else [word]


@click.command(cls=_Command)
@click.argument("words", nargs=-1, metavar="[RUN|WORKER]...")
@click.option("--branch", metavar="NAME", help="Call the branch NAME.")
@click.option(
    "--worktree",
    "as_worktree",
    is_flag=True,
    help="Bring the worktree back too, with what was uncommitted in it (--worktree=PATH: elsewhere).",
)
@click.option("--path", metavar="PATH", hidden=True)
@click.option("--to", "directory", metavar="DIR", help="Write the files into a new or empty directory DIR.")
@click.option("--from-trash", metavar="DIR", help="Move the directory, ignored files and all, from the trash to DIR.")
@click.option("--at", "when", metavar="TIME", help="As it was at TIME: the last checkpoint by then.")
@click.option("--list", "as_list", is_flag=True, help="Show what can be restored; change nothing.")
@_common.json_option
def command(
    *,
    words: Sequence[str],
    branch: str | None,
    as_worktree: bool,
    path: str | None,
    directory: str | None,
    from_trash: str | None,
    when: str | None,
    as_list: bool,
    as_json: bool,
) -> int:
    """Bring back the branches of workers that cleanup removed, or their worktrees or files.

    Nothing that exists is overwritten, and what is restored stays kept as well.
    With --at, a branch gets the uncommitted files as a commit.
    """
    as_worktree = as_worktree or path is not None
    _check(words, branch=branch, path=path, directory=directory, from_trash=from_trash)
    ways = [as_worktree, directory is not None, from_trash is not None, as_list]
    if sum(ways) > 1 or (branch is not None and any(ways[1:])):
        raise UsageError(
            "--worktree, --to, --from-trash and --list exclude each other, and --branch goes with none but --worktree"
        )
    if when is not None and (as_list or from_trash is not None):
        raise UsageError("--at goes with a branch, --worktree or --to")
    repo = Repository.discover()
    if as_list:
        return _list(repo, words, as_json)
    if not words:
        raise UsageError("which worker?", "see what can be restored: git parallel restore --list")
    done: list[Restored] = []
    for item in _items(repo, words, when):
        if from_trash is not None:
            done.append(restore.restore_trash(repo, item, from_trash))
        elif directory is not None:
            done.append(restore.restore_files(repo, item, directory))
        elif as_worktree:
            done.append(restore.restore_worktree(repo, item, path, branch))
        else:
            whole = item if when is None else checkpoints.committed(repo, item)
            done.append(restore.restore_branch(repo, whole, branch))
        if not as_json:
            _print(done[-1], worktree=as_worktree)
    if as_json:
        _common.write(view.dumps({"v": 1, "workers": [_document(one) for one in done]}) + "\n")
    return 0


def _items(repo: Repository, words: Sequence[str], when: str | None) -> list[Restorable]:
    items = restorable.named(repo, words)
    return items if when is None else [checkpoints.at(repo, item, when, time.time()) for item in items]


def _check(words: Sequence[str], **single: str | None) -> None:
    """Raise UsageError when several workers are to get one name or one place, or one of these is empty."""
    for name, value in single.items():
        if value is not None and len(words) > 1:
            option = {"path": "--worktree=PATH", "directory": "--to", "from_trash": "--from-trash"}.get(
                name, "--branch"
            )
            raise UsageError(f"{option} is for one worker, not for {len(words)}")
        if value == "":
            raise UsageError("a name or path is empty")


def _print(done: Restored, *, worktree: bool) -> None:
    handle = done.item.handle
    tip = f" at {done.head[:SHORT]}" if done.head else ""
    said = []
    if done.branch is not None:
        said.append(f"branch {done.branch} {'restored' if done.created else 'is there'}{tip}")
    if done.path is not None:
        said.append(f"{'worktree' if worktree else 'files'} in {done.path}")
    if done.state is not None:
        said.append(f"with snapshot {done.state.oid[:SHORT]}")
    if done.detached is not None:
        said.append(f"HEAD detached at {done.detached[:SHORT]} as it was")
    _common.write(text.printable(f"{handle}: {', '.join(said)}") + "\n")
    for warning in done.warnings:
        _common.say("warning", warning)
    for hint in _hints(done, worktree=worktree):
        _common.say("hint", hint)


def _hints(done: Restored, *, worktree: bool) -> list[str]:
    """What more there is of the worker."""
    item, hints = done.item, []
    if done.path is None and item.snapshot is not None:
        hints.append(f"what no branch has is kept: git parallel restore {item.handle} --worktree, or --to DIR")
    if item.trash and (worktree or done.path is None):
        hints.append(
            f"all of its files, ignored ones too, are in the trash: git parallel restore {item.handle} --from-trash DIR"
        )
    if item.snapshot is not None and item.snapshot.lost:
        commits = " ".join(commit[:SHORT] for commit in item.snapshot.lost[:5])
        hints.append(f"commits that no branch had, for git branch NAME: {commits}")
    return hints


def _document(done: Restored) -> Mapping[str, object]:
    return {
        "run": done.item.run,
        "worker": done.item.worker,
        "branch": done.branch,
        "created": done.created,
        "head": done.head,
        "path": done.path,
        "snapshot": done.state.oid if done.state else None,
        "detached": done.detached,
        "warnings": list(done.warnings),
    }


def _list(repo: Repository, words: Sequence[str], as_json: bool) -> int:
    items = restorable.named(repo, words) if words else restorable.everything(repo)
    changed = restorable.changed_files(repo, items)
    history = {item.address: checkpoints.history(repo, item) for item in items if item.wip is not None}
    wanted = [item.head for item in items if item.head]
    wanted += [oid for item in items for oid in removals.lost(item, history.get(item.address, ()))]
    subjects = restorable.subjects(repo, wanted)
    sizes = {one.top: measure([one.files]) for item in items for one in item.trash}
    if as_json:
        documents = [
            removals.restorable_document(
                item,
                files=changed.get(item.address),
                subjects=subjects,
                sizes=sizes,
                history=history.get(item.address, ()),
            )
            for item in items
        ]
        _common.write(view.dumps({"v": 1, "workers": documents}) + "\n")
    elif items:
        with terminal.paged(repo.git):
            _common.write(_listing(repo, items, changed, subjects, sizes=sizes, history=history))
    else:
        click.echo("nothing was removed that could be restored", err=True)
    return 0


def _listing(
    repo: Repository,
    items: Sequence[Restorable],
    changed: Mapping[Address, int],
    subjects: Mapping[str, str],
    *,
    sizes: Mapping[str, Size],
    history: Mapping[Address, Sequence[Snapshot]],
) -> str:
    now = time.time()
    try:
        expire = config.load(repo).trash_expire
    except UsageError:
        expire = None
    return removals.lines(
        removals.restorable_lines(
            item,
            files=changed.get(item.address),
            subjects=subjects,
            sizes=sizes,
            history=history.get(item.address, ()),
            now=now,
            expire=expire,
        )
        for item in items
    )
