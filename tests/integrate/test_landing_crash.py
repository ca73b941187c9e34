"""A landing that dies: target, files and index are before or after it, and no local change is gone."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from landings import landable, tree_on_disk

from git_parallel.git import Repository
from git_parallel.integrate import advance, halfway
from git_parallel.integrate.advance import unfinished

KILLED = Path(__file__).with_name("killed_landing.py")
KILLED_SCRATCH = Path(__file__).with_name("killed_scratch.py")

LOCAL = {"mine": "untracked\n", "src/a.txt": "unstaged\n", "staged": "staged\n"}


def with_local_changes(repo) -> None:
    for name, content in LOCAL.items():
        repo.write(name, content)
    repo.git("add", "staged")


def is_one_of(found: dict, sides: list[dict[str, str | None]]) -> bool:
    """Whether the files that landings change are those of one side."""
    return any(all(found.get(path) == content for path, content in side.items()) for side in sides)


def test_a_landing_killed_before_any_change_is_before_or_after_and_goes_on(repo, tmp_path):
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n"}, {"two": "2\n", "README": None, "README/x": "x\n"})
    repo.git("update-ref", "refs/heads/architect/parallel-2", run.heads[1])
    with_local_changes(repo)
    backup = tmp_path / "backup"
    shutil.copytree(repo.path, backup, symlinks=True)
    landings = [["--yes"], ["--yes", "--check", "test -f README"], ["--yes", "--batch", "--check", "true"]]
    done = subprocess.run(
        [sys.executable, str(KILLED), str(repo.path), str(backup), json.dumps(landings)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(KILLED.parent)},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["landing"] for one in results if not one["killed"]] == landings, "each went through at last"
    assert all(Counter(str(one["landing"]) for one in results)[str(landing)] > 4 for landing in landings)
    assert len(results) > 60
    old = {"README": "hello\n", "new/file": None}
    new = {"README": "theirs\n", "new/file": "n\n"}
    for one in results:
        for when in ("between", "after"):
            found = one[when]
            assert {path: found["files"].get(path) for path in LOCAL} == LOCAL, one
            assert found["fsck"] == "", one
        assert one["between"]["main"] in (["first"], ["Merge worker 1: Do t1", "first"]), one
        files = one["after"]["files"]
        landed = one["after"]["main"] == ["Merge worker 1: Do t1", "first"]
        assert landed or one["after"]["main"] == ["first"], one
        assert is_one_of(files, [new if landed else old]), one
        assert sorted(one["after"]["status"]) == [" M src/a.txt", "?? mine", "A  staged"], one
        assert not one["after"]["lock"], one
        assert one["after"]["worktrees"] == 1, one
        begun = "there is no landing in progress" not in one["continued"]
        if one["killed"] and begun:
            assert landed, one


def test_a_scratch_worktree_whose_removal_is_killed_is_found_again(repo):
    done = subprocess.run(
        [sys.executable, str(KILLED_SCRATCH), str(repo.path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(KILLED.parent)},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) > 3
    assert [one["code"] for one in results] == [-signal.SIGKILL] * (len(results) - 1) + [0]
    assert [one["left"] for one in results] == [[]] * len(results)
    assert all(one["died with"] for one in results[:3])


def kill_while_git_writes(repo, *arguments: str) -> int:
    """Land, and have a filter kill both git and git parallel when it is asked for the file ``zzz``."""
    killer = repo.write(".git/killer", '#!/bin/sh\nkill -9 "$PPID" "$(cat .git/victim)"\n')
    killer.chmod(0o755)
    repo.git("config", "filter.killer.smudge", str(killer))
    repo.git("config", "filter.killer.clean", "cat")
    repo.git("config", "core.attributesFile", str(repo.write(".git/attributes", "zzz filter=killer\n")))
    process = subprocess.Popen(
        [
            "sh",
            "-c",
            f'echo $$ > .git/victim; exec "{sys.executable}" -m git_parallel merge --yes "$@"',
            "sh",
            *arguments,
        ],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    code = process.wait(timeout=60)
    repo.git("config", "filter.killer.smudge", "cat")
    return code


def halfway_landed(repo):
    run = landable(repo, {"README": "theirs\n", "new/file": "n\n", "gone": None, "zzz": "z\n"})
    with_local_changes(repo)
    assert kill_while_git_writes(repo) == -signal.SIGKILL
    return run


def test_files_that_git_had_half_written_are_completed(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    assert repo.git("log", "-1", "--format=%s", "main") == "Merge worker 1: Do t1"
    assert (repo.path / "README").read_text() == "theirs\n"
    assert not (repo.path / "zzz").exists(), "git was killed before it came to this one"
    assert (repo.path / ".git/index.lock").exists()
    done = repo.parallel("merge", "--continue", "--yes")
    assert done.returncode == 0, done.stderr
    assert "were brought to where main is" in done.stderr
    found = tree_on_disk(repo.path)
    assert {path: found.get(path) for path in ("README", "new/file", "gone", "zzz")} == {
        "README": b"theirs\n",
        "new/file": b"n\n",
        "gone": None,
        "zzz": b"z\n",
    }
    assert sorted(repo.git("status", "--porcelain").splitlines()) == [" M src/a.txt", "?? mine", "A  staged"]
    assert not (repo.path / ".git/index.lock").exists()


def test_the_next_landing_settles_a_dead_one_first(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    other = landable(repo, {"other": "o\n"}, run="20261129T170000Z-0000", first=5)
    done = repo.parallel("merge", "--yes", other.run)
    assert done.returncode == 0, done.stderr
    assert "was interrupted; 1 of its branches have landed" in done.stderr
    assert repo.git("log", "-2", "--first-parent", "--format=%s", "main").splitlines() == [
        "Merge worker 5: Do t1",
        "Merge worker 1: Do t1",
    ]
    assert sorted(repo.git("status", "--porcelain").splitlines()) == [" M src/a.txt", "?? mine", "A  staged"]


def test_a_change_made_after_the_crash_is_left_alone_and_told(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    repo.write("README", "mine, after the crash\n")
    repo.write("zzz", "mine as well\n")
    done = repo.parallel("merge", "--continue", "--yes")
    assert "'README' there was changed by somebody meanwhile, and is left as it is" in done.stderr
    assert "'zzz' there was changed" in done.stderr
    assert (repo.path / "README").read_text() == "mine, after the crash\n"
    assert (repo.path / "zzz").read_text() == "mine as well\n"
    assert sorted(repo.git("status", "--porcelain").splitlines()) == [
        " M README",
        " M src/a.txt",
        " M zzz",
        "?? mine",
        "A  staged",
    ]


def test_a_file_that_was_cut_off_is_written_again(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    repo.write("new/file", "")
    repo.write("README", "thei")
    assert repo.parallel("merge", "--continue", "--yes").returncode == 0
    assert (repo.path / "README").read_text() == "theirs\n"
    assert (repo.path / "new/file").read_text() == "n\n"


def test_somebody_who_moved_the_target_on_after_the_crash_owns_the_files(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    on = repo.git("commit-tree", "main^{tree}", "-p", "main", "-m", "by hand")
    repo.git("update-ref", "refs/heads/main", on)
    before = tree_on_disk(repo.path)
    done = repo.parallel("merge", "--continue", "--yes")
    assert "has moved on since" in done.stderr
    assert tree_on_disk(repo.path) == before
    assert not (repo.path / ".git/index.lock").exists(), "the lock was ours"


def test_a_lock_that_is_not_ours_stays(repo):
    repo.commit("start", {"gone": "g\n"})
    halfway_landed(repo)
    repo.write(".git/index.lock", "")
    done = repo.parallel("merge", "--continue", "--yes")
    assert "another git process is at work" in done.stderr
    assert (repo.path / ".git/index.lock").read_text() == ""


@contextmanager
def writer_of(fifo: Path, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hold the fifo open from when somebody reads it: what they do goes on at the end of the block."""
    deadline = time.monotonic() + 60
    while True:
        try:
            descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            assert process.poll() is None, "it ended before it read the fifo"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    try:
        yield
    finally:
        os.close(descriptor)


