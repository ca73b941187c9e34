"""Runs whose tasks are limited to some paths, which no command line can say yet."""

from __future__ import annotations

import json

import msgspec

from git_parallel.git import Repository
from git_parallel.layout import State
from git_parallel.plan.model import decode_spec, encode
from git_parallel.store import record
from git_parallel.supervisor import files


def restricted(repo, task: str, *, paths: tuple[str, ...]) -> str:
    """Run a task, then write into the run that only ``paths`` were its business; return its id."""
    run = json.loads(repo.parallel("run", "--json", "--program", "shell", "--task", task).stdout)["run"]
    here = Repository.discover(str(repo.path))
    place = State(here.common_dir).run(run).spec
    spec = decode_spec(files.read(place) or b"")
    limited = msgspec.structs.replace(
        spec, tasks=tuple(msgspec.structs.replace(one, paths=paths) for one in spec.tasks)
    )
    files.replace(place, encode(limited))
    record.write(here, run, {"run.json": encode(limited)}, subject="limited")
    return run
