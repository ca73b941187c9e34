"""Kills one part of a run at one of its steps, goes on with one of the commands for that, and judges what is left.

A program of its own, so that forking is safe: ``python crash.py DIRECTORY [CASE...]`` prints one JSON object a
case. A case is ``VICTIM|POINT|ENDING``, see ``points.py``, and ``|KINDS`` after it names the kinds of its workers;
``--all`` takes the whole product, ``--share 2/5`` a part of the cases, and ``--record`` prints the points of a run
that nobody disturbs. ``--again`` lets a supervisor die amid work, and kills the commands that take over, one after
the other, at points of their own (with ``--all`` at every one).
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import judge
import points
import scene
import steps
from scene import Scene

# How a worker may end whose agent or guard was killed while the supervisor lived.
VICTIMS_OWN = ("failed/signal", "failed/guard_died", "partial/check_failed")
GRACE = 0.3 + 1  # seconds: the scene's parallel.grace, and one more


def in_steps() -> None:
    """Put a name to every step of this process."""
    steps.Supervisor().wrap()


def record(place: Scene) -> list[str]:
    """The points of a run that goes through, with a checkpoint while the agents wait half way."""
    child = scene.begin(place, *place.run(), wrap=in_steps)
    hold(place, child, "after refs wip@0")
    done = scene.end(place, child, "run")
    if done.code != 1:
        raise AssertionError(f"the run exited with {done.code}: {done.err}{done.out}")
    return place.steps()


def hold(place: Scene, child: int, until: str, *, dies: bool = False, limit: float = 90.0) -> None:
    """Let the agents go on once a point was reached, or somebody was killed.

    Not when the run is over by then, as it is when the supervisor ``dies`` there: the agents are to be dead, too.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        if not dies and (until in place.steps() or (place.top / "killed").exists()):
            break
        time.sleep(0.01)
    place.go()


def play(place: Scene, case: str) -> dict[str, Any]:
    """Play one case; return what was found."""
    victim, point, ending = case.split("|")[:3]
    env = {"SURVIVAL_AT": point, "SURVIVAL_VICTIM": victim}
    begun = time.monotonic()
    child = scene.begin(place, *place.run(together=points.waits(point)), env=env, wrap=in_steps)
    if points.waits(point):
        hold(place, child, point, dies=victim in ("supervisor", "all"))
    else:
        place.go()
    done = scene.end(place, child, "run")
    problems: list[str] = []
    killed = (place.top / "killed").exists()
    dead = done.code == -9
    if not dead and done.code not in (0, 1):
        problems.append(f"run exited with {done.code}: {done.err}")
    tops = place.tops()
    problems += crashed(place, all_dead=victim == "all" and killed)
    before = None if victim == "all" else (judge.refs(place.repo), judge.worktrees(place.repo))
    if ending == "resume":
        problems += resume(place, victim)
    else:
        problems += doctor(place, before, interrupted=dead)
    problems += after(place, tops)
    if ending != "resume":
        problems += cleanup(place)
        problems += after(place, tops)
    return {
        "case": case,
        "killed": killed,
        "problems": problems,
        "seconds": round(time.monotonic() - begun, 2),
        "statuses": statuses(place),
    }


def crashed(place: Scene, *, all_dead: bool = False) -> list[str]:
    """What must hold right after a death, before any command goes on: nobody lives, and status knows."""
    said = []
    if not all_dead:  # whoever guards is dead, too: the next command sees to it
        said += judge.dead_within(GRACE, place.token, place.tops())
    place.go()
    status = scene.call(place, "status", "--json")
    if status.code:
        said.append(f"status exited with {status.code}: {status.err}")
    said += judge.misleading(place.repo, scene.document(status))
    return said + judge.lost(place.repo, place.top / "ledger")


# Where a supervisor dies before those do that take its place.
INTERRUPTED = "amid work@1"
IN_A_ROW = 16  # take-overs that are killed before one goes through


