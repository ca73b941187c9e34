"""``git parallel __complete WHAT``: the words that only the repository knows, for the shells' completions.

One word a line, with a TAB and a description where there is one. A shell is waiting for it in the
middle of somebody's typing: whatever goes wrong gives fewer words, never a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import click

from git_parallel.cli import _common
from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.layout import HEADS, MERGES, State
from git_parallel.plan.model import RunSpec, decode_spec
from git_parallel.render import text
from git_parallel.supervisor import files, view

# Nobody picks from a longer list, and each run costs a file to read.
NEWEST = 40
REFS = 2000

# A branch may be called `$(reboot)`: a shell would put that on the command line as it is.
_PLAIN = re.compile(r"[\w./@:+,=%#-]+")

Words = Iterator[tuple[str, str]]


@click.command(hidden=True)
@click.argument("what")
def command(what: str) -> int:
    """Print the words of one kind: workers, runs, models, programs, branches, commits or settings."""
    try:
        words = list(KINDS[what](Repository.discover())) if what in KINDS else []
    except Exception:
        words = []
    _common.write("".join(f"{line}\n" for line in _lines(words)))
    return 0


def _lines(words: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Each word once, where it first comes; words that mean something else to a shell are left out."""
    seen: set[str] = set()
    for word, about in words:
        if word not in seen and _PLAIN.fullmatch(word):
            seen.add(word)
            shown = text.printable(" ".join(about.split()))
            yield f"{word}\t{shown}" if shown else word


def _specs(repo: Repository) -> Iterator[RunSpec]:
    """The runs with live files, newest first."""
    state = State(repo.common_dir)
    for run in reversed(view.known_runs(state)[-NEWEST:]):
        data = files.read(state.run(run).spec)
        if data is not None:
            yield decode_spec(data)


def workers(repo: Repository) -> Words:
    """Numbers whose branch exists, newest run first."""
    specs = list(_specs(repo))
    refs = [HEADS + job.branch for spec in specs for job in spec.jobs]
    if not refs:
        return
    present = set(repo.common.run("for-each-ref", "--format=%(refname)", *refs).lines)
    for spec in specs:
        for job in spec.jobs:
            if HEADS + job.branch in present:
                model = f"{job.model}: " if job.model else ""
                yield str(job.worker), f"{model}{spec.task(job.task).title}"


def runs(repo: Repository) -> Words:
    """Ids of runs, newest first: those with live files, then those that only the record knows."""
    yield "last", "the newest run"
    for spec in _specs(repo):
        others = f" and {len(spec.tasks) - 1} more" if len(spec.tasks) > 1 else ""
        yield spec.run, f"{spec.tasks[0].title}{others}" if spec.tasks else ""
    from git_parallel.store import record  # noqa: PLC0415 (only for runs)

    for summary in record.list_runs(repo, limit=NEWEST):
        yield summary.run, summary.subject


def models(repo: Repository) -> Words:
    """Models that the configuration names, then those of earlier runs."""
    from git_parallel.plan.config import load  # noqa: PLC0415 (only for models)

    for model in load(repo).models:
        yield model, "configured"
    for spec in _specs(repo):
        for job in spec.jobs:
            if job.model:
                yield job.model, "used before"


def programs(repo: Repository) -> Words:
    """Presets, and the programs that the repository's configuration defines."""
    from git_parallel.agents import preset  # noqa: PLC0415 (only for programs)
    from git_parallel.plan import programs as configured  # noqa: PLC0415
    from git_parallel.plan.config import load  # noqa: PLC0415

    known = configured.load(load(repo).raw, repo.top).agents
    for name in preset.names(known):
        try:
            yield name, preset.load(name, known).about
        except UsageError:
            yield name, ""


def trials(repo: Repository) -> Words:
    """What `agents` takes."""
    yield "test", "try a program"
    yield from programs(repo)


def branches(repo: Repository) -> Words:
    """Branches, also those of remotes."""
    return _refs(repo, "refs/heads", "refs/remotes")


def commits(repo: Repository) -> Words:
    """What people call commits by."""
    yield "HEAD", ""
    yield from _refs(repo, "refs/heads", "refs/tags", "refs/remotes")


def _refs(repo: Repository, *below: str) -> Words:
    names = repo.common.run("for-each-ref", f"--count={REFS}", "--format=%(refname:short)", *below).lines
    return ((name, "") for name in names)


def remotes(repo: Repository) -> Words:
    """What to share records with."""
    return ((name, "") for name in repo.common.run("remote").lines)


def settings(repo: Repository) -> Words:
    """Names of settings, as in a file."""
    from git_parallel.plan.settings import SETTINGS  # noqa: PLC0415 (only for settings)

    return ((setting.name, setting.help) for setting in SETTINGS)


def handles(repo: Repository) -> Words:
    """What names a worker or a run."""
    yield from workers(repo)
    yield from runs(repo)


def removed(repo: Repository) -> Words:
    """Workers that can be restored."""
    from git_parallel.integrate import restorable  # noqa: PLC0415 (only for removed)

    return ((item.handle, item.branch or "") for item in restorable.everything(repo))


def merges(repo: Repository) -> Words:
    """Ids of landings, newest first."""
    done = repo.common.run("for-each-ref", f"--count={NEWEST}", "--sort=-refname", "--format=%(refname)", MERGES)
    return ((name.removeprefix(MERGES), "") for name in done.lines)


KINDS: dict[str, Callable[[Repository], Words]] = {
    "branches": branches,
    "commits": commits,
    "handles": handles,
    "merges": merges,
    "models": models,
    "programs": programs,
    "remotes": remotes,
    "removed": removed,
    "runs": runs,
    "settings": settings,
    "trials": trials,
    "workers": workers,
}
