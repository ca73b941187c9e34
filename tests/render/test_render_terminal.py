"""Colours and pagers as git decides about them."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from typing import IO

import pytest

from git_parallel.git import Repository
from git_parallel.render import terminal


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[IO[str]]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    master, slave = pty.openpty()
    with open(slave, "w") as stream:
        yield stream
    os.close(master)


def discover(repo) -> Repository:
    return Repository.discover(str(repo.path))


@pytest.mark.parametrize(
    ("settings", "on_terminal", "on_pipe"),
    [
        ({}, True, False),
        ({"color.ui": "never"}, False, False),
        ({"color.ui": "always"}, True, True),
        ({"color.ui": "always", "color.parallel": "never"}, False, False),
        ({"color.ui": "never", "color.parallel": "auto"}, True, False),
    ],
)
def test_colour_follows_color_parallel_then_color_ui(repo, tty, settings, on_terminal, on_pipe) -> None:
    for name, value in settings.items():
        repo.git("config", name, value)
    found = discover(repo)
    assert terminal.colour(found, tty) is on_terminal
    assert terminal.colour(found, io.StringIO()) is on_pipe


def test_no_color_turns_auto_off_and_always_stays(repo, tty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.colour(discover(repo), tty)
    repo.git("config", "color.parallel", "always")
    assert terminal.colour(discover(repo), tty)


@pytest.mark.parametrize("settings", [{}, {"color.ui": "auto"}])
def test_a_dumb_terminal_gets_no_colours_unless_always(repo, tty, monkeypatch: pytest.MonkeyPatch, settings) -> None:
    for name, value in settings.items():
        repo.git("config", name, value)
    for term in ("dumb", None):
        monkeypatch.delenv("TERM") if term is None else monkeypatch.setenv("TERM", term)
        assert not terminal.colour(discover(repo), tty)
    repo.git("config", "color.ui", "always")
    assert terminal.colour(discover(repo), tty)


def test_a_setting_git_cannot_read_means_no_colour(repo, tty) -> None:
    repo.git("config", "color.parallel", "sometimes")
    assert not terminal.colour(discover(repo), tty)


def test_gits_own_pager_counts_as_a_terminal(repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("GIT_PAGER_IN_USE", "true")
    monkeypatch.setenv("COLUMNS", "77")
    assert terminal.colour(discover(repo), io.StringIO())
    assert terminal.width(io.StringIO()) == 77


def test_a_table_for_a_file_is_not_cut() -> None:
    assert terminal.width(io.StringIO()) == terminal.UNLIMITED


@pytest.mark.parametrize(
    ("environ", "configured", "pager"),
    [
        ({}, {}, "less"),
        ({"PAGER": "more"}, {}, "more"),
        ({"PAGER": "more"}, {"core.pager": "delta"}, "delta"),
        ({"GIT_PAGER": "most", "PAGER": "more"}, {"core.pager": "delta"}, "most"),
        ({"GIT_PAGER": ""}, {}, None),
        ({"PAGER": "cat"}, {}, None),
        ({"GIT_PAGER": "most"}, {"pager.parallel": "false"}, None),
        ({"GIT_PAGER": "most"}, {"pager.parallel": "true"}, "most"),
        ({"GIT_PAGER": "most"}, {"pager.parallel": "bat -p"}, "bat -p"),
    ],
)
def test_the_pager_is_chosen_in_gits_order(environ, configured, pager) -> None:
    assert terminal.choose_pager(environ, configured) == pager


def test_output_on_a_terminal_goes_through_the_pager(repo, tmp_path) -> None:
    repo.git("config", "core.pager", f"sed s/^/paged:/ > {tmp_path}/out; echo $LESS >> {tmp_path}/out")
    program = (
        "from git_parallel.git import Git\nfrom git_parallel.render.terminal import paged\n"
        "with paged(Git()):\n    print('hello')\nprint('after')\n"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], cwd=repo.path, stdout=slave, stdin=slave)
    os.close(slave)
    assert process.wait(timeout=30) == 0
    assert (tmp_path / "out").read_text() == "paged:hello\nFRX\n"
    assert os.read(master, 100) == b"after\r\n"
    os.close(master)


def test_output_to_a_pipe_is_not_paged(repo) -> None:
    repo.git("config", "core.pager", "false")
    program = (
        "from git_parallel.git import Git\nfrom git_parallel.render.terminal import paged\n"
        "with paged(Git()):\n    print('hello')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=repo.path, capture_output=True, check=True)
    assert done.stdout == b"hello\n"
