"""A supervisor to be killed: ``python host_alone.py DIRECTORY ARGV...`` guards ARGV twice and says who is who."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from git_parallel.supervisor.host import GuardHost, GuardSpec


def main() -> None:
    directory, *argv = sys.argv[1:]
    for number in (signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    host = GuardHost(os.path.join(directory, "guard.log"))
    guards = []
    for name in ("a", "b"):
        top = os.path.join(directory, name)
        os.mkdir(top)
        spec = GuardSpec(
            argv=argv,
            cwd=directory,
            env=dict(os.environ),
            stdout=os.path.join(top, "output.log"),
            ending=os.path.join(top, "exit.json"),
            grace=5,
        )
        guards.append(host.start(spec))
    print(json.dumps({"zygote": host.pid, "guards": [guard.pid for guard in guards]}), flush=True)
    time.sleep(60)


if __name__ == "__main__":
    main()
