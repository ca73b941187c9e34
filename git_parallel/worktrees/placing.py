"""Where workers go: the lowest numbers that are free as branch and as path, and git's exclude file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec import Struct

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import HEADS
from git_parallel.worktrees.branches import Wanted, existing
from git_parallel.worktrees.names import FIELDS, Place, Template, branch_fault, field_values, path_fault
from git_parallel.worktrees.registry import Entry, begin_entries, entries, make_directories, real, remove_empty

BRANCH = "parallel.branch"
WORKTREE = "parallel.worktree"

# What git and this tool keep in a repository's own directory: a bare repository's worktrees may lie
# beside these, never inside.
_GIT_OWN = frozenset(
    {"architect", "branches", "config", "hooks", "index", "info", "lfs", "logs", "modules", "objects", "packed-refs"}
    | {"refs", "reftable", "worktrees"}
)
_SPARE = 16  # numbers asked for beyond those needed, so that one call of git usually answers
_LARGEST_BATCH = 512
# What stands for the fields while a path is worked out: characters for private use, which are in no real name.
_MARKS = {field: chr(0xE000 + index) for index, field in enumerate(FIELDS)}
_AS_NUL = dict.fromkeys(map(ord, _MARKS.values()), "\0")  # no path has one
_EXCLUDE_NOTE = b"# worktrees of git parallel"


def allocate(
    repo: Repository,
    count: int,
    *,
    branch: str,
    worktree: str,
    values: Callable[[int], Mapping[str, str | None]],
    taken: Collection[int] = (),
) -> list[Place]:
    """Return ``count`` places with the lowest free numbers, rising. The caller holds the lock.

    A number is free when no branch of the template has it (whatever the other fields say), nothing lies
    at the path, no registered worktree claims it, and it is not in ``taken``. ``values(i)`` gives the
    raw ``run task model repo`` of the i-th place. Raises UsageError for a template that cannot work.
    """
    branches, paths = Template.parse(branch, BRANCH), Template.parse(worktree, WORKTREE)
    rows = [field_values(values(index)) for index in range(count)]
    for row in rows[:1]:  # before the search: a template that cannot work would never find a number
        if fault := branch_fault(branches.render(1, row)):
            raise _invalid(branch, branches.render(1, row), fault)
    wanted = Wanted.of(branches, rows)
    first, size = 1, count + _SPARE
    with begin_entries(repo) as listed:
        there = existing(repo, wanted.patterns(range(first, first + size)))  # git does both at once
        registered = entries(repo, listed)
    site = _Site(root(repo), repo, registered)
    for row in rows[:1]:
        site.check(paths.render(1, row), worktree)
    # An unborn branch that somebody stands on is no ref yet.
    checked_out = {entry.branch.removeprefix(HEADS) for entry in registered if entry.branch}
    places: list[Place] = []
    used: set[str] = set()
    while len(places) < count:
        numbers = range(first, first + size)
        names = (there if first == 1 else existing(repo, wanted.patterns(numbers))) | checked_out
        if clash := wanted.clash(names):
            raise _clashing(branch, clash)
        blocked = wanted.numbers(names) | set(taken)
        for number in numbers:
            if len(places) == count:
                break
            row = rows[len(places)]
            name, path = branches.render(number, row), site.resolve(paths.render(number, row))
            if number in blocked or site.claimed(path) or used & {name, path}:
                continue
            if fault := branch_fault(name):
                raise _invalid(branch, name, fault)
            used |= {name, path}
            places.append(Place(number, name, path))
        first, size = first + size, min(size * 2, _LARGEST_BATCH)
    for place in places:
        site.check(place.path, worktree)
    return places


def root(repo: Repository) -> str:
    """Return the directory that relative worktree templates start from.

    The top of the main worktree; the repository itself when it is bare, or what holds it when it is
    called ``.git``.
    """
    if repo.main_top is not None:
        return os.path.realpath(repo.main_top)
    name = os.path.basename(repo.common_dir)
    return os.path.dirname(repo.common_dir) if name == ".git" else repo.common_dir


def exclude(repo: Repository, worktree: str, places: Sequence[Place] = ()) -> list[str]:
    """Add worktrees inside a worktree to ``info/exclude``, once; return warnings. The caller holds the lock.

    One pattern for the template, unless its fixed part says too little to be the tool's own: then one
    line for each of ``places``. A worktree outside the main worktree and the caller's needs no line.
    """
    template = Template.parse(worktree, WORKTREE)
    sample = _absolute(template.render(_MARKS["n"], _MARKS), root(repo), worktree)
    warnings: list[str] = []
    for top in dict.fromkeys(os.path.realpath(top) for top in (repo.main_top, repo.top) if top):
        if not _within(sample, top):
            continue
        relative = os.path.relpath(sample, top)
        if "\n" in relative:
            raise UsageError(f"{WORKTREE} holds a newline, which no exclude pattern can match", _another(WORKTREE))
        fixed = relative.translate(_AS_NUL).partition("\0")[0]
        if "/" in fixed or len(fixed.strip(".-_")) >= 3:
            lines = [f"/{_filled(_escape(relative).replace(_MARKS['n'], '[0-9]*'), '*')}/"]
        else:
            inside = [place.path for place in places if _within(place.path, top)]
            lines = [f"/{_escape(os.path.relpath(path, top))}/" for path in inside]
        add_excludes(repo, lines)
        warnings.extend(_shown_again(repo, top, relative))
    return warnings


def exclude_directory(repo: Repository, path: str) -> None:
    """Add one directory to ``info/exclude`` when it lies in the main worktree or the caller's."""
    for top in dict.fromkeys(os.path.realpath(top) for top in (repo.main_top, repo.top) if top):
        if _within(path, top):
            add_excludes(repo, [f"/{_escape(os.path.relpath(path, top))}/"])


