"""Records go to another repository and come from there, because somebody asked for it (DESIGN section 6).

What comes is first put below ``refs/architect/remotes/<remote>/``, and then merged into ours: nothing of ours
is overwritten, nothing of theirs is passed over. Snapshots of uncommitted work never move, agents' output only
when asked.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from git_parallel.errors import GitError, ParallelError, RaceError, UsageError
from git_parallel.git import Repository
from git_parallel.layout import AWAY, LOGS, MERGES, NOTES, REMOTES, RUNS, State, away_ref
from git_parallel.plan.model import decode_spec
from git_parallel.store import merging, notes, refs
from git_parallel.store.objects import Objects, batch
from git_parallel.store.reading import VERSION, parse_version
from git_parallel.store.refs import Update

How = Literal["new", "updated", "joined", "ours"]

# Below refs/architect/: what is shared, and with --logs what the agents printed.
_SHARED = (RUNS, MERGES)
_TRIES = 5
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REJECTED = re.compile(r"^!\t[^\t]*\t\[(?P<what>[^\]]*)\](?: \((?P<why>.*)\))?", re.MULTILINE)
# Somebody was there first: what they brought is to be merged, and then it can be tried again.
_OVERTAKEN = re.compile(r"fetch first|non-fast-forward|failed to update ref|cannot lock ref|incorrect old value|stale")
# What git takes in no name of a ref (git-check-ref-format(1)).
_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|/\.|\./|\.lock/|@\{")
_NO_ATOMIC = "does not support --atomic"


class Change(NamedTuple):
    """What became of one of our refs: ``kind`` is run, merge, notes or logs; ``ours``: it could not be merged."""

    kind: str
    name: str
    how: How
    note: str | None = None


class Shared(Struct):
    """What a fetch or a push did. ``pushed`` is False where the remote had everything, or nothing was pushed."""

    remote: str
    changes: list[Change]
    pushed: list[str] = []


def default_remote(repo: Repository, *, push: bool) -> str:
    """The remote that git itself would take for the current branch. Raises UsageError when there is none."""
    branch = repo.git.run("symbolic-ref", "-q", "--short", "HEAD", ok=(0, 1)).text
    # Only the section and the last word of a key have no case.
    keys = [f"branch.{branch}.pushremote", "remote.pushdefault"] if push else []
    for key in (*keys, f"branch.{branch}.remote"):
        value = repo.setting(key)
        if value and value != ".":  # a branch may follow another one of its own repository
            return value
    known = repo.common.run("remote").lines
    if len(known) == 1 or "origin" in known:
        return known[0] if len(known) == 1 else "origin"
    if not known:
        raise UsageError("there is no remote to share with", "name one, or add it: git remote add origin URL")
    raise UsageError(f"which remote? there are {', '.join(known)}", "name one of them")


# --- fetch and push ---------------------------------------------------------------------------------


def fetch(repo: Repository, remote: str, *, logs: bool = False, prompt: bool = False) -> Shared:
    """Get the records of ``remote`` (a name or a URL) and merge them into ours.

    ``prompt``: git may ask for a password. Raises GitError when the remote cannot be read, ParallelError when
    ours keep changing meanwhile; what was merged before stays, no ref is half-way.
    """
    private = f"{REMOTES}{_directory(remote)}/"
    shared = [*_SHARED, *([LOGS] if logs else [])]
    specs = [f"+{below}*:{private}{below.removeprefix('refs/')}*" for below in shared]
    # As a pattern, which need not match: a remote without notes is no error.
    specs.append(f"+{NOTES}*:{private}{NOTES.removeprefix('refs/')}*")
    options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--prune", "--no-recurse-submodules", "--refmap=")
    repo.git.run("fetch", *options, "--", remote, *specs, env=_asking(prompt))
    return Shared(remote, _integrate(repo, private, remote, shared))


def push(repo: Repository, remote: str, *, logs: bool = False, prompt: bool = False) -> Shared:
    """Give our records to ``remote``; what it has beyond ours is fetched and merged first. Raises as :func:`fetch`."""
    changes: dict[tuple[str, str], Change] = {}
    shared = [*_SHARED, *([LOGS] if logs else [])]
    for _ in range(_TRIES):
        there = refs.read_below(repo, *(below.rstrip("/") for below in shared), NOTES)
        specs = [f"{below}*:{below}*" for below in shared] + ([f"{NOTES}:{NOTES}"] if NOTES in there else [])
        if not there:
            return Shared(remote, list(changes.values()))
        output = _push(repo, remote, specs, prompt)
        if output is not None:
            lines = [line.split("\t") for line in output.splitlines() if "\t" in line]
            moved = [fields[1].partition(":")[2] for fields in lines if fields[0] in (" ", "*", "+")]
            return Shared(remote, list(changes.values()), moved)
        for change in fetch(repo, remote, logs=logs, prompt=prompt).changes:
            changes[change.kind, change.name] = change
    raise ParallelError(
        f"others keep pushing to '{remote}'", "what they pushed is here now; ours is not there yet: push again"
    )


def _push(repo: Repository, remote: str, specs: list[str], prompt: bool) -> str | None:
    """Push once; return what git says, or None when the remote has something that must be merged first."""
    for atomic in (("--atomic",), ()):
        arguments = ("push", "--porcelain", "--no-recurse-submodules", *atomic, "--", remote, *specs)
        # The person's own hooks run, as at any push; inside a worker the fence's refuses.
        done = repo.git.run(*arguments, ok=range(256), hooks=True, env=_asking(prompt))
        said = os.fsdecode(done.stdout)
        if done.returncode == 0:
            return said
        complaint = os.fsdecode(done.stderr)
        if atomic and _NO_ATOMIC in complaint:
            continue
        found = list(_REJECTED.finditer(said))
        whys = [f"{match['what']} {match['why'] or ''}" for match in found]
        real = [why for why in whys if "atomic" not in why and not _OVERTAKEN.search(why)]
        if whys and not real:
            return None
        error = GitError(done.argv, done.returncode, done.stderr)
        if real:
            error.message = f"'{remote}' refused: {real[0].strip()}"
        raise error
    return None


def _asking(prompt: bool) -> dict[str, str]:
    return {"GIT_TERMINAL_PROMPT": "1"} if prompt else {}


def _directory(remote: str) -> str:
    """Where a remote's refs are put: below its name, or below a digest of its URL."""
    if _NAME.fullmatch(remote) and not remote.endswith((".", ".lock")) and ".." not in remote:
        return remote
    return "url-" + hashlib.sha256(os.fsencode(remote)).hexdigest()[:12]


