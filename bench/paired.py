"""Paired, interleaved measurements: A B A B …, a ratio for each round, and the medians of those.

A machine's speed drifts by more than the differences that are measured here. Two commands that run one
right after the other see the same machine, so that the ratio of a round holds where a time does not.
CPU time stands beside wall time: a loaded machine stretches only the latter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 15
"""The least number of rounds for commands below 100 ms."""


@dataclass(frozen=True)
class Sample:
    """One run: seconds of wall time, and of user plus system time of the program and all that it waited for."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Subject:
    """What is measured. ``before`` and ``after`` prepare and clear up each run, outside the measured time."""

    name: str
    argv: Sequence[str]
    cwd: Path | None = None
    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None
    exit_codes: tuple[int, ...] = (0,)


def measure(subject: Subject) -> Sample:
    """Run the subject once. Raises SystemExit with its output when it fails: a failing command is fast."""
    subject.before()
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            subject.argv, cwd=subject.cwd, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in subject.exit_codes:
            output.seek(0)
            sys.exit(f"{subject.name}: exit code {process.returncode}\n{output.read().decode(errors='replace')}")
    subject.after()
    return Sample(wall, usage.ru_utime + usage.ru_stime)


def rounds(subjects: Sequence[Subject], count: int, warm_up: int = 2) -> dict[str, list[Sample]]:
    """Run all subjects in turn, ``count`` times, and each second round backwards."""
    samples: dict[str, list[Sample]] = {subject.name: [] for subject in subjects}
    for number in range(-warm_up, count):
        for subject in subjects if number % 2 == 0 else reversed(subjects):
            sample = measure(subject)
            if number >= 0:
                samples[subject.name].append(sample)
    return samples


def report(title: str, samples: Mapping[str, Sequence[Sample]], limits: Mapping[str, float]) -> bool:
    """Print a table with the first subject as the measured one; say whether all limits are kept.

    ``limits``: for each of the other subjects, the most that the first may take as a multiple of it.
    """
    (name, ours), *others = samples.items()
    print(f"{title}: {len(ours)} rounds, medians")
    print(f"  {'':<34} {'wall ms':>9} {'cpu ms':>9} {'ratio':>7} {'cpu':>7} {'limit':>7}")
    print(f"  {name:<34} {_median(ours, 'wall') * 1000:>9.1f} {_median(ours, 'cpu') * 1000:>9.1f}")
    kept = True
    for other, theirs in others:
        wall = statistics.median(a.wall / b.wall for a, b in zip(ours, theirs, strict=True))
        cpu = statistics.median(a.cpu / b.cpu if b.cpu else float("nan") for a, b in zip(ours, theirs, strict=True))
        limit = limits.get(other)
        good = limit is None or wall <= limit
        kept = kept and good
        print(
            f"  {other:<34} {_median(theirs, 'wall') * 1000:>9.1f} {_median(theirs, 'cpu') * 1000:>9.1f}"
            f" {wall:>7.2f} {cpu:>7.2f} {'' if limit is None else f'{limit:.2f}':>7}{'' if good else '  too slow'}"
        )
    return kept


def _median(samples: Sequence[Sample], field: str) -> float:
    return statistics.median(getattr(sample, field) for sample in samples)


def arguments(description: str, count: int = ROUNDS, **options: dict[str, object]) -> argparse.Namespace:
    """Read the command line that all figures share: ``--rounds``, and what ``options`` add.

    From here on a SIGTERM, as `timeout` sends it, ends the measurement as Ctrl-C does: what it has begun is ended.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=count, help=f"rounds to measure (default: {count})")
    for name, settings in options.items():
        parser.add_argument(f"--{name}", **settings)  # type: ignore[arg-type]
    return parser.parse_args()


def git_parallel() -> str:
    """The installed ``git-parallel`` of the Python that runs this."""
    beside = Path(sys.executable).with_name("git-parallel")
    found = str(beside) if beside.exists() else shutil.which("git-parallel")
    if not found:
        sys.exit("git-parallel is not installed: pip install -e .")
    return found


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory in memory where there is one, with a sealed git configuration in a HOME of its own."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="git-parallel-bench.", dir=memory) as path:
        home = Path(path) / "home"
        home.mkdir()
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            del os.environ[name]
        os.environ.update(HOME=str(home), GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_SYSTEM=os.devnull)
        for name, value in {
            "user.name": "A U Thor",
            "user.email": "author@example.com",
            "init.defaultBranch": "main",
        }.items():
            subprocess.run(["git", "config", "--global", name, value], check=True)
        yield Path(path)


def repository(path: Path, files: int = 20) -> Path:
    """Make a small repository with one commit of so many files."""
    path.mkdir(parents=True)
    git(path, "init", "-q")
    for number in range(files):
        file = path / f"src/{number % 5}/file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"file {number}\n" * 20)
    git(path, "add", "-A")
    git(path, "commit", "-q", "-m", "first")
    return path


def git(path: Path, *words: str) -> None:
    """Run git in a repository."""
    subprocess.run(["git", *words], cwd=path, check=True, stdout=subprocess.DEVNULL)
