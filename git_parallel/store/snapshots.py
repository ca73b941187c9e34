"""Captures what lies in a worktree: tracked, untracked and staged, not ignored.

The agent's own index is never written while its processes may live: everything happens in a copy of
it, which also keeps the cost to what really changed. Looking (`look`) writes only objects; the commit
and the refs that keep them are made by the caller, in one transaction with the record.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from git_parallel import index as indexes
from git_parallel import system
from git_parallel.errors import GitError
from git_parallel.git import Git, Repository
from git_parallel.layout import HEADS
from git_parallel.store.objects import COMPARING, Objects, batch

# Operations in progress, by what git leaves in the worktree's own git directory.
_OPERATIONS = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
    "sequencer": "cherry-pick",
}

# Compiled when they are needed, which few commands do.
_NOT_ADDED = r"^error: (?:'(?P<nested>.*)' does not have a commit checked out|unable to index file '(?P<file>.*)')$"

_MOST_MISSING = 50

_LARGE_INDEX = 1 << 16  # bytes, hundreds of entries: from there on git is as quick
_SUBMODULE = 0o160000

# With refs that are no files it names "refs/heads/.invalid".
_HEAD = re.compile(r"(?:ref: (?P<branch>refs/heads/[^.\n][^\n]*)|[0-9a-f]{40,64})\n")

_SNAPSHOT_TRAILER = r"(?m)^Architect-(?P<key>[A-Z][a-z]+): (?P<value>.+)$"
_NOT_READ = r"^warning: could not open directory '(?P<directory>.*)': "


class Look(Struct, frozen=True):
    """A worktree as it is. ``head`` is None on an unborn branch; ``tree`` holds everything capturable.

    ``branch`` is the full name HEAD points to, None when detached; ``operation`` a merge, rebase …
    in progress; ``missing`` what could not be captured, with the reason; ``index`` the temporary
    index that matches ``tree``.
    """

    head: str | None
    head_tree: str | None
    branch: str | None
    tree: str
    operation: str | None
    missing: tuple[str, ...]
    index: str

    @property
    def dirty(self) -> bool:
        """There is work that no commit holds."""
        return self.tree != self.head_tree


class Change(Struct, frozen=True):
    """What differs between two trees: paths in order, lines added and removed, and new nested repositories."""

    paths: list[str]
    insertions: int
    deletions: int
    nested: list[str]


def look(
    repo: Repository,
    worktree: str,
    admin: str,
    scratch: str,
    leave: Sequence[str] = (),
    *,
    thorough: bool = False,
    again: bool = False,
    objects: Objects | None = None,
) -> Look:
    """Read a linked worktree's state into objects. ``scratch`` is a path for the temporary index.

    ``leave`` are excluding pathspecs for untracked files that nobody wants. ``thorough`` also looks at files
    that git was told not to look at (``update-index --assume-unchanged``, ``--skip-worktree``). ``again``:
    ``scratch`` is what an earlier look left there, and the worktree's own index is still the same; what did not
    change since then is not read again. ``objects``: the repository's, where they are open already; saves a process.

    Raises GitError when git cannot read the worktree or write objects; nothing of the worktree is changed.
    """
    # Named, not found: were the worktree's .git file gone, git would find the repository around it.
    git = Git((f"--git-dir={admin}", f"--work-tree={worktree}"), worktree)
    head = _head(objects, admin) if objects is not None else None
    return look_at(git, admin, scratch, leave, head or _ask_head(git), thorough=thorough, again=again, objects=objects)


def look_at(
    git: Git,
    admin: str,
    scratch: str,
    leave: Sequence[str] = (),
    head: Head | None = None,
    *,
    thorough: bool = False,
    again: bool = False,
    objects: Objects | None = None,
) -> Look:
    """The same for the worktree that ``git`` works in; ``admin`` is its own git directory, ``head`` its HEAD."""
    head = head or _ask_head(git)
    try:
        return _look_at(git, admin, scratch, leave, head, objects=objects, thorough=thorough, again=again)
    except GitError:
        # `git gc --prune=now` may have taken what was just added; with the index as it was, all is added once more.
        return _look_at(git, admin, scratch, leave, head, objects=objects, thorough=thorough, again=False)


class Head(NamedTuple):
    """HEAD's commit, its tree (both None on an unborn branch) and the full name it points to, None when detached."""

    commit: str | None
    tree: str | None
    branch: str | None