def interrupt(place: Scene) -> list[str]:
    """Let a supervisor die while its workers are at work; return what is wrong then."""
    env = {"SURVIVAL_AT": INTERRUPTED, "SURVIVAL_VICTIM": "supervisor"}
    child = scene.begin(place, *place.run(together=True), env=env, wrap=in_steps)
    hold(place, child, INTERRUPTED, dies=True)
    scene.end(place, child, "run")
    for name in ("steps", "killed"):
        os.unlink(place.top / name)
    return crashed(place)


def record_again(place: Scene) -> list[str]:
    """The points of a command that takes over from a dead supervisor, and runs what did not end."""
    interrupt(place)
    done = scene.call(place, "resume", "--json", wrap=in_steps)
    if done.code != 0:
        raise AssertionError(f"resume exited with {done.code}: {done.err}{done.out}")
    steps = dict.fromkeys(place.steps())
    return [point for point in steps if not point.startswith("amid") and "guard" not in point]


def play_again(place: Scene, at: Sequence[str]) -> dict[str, Any]:
    """Kill whoever takes over from a dead supervisor, too, and the next one at the next point; then go on.

    Where one goes through, because it does not come to its point, the points after that are left.
    """
    begun = time.monotonic()
    problems = interrupt(place)
    killed = []
    for point in at:
        env = {"SURVIVAL_AT": point, "SURVIVAL_VICTIM": "supervisor"}
        done = scene.call(place, "resume", "--json", env=env, wrap=in_steps)
        if done.code not in (-9, 0, 1):
            problems.append(f"{point}: resume exited with {done.code}: {done.err}")
        problems += [f"{point}: {problem}" for problem in crashed(place)]
        if done.code != -9:
            break
        killed.append(point)
        os.unlink(place.top / "killed")
    tops = place.tops()
    problems += resume(place, "supervisor")
    problems += after(place, tops)
    return {
        "case": f"supervisor|{','.join(at)}|resume|{','.join(place.kinds)}",
        "killed": killed,
        "problems": problems,
        "seconds": round(time.monotonic() - begun, 2),
        "statuses": statuses(place),
    }


def again(directory: Path, source: Path, *, every: bool) -> None:
    """Kill take-overs at all of their points, or at one of each kind of step at which nothing else is killed."""
    left = record_again(scene.make(directory, source, 0, points.TWO))
    if not every:
        elsewhere = {points.step(point) for point in (*(case.split("|")[1] for case in points.sample()), *points.POWER)}
        steps = [step for step in dict.fromkeys(map(points.step, left)) if step not in elsewhere]
        left = [f"{('before', 'after')[number % 2]} {step}@*" for number, step in enumerate(steps)]
    number = 0
    while left:
        number += 1
        place = scene.make(directory, source, number, points.TWO)
        found = play_again(place, left[:IN_A_ROW])
        print(json.dumps(found), flush=True)
        left = left[max(1, len(found["killed"])) :]
        shutil.rmtree(place.top)


def resume(place: Scene, victim: str) -> list[str]:
    """One command goes on from there: afterwards every worker has ended by itself."""
    begun = any(name.startswith(judge.RUNS) for name in judge.refs(place.repo))
    done = scene.call(place, "resume", "--json")
    if not begun:  # died before there was a run: then there is none
        again = scene.call(place, "doctor", "--repair")
        return [] if again.code == 0 else [f"doctor exited with {again.code}: {again.err}"]
    if done.code not in (0, 1):
        return [f"resume exited with {done.code}: {done.err}"]
    said = []
    expected = {"commit": "success", "write": "success", "fail": "failed", "check": "partial", "escape": "success"}
    for number, status in statuses(place).items():
        kind = place.kinds[number - 1]
        its_own = victim in ("guard", "zygote", "agent") and status in VICTIMS_OWN
        if status.split("/")[0] != expected[kind] and not its_own:
            said.append(f"worker {number} ({kind}) ended with {status}: {results(place)[number]['warnings']}")
        if status.startswith("success") and number not in place.marks("ended"):
            said.append(f"worker {number} ({kind}): {status}, and its agent never came to its end")
    return said


