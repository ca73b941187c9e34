"""Objects: blobs, trees and commits written and read in process, in dulwich's words (DESIGN section 7).

dulwich makes and parses objects, and is imported only when something is written: its 12 ms are much of what
``git parallel status`` may take. Its object store is not used: git finds what is packed, borrowed or still to be
fetched, and in less time. Commands that only read use :func:`batch`, one ``git cat-file`` however many objects it
is asked for.
"""

from __future__ import annotations

import os
import re
import stat
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, NamedTuple

from git_parallel.errors import GitError, MissingError, ParallelError
from git_parallel.git import Git, Repository, environment
from git_parallel.store.conversation import Conversation

if TYPE_CHECKING:
    from dulwich.objects import Commit, ObjectID, ShaFile, Tree

FILE = 0o100644
DIRECTORY = 0o040000

_HEADER = re.compile(rb"(?P<oid>[0-9a-f]{40,64}) (?P<kind>blob|tree|commit|tag) (?P<size>[0-9]+)")
_NUMBERS = {b"commit": 1, b"tree": 2, b"blob": 3, b"tag": 4}
_IDENTITY = re.compile(r"[^<>\n\0]*[^<>\n\0 ] <[^<>\n\0]*>")
_DATED = r"(?P<who>.*) (?P<when>[0-9]+) (?P<zone>[+-][0-9]{4})"  # compiled when it is needed

_FLUSH = b"flush\n"
_REMEMBERED = 200  # commits: a record's parents are asked for more than once

# `git gc` removes directories of objects that it has emptied, also between our making one and writing into it.
_TRIES = 10

COMPARING = ("-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff")
"""How trees are compared: a rename is one path gone and one new."""

_NOT_WRITTEN = "no ref was changed; make room or make the repository writable, and try again"


class Found(NamedTuple):
    """An object as ``git cat-file`` gave it: its id, its type's name and its bytes."""

    oid: str
    kind: str
    data: bytes


def batch(repo: Repository, names: Sequence[str]) -> list[Found | None]:
    """Look up ``names`` (ids, refs, ``<commit>:<path>``) in one git call; None for each that does not exist."""
    if not names:
        return []
    # A name with a newline would be two questions. No object that the tool writes has such a name.
    asked = [name if "\n" not in name else "" for name in names]
    output = repo.common.run("cat-file", "--batch", stdin=os.fsencode("".join(f"{name}\n" for name in asked))).stdout
    found: list[Found | None] = []
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        header = _HEADER.fullmatch(output, at, end)
        at = end + 1
        if header is None:  # "<name> missing"
            found.append(None)
            continue
        size = int(header["size"])
        found.append(Found(header["oid"].decode(), header["kind"].decode(), output[at : at + size]))
        at += size + 1
    return found


_ROLES = ("AUTHOR", "COMMITTER")
# Names and addresses of which ident.c strips nothing.
_CLEAN = re.compile(r"\w[\w @+-]*(?:[.'][\w @+-]+)*(?<! )")


# --- who writes ------------------------------------------------------------------------------------


class Person(NamedTuple):
    """``Name <mail>``, the fixed time that the environment asks for (epoch seconds) or None, and a zone (``+0200``)."""

    who: str
    when: int | None
    zone: str


def identity(repo: Repository) -> tuple[str, str]:
    """Return author and committer as ``Name <mail>``: git's own, or the tool's where git knows nobody."""
    author, committer = people(repo)
    return author.who, committer.who


def people(repo: Repository) -> tuple[Person, Person]:
    """Return the author and the committer of what is written now. Asks git once per environment."""
    return _people(repo, _Decisive.now().environment)