def test_a_git_that_outlives_us_keeps_the_landing_locked(repo):
    """git parallel alone is killed while its git still writes: nobody may meddle until that git has ended."""
    run = landable(repo, {"README": "theirs\n", "zzz": "z\n"})
    fifo = repo.path / ".git/fifo"
    os.mkfifo(fifo)
    repo.git("config", "filter.slow.smudge", f"cat '{fifo}' > /dev/null; cat")
    repo.git("config", "filter.slow.clean", "cat")
    repo.git("config", "core.attributesFile", str(repo.write(".git/attributes", "zzz filter=slow\n")))
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "merge", "--yes"],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with writer_of(fifo, process):
        process.kill()
        process.wait()
        done = repo.parallel("merge", "--continue", "--yes")
        assert done.returncode == 128
        assert "is at work in process" in done.stderr
        repo.git("config", "filter.slow.smudge", "cat")

    def released() -> bool:
        return repo.parallel("merge", "--continue", "--yes").returncode == 0

    for _ in range(100):
        if released():
            break
    assert (repo.path / "zzz").read_text() == "z\n"
    assert (repo.path / "README").read_text() == "theirs\n"
    assert repo.git("status", "--porcelain") == ""
    assert run.base != repo.git("rev-parse", "main")


def test_ctrl_c_while_the_target_moves_waits_until_files_and_target_agree(repo):
    landable(repo, {"README": "theirs\n", "zzz": "z\n"})
    fifo = repo.path / ".git/fifo"
    os.mkfifo(fifo)
    repo.git("config", "filter.slow.smudge", f"cat '{fifo}' > /dev/null; cat")
    repo.git("config", "core.attributesFile", str(repo.write(".git/attributes", "zzz filter=slow\n")))
    process = subprocess.Popen(
        [sys.executable, "-m", "git_parallel", "merge", "--yes"],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    timer = threading.Timer(60, process.kill)
    timer.start()
    with writer_of(fifo, process):
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does: to all of the group
    process.wait()
    timer.cancel()
    repo.git("config", "filter.slow.smudge", "cat")
    assert repo.git("status", "--porcelain") == ""
    assert (repo.path / "zzz").read_text() == "z\n"
    assert not (repo.path / ".git/index.lock").exists()
    assert repo.git("log", "-1", "--format=%s", "main") == "Merge worker 1: Do t1"


# --- the parts ---------------------------------------------------------------------------------------


def test_unfinished_finds_the_last_move_that_was_not_ended():
    intent = {"event": "intent", "act": "advance", "old": "1"}
    later = {"event": "intent", "act": "advance", "old": "2"}
    done, abandoned = {"event": "done", "act": "advance"}, {"event": "abandoned", "act": "advance"}
    assert unfinished([]) is None
    assert unfinished([intent, {"event": "check"}]) == intent
    assert unfinished([intent, done]) is None
    assert unfinished([intent, abandoned, later]) == later
    assert unfinished([intent, done, later, {"event": "settled"}]) == later


@pytest.mark.parametrize("side", ["old", "new"])
def test_bring_takes_every_mixture_to_either_side(repo, side):
    repo.commit("start", {"gone": "g\n", "a/x": "x\n", "mode": "m\n", "f": "f\n", "link": "l\n"})
    run = landable(
        repo,
        {
            "gone": None,
            "a/x": None,
            "a": "now a file\n",
            "mode": ("100755", "m\n"),
            "f": None,
            "f/y": "now a directory\n",
            "link": ("120000", "mode"),
            "README": "theirs\n",
            "new": "n\n",
        },
    )
    where = Repository.discover(str(repo.path))
    from git_parallel.integrate import changes

    changed = changes.between(where, run.base, run.heads[0])
    mixtures = [{}, {"README": "theirs\n"}, {"README": "the"}, {"new": "n\n", "mode": "m\n"}, {"new": ""}]
    for mixture in mixtures:
        repo.git("reset", "-q", "--hard")
        repo.git("clean", "-qfd")
        repo.write("mine", "untracked\n")
        for path, content in mixture.items():
            repo.write(path, content)
        shutil.rmtree(repo.path / "a")
        (repo.path / "f").unlink()
        index = str(repo.path / ".git/index")
        left = halfway.bring(where.git, index, changed, side, index + ".new")
        os.replace(index + ".new", index)
        assert left == [], mixture
        want = run.base if side == "old" else run.heads[0]
        assert repo.git("diff", "--cached", "--name-only", want) == "", mixture
        assert repo.git("diff", "--name-only") == "", mixture
        assert (repo.path / "mine").exists()
    assert advance.unfinished([]) is None
