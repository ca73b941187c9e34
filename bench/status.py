#!/usr/bin/env python3
"""Figure: `git parallel status` while a run of 8 workers goes on, against importing click. Limit: 2."""

import subprocess
import sys
import time
from pathlib import Path

import paired

WORKERS = 8
LIMIT = 2.0


def start(repo: Path) -> str:
    """Start a run whose workers wait, and return its id once all of them run."""
    tasks = [word for number in range(WORKERS) for word in ("--task", f"echo {number} > new; sleep 600")]
    begun = subprocess.run(
        [paired.git_parallel(), "run", "--program", "shell", "--workers", str(WORKERS), "--detach", *tasks],
        cwd=repo,
        check=True,
        capture_output=True,
        text=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        lines = subprocess.run(
            [paired.git_parallel(), "status", "--porcelain"], cwd=repo, check=True, capture_output=True, text=True
        ).stdout.splitlines()
        if [line.split("\t")[2] for line in lines] == ["running"] * WORKERS:
            return begun.stdout.strip()
        time.sleep(0.1)
    sys.exit("the run has not started within a minute")


def main() -> None:
    given = paired.arguments(__doc__, 40)
    with paired.scratch() as path:
        repo = paired.repository(path / "repo")
        run = start(repo)
        subjects = [
            paired.Subject("git-parallel status (8 running)", [paired.git_parallel(), "status"], repo),
            paired.Subject("python -c 'import click'", [sys.executable, "-c", "import click"], repo),
            paired.Subject("git status", ["git", "status"], repo),
        ]
        try:
            samples = paired.rounds(subjects, given.rounds)
        finally:
            subprocess.run([paired.git_parallel(), "stop", "--now", run], cwd=repo, check=True, capture_output=True)
    sys.exit(not paired.report("status", samples, {subjects[1].name: LIMIT}))


if __name__ == "__main__":
    main()
