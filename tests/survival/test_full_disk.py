"""The disk is full when agents end: what the guards saw is recorded as soon as there is room, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_agents_that_ended_on_a_full_disk_have_ended_as_they_did(tmp_path):
    argv = [sys.executable, str(HERE / "full_disk.py"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    code, said = found["run"]
    assert code == 1
    assert "No space left" in said
    assert "Traceback" not in said
    assert "hint: nothing was removed; to capture and record what is missing: git parallel wait 2" in said
    assert found["during"]["status"] == "interrupted"
    assert {worker["status"] for worker in found["during"]["workers"]} == {None}
    assert found["wait"][0] == 1
    assert found["problems"] == []
    assert found["results"] == {
        "1": ["success/done", ["work"]],
        "2": ["failed/agent_error", ["work"]],
        "3": ["success/done", ["late", "work"]],
    }
