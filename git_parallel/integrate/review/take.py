"""Some hunks of a worker's change, and not the others: a new commit on its branch.

The commit follows the fork, not the agent's tip: what was left out would otherwise land with the history.
The agent's commits stay reachable as parents of the run's record, and the new one names their tip in a trailer.
"""

from __future__ import annotations

import os
import tempfile

from msgspec import Struct, field

from git_parallel import worktrees
from git_parallel.errors import GitError, ParallelError, RaceError, UsageError
from git_parallel.git import Git, Repository
from git_parallel.integrate import hooks, hunks
from git_parallel.integrate.hunks import Choice
from git_parallel.integrate.review.decide import MovedError
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS
from git_parallel.render import text
from git_parallel.store import objects, record, refs, snapshots
from git_parallel.store.refs import Update
from git_parallel.worktrees import Entry


class Taken(Struct):
    """The new tip. ``left_alone`` says of worktrees of the branch why their files did not follow."""

    commit: str
    left_alone: list[str] = field(default_factory=list)


def take(repo: Repository, candidate: Candidate, fork: str, choice: Choice) -> Taken:
    """Make the chosen pieces of the change from ``fork`` to the branch's tip all that the branch has.

    Raises UsageError when nothing or everything was chosen, MovedError when the branch moved meanwhile, and
    ParallelError; then nothing has changed.
    """
    old, chosen = candidate.tip, choice.chosen
    assert old is not None
    if not candidate.branch.startswith(HEADS):
        raise UsageError(
            f"the branch of worker {candidate.worker} is another clone's, and is moved there",
            f"make one here with: git branch NAME {old[:12]}",
        )
    if not chosen:
        raise UsageError("no hunk was taken, so there is nothing to commit", "reject the worker with: n")
    tree = _tree(repo, fork, hunks.patch(choice.files, chosen))
    if tree == repo.common.text("rev-parse", f"{old}^{{tree}}"):
        raise UsageError("all hunks were taken: that is what the branch has already", "approve it with: y")
    who = objects.identity(repo)[1]
    commit = _commit(repo, candidate, fork, tree)
    places = [entry for entry in worktrees.entries(repo) if entry.branch == candidate.branch]
    with refs.locked(repo):
        ready = {entry.path: _fault(repo, entry, old) for entry in places}
        clean = [entry for entry in places if ready[entry.path] is None]
        said = f"{len(chosen)} of {text.count(len(choice.pieces), 'hunk')} taken by {who.split(' <')[0]}"
        try:
            record.write(
                repo,
                candidate.run,
                {},
                subject=f"worker {candidate.worker}: {said}",
                trailers=[
                    ("Architect-Event", "hunks-taken"),
                    ("Architect-Worker", str(candidate.worker)),
                    ("Architect-Branch", candidate.name),
                    ("Architect-Head", commit),
                    ("Architect-From", old),
                ],
                parents=[old, commit],
                updates=[Update(candidate.branch, commit, old)],
                notes={commit: _note(candidate, old, said)},
                worktree=clean[0].path if clean else None,
            )
        except RaceError:
            now = refs.read(repo, candidate.branch).get(candidate.branch)
            if now != old:
                raise MovedError(candidate, now) from None
            raise
        faults = {**ready, **{entry.path: _follow(repo, entry, old, commit) for entry in clean}}
    return Taken(commit, [f"{path} was left as it is: {fault}" for path, fault in faults.items() if fault])


def _tree(repo: Repository, fork: str, patch: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="git-parallel-") as scratch:
        env = {"GIT_INDEX_FILE": os.path.join(scratch, "index")}
        repo.common.run("read-tree", fork, env=env)
        try:
            repo.common.run(
                *("-c", "apply.ignoreWhitespace=no", "apply", "--cached", "--whitespace=nowarn", "-"),
                stdin=patch,
                env=env,
            )
        except GitError as error:
            raise ParallelError(
                f"these hunks do not go together: {error.message}",
                "nothing was changed; take those that need each other",
            ) from error
        return repo.common.text("write-tree", env=env)


