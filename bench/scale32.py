#!/usr/bin/env python3
"""Figure: 8, 16 and 32 trivial workers, 8 at once: the time for each further worker must not grow.

The cost of a worker is the slope between two sizes; from 16 to 32 it may be at most 1.25 times that from
8 to 16, so that a quadratic part would show.
"""

import statistics
import sys
from pathlib import Path

import paired
import run8

SIZES = (8, 16, 32)
LIMIT = 1.25


def subject(size: int, repo: Path) -> paired.Subject:
    tasks = [word for number in range(size) for word in ("--task", f"echo {number} > new-{number}")]
    argv = [paired.git_parallel(), "run", "--quiet", "--program", "shell", "--workers", "8", *tasks]
    return paired.Subject(f"{size} workers", argv, repo, before=lambda: run8.fresh(repo))


def main() -> None:
    given = paired.arguments(__doc__, 15)
    with paired.scratch() as path:
        paired.repository(path / "pristine")
        samples = paired.rounds([subject(size, path / "repo") for size in reversed(SIZES)], given.rounds, warm_up=1)
    small, middle, large = (samples[f"{size} workers"] for size in SIZES)
    paired.report("scale", samples, {})
    first = statistics.median((b.wall - a.wall) / (SIZES[1] - SIZES[0]) for a, b in zip(small, middle, strict=True))
    second = statistics.median((b.wall - a.wall) / (SIZES[2] - SIZES[1]) for a, b in zip(middle, large, strict=True))
    good = second <= LIMIT * first
    print(
        f"  a further worker: {first * 1000:.1f} ms from {SIZES[0]} to {SIZES[1]}, {second * 1000:.1f} ms from"
        f" {SIZES[1]} to {SIZES[2]}: ratio {second / first:.2f}, limit {LIMIT}{'' if good else '  too slow'}"
    )
    sys.exit(not good)


if __name__ == "__main__":
    main()
