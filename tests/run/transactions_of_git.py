"""``git update-ref --stdin`` with something done before one of its transactions: ``python … GIT COMMAND ARGUMENTS…``.

The shell command is run before each transaction, with its number in $N, and ends before git hears of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading


def main() -> None:
    git, command, *arguments = sys.argv[1:]
    process = subprocess.Popen([git, *arguments], stdin=subprocess.PIPE)
    assert process.stdin is not None
    threading.Thread(target=lambda: os._exit(process.wait()), daemon=True).start()
    waiting, number = b"", 0
    while data := os.read(0, 1 << 16):
        waiting += data
        while b"\0commit\0" in waiting:
            transaction, waiting = waiting.split(b"\0commit\0", 1)
            number += 1
            subprocess.run(["sh", "-c", command], env={**os.environ, "N": str(number)}, check=False, stdin=0, stdout=2)
            process.stdin.write(transaction + b"\0commit\0")
            process.stdin.flush()
    process.stdin.close()
    threading.Event().wait()


if __name__ == "__main__":
    main()
