"""The only place that spawns git.

Every call gets an environment without the variables by which git finds a repository: inside a hook
of a linked worktree git exports absolute GIT_DIR and GIT_INDEX_FILE, and a call that inherits them
works on somebody else's branch. The caller's repository is found once, by :meth:`Repository.discover`,
and every later call names it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import IO, NamedTuple, TypedDict, Unpack

from msgspec import Struct, field

from git_parallel import system
from git_parallel.errors import GitError, ParallelError

# `git rev-parse --local-env-vars` less GIT_CONFIG_COUNT and GIT_CONFIG_PARAMETERS, which carry what
# the person said with `git -c`. A test compares the two lists.
LOCAL_ENVIRONMENT = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_CONFIG",
        "GIT_DIR",
        "GIT_GRAFT_FILE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_INTERNAL_SUPER_PREFIX",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OBJECT_DIRECTORY",
        "GIT_PREFIX",
        "GIT_REPLACE_REF_BASE",
        "GIT_SHALLOW_FILE",
        "GIT_WORK_TREE",
    }
)

# No prompt may block an unattended run, no read may take index.lock under an agent's feet, and no
# pager, editor or external diff may start.
_UNATTENDED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "LANGUAGE": "en",  # git's messages unchanged whatever LC_ALL says; the locale itself stays for filters
}

# What git writes is on the disk when it says so: by default it leaves loose objects and refs to the system, and a
# power cut then leaves refs to objects that are not there. Many files at once cost one flush (git-config(1)).
DURABLE = ("-c", "core.fsync=all", "-c", "core.fsyncMethod=batch")

# Plumbing fires none of the person's hooks, leaves no file system monitor running in a worktree, and marks no file
# there as one that git shall not look at again.
_QUIET = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.ignoreStat=false", "gc.auto=0")
_PLUMBING = (*(word for setting in _QUIET for word in ("-c", setting)), *DURABLE)

_AT_ONCE = 4096  # bytes that every pipe takes, whether or not anybody reads yet

MINIMUM_VERSION = (2, 38)  # merge-tree --write-tree


def clean_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``environ`` (default: the process's own) without the variables that locate a repository."""
    source = os.environ if environ is None else environ
    return {name: value for name, value in source.items() if name not in LOCAL_ENVIRONMENT}


_environment: dict[bytes, bytes] = {}


def environment() -> dict[bytes, bytes]:
    """Our own environment: the same object for as long as nothing in it is changed."""
    global _environment  # noqa: PLW0603 (a cache)
    present: dict[bytes, bytes] = os.environb._data  # type: ignore[attr-defined] # decoding it takes 20 times as long
    if present != _environment:
        _environment = dict(present)
    return _environment


class _Calls(NamedTuple):
    """What every call shares: where git is, and the environment in the system's own form."""

    ours: dict[bytes, bytes]
    program: str | None
    environment: dict[bytes, bytes]

    @classmethod
    def now(cls) -> _Calls:
        """The shared part for our present environment, made anew only when that has changed: a run calls git often."""
        global _calls  # noqa: PLW0603 (a cache)
        ours = environment()
        if _calls is None or _calls.ours is not ours:
            _calls = cls(ours, system.which("git"), _encoded({**clean_environment(), **_UNATTENDED}))
        return _calls


_calls: _Calls | None = None


def _encoded(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}


class Completed(Struct, frozen=True):
    """A finished git command: raw bytes, and the usual ways to read them."""

    argv: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """Standard output without trailing newlines; undecodable bytes survive as surrogates."""
        return os.fsdecode(self.stdout).rstrip("\n")

    @property
    def lines(self) -> list[str]:
        """Standard output by lines."""
        return os.fsdecode(self.stdout).splitlines() if self.stdout else []

    @property
    def fields(self) -> list[str]:
        """NUL-terminated output (``-z``) as a list."""
        return [os.fsdecode(field) for field in self.stdout.split(b"\0")[:-1]]


_meanwhile: list[str] = []


