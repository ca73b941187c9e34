"""How much room a directory takes on the disk."""

from __future__ import annotations

import os

_BLOCK = 512  # bytes; the unit of st_blocks, whatever the file system's own


def usage(top: str) -> int:
    """Bytes of all files below ``top``, as `du` counts them: sparse files little, hard links once.

    Links are never followed. What cannot be read, or goes meanwhile, is left out.
    """
    total = 0
    seen: set[tuple[int, int]] = set()
    pending = [top]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if (found.st_dev, found.st_ino) in seen:
                            continue
                        seen.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return total
