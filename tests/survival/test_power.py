"""Power cuts: what was not on the disk is gone, and nothing that is said depends on it; process ids mean nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def test_what_was_not_written_through_is_gone(tmp_path):
    argv = [sys.executable, str(HERE / "power.py"), str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(one["killed"] for one in found)
    assert all(one["gone"] for one in found)
    assert {one["point"]: one["problems"] for one in found if one["problems"]} == {}


def test_after_a_reboot_a_process_with_a_number_of_ours_is_left_alone(repo):
    task = "echo work > work; sleep 600"
    argv = [sys.executable, "-m", "git_parallel", "run", "-q", "--program", "shell", task]
    run = subprocess.Popen(argv, cwd=repo.path, stdout=subprocess.DEVNULL)
    (end, files) = time.monotonic() + 30, repo.path / ".git/architect/runs"
    while '"pid"' not in "".join(path.read_text() for path in files.glob("*/journal.jsonl")):
        assert time.monotonic() < end
        time.sleep(0.02)
    run.kill()
    run.wait()
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            for path in [*files.glob("*/journal.jsonl"), *files.glob("*/supervisor.pid")]:
                text, count = re.subn(r'"(pid|guard)": *\d+', rf'"\1": {stranger.pid}', path.read_text())
                assert count
                path.write_text(text)
            assert json.loads(repo.parallel("status", "--json").stdout)["status"] == "interrupted"
            repo.parallel("stop", "--now")
            assert repo.parallel("doctor", "--repair").returncode == 0
            assert repo.parallel("wait").returncode == 1
            assert repo.parallel("cleanup").returncode == 0
            assert stranger.poll() is None
        finally:
            stranger.kill()
