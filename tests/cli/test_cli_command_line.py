"""The command line as a whole: first words that are no command, and standard descriptors that are not usual."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def test_help_is_help_and_no_task(repo):
    for arguments, names in ((("help",), "git-parallel"), (("help", "run"), "git-parallel-run")):
        done = repo.parallel(*arguments, env={"PATH": "/nonexistent:/usr/bin:/bin"})
        assert done.returncode == 0, done.stderr
        assert names in done.stdout.lower() or "usage: git parallel" in done.stdout.lower()
    assert repo.git("branch", "--list", "architect/*") == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_trouble(repo, closed):
    command = f"'{sys.executable}' -m git_parallel run --quiet --program shell 'echo 1 > a' {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert repo.git("show", "architect/parallel-1:a") == "1"
    assert not list((repo.path / ".git/architect").glob("report-*"))


def test_what_cannot_be_written_is_an_error(repo):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for words in ("--version", "config", "config --json"):
        command = ["sh", "-c", f"'{sys.executable}' -m git_parallel {words} > /dev/full"]
        done = subprocess.run(command, cwd=repo.path, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.splitlines()[0]) == (
            128,
            "fatal: no space left on device: while writing",
        ), words
