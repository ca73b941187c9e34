#!/usr/bin/env python3
"""Figure: `git parallel --version` against importing click. Limit: 1.3."""

import sys

import paired

LIMIT = 1.3


def main() -> None:
    given = paired.arguments(__doc__, 40)
    subjects = [
        paired.Subject("git-parallel --version", [paired.git_parallel(), "--version"]),
        paired.Subject("python -c 'import click'", [sys.executable, "-c", "import click"]),
    ]
    with paired.scratch():
        samples = paired.rounds(subjects, given.rounds)
    sys.exit(not paired.report("start-up", samples, {subjects[1].name: LIMIT}))


if __name__ == "__main__":
    main()