class _Decisive(NamedTuple):
    """What decides in our environment who writes."""

    ours: dict[bytes, bytes]
    environment: tuple[tuple[str, str], ...]

    @classmethod
    def now(cls) -> _Decisive:
        """Read anew only when the environment has changed: every commit asks."""
        global _decisive  # noqa: PLW0603 (a cache)
        ours = environment()
        if _decisive is None or _decisive.ours is not ours:
            prefixes = ("GIT_", "XDG_CONFIG_HOME")
            chosen = ("HOME", "EMAIL", "TZ", "USER", "LOGNAME")
            found = sorted(one for one in os.environ.items() if one[0].startswith(prefixes) or one[0] in chosen)
            _decisive = cls(ours, tuple(found))
        return _decisive


_decisive: _Decisive | None = None


@lru_cache(maxsize=8)
def _people(repo: Repository, decisive: tuple[tuple[str, str], ...]) -> tuple[Person, Person]:
    # The caller's own git directory: a linked worktree may have an identity of its own (config.worktree).
    here = repo.git_dir if os.path.isdir(repo.git_dir) else repo.common_dir
    git = Git((f"--git-dir={here}",), repo.common_dir)
    given = dict(decisive)
    author, committer = (
        _plain(repo, role, given) or _person(git, role, f"GIT_{role}_DATE" in given) for role in _ROLES
    )
    return author, committer


def _plain(repo: Repository, role: str, environment: Mapping[str, str]) -> Person | None:
    """The identity where it is simply set, without asking git: no fixed date, and nothing that git would clean up."""
    if f"GIT_{role}_DATE" in environment:
        return None
    parts = []
    for part in ("name", "email"):
        configured = repo.setting(f"{role.lower()}.{part}") or repo.setting(f"user.{part}")
        value = environment.get(f"GIT_{role}_{part.upper()}") or configured
        if value is None or not _CLEAN.fullmatch(value):
            return None
        parts.append(value)
    time.tzset()  # TZ may have changed since the last look
    return Person(f"{parts[0]} <{parts[1]}>", None, time.strftime("%z"))


def _person(git: Git, role: str, fixed: bool) -> Person:
    try:
        dated = re.fullmatch(_DATED, git.text("var", f"GIT_{role}_IDENT"))
    except GitError:  # no name, or no address that git would dare to guess
        dated = None
    if dated is None or not _IDENTITY.fullmatch(dated["who"]):
        return Person(f"git parallel <git-parallel@{os.uname().nodename}>", None, "+0000")
    return Person(dated["who"], int(dated["when"]) if fixed else None, dated["zone"])


# --- objects in process ----------------------------------------------------------------------------