def doctor(place: Scene, before: Any, *, interrupted: bool) -> list[str]:
    """Doctor finds, and changes nothing; repairs when told to, and then finds nothing more."""
    found = scene.call(place, "doctor", "--json")
    said = []
    if found.code not in (0, 1):
        return [f"doctor exited with {found.code}: {found.err}"]
    kinds = [one["kind"] for one in json.loads(found.out)["findings"]]
    unfinished = list(place.repo.glob(".git/architect/runs/*/supervisor.pid"))
    if interrupted and unfinished and not {"interrupted-run", "half-made-run"} & set(kinds):
        said.append(f"doctor finds no interrupted run, but {kinds}")
    if before is not None and (judge.refs(place.repo), judge.worktrees(place.repo)) != before:
        said.append("doctor changed something without being told to")
    repaired = scene.call(place, "doctor", "--repair", "--json")
    if repaired.code:
        said.append(f"doctor --repair exited with {repaired.code}: {repaired.err}{repaired.out}")
    again = scene.call(place, "doctor", "--json")
    if again.code or json.loads(again.out)["findings"]:
        said.append(f"doctor finds after its repairs: {again.out}{again.err}")
    return said


def cleanup(place: Scene) -> list[str]:
    """Everything goes, and nothing of it is lost."""
    if not any(name.startswith(judge.RUNS) for name in judge.refs(place.repo)):
        return []
    done = scene.call(place, "cleanup", "--json")
    said = [f"cleanup exited with {done.code}: {done.err}{done.out}"] if done.code else []
    said += [f"cleanup left {entry['worktree']}" for entry in judge.worktrees(place.repo)]
    said += [f"cleanup left {name}" for name in judge.refs(place.repo) if name.startswith("refs/heads/architect")]
    return said


def after(place: Scene, tops: list[Path]) -> list[str]:
    """The three promises."""
    status = scene.document(scene.call(place, "status", "--json"))
    return [
        *judge.contradictory(place.repo, status),
        *judge.corrupt(place.repo),
        *judge.lost(place.repo, place.top / "ledger"),
        *judge.dead_within(GRACE, place.token, tops),
        *judge.litter(place.repo, place.top / "tmp"),
        *judge.untrue(place.repo),
    ]


def results(place: Scene) -> dict[int, dict[str, Any]]:
    """What the record has of each worker's end."""
    tips = [tip for name, tip in judge.refs(place.repo).items() if name.startswith(judge.RUNS)]
    return judge.record(place.repo, tips[0]).results if tips else {}


def statuses(place: Scene) -> dict[int, str]:
    """How each worker ended, as the record has it."""
    return {number: f"{result['status']}/{result['reason']}" for number, result in sorted(results(place).items())}


def main() -> None:
    words = sys.argv[1:]
    directory = Path(words[0])
    directory.mkdir(parents=True, exist_ok=True)
    scene.preload()
    source = scene.template(directory)
    if "--record" in words:
        print(json.dumps(record(scene.make(directory, source, 0))))
        return
    if "--again" in words:
        again(directory, source, every="--all" in words)
        return
    cases = [word for word in words[1:] if "|" in word]
    if "--all" in words:
        cases = points.product()
    if not cases:
        cases = points.sample()
    if "--shuffle" in words:
        random.Random(4).shuffle(cases)
    if "--share" in words:
        part, parts = map(int, words[words.index("--share") + 1].split("/"))
        cases = cases[part - 1 :: parts]
    for number, case in enumerate(cases, 1):
        place = scene.make(directory, source, number, points.kinds(case))
        print(json.dumps(play(place, case)), flush=True)
        if "--keep" not in words:
            shutil.rmtree(place.top)


if __name__ == "__main__":
    main()
