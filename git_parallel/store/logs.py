"""The ends of agents' output: ``refs/architect/logs/<id>``, a ref of its own because logs may hold secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_parallel.git import Repository
from git_parallel.layout import logs_ref
from git_parallel.store.objects import FILE, Objects
from git_parallel.store.refs import Update

CAP = 1 << 18  # bytes of head and of tail


def kept(repo: Repository, objects: Objects, run: str, logs: Mapping[int, str], cap: int = CAP) -> Update:
    """Keep head and tail (``cap`` bytes each) of each worker's output as ``<n>/output.log``.

    ``logs`` goes from worker to path; a file that does not exist is left out, and workers that were written
    before and are not in ``logs`` stay. Returns what is to be done with the ref that keeps them.
    """
    ref = logs_ref(run)
    entries = {}
    for worker, path in logs.items():
        data = _ends(path, cap)
        if data is not None:
            entries[f"{worker}/output.log"] = (FILE, objects.blob(data))
    (before,) = objects.resolve(ref)
    tree = objects.edit(objects.read_commit(before)[0] if before else None, entries)
    message = f"output of run {run}\n\nArchitect-Run: {run}\n"
    commit = objects.commit(tree, [before] if before else [], message)
    return Update(ref, commit, before or repo.zero)


def _ends(path: str, cap: int) -> bytes | None:
    """The whole of a short file; of a long one its two ends and a line that says what is missing."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= 2 * cap:
                return file.read(2 * cap)
            head = file.read(cap)
            file.seek(size - cap)
            return head + b"\n[... %d bytes left out ...]\n" % (size - 2 * cap) + file.read(cap)
    except FileNotFoundError:
        return None
