"""What `run --dry-run` shows: who would do what, where, from which commit, at what limit. Pure."""

from __future__ import annotations

import msgspec

from git_parallel.plan.model import RunSpec
from git_parallel.render import text
from git_parallel.supervisor import view


def table(spec: RunSpec) -> str:
    """Return the plan of a run, a line for each worker."""
    limits = [
        f"{text.money(spec.limits.budget_per_worker)} each" if spec.limits.budget_per_worker else "",
        f"{text.duration(spec.limits.timeout_per_worker)} each" if spec.limits.timeout_per_worker else "",
        f"{text.money(spec.limits.budget)} in all" if spec.limits.budget else "",
        f"{text.duration(spec.limits.timeout)} in all" if spec.limits.timeout else "",
        f"{spec.limits.max_steps} steps" if spec.limits.max_steps else "",
        f"idle for {text.duration(spec.limits.idle_timeout)}" if spec.limits.idle_timeout else "",
        f"{text.size(spec.limits.memory_per_worker)} of memory each" if spec.limits.memory_per_worker else "",
        f"start with {text.size(spec.limits.memfree)} of memory free" if spec.limits.memfree else "",
        f"{text.size(spec.limits.max_output)} of output each" if spec.limits.max_output else "",
        f"{text.size(spec.limits.max_disk)} on disk each" if spec.limits.max_disk else "",
    ]
    lines = [
        f"base     {spec.base_name} ({spec.base[:12]})",
        f"target   {(spec.target or '(none: HEAD is detached)').removeprefix('refs/heads/')}",
        f"program  {text.one_line(spec.program)}, role {text.one_line(spec.role)}",
        f"limits   {', '.join(limit for limit in limits if limit) or 'none'}",
        f"workers  {len(spec.jobs)}, {spec.workers} at once",
        *([f"terminal {spec.terminal}"] if spec.terminal else []),
        *(f"check    {text.one_line(check)}" for check in spec.checks),
        "",
    ]
    for job in spec.jobs:
        model = f"  model {text.one_line(job.model)}" if job.model else ""
        lines.append(f"[{job.worker}] {text.subject(spec.task(job.task).title)}{model}")
        lines.append(f"    {text.one_line(job.branch)} in {text.printable(job.worktree)}")
    return "\n".join(lines) + "\n"


def document(spec: RunSpec) -> str:
    """The same as JSON: ``{"v": 1, "dry_run": true, …}`` with the run's own fields."""
    return view.dumps({**msgspec.to_builtins(spec), "dry_run": True}) + "\n"
