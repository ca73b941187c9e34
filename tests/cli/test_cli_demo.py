"""`git parallel demo`: the tour runs by itself, and says how to be rid of what it made."""

from __future__ import annotations

import subprocess


def test_the_tour_runs_and_its_last_line_removes_it(repo, tmp_path):
    place = tmp_path / "it's a tour"
    done = repo.parallel("demo", str(place))
    assert done.returncode == 0, done.stderr
    assert "worker 4" in done.stdout.lower()
    last = done.stdout.strip().splitlines()[-1].strip()
    assert last.startswith("rm -rf ")
    assert (place / ".git").is_dir()
    subprocess.run(["sh", "-c", last], check=True)
    assert not place.exists()
