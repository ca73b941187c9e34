"""Keeps the ends of agents' output in git: ``refs/architect/logs/<id>``, a ref of its own since logs may hold secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping

from git_parallel.git import Repository
from git_parallel.layout import logs_ref
from git_parallel.store import refs
from git_parallel.store.objects import FILE, Objects
from git_parallel.store.refs import Update

CAP = 1 << 18  # bytes of head and of tail


def write_logs(repo: Repository, run: str, logs: Mapping[int, str], cap: int = CAP) -> None:
    """Write head and tail of each worker's output (``<n>/output.log``) as a commit on the run's log ref."""
    with Objects(repo) as objects:
        entries = {}
        for worker, path in logs.items():
            data = _ends(path, cap)
            if data is not None:
                entries[f"{worker}/output.log"] = (FILE, objects.blob(data))
        commit = objects.commit(objects.tree(entries), [], f"output of run {run}\n\nArchitect-Run: {run}\n")
        with refs.locked(repo):
            refs.transaction(repo, [Update(logs_ref(run), commit, None)])


def _ends(path: str, cap: int) -> bytes | None:
    """The whole of a short file; of a long one its two ends and a line that says what is missing."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= 2 * cap:
                return file.read()
            head = file.read(cap)
            file.seek(size - cap)
            return head + b"\n[... %d bytes left out ...]\n" % (size - 2 * cap) + file.read()
    except FileNotFoundError:
        return None
