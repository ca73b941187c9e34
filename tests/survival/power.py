"""Cuts the power at points of a run: everything stops, and what was not written through to the disk is gone.

``python power.py DIRECTORY [POINT...]`` prints one JSON object a point. The rules of the disk, for files that
are newer than the run: one that was never synced is empty, one that has grown since is as long as it was then. The
program's own calls of fsync(2) are noted where they happen. Git syncs what ``core.fsync`` tells it to, for objects,
refs and indexes apart: these survive when every git command that was started had that set, and are empty
otherwise. What agents wrote into their worktrees is the system's to keep, and stays.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import crash
import judge
import points
import scene
import steps
from scene import Scene

KINDS = {"objects": "loose-object", "refs": "reference", "index": "index"}


def noting_syncs() -> None:
    """Put a name to every step of this process, and note what it and the git commands that it starts write through."""
    from git_parallel.git import Git
    from git_parallel.store import refs
    from git_parallel.supervisor import host

    steps.Supervisor().wrap()
    steps.note_syncs()
    run, make, start = Git.run, refs.Transactions.make, host.GuardHost.start

    def ran(git: Any, *arguments: str, **options: Any) -> Any:
        note_git(set(arguments), list(git._argv(arguments, options.get("hooks", False))))
        return run(git, *arguments, **options)

    def made(own: Any, *arguments: Any) -> bool:
        conversation = own._conversation
        note_git({"update-ref"}, list(conversation._git._argv(conversation._arguments, False)))
        return make(own, *arguments)

    def started(own: Any, spec: Any) -> Any:
        names = [name for name in spec.env if name.startswith("GIT_CONFIG_KEY_")]
        pairs = {spec.env[name]: spec.env[name.replace("KEY", "VALUE")] for name in names}
        note_git({"add", "update-ref", "read-tree"}, [f"{key}={value}" for key, value in pairs.items()])
        return start(own, spec)

    refs.Transactions.make = made  # type: ignore[method-assign]
    Git.run = ran  # type: ignore[method-assign]
    host.GuardHost.start = started  # type: ignore[method-assign]


def note_git(does: set[str], settings: list[str]) -> None:
    """Note the kinds of files that a git command writes and does not sync."""
    told = {kind for word in settings if word.startswith("core.fsync=") for kind in word[11:].split(",")}
    writes = {
        "objects": {"add", "write-tree", "hash-object", "commit-tree"},
        "refs": {"update-ref"},
        "index": {"add", "read-tree"},
    }
    with open(os.path.join(os.environ["SURVIVAL_HERE"], "unsynced"), "a") as file:
        for kind, commands in writes.items():
            if commands & does and not {KINDS[kind], "all"} & told:
                file.write(f"{kind}\n")


def kind_of(path: str) -> str:
    parts = path.split("/")
    if parts[0] == "objects":
        return "objects"
    if parts[0] == "refs" or path == "packed-refs":
        return "refs"
    return "index" if parts[-1] == "index" and parts[0] != "architect" else "own" if parts[0] == "architect" else "git"


def cut(place: Scene, before: set[str]) -> list[str]:
    """Stop everything, and make of the repository what the disk has; return what was lost."""
    tops = place.tops()
    while found := judge.alive(place.token, tops):
        for line in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[1]), signal.SIGKILL)
        time.sleep(0.01)
    synced: dict[int, int] = {}
    for line in (place.top / "synced").read_text().splitlines() if (place.top / "synced").exists() else ():
        inode, size = map(int, line.split())
        synced[inode] = size
    unsynced = set((place.top / "unsynced").read_text().split()) if (place.top / "unsynced").exists() else set()
    gone = []
    top = place.repo / ".git"
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if name in before or path.is_symlink() or not path.is_file():
            continue
        kind = kind_of(name)
        keeps = kind in KINDS and kind not in unsynced
        size = synced.get(path.stat().st_ino, path.stat().st_size if keeps else 0)
        if size < path.stat().st_size:
            os.chmod(path, 0o600)
            os.truncate(path, size)
            gone.append(name)
    return gone


def play(place: Scene, point: str, ending: str) -> dict[str, Any]:
    top = place.repo / ".git"
    before = {str(path.relative_to(top)) for path in top.rglob("*")}
    env = {"SURVIVAL_AT": point, "SURVIVAL_VICTIM": "all", "SURVIVAL_SYNCS": "1"}
    child = scene.begin(place, *place.run(together=points.waits(point)), env=env, wrap=noting_syncs)
    if points.waits(point):
        crash.hold(place, child, point, dies=True)
    else:
        place.go()
    scene.end(place, child, "run")
    gone = cut(place, before)
    place.go()
    problems: list[str] = []
    status = scene.call(place, "status", "--json")
    if status.code:
        problems.append(f"status exited with {status.code}: {status.err}")
    problems += judge.misleading(place.repo, scene.document(status))
    problems += crash.resume(place, "all") if ending == "resume" else crash.doctor(place, None, interrupted=False)
    tops = place.tops()
    problems += crash.after(place, tops)
    return {
        "point": f"{point}|{ending}",
        "killed": (place.top / "killed").exists(),
        "gone": gone,
        "problems": problems,
        "statuses": crash.statuses(place),
    }


def main() -> None:
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    scene.preload()
    source = scene.template(directory)
    kinds = scene.KINDS if "--all" in sys.argv else points.FEW
    asked = [word for word in sys.argv[2:] if "@" in word] or points.POWER
    for number, point in enumerate(asked):
        for ending in points.ENDINGS if "--all" in sys.argv else points.ENDINGS[number % 2 :][:1]:
            place = scene.make(directory, source, number * 2 + (ending == "doctor"), kinds)
            print(json.dumps(play(place, point, ending)), flush=True)
            if "--keep" not in sys.argv:
                shutil.rmtree(place.top)


if __name__ == "__main__":
    main()
