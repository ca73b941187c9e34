"""Ids of runs and landings: they sort by time, those of one second in their order. Pure but for chance."""

from __future__ import annotations

import os
import time
from contextlib import suppress

_STEP = 256  # how far apart two ids of one second may be


def new_id(now: float | None = None, after: str = "") -> str:
    """A new id: ``20261129T165000Z-7f3a`` sorts by time, behind ``after`` even in the same second."""
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() if now is None else now))
    before, _, number = after.partition("-")
    chosen = int.from_bytes(os.urandom(2), "big") >> 1  # the upper half is for those that come behind
    if before == moment:
        with suppress(ValueError):
            chosen = (int(number, 16) + 1 + chosen % _STEP) & 0xFFFF
    return f"{moment}-{chosen:04x}"
