"""`git parallel demo`: the tour runs by itself, and says how to be rid of what it made."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_tour_runs_and_its_last_line_removes_it(repo, tmp_path):
    place = tmp_path / "it's a tour"
    without = [one for one in os.get_exec_path() if not os.path.exists(os.path.join(one, "git-parallel"))]
    done = repo.parallel("demo", str(place), env={"PATH": os.pathsep.join(without)})
    assert done.returncode == 0, done.stderr
    assert "worker 4" in done.stdout.lower()
    beside = os.path.dirname(sys.executable)
    first, second = done.stdout.partition("What to try next:")[2].split("\n")[2:4]
    assert first.strip().startswith(f'export PATH={beside}:"$PATH"')
    shown = subprocess.run(["sh", "-c", f"{first}\n{second}\ngit parallel status"], capture_output=True, check=False)
    assert b"worker" in shown.stdout, shown.stderr
    last = done.stdout.strip().splitlines()[-1].strip()
    assert last.startswith("rm -rf ")
    assert (place / ".git").is_dir()
    subprocess.run(["sh", "-c", last], check=True)
    assert not place.exists()
