"""Says what is wrong with a repository after a run: the three promises, held against git, /proc and the disk alone.

Imports nothing of the program: what it says of itself is what is to be judged. Every function returns a list of
sentences, empty when all is well.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

RUNS, WIP = "refs/architect/runs/", "refs/architect/wip/"
_KINDS = ("wip", "kept", "logs", "runs")


def git(repo: Path, *arguments: str, stdin: bytes | None = None, check: bool = True) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=repo, capture_output=True, check=False, input=stdin)
    if check and done.returncode:
        raise AssertionError(f"git {' '.join(arguments)}: {done.returncode}: {done.stderr.decode()}")
    return done.stdout


def lines(repo: Path, *arguments: str) -> list[str]:
    return os.fsdecode(git(repo, *arguments)).splitlines()


def refs(repo: Path) -> dict[str, str]:
    """Every ref and where it points."""
    pairs = (line.split(" ", 1) for line in lines(repo, "for-each-ref", "--format=%(objectname) %(refname)"))
    return {name: oid for oid, name in pairs}


def worktrees(repo: Path) -> list[dict[str, str]]:
    """What `git worktree list` has, without the main worktree."""
    found: list[dict[str, str]] = []
    for line in lines(repo, "worktree", "list", "--porcelain"):
        key, _, value = line.partition(" ")
        if key == "worktree":
            found.append({})
        if key:
            found[-1][key] = value
    return found[1:]


# --- nothing is lost --------------------------------------------------------------------------------


def reachable(repo: Path) -> bytes:
    """The contents of all files in all commits that a ref reaches, one after the other."""
    oids = [line.split(" ", 1)[0] for line in lines(repo, "rev-list", "--objects", "--all")]
    kinds = os.fsdecode(
        git(repo, "cat-file", "--batch-check=%(objecttype) %(objectname)", stdin="\n".join(oids).encode() + b"\n")
    )
    blobs = [line.split(" ")[1] for line in kinds.splitlines() if line.startswith("blob ")]
    return git(repo, "cat-file", "--batch", stdin="\n".join(blobs).encode() + b"\n") if blobs else b""


def lying(tops: Iterable[Path]) -> bytes:
    """The contents of all files below directories."""
    parts = []
    for top in tops:
        for directory, names, files in os.walk(top):
            names[:] = [name for name in names if name != ".git"]
            for name in files:
                path = os.path.join(directory, name)
                if os.path.isfile(path) and name != ".git":
                    parts.append(Path(path).read_bytes())
    return b"\n".join(parts)


def lost(repo: Path, ledger: Path) -> list[str]:
    """Lines that agents wrote into files, and that no ref and no worktree has any more."""
    if not ledger.exists():
        return []
    there = reachable(repo)
    missing = [line for line in ledger.read_bytes().splitlines() if line not in there]
    if missing:
        there = lying(Path(entry["worktree"]) for entry in worktrees(repo))
        missing = [line for line in missing if line not in there]
    return [f"lost: {line.decode()}" for line in missing]


def corrupt(repo: Path) -> list[str]:
    done = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling", "--no-progress"], cwd=repo, capture_output=True, check=False
    )
    said = (done.stdout + done.stderr).decode().strip()
    return [f"fsck ({done.returncode}): {said}"] if done.returncode or said else []


# --- nothing is left behind -------------------------------------------------------------------------


def alive(token: str, tops: Iterable[Path], but: Iterable[int] = ()) -> list[str]:
    """Living processes that have ``token`` in their environment or command line, or work below ``tops``."""
    below = [os.path.realpath(top) for top in tops]
    wanted = token.encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) in but or int(name) == os.getpid():
            continue
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
            state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2][:1]
            environment = Path(f"/proc/{name}/environ").read_bytes()
            cwd = os.readlink(f"/proc/{name}/cwd")
        except OSError:
            continue
        there = any(cwd == top or cwd.startswith(top + "/") for top in below)
        if state not in b"ZX" and (wanted in words or wanted in environment or there):
            found.append(f"alive: {name} {os.fsdecode(words.replace(bytes(1), b' '))[:120]} in {cwd}")
    return found


def dead_within(seconds: float, token: str, tops: list[Path]) -> list[str]:
    """The processes that are still alive after so many seconds."""
    end = time.monotonic() + seconds
    while found := alive(token, tops):
        if time.monotonic() > end:
            return found
        time.sleep(0.01)
    return []


def litter(repo: Path, temporary: Path) -> list[str]:
    """Locks, temporary files and directories, and worktrees' entries and directories that do not belong together."""
    found = []
    for directory, names, files in os.walk(repo / ".git"):
        if "trash" in names:
            names.remove("trash")
        for name in files:
            # Git clears its own tmp_obj_* away.
            if name.endswith((".lock", ".tmp", ".new", ".index")):
                found.append(f"litter: {os.path.relpath(os.path.join(directory, name), repo)}")
    found += [f"litter: {path}" for path in temporary.glob("gp-*")]
    listed = worktrees(repo)
    for entry in listed:
        path = Path(entry["worktree"])
        if not (path / ".git").is_file() or not path.joinpath(path / ".git").read_text().startswith("gitdir: "):
            found.append(f"an entry without a worktree: {path}")
        if "locked" not in entry:
            found.append(f"a worktree that is not locked: {path}")
    known = {entry["worktree"] for entry in listed}
    found += [
        f"a directory that is no worktree: {path}" for path in repo.glob(".architect-*") if str(path) not in known
    ]
    entries = repo / ".git/worktrees"
    if entries.exists() and len(list(entries.iterdir())) != len(listed):
        found.append(f"half-made entries: {sorted(path.name for path in entries.iterdir())}")
    return found