def load_meanwhile(*modules: str) -> None:
    """Import modules that will be needed one after another whenever there is nothing to do but to wait for git.

    For a command that has one thread. Nothing depends on it: whoever needs a module imports it.
    """
    _meanwhile.extend(modules)


def load_until(ready: Callable[[], bool]) -> None:
    """Import of those modules as many as there is time for until something is ``ready``."""
    while _meanwhile and not ready():
        import_module(_meanwhile.pop(0))


def load_rest() -> None:
    """Import what is left of those modules: other threads are about to call git, too."""
    load_until(lambda: False)


class Pending:
    """A git command that was begun. It does not outlive whoever began it.

    :meth:`done` or :meth:`cancel` ends it, as does a ``with`` block.
    """

    def __init__(
        self, argv: tuple[str, ...], process: subprocess.Popen[bytes], stdin: bytes | None, ok: Iterable[int]
    ) -> None:
        self._argv = argv
        self._process = process
        self._stdin = stdin
        self._ok = ok

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()

    def done(self) -> Completed:
        """Wait for its end. Raises GitError for an exit code that was not foreseen."""
        load_until(lambda: self._process.poll() is not None)
        try:
            stdout, stderr = self._process.communicate(self._stdin)
        except BaseException:
            self.cancel()
            raise
        done = Completed(self._argv, self._process.returncode, stdout or b"", stderr)
        if done.returncode not in self._ok:
            raise GitError(self._argv, done.returncode, done.stderr)
        return done

    def cancel(self) -> None:
        """End it, if it has not ended, and forget what it said."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


class Options(TypedDict, total=False):
    """How git is called.

    ``env`` is added to the clean environment; ``ok`` are the exit codes that are foreseen (default: 0); ``hooks``
    lets the person's own hooks run (for commits that they see); ``keep`` are descriptors that git inherits (a lock
    that must last until git has ended, even without us); ``quiet``: it prints nothing that anybody wants.
    """

    stdin: bytes | None
    env: Mapping[str, str] | None
    ok: Iterable[int]
    hooks: bool
    keep: Sequence[int]
    quiet: bool


class Git(Struct, frozen=True, dict=True):
    """Runs git in one place: ``options`` are git's own, before the subcommand (``-C``, ``--git-dir``).

    ``environment`` is added to every call's (to write objects elsewhere, say).
    """

    options: tuple[str, ...] = ()
    cwd: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, **options: Unpack[Options]) -> Completed:
        """Run one git command to its end; an exit code that is not foreseen raises :class:`GitError`."""
        return self.begin(*arguments, **options).done()

    def begin(self, *arguments: str, **options: Unpack[Options]) -> Pending:
        """Start what :meth:`run` runs, to do something else meanwhile. Let nothing come between this and its end."""
        stdin, hooks = options.get("stdin"), options.get("hooks", False)
        argv = self._argv(arguments, hooks)
        calls = _Calls.now()
        process = subprocess.Popen(
            argv,
            0,  # what it says is read as a whole
            executable=calls.program,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.DEVNULL if options.get("quiet") else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._env(calls, options.get("env")),
            cwd=self.cwd,
            pass_fds=options.get("keep", ()),
        )
        if stdin is not None and len(stdin) <= _AT_ONCE:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin)
            process.stdin = stdin = None
        return Pending(argv, process, stdin, options.get("ok", (0,)))

    def text(self, *arguments: str, **options: Unpack[Options]) -> str:
        """Return a command's output without trailing newlines."""
        return self.run(*arguments, **options).text

    def succeeds(self, *arguments: str) -> bool:
        """Say whether a command exits with 0; 1 is the only other answer that is not an error."""
        return self.run(*arguments, ok=(0, 1)).returncode == 0

    def start(
        self,
        *arguments: str,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start git without waiting: for output that a person sees (pager, colours) or long-lived batches."""
        environment = self._env(_Calls.now(), env)
        argv = self._argv(arguments, False)
        return subprocess.Popen(argv, stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd=self.cwd)

    def show(self, *arguments: str, env: Mapping[str, str] | None = None) -> int:
        """Run a command whose output goes straight to the person: git's own pager and colours; return its exit code."""
        argv = ["git", *self.options, *arguments]
        return subprocess.run(argv, env={**clean_environment(), **(env or {})}, cwd=self.cwd, check=False).returncode

    def own(self, variable: str) -> str:
        """What ``git var`` says in the person's own environment: GIT_EDITOR, GIT_PAGER. Raises GitError."""
        argv = ["git", *self.options, "var", variable]
        done = subprocess.run(argv, capture_output=True, env=clean_environment(), cwd=self.cwd, check=False)
        if done.returncode:
            raise GitError(argv, done.returncode, done.stderr)
        return os.fsdecode(done.stdout).rstrip("\n")

    def _argv(self, arguments: Sequence[str], hooks: bool) -> tuple[str, ...]:
        return ("git", *self.options, *(() if hooks else _PLUMBING), *arguments)

    def _env(self, calls: _Calls, extra: Mapping[str, str] | None) -> Mapping[bytes, bytes]:
        if not extra and not self.environment:
            return calls.environment
        return {**calls.environment, **_encoded(self.environment), **_encoded(extra or {})}


class Setting(NamedTuple):
    """One entry of git's configuration. ``origin`` is `--show-origin`'s; not ``given``: no value."""

    origin: str
    key: str
    value: str
    given: bool


class Repository(Struct, frozen=True, dict=True):
    """The repository a command was called in. All paths are absolute.

    ``top`` is the top of the worktree the caller stands in (None: none, as in a bare repository) and
    ``prefix`` the caller's place below it ("" at the top, else with a trailing slash).
    """

    git_dir: str
    common_dir: str
    top: str | None
    prefix: str
    bare: bool
    object_format: str

    @classmethod
    def discover(cls, cwd: str | None = None) -> Repository:
        """Find the repository as git itself would from ``cwd``: GIT_DIR and its kin count here, and only here."""
        global _ahead
        asked, _ahead = _ahead, None
        process = asked if asked is not None and cwd is None else _ask_place(cwd)
        stdout, stderr = process.communicate()
        answers = os.fsdecode(stdout).split("\n")[:-1]
        if len(answers) < 3:
            raise GitError(["git", "rev-parse"], process.returncode, stderr)
        (bare, inside, object_format), paths = answers[:3], answers[3:]
        names = _PLACE[3:] if inside == "true" else _PLACE[3:5]
        if len(paths) != len(names) or (process.returncode and inside == "true"):
            paths = list(_ask_each({**os.environ, **_UNATTENDED}, cwd, *names))
        git_dir, common_dir, *place = paths
        top, prefix = place or (None, "")
        return cls(
            git_dir=os.path.realpath(git_dir),
            common_dir=os.path.realpath(common_dir),
            top=top,
            prefix=prefix,
            bare=bare == "true",
            object_format=object_format,
        )

    @cached_property
    def git(self) -> Git:
        """Git for refs, objects and configuration, and for the worktree that the caller stands in, if any."""
        if self.top is None:
            return Git((f"--git-dir={self.git_dir}",), self.git_dir)
        return Git((f"--git-dir={self.git_dir}", f"--work-tree={self.top}"), self.top)

    @cached_property
    def common(self) -> Git:
        """Git for refs and objects without any worktree: still works when the caller's worktree is removed."""
        return Git((f"--git-dir={self.common_dir}",), self.common_dir)

    def at(self, worktree: str) -> Git:
        """Git inside another worktree of the repository."""
        return Git(("-C", worktree))

    @property
    def zero(self) -> str:
        """The null object id of this repository's hash."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """Git's whole configuration as the caller sees it, the last value of a key winning: one call for a command."""
        fields = self._settings_asked.done().fields
        pairs = zip(fields[::2], fields[1::2], strict=True)
        return tuple(Setting(origin, *entry.partition("\n")[::2], "\n" in entry) for origin, entry in pairs)

    def ask_settings(self) -> None:
        """Ask for the configuration, to have it at once later: whoever does this needs :attr:`settings`."""
        _ = self._settings_asked

    @cached_property
    def _settings_asked(self) -> Pending:
        # The caller's own git directory: a linked worktree may be configured apart (extensions.worktreeConfig).
        here = self.git_dir if os.path.isdir(self.git_dir) else self.common_dir
        git = Git((f"--git-dir={here}",), self.common_dir)
        return git.begin("config", "--list", "-z", "--show-origin", hooks=True)

    def setting(self, key: str) -> str | None:
        """The value of a configuration key (section and name in lower case), or None."""
        return next((setting.value for setting in reversed(self.settings) if setting.key == key), None)

    @cached_property
    def main_top(self) -> str | None:
        """The top of the main worktree, or None when the repository is bare."""
        configured = self._common_setting("core.worktree")
        if configured:
            return os.path.normpath(os.path.join(self.common_dir, configured))
        if os.path.basename(self.common_dir) == ".git" and not self._common_is_bare():
            return os.path.dirname(self.common_dir)
        if self.git_dir == self.common_dir and self.top is not None:
            return self.top
        if self._common_is_bare():
            return None
        first = self.common.run("worktree", "list", "--porcelain", "-z").fields[0]
        return first.removeprefix("worktree ")

    @cached_property
    def version(self) -> tuple[int, ...]:
        """The installed git's version, as in (2, 39, 5)."""
        words = self.common.text("version").split()
        return tuple(int(part) for part in words[2].split(".")[:3] if part.isdigit())

    def _common_is_bare(self) -> bool:
        return self._common_setting("core.bare") == "true"

    def _common_setting(self, key: str) -> str:
        """A setting of the main worktree, which a linked one may have differently (extensions.worktreeConfig)."""
        if self.git_dir == self.common_dir:
            return self.setting(key) or ""
        return self.common.run("config", "--get", key, ok=(0, 1)).text


_PLACE = (
    "--is-bare-repository",
    "--is-inside-work-tree",
    "--show-object-format",
    "--git-dir",
    "--git-common-dir",
    "--show-toplevel",  # fails where there is no worktree; what stands before it is answered all the same
    "--show-prefix",
)

_ahead: subprocess.Popen[bytes] | None = None


def ask_ahead() -> None:
    """Begin the first question of nearly every command, :meth:`Repository.discover`, while the rest is loaded."""
    global _ahead  # noqa: PLW0603 (there is one process, and one first question)
    with suppress(ParallelError, OSError):  # whoever needs the answer hears of it
        _ahead = _ask_place(None)


def drop_ahead() -> None:
    """End the question of :func:`ask_ahead` that nobody wanted the answer to."""
    if _ahead is not None:
        _ahead.kill()
        _ahead.wait()


def _ask_place(cwd: str | None) -> subprocess.Popen[bytes]:
    """Ask git where we are. Raises ParallelError when there is no git to ask."""
    argv = ["git", "rev-parse", "--path-format=absolute", *_PLACE]
    pipe, env = subprocess.PIPE, {**os.environ, **_UNATTENDED}
    try:
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, cwd=cwd)
    except FileNotFoundError:
        if cwd is not None and not os.path.isdir(cwd):
            raise ParallelError(f"cannot change to '{cwd}': no such directory") from None
        raise ParallelError("git was not found on PATH", "install git 2.38 or later") from None


def _ask_each(env: Mapping[str, str], cwd: str | None, *questions: str) -> Iterator[str]:
    """Ask for paths that may hold newlines one at a time."""
    for question in questions:
        argv = ["git", "rev-parse", "--path-format=absolute", question]
        process = subprocess.run(argv, capture_output=True, env=env, cwd=cwd, check=False, stdin=subprocess.DEVNULL)
        if process.returncode:
            raise GitError(argv, process.returncode, process.stderr)
        yield os.fsdecode(process.stdout.removesuffix(b"\n"))
