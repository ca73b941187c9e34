#!/usr/bin/env python3
"""Figure: what idle workers cost the supervisor, as a share of one core.

A run of sleeping workers is begun, and its supervisor's processor time (with that of the git calls it makes,
without guards and agents, which sleep) is read from the kernel: over the first seconds, when worktrees have just
been filled, then until each was looked into once, and after that. A further idle worker may add at most 0.2 % of
a core, and a hundred of them may cost 2 % in all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import paired

SIZES = (8, 100)
FIRST = 15.0  # seconds
SETTLED = 120.0  # until each worker's files were counted once, and its first checkpoint was looked for
LATER = 20.0
EACH_LIMIT = 0.002
ALL_LIMIT = 0.02
TICKS = os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Seconds of processor time of a process and of the children that it has waited for (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / TICKS


def events(live: Path) -> list[str]:
    """What a run's journal tells of."""
    return [json.loads(line)["event"] for line in (live / "journal.jsonl").read_text().splitlines()]


def measured(repo: Path, size: int) -> list[float]:
    """Shares of a core that the supervisor of so many idle workers takes: at first, between, and later."""
    tasks = [word for number in range(size) for word in ("--task", f"sleep 100{number}")]
    argv = [paired.git_parallel(), "run", "--detach", "--program", "shell", "--workers", str(size), *tasks]
    run = subprocess.run(argv, cwd=repo, check=True, capture_output=True, text=True).stdout.strip()
    live = repo / ".git" / "architect" / "runs" / run
    try:
        while events(live).count("started") < size:
            time.sleep(0.2)
        pid = json.loads((live / "supervisor.pid").read_text())["pid"]
        shares = []
        for seconds in (FIRST, SETTLED - FIRST, LATER):
            before = used(pid)
            time.sleep(seconds)
            shares.append((used(pid) - before) / seconds)
        return shares
    finally:
        stop = [paired.git_parallel(), "stop", "--now"]
        subprocess.run(stop, cwd=repo, check=True, capture_output=True)
        subprocess.run([paired.git_parallel(), "wait"], cwd=repo, check=False, capture_output=True)


def main() -> None:
    paired.arguments(__doc__, 1)
    shares = {}
    for size in SIZES:
        with paired.scratch() as path:
            shares[size] = measured(paired.repository(path / "repo"), size)
    print("idle workers: share of a core that the supervisor takes")
    print(f"  {'':<14} {f'first {FIRST:.0f} s':>10} {f'to {SETTLED:.0f} s':>10} {'later':>8}")
    for size, (first, between, later) in shares.items():
        print(f"  {size:>3} workers    {first:>10.2%} {between:>10.2%} {later:>8.2%}")
    (small, (*_, least)), (large, (*_, most)) = shares.items()
    each = (most - least) / (large - small)
    good = each <= EACH_LIMIT and most <= ALL_LIMIT
    print(
        f"  a further one  {each:>30.3%}, limit {EACH_LIMIT:.1%}; all {large}: limit {ALL_LIMIT:.0%}"
        f"{'' if good else '  too much'}"
    )
    sys.exit(not good)


if __name__ == "__main__":
    main()
