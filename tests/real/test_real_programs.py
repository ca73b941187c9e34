"""What comes out of the real programs, driven unattended against a scripted model.

The tables say for each case and program how ``git parallel`` reports its worker: status, reason, steps, dollars
(None: nobody knows) and the program's own exit code (None: a signal ended it). They are what the programs do,
not what they should do; a new version that does otherwise is news. Cases that a program cannot meet:

- aider has no session and no tools: one answer is all, so nothing loops, nothing is denied to it, and nothing can
  be gone on with.
- architect takes a task only on its command line: one of 200 kB is refused before anything starts.
- Codex says what it used, and Gemini CLI too, once all is done: no budget can end them before. Steps do, of which
  Codex at times leaves out a command that ended at once.
- Gemini CLI, opencode and aider ask again, for minutes, after a failed request that may pass: time ends them, as
  it ends the others when no answer comes at all.
- oh-my-opencode is a plugin: it is opencode that stops, fails, counts and goes on in its session.
"""

from __future__ import annotations

import signal
import time
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest
from real_programs import MODEL, PROGRAMS, Program, workers
from scripted_model import FINAL, Model

PLUGIN = "opencode with oh-my-opencode"
PATIENCE = 300  # seconds; a few of them are enough where nothing else is at work
ALONE = [name for name in PROGRAMS if name != PLUGIN]
PRICES = "prices:\n" + "".join(f"  {name}: {{input: 1, output: 10}}\n" for name in (MODEL, "gemini-2.5-pro"))


