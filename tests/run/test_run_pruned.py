"""`git gc --prune=now` while a run captures: what it takes before a ref names it is written once more."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

# git, before or after which a prune comes once: at the first call with a word after the agent's end.
SHIM = """#!/bin/sh
prune() {{ rm {mark} 2>/dev/null && env -u GIT_INDEX_FILE {git} -C {repo} prune --expire=now && echo {at} >>{done}; }}
if [ "$1" = prune ]; then prune; exit; fi
for word; do
    if [ "$word" = update-ref ] && [ "{at}" = "before update-ref" ]; then
        exec {python} {transactions} {git} "$0 prune" "$@"
    elif [ "$word" = {word} ]; then
        [ "{when}" = after ] || prune
        {git} "$@"
        code=$?
        [ "{when}" = before ] || prune
        exit $code
    fi
done
exec {git} "$@"
"""
TRANSACTIONS = Path(__file__).with_name("transactions_of_git.py")


@pytest.mark.parametrize("at", ["after add", "before write-tree", "before update-ref"])
def test_what_a_prune_takes_while_the_end_is_captured_is_written_again(repo, tmp_path, monkeypatch, at):
    when, word = at.split()
    repo.git("config", "index.version", "4" if word == "write-tree" else "2")  # the tree of one but 2 is left to git
    programs, mark, done = tmp_path / "programs", tmp_path / "mark", tmp_path / "done"
    programs.mkdir()
    shim = programs / "git"
    names = {"at": at, "when": when, "word": word, "mark": mark, "done": done, "repo": repo.path}
    programs_used = {"git": shutil.which("git"), "python": sys.executable, "transactions": TRANSACTIONS}
    shim.write_text(SHIM.format(**names, **programs_used))
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    task = f"echo work > work; : > {mark}"
    ran = repo.parallel("run", "--json", "--program", "shell", "--task", task)
    assert ran.returncode == 0, ran.stderr
    assert done.read_text() == f"{at}\n"
    (worker,) = json.loads(ran.stdout)["workers"]
    assert (worker["status"], worker["files_modified"], worker["warnings"]) == ("success", ["work"], [])
    assert repo.git("show", "architect/parallel-1:work") == "work"
    assert repo.git("fsck", "--no-dangling") == ""
    assert list(Path(repo.path, ".git/architect").rglob("*.index")) == []
