"""Records of landings: ``refs/architect/merges/<id>``, their live files, and what runs and notes say of them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts
from git_parallel.integrate.plan import Branch, Merge, decode, encode
from git_parallel.layout import MERGES, MergeFiles, State, merge_ref, run_ref
from git_parallel.render import text
from git_parallel.store import refs
from git_parallel.store.objects import batch
from git_parallel.store.record import Chain, Entry, merge_chain, run_chain
from git_parallel.supervisor import files, liveness

_FILE = "merge.json"
_LANDED = ("Worker", "Commit", "Target", "Merge")  # trailers of a landing in a run's record


def chains(merge: Merge, branches: Sequence[Branch], *, known_runs: Sequence[str]) -> list[Chain]:
    """What is recorded when ``branches`` land together: the landing's own record first, then those of the runs.

    Runs that are not in ``known_runs`` have no record to write to.
    """
    said = ", ".join(f"worker {branch.worker}" for branch in branches)
    own = entry(
        merge,
        f"land {said} on {short(merge.target)}",
        "landing",
        parents=[branches[-1].commit or "", *(branch.head for branch in branches)],
        notes={branch.commit or "": note(merge, branch) for branch in branches},
    )
    found = [merge_chain(merge.merge, [own])]
    for run in dict.fromkeys(branch.run for branch in branches if branch.run in known_runs):
        entries = [_landed(merge, branch) for branch in branches if branch.run == run]
        found.append(run_chain(run, entries))
    return found


def taken_back(merge: Merge, branches: Sequence[Branch], *, known_runs: Sequence[str]) -> list[Chain]:
    """What is recorded when the target had to go back at once, because a checkout could not follow."""
    own = entry(merge, "moved back: the checkout could not follow", "landing-taken-back")
    found = [merge_chain(merge.merge, [own])]
    for run in dict.fromkeys(branch.run for branch in branches if branch.run in known_runs):
        workers = [branch.worker for branch in branches if branch.run == run]
        trailers = [("Architect-Event", "landing-taken-back"), ("Architect-Merge", merge.merge)]
        subjects = ", ".join(f"worker {worker}" for worker in workers)
        found.append(
            run_chain(run, [Entry(changes={}, subject=f"{subjects}: not landed after all", trailers=trailers)])
        )
    return found


def entry(
    merge: Merge, subject: str, event: str, *, parents: Sequence[str] = (), notes: dict[str, str] | None = None
) -> Entry:
    """One commit of a landing's own record, with the landing as it is now."""
    counts: dict[str, int] = {}
    for branch in merge.branches:
        counts[branch.state] = counts.get(branch.state, 0) + 1
    return Entry(
        changes={_FILE: encode(merge)},
        subject=subject,
        trailers=[
            ("Architect-Event", event),
            ("Architect-State", "running" if merge.state in ("going", "stopped") else "ended"),
            ("Architect-Target", short(merge.target)),
            ("Architect-Counts", " ".join(f"{state}={number}" for state, number in counts.items())),
        ],
        parents=parents,
        notes=notes,
    )


def _landed(merge: Merge, branch: Branch) -> Entry:
    assert branch.commit is not None
    return Entry(
        changes={},
        subject=f"worker {branch.worker}: landed on {short(merge.target)} as {branch.commit[:12]}",
        trailers=[
            ("Architect-Event", "landing"),
            ("Architect-Worker", str(branch.worker)),
            ("Architect-Head", branch.head),
            ("Architect-Merge", merge.merge),
            ("Architect-Commit", branch.commit),
            ("Architect-Target", short(merge.target)),
        ],
        parents=[branch.commit],
    )


def note(merge: Merge, branch: Branch) -> str:
    """The lines that ``git log`` shows on a commit that landed."""
    assert branch.onto is not None
    lines = [
        f"Parallel-Merge: {merge.merge}",
        f"Worker: {branch.handle}",
        f"Task: {text.one_line(branch.title)}",
        f"Landed: on {short(merge.target)}, after {branch.onto[:12]} ({merge.strategy})",
        f"Review: approved by {branch.by} on {verdicts.when(branch.at or '')}"
        if branch.by
        else "Review: none (--no-review)",
    ]
    lines += [f"Check: {'green' if one.green else 'red'}: {text.one_line(one.command)}" for one in branch.checks]
    return "\n".join(lines) + "\n"


def short(target: str) -> str:
    """A branch as people call it."""
    return target.removeprefix("refs/heads/")


# --- reading -----------------------------------------------------------------------------------------


class Landed(msgspec.Struct, frozen=True):
    """A worker's branch that landed on ``target`` as ``commit``; ``undone``: the landing was taken back since."""

    worker: int
    commit: str
    target: str
    merge: str
    undone: bool = False


