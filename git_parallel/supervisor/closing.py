"""The last record of a run, whoever ends it: its supervisor, or who takes over from one that died."""

from __future__ import annotations

from git_parallel.plan.model import Result
from git_parallel.store import logs, record, refs
from git_parallel.supervisor.context import Context


def close_record(context: Context, results: dict[int, Result]) -> None:
    """Write a run's last record: all events, the summary, and the ends of the agents' output beside it."""
    spec = context.spec
    counts: dict[str, int] = {}
    for result in results.values():
        counts[result.status] = counts.get(result.status, 0) + 1
    summary = ", ".join(f"{number} {status}" for status, number in sorted(counts.items()))
    with refs.locked(context.repo):
        output = logs.kept(
            context.repo, context.objects, spec.run, {number: context.files.worker(number).log for number in results}
        )
        context.recorder.submit(
            record.Entry(
                changes={},
                subject=f"run ended: {summary}",
                trailers=[("Architect-Event", "run-ended"), ("Architect-State", "ended")],
                updates=[output],
            )
        )
