"""Brings back what cleanup removed: a branch, a worktree with its uncommitted state, or plain files.

Nothing that exists is overwritten, and what is kept stays kept: restoring twice is possible.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from git_parallel import worktrees
from git_parallel.errors import ParallelError, RaceError, RefusedError, UsageError
from git_parallel.git import Git, Repository
from git_parallel.integrate import remains, removal
from git_parallel.integrate.restorable import Restorable
from git_parallel.layout import HEADS
from git_parallel.store import record, refs, scratch, snapshots
from git_parallel.store.refs import Update
from git_parallel.store.snapshots import Snapshot
from git_parallel.supervisor.journal import timestamp
from git_parallel.worktrees import Trashed, placing, registry

# LFS content is in the local store when it was ever here; what is not stays a pointer instead of failing.
_LFS = {"GIT_LFS_SKIP_DOWNLOAD_ERRORS": "1"}


class Restored(Struct, frozen=True):
    """What was brought back. ``branch`` is a short name; ``created`` whether it was made just now.

    ``state``: the snapshot whose files were put back; ``detached``: the commit that HEAD is at when it was
    not on the branch; ``path``: the directory with files; ``warnings`` for the person.
    """

    item: Restorable
    branch: str | None = None
    head: str | None = None
    created: bool = False
    path: str | None = None
    state: Snapshot | None = None
    detached: str | None = None
    warnings: tuple[str, ...] = ()


# --- branches --------------------------------------------------------------------------------------


def restore_branch(repo: Repository, item: Restorable, name: str | None = None) -> Restored:
    """Create the worker's branch again, or one called ``name``, at its kept tip.

    One that is there already and holds that tip is left as it is. Raises RefusedError when another branch
    has the name, ParallelError when the commit is not in this repository.
    """
    head = _last(repo, item, _head(repo, item))
    branch = name or item.branch
    if branch is None:
        raise UsageError(f"nobody knows the branch of {item.handle}", "give it a name: --branch NAME")
    if fault := worktrees.branch_fault(branch):
        raise UsageError(f"'{branch}' is no valid branch name: {fault}")
    for _ in range(3):
        tip = refs.read(repo, HEADS + branch).get(HEADS + branch)
        if tip is not None:
            return _already_there(repo, item, branch, tip, head)
        try:
            _create(repo, item, branch, head)
        except RaceError:  # somebody made it meanwhile
            continue
        return Restored(item, branch, head, created=True)
    raise RaceError(f"branch {branch} changes while it is being restored")


def _head(repo: Repository, item: Restorable) -> str:
    if item.head is None:
        if item.tip is not None:
            return item.tip
        raise ParallelError(
            f"nothing is kept of {item.handle}", "see what can be brought back: git parallel restore --list"
        )
    if repo.common.run("cat-file", "-e", f"{item.head}^{{commit}}", ok=(0, 1, 128)).returncode:
        raise ParallelError(
            f"the commit of {item.handle} ({item.head[:10]}) is not in this repository",
            "it is in the repository that the run was made in; to get it from there: git parallel fetch <remote>",
        )
    return item.head


def _already_there(repo: Repository, item: Restorable, branch: str, tip: str, head: str) -> Restored:
    if not _holds(repo, tip, head):
        raise RefusedError(
            f"branch {branch} exists and does not hold the work of {item.handle} ({head[:10]})",
            f"give it another name: git parallel restore {item.handle} --branch NAME",
        )
    # The worker may have been somewhere else than on its branch; any branch made from the base holds that one then.
    elsewhere = item.snapshot.head if item.snapshot is not None and branch != item.branch else None
    if elsewhere is not None and not _holds(repo, tip, elsewhere):
        raise RefusedError(
            f"branch {branch} exists and does not hold the work of {item.handle}, whose HEAD was at {elsewhere[:10]}",
            f"give that commit a name: git branch NAME {elsewhere[:10]}",
        )
    return Restored(item, branch, tip)


def _last(repo: Repository, item: Restorable, head: str) -> str:
    """Where the worker's branch is, if that is still its own and has gone on from what its run knew it at."""
    if item.tip in (None, head):
        return head
    try:
        (found,) = remains.find(repo, [item.address])
    except ParallelError:  # nobody knows the run
        return head
    return found.tip if found.tip is not None and _holds(repo, found.tip, head) else head


def _holds(repo: Repository, tip: str, commit: str) -> bool:
    return tip == commit or repo.common.succeeds("merge-base", "--is-ancestor", commit, tip)


