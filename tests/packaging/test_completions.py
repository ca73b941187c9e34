"""The completions, typed into the real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from git_parallel.cli import COMMANDS

ROOT = Path(__file__).parents[2]
FILES = ROOT / "completions"
GIT_FOR_BASH = Path("/usr/share/bash-completion/completions/git")

# What is typed after `git parallel`, and what a press of TAB makes of it.
TYPED = {
    "sta": "status",
    "run --with-ch": "run --with-changes",
    "run --base ma": "run --base main",
    "run --base=ma": "run --base=main",
    "--program she": "--program shell",
    "--program=she": "--program=shell",
    "'do this' --allow": "'do this' --allow-empty",
    "--models mod": "--models model-one",
    "--models x,mod": "--models x,model-one",
    "config budget_per": "config budget_per_worker",
    "config --show": "config --show-origin",
    "compare --range-d": "compare --range-diff",
    "run -- --with-ch": "run -- --with-ch",
}


def test_the_files_are_in_step_with_the_commands():
    done = subprocess.run(
        [sys.executable, FILES / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), "run: python completions/generate.py"


@pytest.fixture
def there(repo, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository to type in, with ``git-parallel`` on PATH and one model that is configured."""
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(repo.path)
    repo.git("config", "parallel.models", "model-one")
    return repo.path


class Terminal:
    """A shell on a terminal: type, and read what it shows."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def wait(self, pattern: str, seconds: float = 40.0) -> str:
        """Read until the screen shows ``pattern``; return its group and forget what stands before its end."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.shown)) is None:
            ready, _, _ = select.select([self.descriptor], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {pattern!r} in {self.shown!r}"
            self.shown += os.read(self.descriptor, 65536).decode(errors="replace")
        self.shown = self.shown[found.end() :]
        return found.group(found.re.groups)

    def completed(self, line: str) -> list[str]:
        """Type ``line`` and TAB; return the words that it becomes."""
        # Ctrl-A and `show`: the shell runs the line as words to print, once it has finished with TAB.
        self.type(f"{line}\t\x01show \r")
        words = self.wait(r"<<(.*?)>>").split("|")[:-1]
        self.wait(r"ready>")
        return words

    def listed(self, line: str, *words: str) -> None:
        """Type ``line`` and TAB twice, and wait for each of ``words`` on the screen."""
        self.type(f"{line}\t\t")
        self.wait("(?s)" + "".join(rf"(?=.*\b{word}\b)" for word in words) + "()")
        self.type("\x15\r")  # keys wait for the end of what TAB began; Ctrl-C would not
        self.wait(r"ready>")


@contextmanager
def shell(*argv: str, setup: str) -> Iterator[Terminal]:
    """Start a shell on a terminal and run ``setup``, which ends in a prompt of ``ready>``."""
    pid, descriptor = pty.fork()
    if pid == 0:
        os.environ.update(TERM="dumb", COLUMNS="200", LINES="60", HISTFILE="")
        os.execvp(argv[0], argv)
    try:
        terminal = Terminal(descriptor)
        terminal.type(f"{setup}; PS1='rea''dy>'\r")
        terminal.wait(r"ready>")
        yield terminal
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.close(descriptor)
        os.waitpid(pid, 0)


SHOW = "show () { printf '<'; printf '<'; printf '%s|' \"$@\"; printf '>>'; echo; }"
BASH = f"bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; source {FILES}/git-parallel.bash; {SHOW}"
ZSH = f"fpath=({FILES} $fpath); autoload -Uz compinit; compinit -u -D; unsetopt beep; zle_bracketed_paste=(); {SHOW}"


def test_bash_completes_through_gits_own_completion(there):
    with shell("bash", "--norc", "-i", setup=f"source {GIT_FOR_BASH}; {BASH}") as terminal:
        for typed, expected in TYPED.items():
            assert terminal.completed(f"git parallel {typed}") == shlex.split(f"git parallel {expected}")
        assert terminal.completed("git --no-pager parallel sta") == ["git", "--no-pager", "parallel", "status"]
        terminal.listed("git parallel ", "run", "status", "demo")


def test_bash_completes_the_command_without_gits_completion(there):
    with shell("bash", "--norc", "-i", setup=BASH) as terminal:
        for typed, expected in TYPED.items():
            assert terminal.completed(f"git-parallel {typed}") == shlex.split(f"git-parallel {expected}")


def test_bash_asks_the_repository_that_git_is_pointed_at(there, make_repo):
    other = make_repo("other")
    other.git("branch", "topic")
    with shell("bash", "--norc", "-i", setup=f"source {GIT_FOR_BASH}; {BASH}") as terminal:
        assert terminal.completed(f"git -C {other.path} parallel run --base top")[-1] == "topic"


def test_zsh_completes_through_gits_own_completion(there):
    with shell("zsh", "-f", "-i", setup=ZSH) as terminal:
        for typed, expected in TYPED.items():
            assert terminal.completed(f"git parallel {typed}") == shlex.split(f"git parallel {expected}")
        assert terminal.completed("git paral") == ["git", "parallel"]
        terminal.listed("git parallel ", "run", "start a run")


def test_zsh_completes_the_command_itself(there):
    with shell("zsh", "-f", "-i", setup=ZSH) as terminal:
        for typed, expected in TYPED.items():
            assert terminal.completed(f"git-parallel {typed}") == shlex.split(f"git-parallel {expected}")


@pytest.mark.parametrize("program", ["git parallel", "git-parallel"])
def test_fish_completes(there, program, tmp_path):
    place = tmp_path / "vendor_completions.d"
    place.mkdir()
    (place / "git-parallel.fish").write_text((FILES / "git-parallel.fish").read_text())
    lines = [f"{program} {typed}" for typed in TYPED]
    script = [f"set -p fish_complete_path {place}", f"source {FILES}/git-parallel-conf.fish"]
    for line in [*lines, f"{program} "]:
        script += [f"complete -C {shlex.quote(line)} | string replace -r '\\t.*' ''", "echo =="]
    done = subprocess.run(["fish", "-c", "\n".join(script)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    *answers, commands = [part.split() for part in done.stdout.split("==\n")[:-1]]
    for (typed, expected), answer in zip(TYPED.items(), answers, strict=True):
        completed = [] if expected == typed else [expected.split()[-1]]
        assert answer == completed, typed
    assert sorted(commands) == sorted(COMMANDS)


def test_a_branch_cannot_bring_a_command_into_the_line(there, repo):
    repo.git("branch", "$(touch${IFS}pwned)")
    repo.git("branch", "plain")
    done = repo.parallel("__complete", "branches")
    assert done.stdout.split() == ["main", "plain"]
