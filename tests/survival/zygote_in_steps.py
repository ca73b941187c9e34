"""The guards' zygote with a name on each of its steps: run in its place, as ``python -I -S zygote_in_steps.py FD``."""

from __future__ import annotations

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [_HERE, os.path.dirname(os.path.dirname(_HERE))]

from steps import Guards, note_syncs  # noqa: E402

from git_parallel.supervisor import zygote  # noqa: E402

if __name__ == "__main__":
    if "SURVIVAL_SYNCS" in os.environ:
        note_syncs()
    Guards().wrap()
    zygote.main()