def _create(repo: Repository, item: Restorable, branch: str, head: str) -> None:
    """Make the branch and say so in the record, in one transaction. Raises RaceError when it exists."""
    created = Update(HEADS + branch, head, repo.zero)
    own = branch == item.branch
    with refs.locked(repo):
        _say_restored(repo, item, f"branch {branch}", own=own, updates=[created], head=head)
    if own and item.removal is not None:
        for key, value in item.removal.settings:
            repo.common.run("config", "--local", "--add", f"branch.{branch}.{key}", value)


def _say_restored(
    repo: Repository, item: Restorable, what: str, *, own: bool, updates: Sequence[Update] = (), head: str | None = None
) -> None:
    """Record it. ``own``: the worker's own branch or worktree is back, so that cleanup may remove it again."""
    message = f"restore: {what} of worker {item.worker}"
    if record.read(repo, item.run) is None:  # only refs were fetched, or the record was forgotten
        refs.transaction(repo, updates, message=f"parallel: {message}")
        return
    changes = {}
    if own and item.removal is not None:
        restored = msgspec.structs.replace(item.removal, restored=timestamp())
        changes[removal.path(item.worker)] = removal.encode(restored)
    trailers = [("Architect-Event", "restore"), ("Architect-Worker", str(item.worker))]
    if head is not None:
        trailers.append(("Architect-Head", head))
    record.write(repo, item.run, changes, subject=message, trailers=trailers, updates=updates)


# --- worktrees -------------------------------------------------------------------------------------


def restore_worktree(repo: Repository, item: Restorable, path: str | None, name: str | None = None) -> Restored:
    """Restore the branch and check it out at ``path`` (default: where it was), with its uncommitted state.

    What was uncommitted is uncommitted again, what was staged is staged. Raises ParallelError when the
    path is taken or git cannot make the worktree; a branch made by this call stays then.
    """
    place = registry.real(os.path.abspath(path)) if path is not None else item.worktree
    if place is None:
        raise UsageError(f"nobody knows where the worktree of {item.handle} was", "say where: --worktree=PATH")
    if os.path.lexists(place):
        raise RefusedError(f"'{place}' exists", f"say where else: git parallel restore {item.handle} --worktree=PATH")
    done = restore_branch(repo, item, name)
    assert done.branch is not None
    assert done.head is not None
    reason = f"{registry.OUR_LOCK}{item.run}/{item.worker}"
    with refs.locked(repo):
        placing.exclude_directory(repo, place)
        worktrees.register(repo, worktrees.Place(item.worker, done.branch, place), reason=reason)
        _say_restored(repo, item, "worktree", own=True)
    warnings = worktrees.populate(repo, place)
    state, note = _state(repo, item, done.head)
    git = worktrees.opened(repo, place)
    detached = None
    if state is not None:
        if state.head is not None and state.head != done.head:
            detached = state.head
            git.run("update-ref", "--no-deref", "-m", "parallel: restore", "HEAD", detached)
        warnings += _put_back(repo, git, place, done.head, state)
        warnings += [f"not captured: {what}" for what in state.missing]
    warnings += _put_ignored(repo, item, git)
    return Restored(
        item,
        done.branch,
        done.head,
        created=done.created,
        path=place,
        state=state,
        detached=detached,
        warnings=(*warnings, *note),
    )


def _state(repo: Repository, item: Restorable, tip: str) -> tuple[Snapshot | None, list[str]]:
    """Return the snapshot that belongs on top of ``tip``, and what to say of one that does not."""
    found = item.snapshot
    if found is None:
        return None, []
    if found.head in (None, tip):
        return found, []
    if found.branch is not None and found.branch == item.branch:
        return None, [
            f"snapshot {found.oid[:10]} is of an earlier state of the branch and was not put back; "
            f"its files: git parallel restore {item.handle} --to DIR"
        ]
    return found, []


def _put_back(repo: Repository, git: Git, place: str, tip: str, state: Snapshot) -> list[str]:
    """Make the worktree's files those of the snapshot, and its index what it was."""
    head = state.head or tip
    fields = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", tip, state.tree).fields
    gone, there, links = _split_changes(fields)
    for path in gone:
        _remove_file(place, path)
    with scratch.index(repo, "restore") as index:
        _check_out(git, state.tree, index, there)
    staged = f"{state.index}^{{tree}}" if state.index else head
    git.run("read-tree", "--reset", staged)  # the index alone: without -u no file is touched
    git.run("update-index", "-q", "--refresh", ok=(0, 1))
    return [f"'{path}' was at another commit of its own repository: it stays as the branch has it" for path in links]


def _put_ignored(repo: Repository, item: Restorable, git: Git) -> list[str]:
    """Write the files that git ignores, where some were kept, beside what is there."""
    if item.ignored is None:
        return []
    with scratch.index(repo, "restore") as index:
        env = {"GIT_INDEX_FILE": index, **_LFS}
        git.run("read-tree", item.ignored, env=env)
        done = git.run("checkout-index", "--all", env=env, ok=(0, 1, 128))  # without --force nothing is overwritten
    return ["not all of the files that git ignores could be written"] if done.returncode else []