def _message(repo: Repository, candidate: Candidate, fork: str, old: str) -> str:
    """The agent's own message where it made one commit, else the task's title; with where it comes from."""
    own = repo.common.text("rev-list", "--count", f"{fork}..{old}") == "1"
    said = repo.common.text("log", "-1", "--format=%B", old) if own else text.subject(candidate.task.title)
    trailers = (
        f"Parallel-Run: {candidate.run}",
        f"Parallel-Worker: {candidate.worker}",
        f"Parallel-Reviewed-From: {old}",
    )
    added = [word for trailer in trailers for word in ("--trailer", trailer)]
    rules = ("--if-exists=addIfDifferent", "--if-missing=add", "--where=end")
    stdin = os.fsencode(said.rstrip("\n") + "\n")
    return repo.common.text("interpret-trailers", *rules, *added, stdin=stdin)


def _commit(repo: Repository, candidate: Candidate, fork: str, tree: str) -> str:
    """Write the commit: the agent's authorship, the person's hand, their signature and their commit-msg hook."""
    old = candidate.tip
    assert old is not None
    name, mail, date = repo.common.run("log", "-1", "-z", "--format=%an%x00%ae%x00%ad", "--date=raw", old).fields[:3]
    committer, _, address = objects.identity(repo)[1].rpartition(" <")
    env = {
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_AUTHOR_DATE": f"@{date}",
        "GIT_COMMITTER_NAME": committer,
        "GIT_COMMITTER_EMAIL": address.rstrip(">"),
    }
    sign = ("-S",) if hooks.signs(repo) else ()
    stdin = _through_hook(repo, _message(repo, candidate, fork, old))
    return repo.git.run("commit-tree", *sign, "-p", fork, "-F", "-", tree, stdin=stdin, env=env).text


def _through_hook(repo: Repository, message: str) -> bytes:
    """Let the person's commit-msg hook see the message, and change it.

    It runs where the person stands: a relative ``core.hooksPath`` would mean, in the worker's worktree, hooks that
    the branch brought along.
    """
    with tempfile.TemporaryDirectory(prefix="git-parallel-") as scratch:
        path = os.path.join(scratch, "COMMIT_EDITMSG")
        with open(path, "wb") as file:
            file.write(os.fsencode(message + "\n"))
        done = repo.git.run("hook", "run", "--ignore-missing", "commit-msg", "--", path, hooks=True, ok=range(256))
        if done.returncode:
            complaint = text.one_line(os.fsdecode(done.stderr or done.stdout))
            raise ParallelError(f"the commit-msg hook refuses: {complaint}", "nothing was changed")
        with open(path, "rb") as file:
            return file.read()


def _note(candidate: Candidate, old: str, said: str) -> str:
    return (
        f"Parallel-Worker: {candidate.handle}\n"
        f"Task: {text.one_line(candidate.task.title)}\n"
        f"Reviewed: {said}, of {old}\n"
    )


# --- the branch's worktrees ------------------------------------------------------------------------


def _git(repo: Repository, entry: Entry) -> Git:
    if entry.main or worktrees.paired(repo, entry.path) is None:
        return repo.at(entry.path)
    return worktrees.opened(repo, entry.path)


def _fault(repo: Repository, entry: Entry, old: str) -> str | None:
    """Why the files of a worktree cannot follow the branch; None when they can."""
    if not os.path.isdir(entry.path):
        return "it is not there"
    try:
        git = _git(repo, entry)
        if snapshots.operation_in_progress(git.text("rev-parse", "--absolute-git-dir")):
            return "an operation is in progress there"
        if git.run("status", "--porcelain", "-z", "--untracked-files=no").stdout:
            return "it has changes that are not committed"
    except ParallelError as error:
        return error.message
    return None if entry.head == old else "it is at another commit"


def _follow(repo: Repository, entry: Entry, old: str, new: str) -> str | None:
    """Bring a clean worktree's index and files to the new tip, as a checkout would; return what stood in the way."""
    try:
        _git(repo, entry).run("read-tree", "-m", "-u", old, new)
    except GitError as error:
        return error.message
    return None


def summary(choice: Choice) -> str:
    """``2 of 5 hunks``."""
    return f"{len(choice.chosen)} of {text.count(len(choice.pieces), 'hunk')}"
