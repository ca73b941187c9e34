"""What a reviewer does to a worker's change: edit it, take hunks of it, comment on it, check it again."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from git_parallel import worktrees
from git_parallel.cli import _common, _keys
from git_parallel.cli._keys import Keys
from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import hunks
from git_parallel.integrate.hunks import ANSWERS, Choice, Piece
from git_parallel.integrate.review import check, comments, edit, take
from git_parallel.integrate.review.facts import Facts
from git_parallel.integrate.verdicts import Comment
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import State
from git_parallel.plan.model import CheckResult
from git_parallel.render import details, review, text
from git_parallel.render.review import DiffColours


def say(message: str) -> None:
    """Lines for the person, where they look: between the questions."""
    sys.stdout.write("".join(f"{text.printable(line)}\n" for line in message.split("\n")))
    sys.stdout.flush()


# --- edit ------------------------------------------------------------------------------------------


def edit_in_worktree(repo: Repository, keys: Keys, facts: Facts) -> None:
    """Let the person work in the worktree, then offer to commit what they did. Raises ParallelError."""
    one = facts.candidate
    before = edit.look(repo, one)
    if before.operation is not None:
        say(f"a {before.operation} is in progress in {one.worktree}")
    how = keys.ask("edit with your [e]ditor or [s]hell, or [n]ot", "esn")
    if how == "s":
        shell = os.environ.get("SHELL") or "/bin/sh"
        say(f"{shell} in {one.worktree}; leave it to go on with the review")
        _keys.run([shell], cwd=one.worktree)
    elif how == "e":
        changed = [path for path in facts.change.paths if os.path.isfile(os.path.join(one.worktree, path))]
        # A path may begin with a dash, and an editor may take it for an option.
        _keys.edit(repo.git, [f"./{path}" for path in changed[: edit.MOST_FILES]] or ["."], cwd=one.worktree)
    else:
        return
    _offer_commit(repo, keys, one)


def _offer_commit(repo: Repository, keys: Keys, one: Candidate) -> None:
    after = edit.look(repo, one)
    if after.elsewhere is not None:
        say(f"HEAD of the worktree is at {after.elsewhere} now, not on {one.name}; nothing was committed")
        return
    if not after.dirty:
        return
    git = edit.git_in(repo, one)
    git.show("--no-pager", "status", "--short")
    if after.operation is not None:
        say(f"a {after.operation} is in progress; finish it there, then review again")
        return
    if keys.ask("commit all of this on the branch", "yn") != "y":
        say(f"not committed; it stays in {one.worktree}")
        return
    with _keys.given_away():
        done = git.show("add", "-A", "--", ":/") or git.show(*edit.commit_arguments(repo, one))
    if done:
        say(f"not committed; it stays in {one.worktree}")


# --- hunks -----------------------------------------------------------------------------------------


def take_hunks(repo: Repository, keys: Keys, facts: Facts) -> str | None:
    """Choose hunks; return the new tip of the branch, or None when it stays. Raises ParallelError."""
    files = hunks.read(repo, facts.fork, facts.tip)
    if not files:
        say("the branch changes nothing: there is no hunk to take")
        return None
    choice = _choose(keys, hunks.choose(files), _diff_colours(repo))
    if choice is None:
        say("nothing was changed")
        return None
    if not choice.chosen or len(choice.chosen) == len(choice.pieces):
        say("no hunk was taken: reject it with n" if not choice.chosen else "all were taken: approve it with y")
        return None
    if keys.ask(f"put {take.summary(choice)} on {facts.candidate.name} as a new commit, without the rest", "yn") != "y":
        say("nothing was changed")
        return None
    taken = take.take(repo, facts.candidate, facts.fork, choice)
    say(f"{facts.candidate.name} is at {taken.commit[:12]} now; the agent's {facts.tip[:12]} stays in the run's record")
    for line in taken.left_alone:
        _common.say("warning", line)
    return taken.commit


def _choose(keys: Keys, choice: Choice, colours: DiffColours) -> Choice | None:
    """Ask about each piece; None when the person ends the input instead."""
    told: Piece | None = None
    file = -1
    while not choice.over:
        piece = choice.piece
        if piece != told:
            lines = hunks.shown(choice.files, piece)
            if piece.file != file and piece.kind == "hunk":
                lines = [*choice.files[piece.file].head, *lines]
            shown = [line for line in lines if not line.startswith(b"index ")]  # ids in full: no person reads those
            file = piece.file
            sys.stdout.write(review.hunk(shown, colours))
            told = piece
        offered = [key for key in ANSWERS if key != "s" or choice.splits]
        answer = keys.ask(f"({choice.at + 1}/{len(choice.pieces)}) {_question(choice)}", offered)
        if answer == _keys.END:
            return None
        choice, outcome = hunks.answer(choice, answer)
        if outcome == "help":
            say("\n".join(f"{key} - {ANSWERS[key]}" for key in offered))
        elif outcome == "split":
            say(f"split into {len(piece.groups)} hunks")
    return choice


def _question(choice: Choice) -> str:
    piece, file = choice.piece, choice.files[choice.piece.file]
    if piece.kind == "mode":
        return "take this change of mode"
    if piece.kind == "hunk":
        return "take this hunk"
    kinds = {b"new file mode ": "take this new file", b"deleted file mode ": "take this deletion"}
    found = [said for start, said in kinds.items() if any(line.startswith(start) for line in file.raw)]
    return found[0] if len(found) == 1 else "take this change of the file"


def _diff_colours(repo: Repository) -> DiffColours:
    if not _keys.colours_wanted(repo.git, "color.diff"):
        return DiffColours()
    slots = {"meta": "bold", "frag": "cyan", "old": "red", "new": "green"}
    return DiffColours(**{slot: _keys.colour(repo.git, f"color.diff.{slot}", usual) for slot, usual in slots.items()})


# --- comments --------------------------------------------------------------------------------------


def comment(repo: Repository, facts: Facts) -> tuple[str, str | None, list[Comment]] | None:
    """Let the person comment on the change in their editor; return the file, the message and the comments.

    None when there was nothing to record. The file is theirs until the verdict is recorded: it outlives a crash
    and is gone on with.
    """
    one = facts.candidate
    directory = os.path.join(State(repo.common_dir).top, "review")
    path = os.path.join(directory, f"{one.run}-{one.worker}-{facts.tip[:12]}.txt")
    quoted = comments.quote(hunks.read(repo, facts.fork, facts.tip), comments.MOST_LINES + 1)
    lines = quoted[: comments.MOST_LINES]
    os.makedirs(directory, exist_ok=True)
    if os.path.exists(path):
        say(f"going on with the comments of an interrupted review: {path}")
    else:
        title = f"worker {one.worker} ({text.subject(one.task.title)})"
        whole = comments.template(title, lines, cut=len(quoted) > len(lines))
        with open(path, "wb") as file:
            file.write(whole.encode("utf-8", "surrogateescape"))
    try:
        failed = _keys.edit(repo.git, [path])
    except GitError:
        os.unlink(path)
        raise
    with open(path, "rb") as file:
        message, found = comments.parse(file.read().decode("utf-8", "surrogateescape"), lines)
    if failed:
        say(f"the editor failed (exit code {failed}); nothing was recorded")
    if not message and not found:
        if not failed:
            say("no comment was written; nothing was recorded")
        os.unlink(path)
        return None
    if failed:
        say(f"what you wrote is in {path}, and comes up again")
        return None
    return path, message, found


def discard(path: str) -> None:
    """The verdict is recorded: the file has served."""
    with suppress(FileNotFoundError):
        os.unlink(path)


# --- checks ----------------------------------------------------------------------------------------


def run_checks(repo: Repository, keys: Keys, facts: Facts) -> list[CheckResult]:
    """Run the run's checks, or those of the configuration, in the worktree as it is. Raises ParallelError."""
    one = facts.candidate
    wanted = check.commands(one) or _configured(repo)
    if not wanted:
        say("the run has no check; set one with: git config parallel.check COMMAND")
        return []
    if not os.path.exists(State(repo.common_dir).run(one.run).spec):
        say("this run was not started in this repository; its checks are:")
        for command in wanted:
            say(f"    {command}")
        if keys.ask("run them here", "yn") != "y":
            return []
    if worktrees.paired(repo, one.worktree) is not None:
        place = edit.look(repo, one)
        if place.dirty or place.elsewhere is not None:
            say("the worktree is not what the branch has: the checks see it as it is")
    results = []
    try:
        for result in check.run(repo, one, wanted, _through):
            results.append(result)
            say(details.check(result))
    except KeyboardInterrupt:
        say("\nthe check was ended")
    return results


def _configured(repo: Repository) -> Sequence[str]:
    """The checks in force now. Raises ParallelError when the repository's own were not approved here."""
    from git_parallel.plan import config, trust  # noqa: PLC0415 (only for runs without a check)

    found = config.load(repo)
    if trust.unapproved(repo.common_dir, found.repository_commands()):
        raise ParallelError(
            "the repository's own commands have not been approved on this machine", "see: git parallel config"
        )
    return found.check


def _through(data: bytes) -> None:
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
