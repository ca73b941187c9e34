"""The exit code of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from git_parallel.errors import OK, WORKER_FAILED
from git_parallel.plan import halt
from git_parallel.plan.model import Result, RunSpec


def run_exit_code(spec: RunSpec, results: Mapping[int, Result] | Iterable[Result], total: int | None = None) -> int:
    """0 when the run did what was asked, else 1: every worker succeeded, unless ``--halt`` asked for fewer.

    A worker without a result did not succeed. ``total``: how many workers it is about, when not all.
    """
    ended = results.values() if isinstance(results, Mapping) else results
    counts = halt.Counts.of(len(spec.jobs) if total is None else total, (result.status for result in ended))
    return OK if halt.parse(spec.halt).succeeded(counts) else WORKER_FAILED