def _ask_head(git: Git) -> Head:
    asked = git.run("rev-parse", "HEAD", "HEAD^{tree}", "--symbolic-full-name", "HEAD", ok=(0, 128))
    if asked.returncode:
        return Head(None, None, None)
    commit, tree, name = asked.lines
    return Head(commit, tree, name if name != "HEAD" else None)


def _head(objects: Objects, admin: str) -> Head | None:
    """The same without a process of its own, from the entry of a linked worktree; None where HEAD is no plain file."""
    says = system.read(os.path.join(admin, "HEAD"))
    match = _HEAD.fullmatch(os.fsdecode(says)) if says is not None else None
    if match is None:
        return None
    name = f"worktrees/{os.path.basename(admin)}/HEAD"
    commit, tree = objects.resolve(name, f"{name}^{{tree}}")
    return Head(commit, tree, match["branch"]) if commit and tree else Head(None, None, None)


def _look_at(
    git: Git,
    admin: str,
    scratch: str,
    leave: Sequence[str],
    head: Head,
    *,
    objects: Objects | None,
    thorough: bool,
    again: bool,
) -> Look:
    if not again:
        copy_index(os.path.join(admin, "index"), scratch)
    env = {"GIT_INDEX_FILE": scratch}
    if thorough:
        _show_hidden(git, env)
    words = ("-A", "--sparse", "--ignore-errors", "--", ":/", *leave)
    added = git.run("add", *words, env=env, ok=(0, 1), quiet=True)
    if leave:  # tracked files of such a name are the repository's own
        git.run("add", "-u", "--sparse", "--ignore-errors", "--", ":/", env=env, ok=(0, 1))
    tree = (_tree(objects, scratch) if objects is not None else None) or git.text("write-tree", env=env)
    return Look(
        head=head.commit,
        head_tree=head.tree,
        branch=head.branch,
        tree=tree,
        operation=operation_in_progress(admin),
        missing=tuple(not_captured(added.stderr)),
        index=scratch,
    )


def _tree(objects: Objects, index: str) -> str | None:
    """Write the tree of a small index, as `git write-tree` does; None where that has to be asked, or would refuse."""
    data = system.read(index)
    found = indexes.parse(data, objects.oid_length) if data is not None and len(data) < _LARGE_INDEX else None
    if found is None:
        return None
    entries = found.outermost()
    if not objects.have([oid for mode, oid in entries.values() if mode != _SUBMODULE]):
        return None
    try:
        return entries[""][1] if "" in entries else objects.tree(entries)
    except ValueError:  # a path that no tree may have
        return None


Stamp = tuple[int, int, int]
"""What changes whenever git writes a file anew: inode, size, time of change (ns)."""


