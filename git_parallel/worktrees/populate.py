"""Fill a registered worktree: files, LFS content and submodules, from what is on this machine alone.

Runs outside the lock and for several worktrees at once. A repository without LFS and submodules costs
one git process a worktree; what more there is to do is found once for the run, by :func:`features`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Completed, Git, Pending, Repository
from git_parallel.worktrees.registry import opened

# Without git-lfs its filter, which is `required`, would fail the checkout: leave the pointers as they are.
_NO_LFS = ("filter.lfs.process=", "filter.lfs.smudge=", "filter.lfs.required=false")
_CONFIGURATION = r"^(filter\.lfs\.(process|smudge)|submodule\..*\.(url|update))$"


class Submodule(Struct, frozen=True):
    """A submodule of the base that has a repository here.

    ``url`` is its real remote, ``store`` the path of its local repository, ``nested`` its own submodules.
    """

    name: str
    path: str
    url: str
    store: str
    nested: tuple[Submodule, ...] = ()


class Features(Struct, frozen=True):
    """What a base commit needs beyond its files. ``lfs``: 'no', 'yes', or 'missing' (used, but no git-lfs here)."""

    lfs: Literal["no", "yes", "missing"] = "no"
    submodules: tuple[Submodule, ...] = ()
    warnings: tuple[str, ...] = ()


def features(repo: Repository, base: str) -> Features:
    """Find out, once for a run, what worktrees of ``base`` need.

    One git call where neither LFS nor a submodule is configured; two more for LFS, two and one for each
    submodule otherwise.
    """
    return Finding(repo, base).done()


class Finding:
    """Finds the features of a base commit, begun when this is made. The ``with`` block ends it."""

    def __init__(self, repo: Repository, base: str) -> None:
        self._repo = repo
        self._base = base
        self._configured = {entry.key: entry.value for entry in repo.settings if re.search(_CONFIGURATION, entry.key)}
        self._lfs: Pending | None = None
        if any(key.startswith("filter.lfs.") and value for key, value in self._configured.items()):
            arguments = ("grep", "-q", "-F", "-e", "filter=lfs", base, "--", ":(top,glob)**/.gitattributes")
            self._lfs = repo.git.begin(*arguments, ok=(0, 1))

    def __enter__(self) -> Finding:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lfs is not None:
            self._lfs.cancel()

    def done(self) -> Features:
        """Return what was found. To be called once."""
        repo = self._repo
        lfs: Literal["no", "yes", "missing"] = "no"
        if self._lfs is not None and (self._lfs.done().returncode == 0 or _everywhere(repo)):
            lfs = "yes" if repo.common.run("lfs", "version", ok=range(256)).returncode == 0 else "missing"
        warnings: list[str] = []
        stores = list(dict.fromkeys((repo.git_dir, repo.common_dir)))
        top = repo.top or repo.main_top
        submodules = _submodules(repo.git, self._base, self._configured, stores, top=top, warnings=warnings)
        return Features(lfs, submodules, tuple(warnings))


def populate(repo: Repository, path: str, needs: Features | None = None) -> list[str]:
    """Check out the branch of a registered worktree; return warnings. ``needs``: see :func:`features`.

    Raises ParallelError when git cannot (disk full, a filter that fails): the entry, the branch and the
    files written so far stay. Fires no hook, downloads nothing.
    """
    git = opened(repo, path)
    if needs is None:
        needs = features(repo, git.text("rev-parse", "HEAD"))
    filling = git
    if needs.lfs == "missing":
        filling = Git((*git.options, *(word for setting in _NO_LFS for word in ("-c", setting))), git.cwd)
    try:
        # read-tree fills an empty index and primes its cache tree as `reset --hard` does, but writes no
        # ORIG_HEAD. Submodules follow below: git would look for them on the network.
        arguments = ("read-tree", "-u", "--reset", "--no-recurse-submodules", "HEAD")
        filling.run(*arguments, env={"GIT_LFS_SKIP_SMUDGE": "1"}, quiet=True)
    except GitError as error:
        raise ParallelError(
            f"cannot fill worktree '{path}': {_reason(error)}{_full(path)}",
            "its branch and what was written so far are kept",
        ) from error
    warnings = list(needs.warnings)
    if needs.lfs == "yes":
        warnings.extend(_lfs_content(git))
    elif needs.lfs == "missing":
        warnings.append("git-lfs is not installed: files kept by LFS are pointers in the worktrees")
    warnings.extend(_check_out(git, needs.submodules))
    return warnings


def _full(path: str) -> str:
    """Git says which file it could not write, but not why: say it when the disk is full."""
    with suppress(OSError):
        free = os.statvfs(path)
        if free.f_bavail == 0 or (free.f_files and free.f_favail == 0):
            return " (no space left on device)"
    return ""


def _everywhere(repo: Repository) -> bool:
    """Whether LFS is named where it counts for every commit."""
    with suppress(OSError), open(os.path.join(repo.common_dir, "info", "attributes"), "rb") as file:
        return b"filter=lfs" in file.read()
    return False


def _lfs_content(git: Git) -> list[str]:
    """Replace pointers by content from the local store; return a warning for what is not there."""
    done = git.run("lfs", "checkout", ok=range(256))
    if done.returncode:
        return [f"git lfs checkout failed, files kept by LFS are pointers: {_reason(GitError((), 1, done.stderr))}"]
    absent = (done.stdout + done.stderr).count(b"content not local")
    files = "1 LFS file is a pointer" if absent == 1 else f"{absent} LFS files are pointers"
    return [f"{files}: the content is not on this machine; fetch it with 'git lfs fetch'"] if absent else []


def _submodules(
    git: Git,
    tree: str,
    configured: dict[str, str],
    stores: Sequence[str],
    *,
    top: str | None,
    warnings: list[str],
) -> tuple[Submodule, ...]:
    """Return the submodules of ``tree`` that are initialised in ``configured`` and cloned in one of ``stores``.

    ``top``: a worktree that may hold them the old way, each with its own ``.git`` directory.
    """
    names = [key[len("submodule.") : -len(".url")] for key in configured if re.fullmatch(r"submodule\..*\.url", key)]
    names = [name for name in names if configured.get(f"submodule.{name}.update") != "none"]
    if not names:
        return ()
    # No .gitmodules in this commit: git exits with 1 or 128.
    arguments = ("config", "-z", f"--blob={tree}:.gitmodules", "--get-regexp", r"^submodule\..*\.path$")
    paths = _settings(git.run(*arguments, ok=(0, 1, 128)))
    found = {name: paths[f"submodule.{name}.path"] for name in names if f"submodule.{name}.path" in paths}
    commits = _gitlinks(git, tree, list(found.values()))
    submodules = []
    for name, path in found.items():
        store = _store(name, path, stores, top)
        if path not in commits or store is None:
            continue
        url, commit = configured[f"submodule.{name}.url"], commits[path]
        inside = Git((f"--git-dir={store}",), store)
        if inside.run("cat-file", "-e", f"{commit}^{{commit}}", ok=range(256)).returncode:
            warnings.append(
                f"submodule '{path}' is left empty: commit {commit[:12]} is not on this machine; "
                f"get it with 'git submodule update -- {path}'"
            )
            continue
        own = inside.run("config", "--local", "-z", "--get-regexp", _CONFIGURATION, ok=(0, 1))
        nested = _submodules(
            inside, commit, _settings(own), [store], top=top and os.path.join(top, path), warnings=warnings
        )
        submodules.append(Submodule(name, path, url, store, nested))
    return tuple(submodules)


def _gitlinks(git: Git, tree: str, paths: Sequence[str]) -> dict[str, str]:
    """Return the commit that ``tree`` records for each path that is a submodule there."""
    if not paths:
        return {}
    links = {}
    for line in git.run("--literal-pathspecs", "ls-tree", "-z", "--full-tree", tree, "--", *paths).fields:
        facts, _, path = line.partition("\t")
        _, kind, commit = facts.split()
        if kind == "commit":
            links[path] = commit
    return links


def _store(name: str, path: str, stores: Sequence[str], top: str | None) -> str | None:
    candidates = [os.path.join(store, "modules", name) for store in stores]
    if top is not None:
        candidates.append(os.path.join(top, path, ".git"))
    return next((place for place in candidates if os.path.isdir(os.path.join(place, "objects"))), None)


def _check_out(git: Git, submodules: Sequence[Submodule]) -> list[str]:
    """Clone submodules from their local repositories and check them out; return warnings.

    ``git`` names the git directory and the worktree that they belong to. The clones are their own (git
    links their objects instead of copying) and fetch from the real remote afterwards.
    """
    if not submodules:
        return []
    settings = ["protocol.file.allow=always", "clone.defaultRemoteName=origin"]
    for submodule in submodules:
        settings += [f"submodule.{submodule.name}.url={submodule.store}", f"submodule.{submodule.name}.active=true"]
    local = Git((*git.options, *(word for setting in settings for word in ("-c", setting))), git.cwd)
    update = ("submodule", "--quiet", "update", "--checkout", "--no-fetch", "--")
    environment = {"GIT_LFS_SKIP_SMUDGE": "1"}
    paths = [submodule.path for submodule in submodules]
    whole = local.run(*update, *paths, env=environment, ok=range(256))
    warnings: list[str] = []
    git_dir = git.options[0].removeprefix("--git-dir=")
    for submodule in submodules:
        if whole.returncode:
            one = local.run(*update, submodule.path, env=environment, ok=range(256))
            if one.returncode:
                reason = _reason(GitError((), one.returncode, one.stderr))
                warnings.append(f"submodule '{submodule.path}' is left empty: {reason}")
                _empty(os.path.join(git.cwd or "", submodule.path))
                continue
        inner_dir = os.path.join(git_dir, "modules", submodule.name)
        inner_top = os.path.join(git.cwd or "", submodule.path)
        inner = Git((f"--git-dir={inner_dir}", f"--work-tree={inner_top}"), inner_top)
        inner.run("config", "remote.origin.url", submodule.url)
        for nested in submodule.nested:
            inner.run("config", f"submodule.{nested.name}.url", nested.url)
            inner.run("config", f"submodule.{nested.name}.active", "true")
        warnings.extend(f"in '{submodule.path}': {warning}" for warning in _check_out(inner, submodule.nested))
    return warnings


def _empty(path: str) -> None:
    """Make a submodule that could not be checked out look uninitialised, or its place would count as a change."""
    link = os.path.join(path, ".git")
    with suppress(FileNotFoundError):
        if os.listdir(path) == [".git"] and stat.S_ISREG(os.lstat(link).st_mode):
            os.unlink(link)


def _settings(done: Completed) -> dict[str, str]:
    """Return the output of ``git config -z --get-regexp``; of a key given twice the last counts."""
    return {key: value for key, _, value in (field.partition("\n") for field in done.fields)}


def _reason(error: GitError) -> str:
    """Return the cause among git's complaints: of several lines, the one the system gave."""
    for line in error.stderr.splitlines():
        if any(cause in line for cause in ("No space left", "Permission denied", "quota exceeded", "Read-only")):
            return line.removeprefix("error: ").removeprefix("fatal: ")
    return error.message
