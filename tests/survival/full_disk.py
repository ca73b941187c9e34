"""Runs three workers whose first agent fills the disk, and goes on when there is room again.

``python full_disk.py DIRECTORY`` prints as JSON what each command said and how the workers ended. There is no
small file system for everybody to mount, so supervisor and guards are told that theirs is full, at the calls
by which they write: nothing new can be made and nothing can grow while the file ``full`` is there, but what has
its room already can be written over. The same file is the guards' zygote (``python -I -S full_disk.py FD``).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))

AGENTS = {
    "fills": "echo work > work; until [ -e ../.architect-parallel-2/work ] && [ -e ../.architect-parallel-3/work ];"
    " do sleep 0.02; done; touch {top}/full; exit 0",
    "fails": "echo work > work; until [ -e {top}/full ]; do sleep 0.02; done; exit 3",
    "waits": "echo work > work; until [ -e {top}/full ]; do sleep 0.02; done; sleep 0.3; echo late > late",
}


def full() -> bool:
    return os.path.exists(os.path.join(os.environ["SURVIVAL_HERE"], "full"))


def no_space(path: Any) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def fill() -> None:
    """Let nothing grow and nothing new be made in this process while the disk is full."""
    make, write = os.open, os.write

    def opened(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT and not os.path.lexists(path) and full():
            raise no_space(path)
        return make(path, flags, *rest, **options)

    def written(descriptor: int, data: Any) -> int:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/repo/" in path and full():
            at = os.lseek(descriptor, 0, os.SEEK_END if path.endswith("journal.jsonl") else os.SEEK_CUR)
            if at + len(data) > os.fstat(descriptor).st_size:
                raise no_space(path)
        return write(descriptor, data)

    os.open, os.write = opened, written


def supervisor() -> None:
    """Fill the disk of a supervisor: its own writes, and those of the git commands that it starts."""
    from git_parallel.errors import GitError
    from git_parallel.git import Git
    from git_parallel.store import refs, snapshots
    from git_parallel.supervisor import host

    fill()
    host._ZYGOTE = os.path.abspath(__file__)
    run, make, copy = Git.run, refs.Transactions.make, snapshots.copy_index

    def ran(git: Any, *arguments: str, **options: Any) -> Any:
        if full() and {"add", "update-ref", "write-tree", "worktree", "read-tree"} & set(arguments):
            raise GitError(("git", *arguments), 128, b"fatal: unable to write: No space left on device\n")
        return run(git, *arguments, **options)

    def copied(source: str, target: str) -> None:
        if full():
            raise no_space(target)
        copy(source, target)

    def made(own: Any, *arguments: Any) -> bool:
        return not full() and make(own, *arguments)

    refs.Transactions.make = made  # type: ignore[method-assign]
    Git.run = ran  # type: ignore[method-assign]
    snapshots.copy_index = copied


def zygote() -> None:
    sys.path.append(os.path.dirname(os.path.dirname(HERE)))
    from git_parallel.supervisor import zygote as own

    fill()
    own.main()


def main(directory: str) -> None:
    import json
    from pathlib import Path

    import judge
    import scene

    scene.preload()
    place = scene.make(Path(directory), scene.template(Path(directory)), 1)
    tasks = [word for text in AGENTS.values() for word in ("--task", text.format(top=place.top))]
    wrap: Callable[[], None] = supervisor
    run = scene.call(place, "run", "--json", "--program", "shell", *tasks, wrap=wrap)
    during = scene.call(place, "status", "--json")
    left = judge.dead_within(2.0, place.token, [place.repo / f".architect-parallel-{n}" for n in (1, 2, 3)])
    os.unlink(place.top / "full")
    wait = scene.call(place, "wait", "--json")
    (tip,) = (tip for name, tip in judge.refs(place.repo).items() if name.startswith(judge.RUNS))
    results = judge.record(place.repo, tip).results
    print(
        json.dumps(
            {
                "run": [run.code, run.err],
                "during": json.loads(during.out),
                "wait": [wait.code, wait.err],
                "problems": left
                + judge.corrupt(place.repo)
                + judge.litter(place.repo, place.top / "tmp")
                + judge.untrue(place.repo),
                "results": {
                    number: [f"{one['status']}/{one['reason']}", one["files_modified"]]
                    for number, one in results.items()
                },
            }
        )
    )


if __name__ == "__main__":
    if sys.argv[1].isdecimal():
        zygote()
    else:
        main(sys.argv[1])
