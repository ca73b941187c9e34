"""Many short workers of all kinds, and everything else at once in the same repository."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
WORKERS = 200


def test_soak(tmp_path):
    argv = [sys.executable, str(HERE / "soak.py"), str(tmp_path), str(WORKERS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == []
    assert sum(found["endings"].values()) == sum(found["workers"].values()) >= WORKERS
    assert min(found["meanwhile"].values()) >= 1
