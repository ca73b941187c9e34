"""A decision becomes a verdict: only on what the person has seen, and written at once."""

from __future__ import annotations

from collections.abc import Sequence

from git_parallel.errors import ParallelError, RaceError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import nested, verdicts
from git_parallel.integrate.verdicts import Comment, Verdict, Word
from git_parallel.integrate.workers import Candidate
from git_parallel.render import text
from git_parallel.store import refs
from git_parallel.worktrees import submodules

_SHORT = 12


class MovedError(ParallelError):
    """The branch is not where it was when the person looked. ``now`` is its tip, None when it is gone."""

    def __init__(self, candidate: Candidate, now: str | None) -> None:
        self.now = now
        where = f"is at {now[:_SHORT]} now" if now else "is gone"
        seen = str(candidate.tip)[:_SHORT]
        super().__init__(f"'{candidate.name}' {where}, and not at {seen} as it was shown; nothing was recorded")


class OvertakenError(ParallelError):
    """Somebody gave a verdict on the same head since the person looked."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(
            f"worker {verdict.worker} got a verdict meanwhile: {verdict.verdict} by {verdict.by}; nothing was recorded"
        )


def refusal(candidate: Candidate) -> UsageError | None:
    """Why there can be no verdict on a worker now, or None."""
    if not candidate.ended:
        return UsageError(
            f"worker {candidate.worker} is {candidate.state}: its head may still move",
            f"wait for it with: git parallel wait {candidate.run}",
        )
    if candidate.tip is None:
        away = candidate.successor is not None
        gone = candidate.gone if away else f"'{candidate.name}' does not exist"
        return UsageError(
            f"worker {candidate.worker} has no branch to review: {gone}",
            f"{'its work under another name' if away else 'if it was cleaned up, get it back with'}: {candidate.back}",
        )
    return None


def doubts(repo: Repository, candidate: Candidate) -> list[str]:
    """What speaks against approving it, and is said when somebody does."""
    result = candidate.result
    found = []
    if result is not None and result.status != "success":
        found.append(f"worker {candidate.worker} ended as {text.ending(result.status, result.reason)}")
    if candidate.tip == candidate.base:
        found.append(f"the branch of worker {candidate.worker} has no commit of its own: there is nothing to land")
    if result is not None and result.snapshot:
        found.append(f"work of worker {candidate.worker} is in a snapshot, not on its branch: {result.snapshot}")
    if candidate.tip is not None:
        found += submodules.only_here(repo, candidate.worktree, candidate.base, candidate.tip)
        found += nested.doubts(repo, [(candidate.base, candidate.tip)])
    red = [check for check in (result.check or () if result else ()) if not check.green]
    if red and result is not None and result.status == "success":
        found.append(f"a check of worker {candidate.worker} is red: {text.one_line(red[0].command)}")
    return found


def give(
    repo: Repository,
    candidate: Candidate,
    word: Word,
    *,
    seen: Verdict | None = None,
    message: str | None = None,
    comments: Sequence[Comment] = (),
    explicit: bool = False,
    terminal: bool | None = None,
) -> Verdict:
    """Record a verdict on the head that the person was shown (``candidate.tip``); return it.

    ``seen`` is the verdict on that head that they were shown; one that came in since is not passed over in
    silence. An ``explicit`` verdict, given by a flag, is about the head as it is and looks at no other.
    Raises MovedError, OvertakenError and what :func:`refusal` returns; nothing is recorded then.
    """
    if (refused := refusal(candidate)) is not None:
        raise refused
    assert candidate.tip is not None
    with refs.locked(repo):
        _still(repo, candidate)
        if not explicit:
            latest = verdicts.current(verdicts.of_run(repo, candidate.run).get(candidate.worker, []), candidate.tip)
            if latest is not None and latest != seen:
                raise OvertakenError(latest)
        try:
            return verdicts.give(
                repo,
                candidate.run,
                candidate.worker,
                word,
                candidate.tip,
                message=_plain(message.strip()) or None if message else None,
                comments=[Comment(_plain(one.text), _path(one.path), one.line, one.side) for one in comments],
                explicit=explicit,
                terminal=terminal,
                branch=candidate.branch,
            )
        except RaceError:
            _still(repo, candidate)  # agents and people move branches without our lock
            raise


def _still(repo: Repository, candidate: Candidate) -> None:
    now = refs.read(repo, candidate.branch).get(candidate.branch)
    if now != candidate.tip:
        raise MovedError(candidate, now)


def _plain(said: str) -> str:
    """What was typed, where its bytes were no text: JSON holds none."""
    return said.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _path(path: str | None) -> str | None:
    return None if path is None else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
