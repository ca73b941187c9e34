"""A run is killed at its named points, by parts; whatever was killed, nothing is lost, left behind, or untrue."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import points
import pytest
from steps import VICTIMS

HERE = Path(__file__).parent
PARTS = 2


def crash(directory: Path, *words: str) -> list[str]:
    """Run the harness; return what it prints."""
    argv = [sys.executable, str(HERE / "crash.py"), str(directory), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_step_of_a_run_has_a_name(tmp_path):
    (line,) = crash(tmp_path, "--record")
    seen = {point.partition(" ")[2] for point in json.loads(line)}
    steps = {step for step in seen if step.partition("@")[0] not in points.SOMETIMES}
    assert sorted(steps - points.steps()) == [], "steps without a name: enter them into points.py"
    # Workers that end together are recorded by one of them: which one, the moment decides.
    done, named = ({step.partition("@")[0] for step in some} for some in (steps, points.steps()))
    assert sorted(named - done) == [], "names of steps that are not done any more"


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_killed_at_a_point(tmp_path, part):
    found = [json.loads(line) for line in crash(tmp_path, "--share", f"{part}/{PARTS}")]
    assert [one["case"] for one in found] == points.sample()[part - 1 :: PARTS]
    assert [one["case"] for one in found if not one["killed"]] == []
    assert {case.split("|")[0] for case in points.sample()} == set(VICTIMS)
    assert {one["case"]: one["problems"] for one in found if one["problems"]} == {}


def test_killed_while_taking_over_from_a_dead_one(tmp_path):
    found = [json.loads(line) for line in crash(tmp_path, "--again")]
    assert {one["case"]: one["problems"] for one in found if one["problems"]} == {}
    killed = {points.step(point) for one in found for point in one["killed"]}
    killed |= {points.step(case.split("|")[1]) for case in points.sample()}
    killed |= {points.step(point) for point in points.POWER}
    acts = {name.removeprefix("check ") for name in killed if name in points.GUARD}
    left = {step.partition("@")[0] for step in points.steps()} - killed
    assert sorted(left - set(points.GUARD)) == []
    assert sorted({name.removeprefix("check ") for name in points.GUARD} - acts) == []
