"""Commits that nothing but a worktree's own reflog, pseudo-refs and refs know: git forgets them with the worktree.

An agent that amends, resets, rebases or commits on a detached HEAD leaves such commits behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from git_parallel.errors import GitError
from git_parallel.git import Git, Repository

# Refs that a linked worktree has for itself (gitrepository-layout(5)).
_PER_WORKTREE = ("refs/bisect", "refs/worktree", "refs/rewritten")
_PSEUDO = ("ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD", "REVERT_HEAD")
_INDEPENDENT = 500


def lost_commits(git: Git, admin: str, kept: Sequence[str], logs: Sequence[str] = ("HEAD",)) -> list[str]:
    """Commits that only the worktree with the entry ``admin`` knows; ``kept`` stays reachable anyway.

    ``logs`` names the reflogs to read: HEAD's, and that of a branch (a full name) which goes too. Where refs are
    files, git is asked only about commits that are not themselves kept: mostly there are none.
    """
    try:
        there = set(os.listdir(admin))
    except OSError:
        there = set()
    if "reftable" not in there:
        candidates = [commit for log in logs for commit in _read_log(admin, log)]
        candidates += [commit for name in _PSEUDO if name in there for commit in _read_words(os.path.join(admin, name))]
        own = "refs" in there and any(os.path.isdir(os.path.join(admin, name)) for name in _PER_WORKTREE)
    else:
        candidates = [commit for log in logs for commit in logged(git, log, admin)]
        for name in _PSEUDO:
            candidates += git.run("rev-parse", "-q", "--verify", f"{name}^{{commit}}", ok=(0, 1, 128)).text.split()
        own = True
    if own:
        names = git.run("for-each-ref", "--format=%(objectname) %(*objectname)", *_PER_WORKTREE, ok=(0, 128))
        candidates += names.text.split()
    return unreachable(git, [commit for commit in dict.fromkeys(candidates) if commit not in kept], kept)


def unreachable(git: Git, commits: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Which of ``commits`` (those that exist) are not reachable from ``kept``, nor from another of them."""
    if not commits:
        return []
    asked = "\n".join([*commits, *(f"^{commit}" for commit in kept)])
    alive = set(git.run("rev-list", "--stdin", "--ignore-missing", stdin=asked.encode() + b"\n").text.split())
    wanted = [commit for commit in commits if commit in alive]
    while len(wanted) > 1:  # a bounded number of arguments for each call
        chunks = [wanted[at : at + _INDEPENDENT] for at in range(0, len(wanted), _INDEPENDENT)]
        fewer = [oid for chunk in chunks for oid in git.text("merge-base", "--independent", *chunk).split()]
        if len(chunks) == 1 or len(fewer) == len(wanted):
            return fewer
        wanted = fewer
    return wanted


def on_no_ref(repo: Repository, commits: Sequence[str], *, besides: str | None = None) -> list[str]:
    """Which of these commits no ref reaches, ``besides`` left aside. When git cannot tell (a broken ref), all."""
    if not commits:
        return []
    stdin = "".join(f"{commit}\n" for commit in commits).encode()
    but = [f"--exclude={besides}"] if besides is not None else []
    try:
        done = repo.common.run("rev-list", "--stdin", "--ignore-missing", "--not", *but, "--glob=refs/*", stdin=stdin)
    except GitError:
        return list(commits)
    loose = set(done.text.split())
    return [commit for commit in commits if commit in loose]


def logged(git: Git, log: str, admin: str | None = None) -> list[str]:
    """The commits of a reflog, the newest first. With ``admin``, HEAD's may be read as a file.

    git itself shows no reflog of a HEAD on a branch without commits.
    """
    done = git.run("reflog", "show", "--format=%H", log, "--", ok=(0, 128))
    if done.returncode == 0 or admin is None or log != "HEAD":
        return done.text.split()
    return list(_read_log(admin, log))


def _read_log(admin: str, log: str) -> Iterator[str]:
    """The commits of a reflog that is a file, the newest first, the one before the first entry last."""
    top = admin if log == "HEAD" else os.path.dirname(os.path.dirname(admin))
    try:
        with open(os.path.join(top, "logs", log), "rb") as file:
            words = [line.split(b" ", 2)[:2] for line in file]
    except OSError:
        return
    for pair in reversed(words):
        for word in reversed(pair):
            if word.strip(b"0"):
                yield word.decode("ascii", "replace")


def _read_words(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return [line.split()[0] for line in file if line.strip()]
    except OSError:
        return []