def stamp(path: str) -> Stamp | None:
    """A file's stamp; None when there is no such file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def copy_index(source: str, target: str) -> None:
    """Copy an index with its time stamp: git judges by it whether an entry may be stale."""
    with contextlib.suppress(FileNotFoundError):
        if os.path.getsize(source):
            system.copy(source, target)
            return
    # None yet, or one that a power cut emptied: git starts from nothing.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)


def _show_hidden(git: Git, env: Mapping[str, str]) -> None:
    """Take from the temporary index the marks that hide changes of files which are there."""
    words = [field.split(" ", 1) for field in git.run("ls-files", "-v", "-z", "--", ":/", env=env).fields]
    unchanged = [path for tag, path in words if tag.islower()]
    skipped = [path for tag, path in words if tag in "Ss"]
    if skipped:
        top = git.text("rev-parse", "--show-toplevel")
        skipped = [path for path in skipped if os.path.lexists(os.path.join(top, path))]
    for option, paths in (("--no-assume-unchanged", unchanged), ("--no-skip-worktree", skipped)):
        if paths:
            stdin = os.fsencode("".join(f"{path}\0" for path in paths))
            git.run("update-index", option, "-z", "--stdin", stdin=stdin, env=env)


def operation_in_progress(admin: str) -> str | None:
    """Name the merge, rebase, cherry-pick … that is under way in a worktree, or None."""
    return next((name for file, name in _OPERATIONS.items() if os.path.exists(os.path.join(admin, file))), None)


def not_captured(stderr: bytes) -> list[str]:
    """Read from `git add --ignore-errors` what it left out, and why."""
    left: list[str] = []
    for line in os.fsdecode(stderr).splitlines():
        if match := re.match(_NOT_ADDED, line):
            if match["nested"]:
                left.append(f"{match['nested']}: a repository of its own without a commit")
            else:
                left.append(f"{match['file']}: cannot be read")
        elif match := re.match(_NOT_READ, line):
            left.append(f"{match['directory']}: cannot be read")
    return left


def submodule_work(git: Git, worktree: str) -> list[str]:
    """What lies in submodules and nowhere else: a capture takes in the commit they stand at, not their content."""
    if not os.path.exists(os.path.join(worktree, ".gitmodules")):
        return []
    output = git.run("status", "--porcelain=v2", "-z", "--ignore-submodules=none", ok=(0, 128)).stdout
    said = []
    for field in output.split(b"\0"):
        parts = field.split(b" ", 8)
        if len(parts) == 9 and parts[0] == b"1" and parts[2].startswith(b"S"):
            marks = {"C": "commits", "M": "changes", "U": "untracked files"}
            found = [what for mark, what in marks.items() if mark in parts[2].decode()]
            path = os.fsdecode(parts[8])
            said.append(
                f"not captured: {path}: {' and '.join(found) or 'work'} in a submodule, kept in the worktree alone"
            )
    return said


def compared(objects: Objects, before: str, after: str) -> Change:
    """The same as :func:`change`, of trees, for one of many comparisons: no process of its own."""
    return parse_change(objects.compare(before, after))


def change(git: Git, before: str, after: str) -> Change:
    """Compare two trees (or commits) path by path; renames count as one path gone and one new."""
    if before == after:
        return Change([], 0, 0, [])
    return parse_change(git.run("diff-tree", *COMPARING, before, after).stdout)


def parse_change(output: bytes) -> Change:
    """Parse `diff-tree -z --raw --numstat`: raw records (``:modes ids status`` NUL ``path``), then counts."""
    fields = output.split(b"\0")
    paths: list[str] = []
    nested: list[str] = []
    insertions = deletions = 0
    position = 0
    while position < len(fields) and fields[position]:
        field = fields[position]
        if field.startswith(b":"):
            path = os.fsdecode(fields[position + 1])
            paths.append(path)
            if field.split(b" ")[1] == b"160000" and field.startswith(b":000000"):
                nested.append(path)
            position += 2
        else:
            added, removed, _ = field.split(b"\t", 2)
            insertions += int(added) if added != b"-" else 0
            deletions += int(removed) if removed != b"-" else 0
            position += 1
    return Change(paths, insertions, deletions, nested)


def snapshot(
    objects: Objects,
    seen: Look,
    message: str,
    *,
    index_tree: str | None,
    lost: Sequence[str] = (),
    ignored: str | None = None,
    previous: str | None = None,
) -> str:
    """Write a commit that holds a worktree's state, and return its id.

    Its tree is what lay in the worktree, its first parent HEAD; a second commit holds the index where
    it differs from both, ``lost`` are commits that only a reflog knew, ``ignored`` is one of files that git
    ignores, ``previous`` an earlier snapshot.
    Each is named by a trailer, so that restore can tell them apart.
    """
    parents = [seen.head] if seen.head else []
    trailers = [f"Architect-Head: {seen.head}"] if seen.head else []
    if seen.branch:
        trailers.append(f"Architect-Branch: {seen.branch.removeprefix(HEADS)}")
    if index_tree and index_tree not in (seen.tree, seen.head_tree):
        staged = objects.commit(index_tree, parents, "index of a snapshot\n")
        trailers.append(f"Architect-Index: {staged}")
        parents = [*parents, staged]
    trailers += [f"Architect-Lost: {commit}" for commit in lost]
    parents = [*parents, *lost]
    if ignored:
        trailers.append(f"Architect-Ignored: {ignored}")
        parents = [*parents, ignored]
    trailers += [f"Architect-Missing: {' '.join(what.split())}" for what in seen.missing[:_MOST_MISSING]]
    if previous:
        trailers.append(f"Architect-Previous: {previous}")
        parents = [*parents, previous]
    return objects.commit(seen.tree, parents, message.rstrip("\n") + "\n\n" + "\n".join(trailers) + "\n")


class Snapshot(Struct, frozen=True):
    """A snapshot as it is read again. ``head`` is None for an unborn branch, ``index`` a commit of the index.

    ``ignored`` is one of files that git ignores; ``missing`` is what could not be captured, and why; ``branch`` is
    the short name HEAD pointed to, None when detached; ``time`` is epoch seconds.
    """

    oid: str
    tree: str
    head: str | None
    branch: str | None
    index: str | None
    lost: tuple[str, ...]
    ignored: str | None
    missing: tuple[str, ...]
    previous: str | None
    time: int
    subject: str


def read_snapshots(repo: Repository, commits: Sequence[str]) -> list[Snapshot | None]:
    """Read snapshots in one git call; None for what is not there, or is no commit."""
    found = batch(repo, commits)
    return [parse_snapshot(one.oid, one.data) if one and one.kind == "commit" else None for one in found]


def parse_snapshot(oid: str, data: bytes) -> Snapshot:
    """Read a snapshot from a commit object's bytes."""
    header, _, message = os.fsdecode(data).partition("\n\n")
    fields = dict(line.split(" ", 1) for line in header.splitlines() if " " in line and not line.startswith(" "))
    names: dict[str, list[str]] = {}
    for match in re.finditer(_SNAPSHOT_TRAILER, message.rstrip().rpartition("\n\n")[2]):
        names.setdefault(match["key"], []).append(match["value"])
    first = {key: values[0] for key, values in names.items()}
    return Snapshot(
        oid=oid,
        tree=fields["tree"],
        head=first.get("Head"),
        branch=first.get("Branch"),
        index=first.get("Index"),
        lost=tuple(names.get("Lost", ())),
        ignored=first.get("Ignored"),
        missing=tuple(names.get("Missing", ())),
        previous=first.get("Previous"),
        time=int(fields["committer"].split()[-2]),
        subject=message.partition("\n")[0],
    )