# --- nothing is claimed that git does not show ------------------------------------------------------


def results(repo: Path, run: str) -> dict[int, dict[str, Any]]:
    """The newest result of each worker, in the record."""
    found = {}
    for path in lines(repo, "ls-tree", "-r", "--name-only", RUNS + run):
        parts = path.split("/")
        if parts[0] == "workers" and parts[2:] == ["result.json"]:
            found[int(parts[1])] = json.loads(git(repo, "cat-file", "blob", f"{RUNS}{run}:{path}"))
    return found


def spec(repo: Path, run: str) -> dict[str, Any]:
    return json.loads(git(repo, "cat-file", "blob", f"{RUNS}{run}:run.json"))


def untrue(repo: Path) -> list[str]:
    """What records say and git does not show; and refs, branches and files of runs that no record knows."""
    said = []
    now = refs(repo)
    runs = [name.removeprefix(RUNS) for name in now if name.startswith(RUNS)]
    for name in now:
        parts = name.split("/")
        if parts[:2] == ["refs", "architect"] and parts[2] in _KINDS and parts[3] not in runs:
            said.append(f"a ref without a record: {name}")
    branches = {name for name in now if name.startswith("refs/heads/architect/")}
    files = repo / ".git/architect/runs"
    for path in files.iterdir() if files.exists() else ():
        if path.name not in runs:
            said.append(f"files of a run without a record: {path.name}")
        elif (path / "supervisor.pid").exists():
            said.append(f"run {path.name} counts as unfinished")
    for run in runs:
        jobs = {job["worker"]: job for job in spec(repo, run)["jobs"]}
        found = results(repo, run)
        said += [f"no result of worker {number}" for number in jobs.keys() - found.keys()]
        state = lines(repo, "log", "-1", "--format=%(trailers:key=Architect-State,valueonly)", RUNS + run)[0]
        if state != "ended":
            said.append(f"the record says {state}")
        for number, result in found.items():
            branches.discard(f"refs/heads/{jobs[number]['branch']}")
            said += [f"worker {number}: {fault}" for fault in _result(repo, run, result, now)]
    said += [f"a branch without a worker: {name}" for name in sorted(branches)]
    return said


def _result(repo: Path, run: str, result: dict[str, Any], now: dict[str, str]) -> list[str]:
    """Hold one result against the refs."""
    said = []
    branch, head = f"refs/heads/{result['branch']}", result["head"]
    wip = f"{WIP}{run}/{result['worker_id']}"
    if branch in now and now[branch] != head:
        said.append(f"head {head} is not its branch, which is at {now[branch]}")
    kept = now.get(branch) or now.get(f"refs/architect/kept/{run}/{result['worker_id']}")
    if head is not None and kept != head and head != result["base"]:
        said.append(f"no ref is at its head {head}")
    if head is not None and result["snapshot"] is None:
        changed = sorted(lines(repo, "diff", "--name-only", "--no-renames", result["base"], head))
        if sorted(result["files_modified"]) != changed:
            said.append(f"says {result['files_modified']}, git says {changed}")
    if result["status"] == "success" and not result["files_modified"]:
        said.append("success without work")
    if result["snapshot"] is not None and now.get(wip) != result["snapshot"]:
        said.append(f"its snapshot {result['snapshot']} is not at {wip}")
    named = result["snapshot"] is not None or any(wip in warning for warning in result["warnings"])
    named = named or "Architect-Previous:" in git(repo, "cat-file", "commit", wip).decode() if wip in now else named
    if wip in now and not named and result["status"] != "cancelled":
        said.append(f"a snapshot that the result does not name: {wip}")
    return said


def misleading(repo: Path, status: dict[str, Any] | None) -> list[str]:
    """What `status --json` says after the supervisor's death, and should not: there is nobody at work."""
    if status is None or not status["workers"]:
        return []
    said = []
    now = set(refs(repo))
    for run in status.get("runs") or [{"run": status["run"], "status": status["status"]}]:
        if run["status"] == "running":
            said.append(f"status says that run {run['run']} goes on")
        if run["status"] == "ended":
            said += untrue(repo)
    heads = set(lines(repo, "rev-list", "--all")) if now else set()
    for worker in status["workers"]:
        if worker["state"] in ("preparing", "running", "finishing"):
            said.append(f"status says that worker {worker['worker_id']} is {worker['state']}")
        if worker["status"] is not None and worker["head"] is not None and worker["head"] not in heads:
            said.append(f"status shows a head of worker {worker['worker_id']} that no ref has")
    return said


def contradictory(repo: Path, status: dict[str, Any] | None) -> list[str]:
    """What `status --json` says of a run that has ended, and the record does not."""
    if status is None or not status["workers"]:
        return []
    said = [] if status["status"] == "ended" else [f"status says that the run is {status['status']}"]
    recorded = results(repo, status["run"])
    for worker in status["workers"]:
        result = recorded.get(worker["worker_id"], {})
        if worker["state"] != "ended":
            said.append(f"status says that worker {worker['worker_id']} is {worker['state']}")
        said += [
            f"status has {worker[key]!r} as the {key} of worker {worker['worker_id']}, the record {result.get(key)!r}"
            for key in ("status", "reason", "head", "files_modified")
            if worker[key] != result.get(key)
        ]
    return said
