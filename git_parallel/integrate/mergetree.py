"""Merges without a worktree: ``git merge-tree --write-tree``, many pairs to a process, one process per core.

Needs git 2.38. Merge bases are git's own choice: naming one needs ``--merge-base`` (git 2.40).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct, field

from git_parallel.errors import GitError
from git_parallel.git import Repository

# A second process pays off from about this many merges on; each costs some milliseconds to start.
_WORTH_A_PROCESS = 4

_MEMORY = "/dev/shm"  # noqa: S108 (a private directory is made in it)
_ROOM = 256 << 20

_KIND = re.compile(r"CONFLICT ?\((?P<kind>[^)]*)\)")
# What git says beside the kind that tells more: of several kinds of a path the most telling one is kept.
_PLAIN_KINDS = ("content", "add/add")


class Conflict(Struct, frozen=True):
    """A path that does not merge by itself. ``kind`` is in git's words: ``content``, ``add/add``, ``modify/delete`` …

    ``path`` is the path both sides mean, also where git would put a version aside as ``path~side``.
    ``stages`` gives mode and object id of the base (1), ours (2) and theirs (3), as far as they exist;
    it is empty where only a directory's fate is unclear.
    """

    path: str
    kind: str
    stages: Mapping[int, tuple[str, str]]


class Message(Struct, frozen=True):
    """What git says of a merge: paths it is about, its kind (``Auto-merging``, ``CONFLICT (contents)``), the text."""

    paths: tuple[str, ...]
    kind: str
    text: str


class MergeOutcome(Struct, frozen=True):
    """One merge. ``tree`` is the merged tree (with conflict markers when not ``clean``).

    ``failed`` is git's reason when it would not merge at all (unrelated histories, a missing object);
    ``tree`` is None then.
    """

    ours: str
    theirs: str
    tree: str | None
    clean: bool
    conflicts: tuple[Conflict, ...] = ()
    messages: tuple[Message, ...] = ()
    failed: str | None = None

    @property
    def paths(self) -> list[str]:
        """The conflicting paths, each once, in order."""
        return [conflict.path for conflict in self.conflicts]


def merge_trees(
    repo: Repository, pairs: Iterable[tuple[str, str]], *, env: Mapping[str, str] | None = None
) -> Iterator[MergeOutcome]:
    """Merge each ``(ours, theirs)`` (commit ids) and return the outcomes in the same order.

    The merged trees are written to the repository's objects, or where ``env`` says (:func:`scratch_objects`).
    """
    wanted = list(pairs)
    share = max(1, min(_cores(), len(wanted) // _WORTH_A_PROCESS))
    if share == 1:
        yield from _merge(repo, wanted, env)
        return
    done: dict[int, list[MergeOutcome] | BaseException] = {}

    def work(first: int) -> None:
        try:
            # Dealt out like cards: neighbours tend to be alike, and so each process gets its part of the hard ones.
            done[first] = _merge(repo, wanted[first::share], env)
        except BaseException as error:
            done[first] = error

    threads = [threading.Thread(target=work, args=(first,)) for first in range(share)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(len(wanted)):
        part = done[index % share]
        if isinstance(part, BaseException):
            raise part
        yield part[index // share]


def merge(repo: Repository, ours: str, theirs: str, *, env: Mapping[str, str] | None = None) -> MergeOutcome:
    """Merge one pair."""
    return next(merge_trees(repo, [(ours, theirs)], env=env))


@contextmanager
def scratch_objects(repo: Repository) -> Iterator[dict[str, str]]:
    """Yield an environment in which git writes new objects to a place that is gone afterwards.

    Predicting a thousand merges would otherwise leave thousands of unreachable objects behind, until the
    person's next commit spends its time on `git gc --auto`.
    """
    objects = os.path.join(repo.common_dir, "objects")
    with scratch_directory() as scratch:
        stores = ":".join(map(_quoted, [objects, *_relative_alternates(objects)]))
        yield {"GIT_OBJECT_DIRECTORY": scratch, "GIT_ALTERNATE_OBJECT_DIRECTORIES": stores}


@contextmanager
def scratch_directory() -> Iterator[str]:
    """Yield a private directory that is gone afterwards: in memory where there is room, else in TMPDIR.

    Merging writes some small files for each pair; on a disk they take several times as long as the merges.
    """
    if _roomy(_MEMORY):
        above = _MEMORY
    else:
        import tempfile  # noqa: PLC0415 (and what it imports takes longer than all that is done here)

        above = tempfile.gettempdir()
    path = os.path.join(above, f"git-parallel-{os.urandom(8).hex()}")
    os.mkdir(path, 0o700)
    try:
        yield path
    finally:
        for directory, directories, files in os.walk(path, topdown=False):
            for name in files:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(directory, name))
            for name in directories:
                os.rmdir(os.path.join(directory, name))
        os.rmdir(path)


def _roomy(directory: str) -> bool:
    try:
        room = os.statvfs(directory)
    except OSError:  # macOS has none
        return False
    return os.access(directory, os.W_OK) and room.f_bavail * room.f_frsize >= _ROOM


def _relative_alternates(objects: str) -> Iterator[str]:
    """The alternates that git reads only from a repository's own objects: those given by a relative path."""
    try:
        with open(os.path.join(objects, "info", "alternates"), encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        if line and not line.startswith(("#", "/", '"')):
            yield os.path.normpath(os.path.join(objects, line))


def _quoted(path: str) -> str:
    """A path in GIT_ALTERNATE_OBJECT_DIRECTORIES, whose entries are parted by colons (git(1))."""
    if ":" not in path and not path.startswith('"'):
        return path
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def _merge(repo: Repository, pairs: Sequence[tuple[str, str]], env: Mapping[str, str] | None) -> list[MergeOutcome]:
    """Merge pairs in one process; a pair that git refuses ends it, and the rest gets another."""
    done: list[MergeOutcome] = []
    # What is gone in a moment need not be compressed.
    options = ("-c", "core.looseCompression=0") if env and "GIT_OBJECT_DIRECTORY" in env else ()
    while len(done) < len(pairs):
        rest = pairs[len(done) :]
        lines = "".join(f"{ours} {theirs}\n" for ours, theirs in rest)
        # Messages are asked for by name: left to itself, what git prints depends on the first merge's outcome.
        ran = repo.common.run(
            *options,
            "merge-tree",
            "--write-tree",
            "--stdin",
            "-z",
            "--messages",
            stdin=lines.encode(),
            env=env,
            ok=range(-64, 256),
        )
        merged = parse(ran.stdout, rest)
        done += merged
        if len(merged) < len(rest):
            ours, theirs = rest[len(merged)]
            reason = GitError(ran.argv, ran.returncode, ran.stderr).message
            done.append(MergeOutcome(ours, theirs, None, False, failed=reason))
    return done


def parse(output: bytes, pairs: Sequence[tuple[str, str]]) -> list[MergeOutcome]:
    """Read ``merge-tree --stdin -z --messages``: as many outcomes as are complete. Pure.

    A record: ``1`` when clean (the exit code of a single merge says the opposite), the tree, the stages
    (``mode id stage`` TAB ``path``) up to an empty field, the messages (number of paths, the paths, kind,
    text) up to a field that is no number.
    """
    fields = [os.fsdecode(one) for one in output.split(b"\0")[:-1]]
    outcomes: list[MergeOutcome] = []
    position = 0
    for ours, theirs in pairs:
        try:
            clean, tree = fields[position] == "1", fields[position + 1]
            position += 2
            stages: list[tuple[str, int, str, str]] = []
            while fields[position]:
                about, _, path = fields[position].partition("\t")
                mode, oid, stage = about.split(" ")
                stages.append((path, int(stage), mode, oid))
                position += 1
            messages: list[Message] = []
            position += 1
            while fields[position].isdecimal():
                kind_at = position + 1 + int(fields[position])
                paths = tuple(fields[position + 1 : kind_at])
                messages.append(Message(paths, fields[kind_at], fields[kind_at + 1].rstrip("\n")))
                position = kind_at + 2
            # Of a submodule's conflict git 2.38 and later print advice right here, in the empty field's place.
            position += 1
        except IndexError:  # git ended in the middle
            break
        conflicts = () if clean else _conflicts(stages, messages, (ours, theirs))
        outcomes.append(MergeOutcome(ours, theirs, tree, clean, conflicts, tuple(messages)))
    return outcomes


class _Gathered(Struct):
    kinds: list[str] = field(default_factory=list)
    stages: dict[int, tuple[str, str]] = field(default_factory=dict)


def _conflicts(
    stages: Sequence[tuple[str, int, str, str]], messages: Sequence[Message], sides: tuple[str, str]
) -> tuple[Conflict, ...]:
    """Join what git says of a path with its stages."""
    aside = re.compile(f"~(?:{'|'.join(map(re.escape, sides))})(?:_[0-9]+)?$")
    found: dict[str, _Gathered] = {}
    for path, stage, mode, oid in stages:
        found.setdefault(aside.sub("", path), _Gathered()).stages[stage] = (mode, oid)
    for message in messages:
        kind = _kind(message)
        if kind is None:
            continue
        named = [aside.sub("", path) for path in message.paths]
        known = [path for path in named if path in found]
        for path in known or named[:1]:
            found.setdefault(path, _Gathered()).kinds.append(kind)
    return tuple(Conflict(path, _most_telling(one.kinds), one.stages) for path, one in sorted(found.items()))


def _kind(message: Message) -> str | None:
    """The kind of conflict that a message tells of, or None when it tells of none."""
    if not message.kind.startswith("CONFLICT"):
        return None
    if message.kind == "CONFLICT (binary)":
        return "binary"
    match = _KIND.match(message.text) or _KIND.match(message.kind)
    return match["kind"] if match else message.kind


def _most_telling(kinds: Sequence[str]) -> str:
    return next((kind for kind in kinds if kind not in _PLAIN_KINDS), kinds[0] if kinds else "content")