def staged_tree(git: Git, index: str | None = None) -> str | None:
    """The tree of a worktree's own index, or None when it holds conflicts (then the files hold the markers).

    git takes the index's lock to write its tree; ``index`` is a copy to do that with while an agent works.
    """
    done = git.run("write-tree", env={"GIT_INDEX_FILE": index} if index else {}, ok=(0, 128))
    return done.text if done.returncode == 0 else None


def tracked(git: Git, index: str, paths: Sequence[str]) -> frozenset[str]:
    """Which of these paths an index has entries for; a directory only where it is a submodule's."""
    env = {"GIT_INDEX_FILE": index, "GIT_LITERAL_PATHSPECS": "1"}
    return frozenset(git.run("ls-files", "-z", "--", *(path.rstrip("/") for path in paths), env=env).fields)


def tree_of(git: Git, scratch: str, paths: Sequence[str]) -> tuple[str, list[str]]:
    """Write a tree of just these paths, ignored or not, and all below them; return it, and what is not in it."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(scratch)
    env = {"GIT_INDEX_FILE": scratch, "GIT_LITERAL_PATHSPECS": "1"}
    stdin = os.fsencode("".join(f"{path}\0" for path in paths))
    options = ("-f", "--sparse", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
    added = git.run("add", *options, stdin=stdin, env=env, ok=(0, 1))
    tree = git.text("write-tree", env=env)
    os.unlink(scratch)
    return tree, not_captured(added.stderr)


def install_index(admin: str, index: str) -> bool:
    """Make the temporary index the worktree's own, as git would: through index.lock. False when that is held.

    The lock is a second name of ``index``: one that our death left is known by that, and the next call goes on.
    """
    lock, own = os.path.join(admin, "index.lock"), os.path.join(admin, "index")
    if os.path.exists(own) and os.path.samefile(index, own):
        return True
    try:
        os.link(index, lock)
    except FileExistsError:
        if not os.path.samefile(index, lock):
            return False
    except OSError:  # a file system without such names
        try:
            descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        os.close(descriptor)
        system.copy(index, lock)
    os.replace(lock, own)
    return True