# --- merging what came ------------------------------------------------------------------------------


class _Pair(NamedTuple):
    """One ref of ours and what came for it."""

    ref: str
    kind: str
    name: str
    ours: str | None
    theirs: str


def _integrate(repo: Repository, private: str, remote: str, shared: list[str]) -> list[Change]:
    """Bring our refs up to what came, all in one transaction."""
    for _ in range(_TRIES):
        with refs.locked(repo), Objects(repo) as objects:
            came = refs.read_below(repo, private.rstrip("/"))
            ours = refs.read_below(repo, *(below.rstrip("/") for below in (*shared, AWAY)), NOTES)
            updates: list[Update] = []
            changes: list[Change] = []
            for pair in _pairs(private, came, ours, shared):
                tip, change = _joined(repo, objects, pair, remote)
                if change is not None:
                    changes.append(change)
                if tip != pair.ours:
                    updates.append(Update(pair.ref, tip, pair.ours or repo.zero))
                if pair.kind == "run" and tip is not None:
                    updates += _away(repo, objects, pair, tip, ours)
            try:
                refs.transaction(repo, updates, message=f"parallel: fetched from {remote}")
            except RaceError:
                continue
            return changes
    raise RaceError("the records keep changing while others are merged into them", "nothing was changed; try again")


def _pairs(private: str, came: Mapping[str, str], ours: Mapping[str, str], shared: list[str]) -> Iterator[_Pair]:
    kinds = {RUNS: "run", MERGES: "merge", LOGS: "logs"}
    for name, oid in came.items():
        ref = "refs/" + name.removeprefix(private)
        if ref == NOTES:
            yield _Pair(ref, "notes", ref, ours.get(ref), oid)
        for below in shared:
            tail = ref.removeprefix(below)
            if ref.startswith(below) and _NAME.fullmatch(tail):
                yield _Pair(ref, kinds[below], tail, ours.get(ref), oid)


def _joined(repo: Repository, objects: Objects, pair: _Pair, remote: str) -> tuple[str | None, Change | None]:
    """Return where a ref of ours is to be, and what to say of it (None: nothing)."""
    ours, theirs = pair.ours, pair.theirs
    if ours == theirs:
        return ours, None
    version = parse_version(objects.path_blob(theirs, "version")) if pair.kind in ("run", "merge") else VERSION
    if version is None:
        return ours, Change(pair.kind, pair.name, "ours", f"what '{remote}' has is no record")
    if ours is None:
        return theirs, Change(pair.kind, pair.name, "new")
    base = repo.common.run("merge-base", ours, theirs, ok=(0, 1)).text or None
    if base == theirs:
        return ours, None
    if base == ours:
        return theirs, Change(pair.kind, pair.name, "updated")
    if version > VERSION:
        return ours, Change(pair.kind, pair.name, "ours", f"a newer git parallel wrote what '{remote}' has")
    if pair.kind == "notes":
        return notes.merge(objects, base, ours, theirs), Change(pair.kind, pair.name, "joined")
    key = (f"Architect-{'Merge' if pair.kind == 'merge' else 'Run'}", pair.name)
    subject = f"joined with {remote if _NAME.fullmatch(remote) else 'another clone'}"
    return merging.record(objects, base, (ours, theirs), subject, key), Change(pair.kind, pair.name, "joined")


def _away(repo: Repository, objects: Objects, pair: _Pair, tip: str, ours: Mapping[str, str]) -> Iterator[Update]:
    """What stands for the branches of a run that was not started here: its workers can be reviewed and merged."""
    known = {name: oid for name, oid in ours.items() if name.startswith(f"{AWAY}{pair.name}/")}
    if os.path.isfile(State(repo.common_dir).run(pair.name).spec) or (tip == pair.ours and known):
        return
    files = objects.read_tree(objects.read_commit(tip)[0])
    if "run.json" not in files:
        return
    before = {}
    if pair.ours is not None:
        before = merging.heads(objects.read_tree(objects.read_commit(pair.ours)[0]), objects.read_blob)
    heads = merging.heads(files, objects.read_blob)
    there = batch(repo, list(heads.values()))
    jobs = _branches(objects.read_blob(files["run.json"][1]))
    for (worker, head), found in zip(heads.items(), there, strict=True):
        if worker not in jobs:
            continue
        ref = away_ref(pair.name, jobs[worker])
        now = known.get(ref)
        # One that was moved here (some hunks of it were taken) stays: what it stood for is in the record.
        if found is not None and found.kind == "commit" and now != head and now in (None, before.get(worker)):
            yield Update(ref, head, now or repo.zero)


def _branches(data: bytes) -> dict[int, str]:
    """The branches of a run that came from elsewhere: those whose names git would take."""
    try:
        jobs = decode_spec(data).jobs
    except msgspec.MsgspecError:
        return {}
    return {job.worker: job.branch for job in jobs if not _NO_REF.search(f"/{job.branch}/")}