def _split_changes(fields: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Part `diff-tree --raw -z` into paths that go, paths that come, and repositories inside."""
    gone, there, links = [], [], []
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode = about[1:].split(" ")[:2]
        if "160000" in (old_mode, new_mode):
            links.append(path)
        elif new_mode == "000000":
            gone.append(path)
        else:
            there.append(path)
    return gone, there, links


def _remove_file(top: str, path: str) -> None:
    """Remove a file that was just checked out, and the directories that get empty."""
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(top, path))
    above = os.path.dirname(path)
    while above:
        try:
            os.rmdir(os.path.join(top, above))
        except OSError:
            return
        above = os.path.dirname(above)


def _check_out(git: Git, tree: str, index: str, paths: Sequence[str] | None) -> None:
    """Write files of a tree into the worktree of ``git``: these, or all of them (None)."""
    env = {"GIT_INDEX_FILE": index, **_LFS}
    git.run("read-tree", tree, env=env)
    if paths is None:
        git.run("checkout-index", "--force", "--all", env=env)
    elif paths:
        stdin = os.fsencode("".join(f"{path}\0" for path in paths))
        git.run("checkout-index", "--force", "-z", "--stdin", stdin=stdin, env=env)


# --- files -----------------------------------------------------------------------------------------


def restore_files(repo: Repository, item: Restorable, directory: str) -> Restored:
    """Write the worker's last files, uncommitted ones too, into a new or empty directory; git knows nothing of it."""
    state = item.snapshot
    commit = state.oid if state is not None else _head(repo, item)
    target = _empty_directory(directory)
    git = Git((f"--git-dir={repo.common_dir}", f"--work-tree={target}"), target)
    with scratch.index(repo, "restore") as index:
        _check_out(git, commit, index, None)
    warnings = _put_ignored(repo, item, git)
    if state is not None:
        warnings += [f"not captured: {what}" for what in (*state.missing, *_nested(repo, state))]
    return Restored(
        item, head=commit if state is None else state.head, path=target, state=state, warnings=tuple(warnings)
    )


def _nested(repo: Repository, state: Snapshot) -> list[str]:
    """The repositories inside that a snapshot names by their commits: it has nothing of what is in them."""
    if state.head is None:
        return []
    found = snapshots.change(repo.common, state.head, state.tree).nested
    return [f"{path}: a repository of its own" for path in found]


def restore_trash(repo: Repository, item: Restorable, directory: str) -> Restored:
    """Move the worker's directory out of the trash, ignored files and all, to a path that does not exist.

    It is a plain directory from then on: its ``.git`` file, which names an entry that is gone, is removed.
    """
    if not item.trash:
        raise ParallelError(
            f"the worktree of {item.handle} is not in the trash",
            f"its files without those git ignores: git parallel restore {item.handle} --to DIR",
        )
    newest = item.trash[-1]
    target = registry.real(os.path.abspath(directory))
    if os.path.lexists(target):
        raise RefusedError(f"'{target}' exists", "name a directory that does not exist yet")
    if not os.path.isdir(os.path.dirname(target)):
        raise ParallelError(f"'{os.path.dirname(target)}' is not a directory")
    with refs.locked(repo):
        _move_out(newest, target)
    warnings = []
    modules = os.path.join(newest.top, "admin", "modules")
    if os.path.isdir(modules):
        warnings.append(f"repositories of its submodules stay in '{modules}'")
    return Restored(item, path=target, warnings=tuple(warnings))


def _move_out(source: Trashed, target: str) -> None:
    link = os.path.join(source.files, ".git")
    if os.path.isfile(link) and not os.path.islink(link):
        # The entry's name may be given to another worktree: git commands in here would work on that one.
        os.unlink(link)
    try:
        os.rename(source.files, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise ParallelError(
                f"cannot move '{source.files}' to '{target}': {_why(error)}", "it stays there"
            ) from error
        try:
            shutil.copytree(source.files, target, symlinks=True)
        except (OSError, shutil.Error) as failure:
            raise ParallelError(
                f"cannot copy '{source.files}' to '{target}' completely: {failure}", "the original stays there"
            ) from failure


def _empty_directory(path: str) -> str:
    target = os.path.abspath(path)
    try:
        os.makedirs(target, exist_ok=True)
        if os.listdir(target):
            raise RefusedError(f"'{target}' is not empty", "name a new or an empty directory")
    except OSError as error:
        raise ParallelError(f"cannot write into '{target}': {_why(error)}") from error
    return target


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