class Objects:
    """The repository's objects. Ids are hexadecimal strings; paths have ``/`` between names and no other form.

    Use it in a ``with`` block: it keeps a git process. Threads may share it. Everything that writes raises
    ParallelError ("cannot write objects: …") on a full or read-only disk; everything that reads raises it for an
    object that is not there.
    """

    def __init__(self, repo: Repository) -> None:
        from dulwich.object_format import get_object_format  # noqa: PLC0415 (see the module's text)

        self._repo = repo
        self._format = get_object_format(repo.object_format)
        # With --buffer the answers to many questions come at once, when `flush` asks for them.
        self._reader = Conversation(repo.common, "--no-replace-objects", "cat-file", "--batch-command", "--buffer")
        # As git shows things to the person: with replaced objects in place of their own.
        self._namer = Conversation(repo.common, "cat-file", "--batch-command", "--buffer")
        self._differ = Conversation(repo.common, "diff-tree", "--stdin", *COMPARING)
        # `diff-tree --stdin` gives a line back as it is that is no id; nothing that it says of itself ends like this.
        self._end = b"end %s\n" % os.urandom(8).hex().encode()
        self._commits: dict[str, tuple[str, list[str], str]] = {}

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the processes go that have been read from."""
        for one in (self._reader, self._namer, self._differ):
            one.close()

    @property
    def oid_length(self) -> int:
        """The bytes of an id."""
        return self._format.oid_length

    # writing

    def blob(self, data: bytes) -> str:
        """Write a file's content."""
        from dulwich.objects import Blob  # noqa: PLC0415

        return self._write(Blob.from_string(data))

    def tree(self, entries: Mapping[str, tuple[int, str]]) -> str:
        """Write a tree, and the trees in it, from path to (mode, id)."""
        return self.edit(None, entries)

    def edit(self, base: str | None, changes: Mapping[str, tuple[int, str] | None]) -> str:
        """Write the tree ``base`` (None: the empty one) with these paths set to (mode, id), or removed for None.

        Only the directories that change are read and written. Removing what is not there is no error.
        """
        split = [(_split(path), entry) for path, entry in changes.items()]
        return self._edit(base, split) or self._write(self._tree(None))

    def commit(
        self,
        tree: str,
        parents: Sequence[str],
        message: str,
        *,
        author: str | None = None,
        committer: str | None = None,
        when: float | None = None,
    ) -> str:
        """Write a commit. ``author`` and ``committer`` are ``Name <mail>`` (default: git's); ``when`` is epoch seconds.

        Raises ValueError for an identity of another form.
        """
        from dulwich.objects import Commit, parse_timezone  # noqa: PLC0415

        by, through = people(self._repo)
        now = int(time.time() if when is None else when)
        commit = Commit()
        commit.tree = _ascii(tree)
        commit.parents = [_ascii(parent) for parent in parents]
        commit.author = _checked(author or by.who)
        commit.committer = _checked(committer or through.who)
        commit.author_time = now if when is not None or by.when is None else by.when
        commit.commit_time = now if when is not None or through.when is None else through.when
        commit.author_timezone = parse_timezone(by.zone.encode())[0]
        commit.commit_timezone = parse_timezone(through.zone.encode())[0]
        commit.message = os.fsencode(message.replace("\0", "").rstrip("\n") + "\n")
        return self._write(commit)

    # reading

    def read_blob(self, oid: str) -> bytes:
        """Return a blob's bytes."""
        return self._load(oid, "blob").as_raw_string()

    def read_commit(self, oid: str) -> tuple[str, list[str], str]:
        """Return a commit's tree, parents and message."""
        if (known := self._commits.get(oid)) is not None:
            return known
        commit: Commit = self._load(oid, "commit")  # type: ignore[assignment]
        found = commit.tree.decode(), [parent.decode() for parent in commit.parents], os.fsdecode(commit.message)
        if len(self._commits) == _REMEMBERED:
            self._commits.clear()
        self._commits[oid] = found
        return found

    def read_tree(self, oid: str) -> dict[str, tuple[int, str]]:
        """Return every path below a tree, with its mode and id; trees themselves are left out."""
        return dict(self._walk(oid, ""))

    def list_tree(self, oid: str) -> dict[str, tuple[int, str]]:
        """Return the entries of one tree, not of those in it: name to mode and id."""
        return {os.fsdecode(name): (mode, inner.decode()) for name, mode, inner in self._tree(oid).items()}

    def path_blob(self, commit: str, path: str) -> bytes | None:
        """Return the content of a file in a commit, or None where it has no such file."""
        mode, oid = DIRECTORY, self.read_commit(commit)[0]
        for name in _split(path):
            if not stat.S_ISDIR(mode):
                return None
            mode, oid = _entry(self._tree(oid), name)
        return self.read_blob(oid) if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else None

    def resolve(self, *names: str) -> list[str | None]:
        """Return the ids of what these names (ids, full ref names, ``<name>^{tree}``) stand for, None for none."""
        if any("\n" in name for name in names):
            return [None] * len(names)
        question = b"".join(b"info " + os.fsencode(name) + b"\n" for name in names)
        return self._namer.ask(question + _FLUSH, lambda output: [_found(output) for _ in names])

    def have(self, oids: Sequence[str]) -> bool:
        """Whether all these objects are there themselves, replaced or not."""
        asked = [oid for oid in oids if not os.path.exists(self._loose(oid))]
        if not asked:
            return True
        question = b"".join(b"info %s\n" % oid.encode("ascii") for oid in asked)
        return all(self._reader.ask(question + _FLUSH, lambda output: [_found(output) for _ in asked]))

    def compare(self, before: str, after: str) -> bytes:
        """Return the raw differences of two trees, and line counts: see :data:`COMPARING`."""
        if before == after:
            return b""
        asked = f"{before} {after}".encode("ascii")
        try:
            said = self._differ.ask(asked + b"\n" + self._end, partial(_compared, asked, self._end))
        except ParallelError:
            said = None
        if said is None:  # it can say why
            return self._repo.common.run("diff-tree", *COMPARING, before, after).stdout
        return said

    # within

    def _edit(self, base: str | None, changes: Sequence[tuple[tuple[str, ...], tuple[int, str] | None]]) -> str | None:
        """Return the id of the edited tree, or None when nothing is left in it."""
        tree = self._tree(base)
        below: dict[str, list[tuple[tuple[str, ...], tuple[int, str] | None]]] = {}
        placed: set[str] = set()
        # First what is in this very directory, so that {"a": None, "a/b": …} turns a file into a directory.
        for (name, *rest), entry in changes:
            if rest:
                below.setdefault(name, []).append((tuple(rest), entry))
            elif entry is not None:
                tree[os.fsencode(name)] = (entry[0], _ascii(entry[1]))
                placed.add(name)
            elif os.fsencode(name) in tree:
                del tree[os.fsencode(name)]
        for name, inner in below.items():
            mode, oid = _entry(tree, name)
            only_removes = all(entry is None for _, entry in inner)
            if name in placed and not only_removes:
                raise ValueError(f"both a file and a directory: {name!r}")
            if not stat.S_ISDIR(mode) and only_removes:
                continue  # nothing to remove there; in particular not a file of the directory's name
            subtree = self._edit(oid if stat.S_ISDIR(mode) else None, inner)
            if subtree is not None:
                tree[os.fsencode(name)] = (DIRECTORY, _ascii(subtree))
            else:
                del tree[os.fsencode(name)]
        return self._write(tree) if len(tree) else None

    def _tree(self, oid: str | None) -> Tree:
        from dulwich.objects import Tree  # noqa: PLC0415

        return Tree() if oid is None else self._load(oid, "tree")  # type: ignore[return-value]

    def _walk(self, oid: str, prefix: str) -> Iterable[tuple[str, tuple[int, str]]]:
        for name, mode, inner in self._tree(oid).items():
            path = prefix + os.fsdecode(name)
            if stat.S_ISDIR(mode):
                yield from self._walk(inner.decode(), f"{path}/")
            else:
                yield path, (mode, inner.decode())

    def _write(self, thing: ShaFile) -> str:
        content = thing.as_raw_string()
        whole = b"%s %d\0" % (thing.type_name, len(content)) + content
        oid = self._format.hash_object_hex(whole).decode()
        try:
            if _shared(self._repo):
                self._write_by_git(thing)
            else:
                self._write_loose(oid, whole)
        except OSError as error:
            raise ParallelError(f"cannot write objects: {error.strerror or error}", _NOT_WRITTEN) from error
        except GitError as error:
            raise ParallelError(f"cannot write objects: {error.message}", _NOT_WRITTEN) from error
        return oid

    def _write_loose(self, oid: str, whole: bytes) -> None:
        """Put a loose object in place as git does: header and content, compressed as it does by default.

        Not by ``add_object``: its lock file, left by a writer that was killed, keeps everybody from writing
        that content ever after, and on a full disk it prints a traceback.
        """
        path = self._loose(oid)
        directory = os.path.dirname(path)
        with suppress(FileNotFoundError, PermissionError):
            os.utime(path)  # there already; `git gc` must take it for new until a ref names it
            return
        temporary, fd = _temporary_in(directory)
        try:
            try:
                rest = memoryview(zlib.compress(whole, 1))
                while rest:
                    rest = rest[os.write(fd, rest) :]
                # A ref must not outlive a power cut that its objects did not; git leaves this off by default.
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _loose(self, oid: str) -> str:
        return os.path.join(self._repo.common_dir, "objects", oid[:2], oid[2:])

    def _write_by_git(self, thing: ShaFile) -> None:
        kind = ("-t", thing.type_name.decode(), "-w", "--stdin")
        self._repo.common.run("-c", "core.fsync=loose-object", "hash-object", *kind, stdin=thing.as_raw_string())

    def _load(self, oid: str, kind: str) -> ShaFile:
        from dulwich.objects import ShaFile  # noqa: PLC0415

        try:
            thing = ShaFile.from_path(self._loose(oid), object_format=self._format)
        except (KeyError, ValueError, AssertionError, OSError):
            number, data = self._ask(oid)
            thing = ShaFile.from_raw_string(number, data, object_format=self._format)
        if thing.type_name.decode() != kind:
            raise ParallelError(f"object {oid} is a {thing.type_name.decode()}, not a {kind}")
        return thing

    def _ask(self, oid: str) -> tuple[int, bytes]:
        """Return the type (as in a pack) and the bytes of an object that is not loose."""
        found = self._reader.ask(f"contents {oid}\n".encode("ascii") + _FLUSH, _contents)
        if found is None:
            raise MissingError(f"object {oid} is missing from this repository", "run 'git fsck'")
        return found