def of_run(repo: Repository, run: str) -> list[Landed]:
    """What of a run has landed, the oldest first, from its record and those of the landings. Two git calls."""
    form = "--format=" + "".join(f"%(trailers:key=Architect-{key},valueonly)" for key in _LANDED)
    wanted = ("--first-parent", "--reverse", "--no-show-signature", "--grep=^Architect-Event: landing$")
    rows = repo.common.run("log", "-z", *wanted, form, run_ref(run), "--", ok=(0, 128)).fields
    told = [row.split("\n")[: len(_LANDED)] for row in rows]
    whole = (one for one in told if len(one) == len(_LANDED) and one[0].isdecimal())
    found = [Landed(int(worker), commit, target, merge) for worker, commit, target, merge in whole]
    ids = list(dict.fromkeys(one.merge for one in found))
    data = batch(repo, [f"{merge_ref(name)}:{_FILE}" for name in ids]) if ids else []
    known = {name: parse(one.data) for name, one in zip(ids, data, strict=True) if one is not None}
    return [
        msgspec.structs.replace(one, undone=one.merge in known and known[one.merge].undone is not None)
        for one in found
        # Where a checkout could not follow, the record of the run says first that it landed.
        if one.merge not in known or one.commit in {branch.commit for branch in known[one.merge].landed}
    ]


def newest(repo: Repository) -> str:
    """The id of the last landing that was begun here; empty when there was none."""
    try:
        return max(os.listdir(State(repo.common_dir).merges), default="")
    except FileNotFoundError:
        return ""


def live(repo: Repository) -> list[str]:
    """The landings that are not complete: at work, stopped at a conflict, or dead. Oldest first."""
    state = State(repo.common_dir)
    try:
        names = sorted(os.listdir(state.merges))
    except FileNotFoundError:
        return []
    return [name for name in names if os.path.exists(state.merge(name).holder)]


def load(repo: Repository, merge: str) -> Merge | None:
    """Return a landing from its live files, else from its record; None when nothing knows it."""
    data = files.read(State(repo.common_dir).merge(merge).plan)
    return parse(data) if data is not None else recorded(repo, merge)


def recorded(repo: Repository, merge: str) -> Merge | None:
    """Return a landing as its record has it."""
    found = batch(repo, [f"{merge_ref(merge)}:{_FILE}"])[0]
    return parse(found.data) if found is not None else None


def parse(data: bytes) -> Merge:
    """Decode ``merge.json``. Raises ParallelError."""
    try:
        return decode(data)
    except msgspec.MsgspecError as error:
        raise ParallelError(f"cannot read the landing: {error}", "a newer git parallel may have written it") from error


def find(repo: Repository, word: str) -> Merge:
    """Return the landing that a person means by its id or the beginning of it. Raises UsageError.

    ``last`` is the last one that has something to take back, where there is one.
    """
    state = State(repo.common_dir)
    names = {ref.removeprefix(MERGES) for ref in refs.read_below(repo, MERGES.rstrip("/"))}
    if os.path.isdir(state.merges):
        names |= {name for name in os.listdir(state.merges) if os.path.exists(state.merge(name).plan)}
    if word == "last" and names:
        newest_first = sorted(names, reverse=True)
        word = next((name for name in newest_first if _is_in_place(load(repo, name))), newest_first[0])
    matching = sorted(name for name in names if name.startswith(word))
    if len(matching) > 1 and word not in matching:
        raise UsageError(f"'{word}' is ambiguous: {len(matching)} landings begin with it", *matching[:8])
    found = load(repo, word if word in matching else matching[0]) if matching else None
    if found is None:
        raise UsageError(f"there is no landing '{word}'")
    return found


def _is_in_place(merge: Merge | None) -> bool:
    """Whether a landing has landed something, and is not undone; or may still land it."""
    return merge is not None and (merge.state in ("going", "stopped") or (bool(merge.landed) and not merge.undone))


def in_progress(repo: Repository, word: str | None) -> Merge:
    """Return the landing to go on with: the one that ``word`` names, or the newest that is not complete.

    Raises UsageError.
    """
    names = [name for name in live(repo) if word is None or name.startswith(word)]
    for name in reversed(names):
        found = load(repo, name)
        if found is not None:
            return found
    raise UsageError("there is no landing in progress" if word is None else f"landing '{word}' is not in progress")


def claim(merge_files: MergeFiles) -> liveness.Claim:
    """Take a landing's lock. Raises ParallelError when somebody is at work on it."""
    held = liveness.claim_file(merge_files.holder)
    if held is None:
        pid = liveness.holder(merge_files.holder)
        raise ParallelError(f"landing {os.path.basename(merge_files.top)} is at work in process {pid}", "wait for it")
    return held