def add_excludes(repo: Repository, lines: Sequence[str]) -> None:
    """Append the lines that ``info/exclude`` does not have yet; what it has is kept byte for byte."""
    path = os.path.join(repo.common_dir, "info", "exclude")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Opened for appending, not replaced: the file may be a link, and its mode is the person's.
        with open(path, "a+b") as file:
            file.seek(0)
            content = file.read()
            present = {line.rstrip(b"\r") for line in content.split(b"\n")}
            new = [line for line in map(os.fsencode, lines) if line not in present]
            if not new:
                return
            note = [] if _EXCLUDE_NOTE in present else [_EXCLUDE_NOTE]
            start = b"\n" if content and not content.endswith(b"\n") else b""
            file.write(start + b"".join(line + b"\n" for line in (*note, *new)))
    except OSError as error:
        raise ParallelError(
            f"cannot write '{path}': {(error.strerror or str(error)).lower()}",
            "without it 'git add -A' would stage the workers' worktrees; nothing was started",
        ) from error


class _Site(Struct, frozen=True):
    """What paths of new worktrees are held against."""

    base: str
    repo: Repository
    registered: Sequence[Entry]

    def resolve(self, path: str) -> str:
        return _absolute(path, self.base, path)

    def claimed(self, path: str) -> bool:
        """Whether something lies at the path (a dangling link too), or a worktree is registered there."""
        return os.path.lexists(path) or any(entry.path == path for entry in self.registered)

    def check(self, path: str, template: str) -> None:
        """Raise UsageError when no worktree can or may be made at the path."""
        path = _absolute(path, self.base, template)
        if fault := path_fault(path):
            raise _misplaced(template, fault)
        for own in {self.repo.common_dir, self.repo.git_dir}:
            if _within(path, own) and self._keeps_off(path, own):
                raise self._inside(path, own, template)
        for entry in self.registered:
            if entry.ours and path != entry.path and _within(path, entry.path):
                raise _misplaced(template, f"'{path}' is inside the worktree of a worker, '{entry.path}'")
        above = os.path.dirname(path)
        while not os.path.lexists(above):
            above = os.path.dirname(above)
        if not os.path.isdir(above):
            raise _misplaced(template, f"'{above}' is not a directory")
        if not os.access(above, os.W_OK | os.X_OK):
            raise ParallelError(f"cannot create worktrees in '{above}': it is not writable", _another(WORKTREE))

    def _inside(self, path: str, own: str, template: str) -> UsageError:
        if self.repo.main_top == self.repo.common_dir:  # git's guess from a linked worktree
            return UsageError(
                f"git does not record where the main worktree of '{own}' is",
                f"start from the main worktree, or give an absolute path: git config {WORKTREE} '/…/{{n}}'",
            )
        return _misplaced(template, f"'{path}' is inside the git directory '{own}'")

    def _keeps_off(self, path: str, own: str) -> bool:
        if self.repo.main_top is not None or own != self.repo.common_dir or os.path.basename(own) == ".git":
            return True
        return os.path.relpath(path, own).split("/")[0] in _GIT_OWN


def _absolute(path: str, base: str, template: str) -> str:
    expanded = os.path.expanduser(path)
    if expanded.startswith("~"):
        raise _misplaced(template, f"there is no user '{expanded.split('/')[0][1:]}'")
    joined = os.path.join(base, expanded)
    if os.path.basename(joined.rstrip("/")) in {"", ".", ".."}:
        raise _misplaced(template, "it names no directory")
    return real(joined)


def _within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _misplaced(template: str, reason: str) -> UsageError:
    return UsageError(f"{WORKTREE} '{template}': {reason}", _another(WORKTREE))


def _invalid(template: str, name: str, fault: str) -> UsageError:
    return UsageError(f"{BRANCH} '{template}' makes '{name}', no valid branch name: {fault}", _another(BRANCH))


def _clashing(template: str, name: str) -> UsageError:
    return UsageError(
        f"a branch named '{name}' exists, so that '{template}' cannot be created below it",
        f"rename it: git branch -m {name} <new-name>",
        f"or name the workers' branches otherwise: git config {BRANCH} 'parallel/worker-{{n}}'",
    )


def _another(setting: str) -> str:
    return f"set another template: git config {setting} '…{{n}}…'"


def _filled(text: str, value: str) -> str:
    """Put one value in place of all marks."""
    return text.translate(_AS_NUL).replace("\0", value)


def _escape(path: str) -> str:
    return re.sub(r"([\\*?\[])", r"\\\1", path)


def _shown_again(repo: Repository, top: str, template: str) -> list[str]:
    """Warn when a ``.gitignore`` takes the exclusion back (``!*/``): it counts for more than info/exclude.

    ``template`` is the place below ``top``, with marks for its fields.
    """
    try:
        with open(os.path.join(top, ".gitignore"), "rb") as file:
            if not any(line.startswith(b"!") for line in file):
                return []
    except OSError:
        return []
    # Git tells directories from files by looking: show it one that no worker can have, as numbers start at 1.
    probe = os.path.join(top, _filled(template, "0"))
    try:
        made = make_directories(probe)
    except OSError:  # `register` will say it
        return []
    try:
        ignored = repo.at(top).run("check-ignore", "-q", "--no-index", "--", probe, ok=(0, 1)).returncode == 0
    finally:
        remove_empty(made)
    if ignored:
        return []
    pattern = _filled(_escape(template), "*")
    return [
        f"a rule in .gitignore takes back the exclusion of '{pattern}', and 'git add -A' would stage workers' "
        f"worktrees: add '/{pattern}/' at the end of .gitignore, or set parallel.worktree"
    ]
