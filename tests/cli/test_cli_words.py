"""First words of a command line that are neither a command nor a task."""

from __future__ import annotations


def test_help_is_help_and_no_task(repo):
    for arguments, names in ((("help",), "git-parallel"), (("help", "run"), "git-parallel-run")):
        done = repo.parallel(*arguments, env={"PATH": "/nonexistent:/usr/bin:/bin"})
        assert done.returncode == 0, done.stderr
        assert names in done.stdout.lower() or "usage: git parallel" in done.stdout.lower()
    assert repo.git("branch", "--list", "architect/*") == ""
