"""Many short workers in a repository where a lot happens at once: ``python soak.py DIRECTORY [WORKERS] [SEED]``.

WORKERS agents (default: 200) go through 8 slots; some fail, die, run out of time, do nothing or leave processes
behind, by a seeded choice. Meanwhile a second run works in the same repository, the person commits, and `status`,
`git gc` and `git pack-refs` come again and again. Prints what was found, and figures, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import judge
import scene
from scene import Scene
from steps import children

SLOTS = 8
TIMEOUT = 2.0  # seconds for one worker

# Kind of agent: how it ends, and how many of a hundred are of that kind.
KINDS = {
    "commit": ("success/done", 30),
    "write": ("success/done", 22),
    "escape": ("success/done", 14),
    "fail": ("failed/agent_error", 14),
    "die": ("failed/signal", 8),
    "nothing": ("failed/no_changes", 8),
    "late": ("timeout/timeout", 4),
}

AGENT = r"""#!/bin/sh
here=${0%/*}
w() {
    text="$GIT_PARALLEL_RUN $GIT_PARALLEL_WORKER $1 $$"
    echo "$text" >>"$1"
    echo "$text" >>"$here/ledger"
}
case $1 in
commit) w one; git add one; git commit -qm one || exit 9; w two ;;
write) w README; w new; git add new ;;
fail) w half; exit 3 ;;
die) w half; kill -9 $$ ;;
late) w begun; sleep 60 ;;
escape)
    w out
    setsid sleep "$2" &
    (setsid sleep "$2" >/dev/null 2>&1 &)
    env -i "$(command -v setsid)" "$(command -v sleep)" "$2" &
    (trap '' TERM; exec sleep "$2") & ;;
esac
exit 0
"""


@dataclass
class Every:
    """Something that is done every so many seconds, unless the last time still goes on."""

    seconds: float
    start: Callable[[], subprocess.Popen[bytes] | None]
    due: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    times: int = 0
    failed: list[str] = field(default_factory=list)

    def tend(self, now: float) -> None:
        if self.process is not None:
            if self.process.poll() is None:
                return
            self.end(self.process)
            self.process = None
        if now >= self.due:
            self.due = now + self.seconds
            self.process = self.start()
            self.times += 1

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Take a process's end in. `git gc` gives up when it meets a worktree that git is just making."""
        said = process.communicate()[1].decode()
        if process.returncode and not re.search(r"worktrees/.*/HEAD$", said, re.MULTILINE):
            self.failed.append(f"{process.args}: {process.returncode}: {said}")


class Soak:
    """The scene and what happens in it."""

    def __init__(self, place: Scene, workers: int, seed: int) -> None:
        self.place = place
        self.random = random.Random(seed)
        self.kinds = {"big": self.choose(workers), "small": self.choose(max(len(KINDS), workers // 20))}
        self.commits: list[str] = []
        self.open: dict[str, list[int]] = {"supervisor": [], "zygote": []}
        self.problems: list[str] = []

    def choose(self, count: int) -> list[str]:
        kinds = list(KINDS)
        weights = [KINDS[kind][1] for kind in kinds]
        some = kinds[: min(len(kinds), count)]
        return self.random.sample(some + self.random.choices(kinds, weights, k=count - len(some)), count)

    def tasks(self, kinds: list[str]) -> list[str]:
        stay = f"300.{self.place.token.rpartition('-')[2]}"
        return [word for kind in kinds for word in ("--task", f"exec sh {self.place.top}/agent {kind} {stay}")]

    def run(self, name: str, slots: int) -> int:
        options = ("--json", "--workers", str(slots), "--timeout-per-worker", str(TIMEOUT))
        return scene.begin(self.place, "run", *options, *self.tasks(self.kinds[name]), log=name)

    def git(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["git", *words], cwd=self.place.repo, stderr=subprocess.PIPE)

    def commit(self) -> None:
        """The person works on main."""
        path = self.place.repo / "person"
        path.write_text(f"{len(self.commits)}\n")
        judge.git(self.place.repo, "add", "person")
        judge.git(self.place.repo, "commit", "-qm", f"person {len(self.commits)}")
        self.commits.append(judge.lines(self.place.repo, "rev-parse", "HEAD")[0])

    def status(self) -> None:
        done = scene.call(self.place, "status", "--json")
        if done.code:
            self.problems.append(f"status exited with {done.code}: {done.err}")

    def count_open(self, supervisor: int) -> None:
        """How many files the supervisor and its zygote hold open."""
        for name, pids in (("supervisor", [supervisor]), ("zygote", zygotes(supervisor))):
            for pid in pids:
                with contextlib.suppress(OSError):  # it ended just now
                    self.open[name].append(len(os.listdir(f"/proc/{pid}/fd")))

    def play(self) -> dict[str, Any]:
        begun = time.monotonic()
        runs = {"big": self.run("big", SLOTS), "small": self.run("small", 2)}
        done: dict[str, scene.Done] = {}
        others = {
            "gc": Every(4, lambda: self.git("gc", "--quiet")),
            "pack-refs": Every(0.5, lambda: self.git("pack-refs", "--all")),
            "commit": Every(0.5, self.commit),
            "status": Every(1, self.status),
            "count": Every(0.2, lambda: self.count_open(runs["big"])),
        }
        while len(done) < len(runs):
            now = time.monotonic()
            for other in others.values():
                other.tend(now)
            for name in runs.keys() - done.keys():
                if os.waitid(os.P_PID, runs[name], os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    done[name] = scene.end(self.place, runs[name], name)
            time.sleep(0.01)
        took = time.monotonic() - begun
        for other in others.values():
            if other.process is not None:
                other.end(other.process)
            self.problems += other.failed
        endings = self.judge(done)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "problems": self.problems,
            "seconds": round(took, 1),
            "cpu": round(used.ru_utime + used.ru_stime, 1),
            "workers": {name: len(kinds) for name, kinds in self.kinds.items()},
            "endings": endings,
            "meanwhile": {name: other.times for name, other in others.items() if name != "count"},
            "open files": {name: max(counts) for name, counts in self.open.items() if counts},
        }

    def judge(self, done: dict[str, scene.Done]) -> dict[str, int]:
        """Hold everything against the promises; return how many workers ended how."""
        repo = self.place.repo
        endings: Counter[str] = Counter()
        self.problems += judge.dead_within(1.0, self.place.token, self.place.tops())
        heads = set()
        for name, one in done.items():
            if one.code != 1:
                self.problems.append(f"the {name} run exited with {one.code}: {one.err}")
                continue
            document = json.loads(one.out)
            self.problems += judge.contradictory(repo, document)
            for worker, kind in zip(document["workers"], self.kinds[name], strict=True):
                ending = f"{worker['status']}/{worker['reason']}"
                endings[ending] += 1
                if ending != KINDS[kind][0]:
                    self.problems.append(f"{name} worker {worker['worker_id']} ({kind}) ended with {ending}")
                if worker["head"] != worker["base"]:
                    heads.add(worker["head"])
        self.problems += [
            *judge.corrupt(repo),
            *judge.lost(repo, self.place.top / "ledger"),
            *judge.litter(repo, self.place.top / "tmp"),
            *judge.untrue(repo),
        ]
        noted = {line.split(" ")[1] for line in judge.lines(repo, "notes", "--ref=architect", "list")}
        self.problems += [f"no note on {head}" for head in heads - noted]
        if judge.lines(repo, "rev-list", "--reverse", "main")[1:] != self.commits:
            self.problems.append("the person's commits are not all on main, in their order")
        for name, counts in self.open.items():
            early, late = counts[: len(counts) // 2], counts[len(counts) // 2 :]
            if max(late, default=0) > max(early, default=0) + 4 * SLOTS:  # a few for each that is just starting
                self.problems.append(f"the {name} has ever more files open: {counts}")
        return dict(endings)


def zygotes(supervisor: int) -> list[int]:
    """The child of a supervisor that is the guards' zygote."""
    found = []
    for child in children(supervisor):
        with contextlib.suppress(OSError):
            if b"zygote.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def main() -> None:
    directory = Path(sys.argv[1])
    workers, seed = (int(sys.argv[at]) if len(sys.argv) > at else default for at, default in ((2, 200), (3, 1)))
    directory.mkdir(parents=True, exist_ok=True)
    scene.preload()
    place = scene.make(directory, scene.template(directory), 0)
    judge.git(place.repo, "config", "--unset", "parallel.check")
    (place.top / "agent").write_text(AGENT)
    print(json.dumps(Soak(place, workers, seed).play()))


if __name__ == "__main__":
    main()