def _line(output: IO[bytes]) -> bytes:
    line = output.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line[:-1]


def _contents(output: IO[bytes]) -> tuple[int, bytes] | None:
    header = _HEADER.fullmatch(_line(output))
    if header is None:
        return None
    size = int(header["size"])
    data = output.read(size + 1)
    if len(data) <= size:
        raise EOFError
    return _NUMBERS[header["kind"]], data[:size]


def _found(output: IO[bytes]) -> str | None:
    header = _HEADER.fullmatch(_line(output))
    return header["oid"].decode() if header is not None else None


def _compared(pair: bytes, end: bytes, output: IO[bytes]) -> bytes | None:
    """Read what `diff-tree --stdin` says: the pair again, records that end with NUL, and our own last line."""
    first = _line(output) + b"\n"
    if first == end:
        return None  # it could not compare them
    if first != pair + b"\n":
        raise EOFError
    said = b""
    while not said.endswith(end):
        said += _line(output) + b"\n"
    return said[: -len(end)]


def _temporary_in(directory: str) -> tuple[str, int]:
    """Make an empty file in a directory of objects; return its path and descriptor."""
    for tries_left in reversed(range(_TRIES)):
        temporary = os.path.join(directory, f"tmp_obj_{os.urandom(6).hex()}")  # git's own prefix: `git gc` clears it
        try:
            return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        except (FileNotFoundError, FileExistsError):
            if not tries_left:
                raise
        os.makedirs(directory, exist_ok=True)
    raise AssertionError("unreachable")


def _shared(repo: Repository) -> bool:
    """Say whether others write here too: only git gives objects the permissions of core.sharedRepository."""
    return (repo.setting("core.sharedrepository") or "") not in ("", "0", "umask", "false", "no")


def _entry(tree: Tree, name: str) -> tuple[int, str]:
    """Return mode and id of a name in a tree, (0, "") where it has none."""
    key = os.fsencode(name)
    if key not in tree:
        return 0, ""
    mode, oid = tree[key]
    return mode, oid.decode()


def _split(path: str) -> tuple[str, ...]:
    names = tuple(path.split("/"))
    if any(name in ("", ".", "..", ".git") or "\0" in name for name in names):
        raise ValueError(f"not a path for a tree: {path!r}")
    return names


def _checked(who: str) -> bytes:
    if not _IDENTITY.fullmatch(who):
        raise ValueError(f"not an identity: {who!r}")
    return os.fsencode(who)


def _ascii(oid: str) -> ObjectID:
    return oid.encode("ascii")  # type: ignore[return-value]