class AtLeast(int):
    """A number that is equal to itself and all above: a program goes on for a moment when it is asked to end."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and other >= int(self)

    __hash__ = int.__hash__


class Came(NamedTuple):
    """What came of a worker."""

    status: str
    reason: str
    steps: int | None
    cost: float | None
    exit_code: int | None


def came(worker: dict[str, Any]) -> Came:
    cost = worker["cost"]
    known = None if cost is None else round(cost, 6)
    return Came(worker["status"], worker["reason"], worker["steps"], known, worker["exit_code"])


def arguments(program: Program, *more: str, limit: int = PATIENCE) -> list[str]:
    """Return a command line of `run` for a program, with `more` options."""
    limits = ["--timeout-per-worker", str(limit)]
    return ["run", "--json", "--program", program.agent, "--models", program.model, *limits, *more]


def tasks(program: Program, *scripts: str) -> list[str]:
    """Return options for tasks that first write a file, where the program goes on after that, and then do as told."""
    before = "<<write a.txt>> " if program.turns else ""
    return [word for script in scripts for word in ("--task", before + script)]


# ----------------------------------------------------------------------------------------------------------------
SUCCESS = {
    "claude": Came("success", "done", 2, 0.0075, 0),
    "codex": Came("success", "done", AtLeast(2), 0.003, 0),
    "opencode": Came("success", "done", 2, 0.003, 0),
    PLUGIN: Came("success", "done", 2, 0.003, 0),
    "gemini": Came("success", "done", 1, 0.003, 0),
    "aider": Came("success", "done", 1, 0.003, 0),
    "architect": Came("success", "done", 1, 0.006, 0),
}
PLANNED = {  # where nothing may be written, however hard the model tries
    **SUCCESS,
    PLUGIN: Came("partial", "scope", 2, 0.003, 0),  # it writes all the same
    "architect": Came("success", "done", 0, 0.003, 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_works_and_one_plans_at_once_in_one_home_and_the_work_goes_on_in_its_session(name, make_world, model):
    program, world = PROGRAMS[name], make_world(name)
    world.commit("prices", ".git-parallel.yaml", PRICES)
    meet = "<<meet 2>> " if program.turns else ""
    prompt, huge = f"-x: {meet}<<write a.txt>>", world.path / "huge.txt"
    huge.write_text(f"{prompt} " + "so much to say " * 14_000)
    task = ["--task-file", str(huge)] if name != "architect" else ["--task", prompt]
    planning = world.start(*arguments(program, "--agent", "plan", f"{meet}<<write b.txt>>"))
    done = world.parallel(*arguments(program, *task))
    planned, errors = planning.communicate(timeout=PATIENCE)
    assert (done.returncode, planning.returncode) == (0, int(name == PLUGIN)), (done.stderr, errors)
    assert model.met == program.turns

    (planner,) = workers(planned)
    assert came(planner) == PLANNED[name], planner["detail"]
    assert planner["files_modified"] == (["b.txt"] if name == PLUGIN else [])
    (worker,) = workers(done.stdout)
    assert came(worker) == SUCCESS[name], worker["detail"]
    assert worker["files_modified"] == ["a.txt"]
    assert world.git("show", f"{worker['branch']}:a.txt") == "a.txt, as the script says"
    assert world.git("log", "-1", "--format=%an %cn", worker["branch"]) == "A U Thor A U Thor"
    assert world.git("status", "--porcelain") == ""
    prompts = [text for question in model.asked for speaker, text in question.turns if speaker == "person"]
    whole = prompt if name == "architect" else huge.read_text().strip()
    assert any(whole in text for text in prompts)

    if name in (PLUGIN, "aider"):
        return
    before = len(model.asked)
    again = world.parallel("retry", worker["branch"], "-m", "now <<write c.txt>>", "--json")
    (retried,) = workers(again.stdout)
    assert (retried["status"], retried["files_modified"]) == ("success", ["a.txt", "c.txt"]), retried["detail"]
    assert retried["tokens"]["input"] == 5000
    first = next(question for question in model.asked[before:] if "c.txt" in str(question.turns))
    if name == "architect":  # no session: the whole task again, with what was done and the comment
        assert all(speaker != "tool" for speaker, _ in first.turns)
    else:
        assert retried["session"] == worker["session"]
        assert any(FINAL in text for speaker, text in first.turns if speaker == "model")


def test_a_task_that_the_command_line_cannot_carry_is_refused(make_world, model):
    program, world = PROGRAMS["architect"], make_world("architect")
    huge = world.path / "huge.txt"
    huge.write_text("x " * 100_000)
    refused = world.parallel(*arguments(program, "--task-file", str(huge)))
    assert refused.returncode == 2
    assert "the task is too long for an argument (200000 bytes)" in refused.stderr
    assert not model.asked


# ----------------------------------------------------------------------------------------------------------------
WAITS = Came("timeout", "timeout", ANY, ANY, ANY)
ERRORS = {  # of 400, 401, 429, 500; then of a request that is never answered
    "claude": [
        Came("failed", "agent_error", 2, 0.00375, 1),
        Came("failed", "auth", 2, 0.00375, 1),
        Came("failed", "rate_limit", 2, 0.00375, 1),
        Came("failed", "api_error", 2, 0.00375, 1),
        WAITS,
    ],
    "codex": [
        Came("failed", "agent_error", AtLeast(1), None, 1),
        Came("failed", "auth", AtLeast(1), None, 1),
        Came("failed", "rate_limit", AtLeast(1), None, 1),
        Came("failed", "api_error", AtLeast(1), None, 1),
        WAITS,
    ],
    "opencode": [
        Came("failed", "agent_error", 1, 0.0015, 1),
        Came("failed", "auth", 1, 0.0015, 1),
        WAITS,
        WAITS,
    ],
    "gemini": [
        Came("failed", "agent_error", 1, None, 144),
        Came("failed", "auth", 1, None, 145),
        WAITS,
        WAITS,
        WAITS,
    ],
    "aider": [
        Came("failed", "agent_error", None, None, 0),
        Came("failed", "auth", None, None, 0),
        WAITS,
        WAITS,
    ],
    "architect": [
        Came("failed", "agent_error", 1, 0.003, 1),
        Came("failed", "auth", 1, 0.003, 1),
        Came("failed", "rate_limit", 1, 0.003, 1),
        Came("failed", "api_error", 1, 0.003, 1),
        WAITS,
    ],
}
# In seconds: to the last question, on a machine with much to do. Gemini CLI lets 5 pass, then 10, before it asks again.
_LIMITS = {"claude": 8, "codex": 8, "opencode": 20, "gemini": 30, "aider": 20, "architect": 15}
_ANSWERS = ("<<status 400>>", "<<status 401>>", "<<status 429>>", "<<status 500>>", "<<hang>>")


@pytest.mark.parametrize("name", ALONE)
def test_errors_of_the_api_and_no_answer_at_all(name, make_world, model):
    program, world = PROGRAMS[name], make_world(name)
    world.git("config", "parallel.grace", "1")
    expected = list(zip(ERRORS[name], _ANSWERS, strict=False))
    ends = [(case, told) for case, told in expected if case != WAITS]
    waits = [told for case, told in expected if case == WAITS]  # all in one task: after each, it asks again
    waiting = world.start(*arguments(program, *tasks(program, " ".join(waits)), limit=_LIMITS[name]))
    await_questions(model, 1)  # the others would keep it from starting for long
    begun = tasks(program, *(told for _, told in ends))
    done = world.parallel(*arguments(program, "--workers", str(len(ends)), *begun))
    waited, errors = waiting.communicate(timeout=PATIENCE)
    assert (done.returncode, waiting.returncode) == (1, 1), errors
    found = workers(done.stdout)
    assert [came(worker) for worker in found] == [case for case, _ in ends], [worker["detail"] for worker in found]
    (waiter,) = workers(waited)
    assert came(waiter) == WAITS, waiter["detail"]
    asked = sum(1 for question in model.asked if question.works and " ".join(waits) in str(question.turns))
    assert asked >= len(waits) + program.turns
    # What was done before stands on the branch.
    assert {tuple(one["files_modified"]) for one in workers(done.stdout)} == {("a.txt",) if program.turns else ()}


# ----------------------------------------------------------------------------------------------------------------
LOOPS = {  # with at most 3 steps; with at most 0.2 dollars and 100,000 tokens a request
    # Too much spent, it ends by itself, or is ended because we have seen it first.
    "claude": [Came("partial", "max_steps", 4, 0.01125, 1), Came("partial", "budget", 2, 0.303765, ANY)],
    "codex": [Came("partial", "max_steps", AtLeast(4), None, None)] * 2,
    "opencode": [Came("partial", "max_steps", AtLeast(4), ANY, None), Came("partial", "budget", AtLeast(3), ANY, None)],
    # What it cost is told at the end: whether steps or money were seen first depends on when that was read.
    "gemini": [Came("partial", "max_steps", AtLeast(4), ANY, 0), Came("partial", ANY, AtLeast(4), ANY, 0)],
    "architect": [Came("partial", "max_steps", 3, 0.009, 2), Came("partial", "budget", 1, 0.25301, ANY)],
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_goes_on_for_ever_is_ended_by_its_steps_or_its_money(name, make_world):
    program, world = PROGRAMS[name], make_world(name)
    world.commit("prices", ".git-parallel.yaml", PRICES)
    loop, dear = "<<run echo more >> b.txt>> <<again>>", "<<spend 100000 1>>"
    caps = ("--max-steps", "3", "--budget-per-worker", "0.2")
    done = world.parallel(*arguments(program, *caps, *tasks(program, loop, f"{dear} {loop}")))
    found = workers(done.stdout)
    assert [came(worker) for worker in found] == LOOPS[name], [worker["detail"] for worker in found]


# ----------------------------------------------------------------------------------------------------------------
STOPPED = {  # while no answer comes
    "claude": Came("cancelled", "interrupted", ANY, ANY, 0),  # it tells what it spent, or ends before it can
    "codex": Came("cancelled", "interrupted", AtLeast(1), None, None),
    "opencode": Came("cancelled", "interrupted", 1, 0.0015, None),
    "gemini": Came("cancelled", "interrupted", 1, None, 0),
    "aider": Came("cancelled", "interrupted", None, None, None),
    "architect": Came("cancelled", "interrupted", None, None, None),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_run_is_interrupted(name, make_world, model):
    program, world = PROGRAMS[name], make_world(name)
    world.git("config", "parallel.grace", "3")
    run = world.start(*arguments(program, *tasks(program, "<<hang>>")))
    await_questions(model, 2 if program.turns else 1)
    run.send_signal(signal.SIGINT)
    printed, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, errors
    (worker,) = workers(printed)
    assert came(worker) == STOPPED[name]
    assert worker["files_modified"] == (["a.txt"] if program.turns else [])


def test_a_worker_is_stopped_and_the_other_goes_on(make_world, model):
    program, world = PROGRAMS["claude"], make_world("claude")
    run = world.start(*arguments(program, *tasks(program, "<<hang>>"), "--task", "<<run sleep 3>> <<write b.txt>>"))
    await_questions(model, 3)
    stopped = world.parallel("stop", "1")
    assert stopped.returncode == 0, stopped.stderr
    printed, _ = run.communicate(timeout=PATIENCE)
    assert [worker["reason"] for worker in workers(printed)] == ["stopped", "done"]


def await_questions(model: Model, count: int) -> None:
    """Wait until the programs have asked so many questions that are not beside the conversation."""
    deadline = time.monotonic() + PATIENCE
    while sum(1 for question in model.asked if question.works) < count:
        assert time.monotonic() < deadline, "the programs do not ask"
        time.sleep(0.1)


# ----------------------------------------------------------------------------------------------------------------
DENIED = {
    "claude": Came("failed", "permission", 2, 0.0075, 0),
    "codex": Came("failed", "no_changes", AtLeast(2), None, 0),
    "opencode": Came("failed", "permission", 1, 0.0015, 0),
    "gemini": Came("failed", "no_changes", 1, None, 0),
    "architect": Came("failed", "no_changes", 1, 0.006, 0),
}


@pytest.mark.parametrize("name", DENIED)
def test_nothing_is_written_outside_the_worktree(name, make_world):
    program, world = PROGRAMS[name], make_world(name)
    outside = world.path / "outside.txt"
    (worker,) = workers(world.parallel(*arguments(program, f"<<write {outside}>>")).stdout)
    assert came(worker) == DENIED[name], worker["detail"]
    assert not outside.exists()


# ----------------------------------------------------------------------------------------------------------------
def test_four_programs_at_once_on_one_repository_are_reviewed_and_merged(make_world, model):
    names = ("claude", "codex", "gemini", "opencode")
    world = make_world(*names)
    begun = [world.start(*arguments(PROGRAMS[name], f"<<meet 4>> <<write {name}.txt>>")) for name in names]
    handles = []
    for name, run in zip(names, begun, strict=True):
        printed, errors = run.communicate(timeout=PATIENCE)
        (worker,) = workers(printed)
        assert (worker["status"], worker["agent"]) == ("success", name), errors
        handles.append(worker["branch"])
    assert model.met
    reviewed = world.parallel("review", "--approve", *handles)
    assert reviewed.returncode == 0, reviewed.stderr
    merged = world.parallel("merge", "--yes", *handles)
    assert merged.returncode == 0, merged.stderr
    assert world.git("ls-tree", "--name-only", "main").split() == ["README", *(f"{name}.txt" for name in names)]
    assert world.git("status", "--porcelain") == ""
    agents = world.git("log", "--format=%(trailers:key=Agent,valueonly)", "main").split()
    assert set(agents) == set(names)
