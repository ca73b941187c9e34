"""``agents test``: one program tried end to end, by a real run with a tiny task in a repository made for it.

:func:`judge` is pure: it says what worked, from the run's result and from what git shows.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from git_parallel.agents import installed, launch
from git_parallel.agents import preset as presets
from git_parallel.agents.preset import Preset
from git_parallel.errors import ParallelError
from git_parallel.git import Git, Repository, clean_environment
from git_parallel.plan import config
from git_parallel.plan.model import Result
from git_parallel.plan.programs import Programs
from git_parallel.plan.settings import BY_NAME
from git_parallel.render.live import Display
from git_parallel.supervisor import detached, processes, start

FILE = "hello.txt"
TASK = f"Create a file named {FILE} in the current directory with the one line: hello. Change nothing else."
COMMAND = f"echo hello > {FILE}"  # for a program that takes its task for a command line
# Settings that stay the person's; all others are as if nobody had set any.
_KEPT = ("models", "max_steps", "timeout_per_worker", "budget_per_worker", "grace")


class Finding(Struct, frozen=True):
    """One thing that was looked at. ``ok`` None: the program is not known to have it, so that nothing is wrong."""

    what: str
    ok: bool | None
    detail: str


class Trial(Struct, frozen=True):
    """How it went: ``ok`` when nothing failed. ``detail`` is what the program or the run says of a failure."""

    program: str
    ok: bool
    findings: tuple[Finding, ...]
    detail: str | None
    result: Result | None
    interrupted: int | None = None


def run(name: str, known: Programs, repo: Repository | None, *, model: str | None, timeout: float) -> Trial:
    """Try a program, for at most ``timeout`` seconds. Raises UsageError for one that is not known or not there.

    ``repo``: where the person is, for paths of programs. What the trial made is removed, whatever happens.
    """
    asked = presets.find(name, known.agents, known.locate)
    preset = launch.resolved(
        presets.priced(asked, known.prices, known.locate), cwd=repo.top if repo is not None else None
    )
    version = installed.probe([preset.command[0], *preset.version.probe], installed.PROBE) if preset.version else None
    with _scratch() as path:
        scratch = Repository.discover(path)
        settings = config.load(scratch, {"timeout_per_worker": str(timeout), "models": model})
        plain = {key: setting.default for key, setting in BY_NAME.items() if key not in _KEPT}
        plain.update(program=name, workers=1, models=settings.models[:1], herdr=False, checkpoint=None)
        request = start.Request(
            tasks=[COMMAND if preset.name == "shell" else TASK],
            config=replace(settings, **plain),
            argv=["git", "parallel", *sys.argv[1:]],
            preset=preset,
        )
        context, held = start.plan_run(scratch, request).begin()
        ended = detached.supervise(context, held, Display(sys.stderr, live=False, quiet=True))
        result = ended.shown.workers[0].result
        if result is None:
            raise ParallelError("the trial's result could not be recorded")
        marker = {"GIT_PARALLEL_RUN": context.spec.run, "GIT_PARALLEL_WORKER": str(result.worker_id)}
        left = [str(process.pid) for process in processes.marked(marker)] if processes.LINUX else []
        findings = (_found(preset, version), *judge(preset, result, _committed(scratch, result), left))
        trial = Trial(preset.name, all(one.ok is not False for one in findings), findings, result.detail, result)
        return replace(trial, interrupted=ended.interrupted)


def document(trial: Trial) -> dict[str, object]:
    """The JSON: ``ok`` of a finding is null where the program is not known to have it."""
    return {
        "v": 1,
        "program": trial.program,
        "ok": trial.ok,
        "detail": trial.detail,
        "findings": [{"what": one.what, "ok": one.ok, "detail": one.detail} for one in trial.findings],
        "result": msgspec.to_builtins(trial.result),
    }


def judge(preset: Preset, result: Result, committed: str | None, left: list[str]) -> list[Finding]:
    """Say what worked. ``committed``: who made the commit that holds the file; ``left``: living processes. Pure."""
    started = result.started is not None and result.reason != "spawn"
    read = started and result.reason not in ("no_result", "no_exit")
    others = [path for path in result.files_modified if path != FILE]
    reported = "resume" in preset.options
    return [
        Finding("started", started, "" if started else result.detail or ""),
        Finding("output read", read, f"{result.status}/{result.reason}"),
        Finding("file changed", FILE in result.files_modified, FILE),
        Finding("commit made", committed is not None, committed or "no commit holds the file"),
        Finding("nothing else changed", not others, ", ".join(others[:5])),
        _told("steps", result.steps, _counts_steps(preset)),
        _told("tokens", sum(result.tokens.values()) if result.tokens else None, preset.money == "tokens"),
        _cost(preset, result),
        _told("session", result.session, reported),
        Finding("ended well", result.status == "success", _end(result)),
        Finding("no process left", not left, ", ".join(left)),
    ]


def _counts_steps(preset: Preset) -> bool:
    if preset.output == "events":
        return any(one.step or one.steps for one in preset.events)
    return preset.output not in ("plain", "mini")


def _told(what: str, value: object, expected: bool) -> Finding:
    """What the program says of itself: missing where its preset promises it, it is a fault."""
    if value is not None:
        return Finding(what, True, str(value))
    return Finding(what, False if expected else None, "not told")


def _cost(preset: Preset, result: Result) -> Finding:
    if result.cost is None and preset.money == "reported" and result.steps is not None:
        return Finding("cost", None, "not told: it may have no price for the model")
    return _told("cost", None if result.cost is None else f"${result.cost:.4f}", preset.money == "reported")


def _end(result: Result) -> str:
    code = "no exit code" if result.exit_code is None else f"exit code {result.exit_code}"
    return f"{code}, {result.duration:.1f} s" if result.duration is not None else code


def _found(preset: Preset, version: str | None) -> Finding:
    least = preset.version.minimum if preset.version else None
    said = preset.command[0] + (f" {version}" if version else "")
    if version is None or least is None:
        return Finding("found", True, said)
    old = installed.older(version, least)
    return Finding("found", not old, f"{said} (at least {least} is known to work)" if old else said)


def _committed(scratch: Repository, result: Result) -> str | None:
    """Say who committed the file, or None when it is in no commit of the worker's branch."""
    if result.head is None or result.head == result.base:
        return None
    if not scratch.git.run("ls-tree", "-z", result.head, "--", FILE).fields:
        return None
    message = scratch.git.run("log", "-1", "--format=%B", result.head, "--", FILE).text
    return "by git parallel" if "Parallel-Status:" in message else f"by {result.agent}"


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    """A repository with one commit, in which nothing of the person's configuration asks or signs."""
    for name in os.environ.keys() - clean_environment().keys():
        del os.environ[name]  # what makes git find another repository
    path = os.path.realpath(tempfile.mkdtemp(prefix="git-parallel-test-"))
    try:
        git = Git(("-C", path))
        git.run("init", "-q", "--template=", "-b", "main")
        for key, value in (
            ("user.name", "git parallel"),
            ("user.email", "git-parallel@localhost"),
            ("commit.gpgsign", "false"),
            ("core.hooksPath", os.devnull),
        ):
            git.run("config", key, value)
        with open(os.path.join(path, "README"), "w", encoding="utf-8") as file:
            file.write("A repository in which git parallel tries a program. It is removed afterwards.\n")
        git.run("add", "README")
        git.run("commit", "-q", "-m", "first")
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
