"""Says what is wrong with a repository after a run: the three promises, held against git, /proc and the disk alone.

Imports nothing of the program: what it says of itself is what is to be judged. Every function returns a list of
sentences, empty when all is well.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

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


def objects(repo: Path, oids: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
    """Id, type and bytes of objects that are all there, in their order."""
    output = git(repo, "cat-file", "--batch", stdin="".join(f"{oid}\n" for oid in oids).encode())
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        oid, kind, size = output[at:end].decode().split(" ")
        at = end + 2 + int(size)
        yield oid, kind, output[end + 1 : at - 1]


def reachable(repo: Path) -> set[bytes]:
    """The lines of all files in all commits that a ref reaches."""
    oids = [line.split(" ", 1)[0] for line in lines(repo, "rev-list", "--objects", "--all")]
    return {line for _, kind, data in objects(repo, oids) if kind == "blob" for line in data.split(b"\n")}


def lying(tops: Iterable[Path]) -> set[bytes]:
    """The lines of all files below directories."""
    found: set[bytes] = set()
    for top in tops:
        for directory, names, files in os.walk(top):
            names[:] = [name for name in names if name != ".git"]
            for name in files:
                path = os.path.join(directory, name)
                if os.path.isfile(path) and name != ".git":
                    found.update(Path(path).read_bytes().split(b"\n"))
    return found


def lost(repo: Path, ledger: Path) -> list[str]:
    """Lines that agents wrote into files, and that no ref and no worktree has any more."""
    if not ledger.exists():
        return []
    missing = set(ledger.read_bytes().splitlines()) - reachable(repo)
    if missing:
        missing -= lying(Path(entry["worktree"]) for entry in worktrees(repo))
    return [f"lost: {line.decode()}" for line in sorted(missing)]


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


class Record(NamedTuple):
    """What one commit of a run's record says, and what git says of the commits that it names."""

    state: str
    spec: dict[str, Any]
    results: dict[int, dict[str, Any]]  # the newest of each worker
    changed: dict[str, list[str]]  # by head: the paths that differ from its base


@cache
def record(repo: Path, tip: str) -> Record:
    """Read a record. What a commit has never changes."""
    paths = {}
    for line in lines(repo, "ls-tree", "-r", tip):
        about, _, path = line.partition("\t")
        paths[path] = about.split(" ")[2]
    numbers = {path: int(path.split("/")[1]) for path in paths if re.fullmatch(r"workers/\d+/result\.json", path)}
    found = {oid: data for oid, _, data in objects(repo, {tip, paths["run.json"], *(paths[path] for path in numbers)})}
    results = {number: json.loads(found[paths[path]]) for path, number in numbers.items()}
    state = re.findall(rb"^Architect-State: (.*)$", found[tip], re.MULTILINE)
    return Record(state[-1].decode(), json.loads(found[paths["run.json"]]), results, _changed(repo, results.values()))


def _changed(repo: Path, results: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    pairs = {result["head"]: result["base"] for result in results if result["head"] is not None}
    asked = "".join(f"{head} {base}\n" for head, base in pairs.items()).encode()  # a commit and its parent
    told = git(repo, "diff-tree", "-r", "--no-renames", "--name-only", "--stdin", stdin=asked)
    changed: dict[str, list[str]] = {head: [] for head in pairs}
    for line in os.fsdecode(told).splitlines():
        if line in changed:
            head = line
        else:
            changed[head].append(line)
    return changed


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
        told = record(repo, now[RUNS + run])
        jobs = {job["worker"]: job for job in told.spec["jobs"]}
        said += [f"no result of worker {number}" for number in jobs.keys() - told.results.keys()]
        if told.state != "ended":
            said.append(f"the record says {told.state}")
        for number, result in told.results.items():
            branches.discard(f"refs/heads/{jobs[number]['branch']}")
            said += [f"worker {number}: {fault}" for fault in _result(repo, run, result, told.changed, now)]
    said += [f"a branch without a worker: {name}" for name in sorted(branches)]
    return said


def _result(
    repo: Path, run: str, result: dict[str, Any], changed: dict[str, list[str]], now: dict[str, str]
) -> list[str]:
    """Hold one result against the refs."""
    said = []
    branch, head = f"refs/heads/{result['branch']}", result["head"]
    wip = f"{WIP}{run}/{result['worker_id']}"
    if branch in now and now[branch] != head:
        said.append(f"head {head} is not its branch, which is at {now[branch]}")
    kept = now.get(branch) or now.get(f"refs/architect/kept/{run}/{result['worker_id']}")
    if head is not None and kept != head and head != result["base"]:
        said.append(f"no ref is at its head {head}")
    differs = head is not None and sorted(result["files_modified"]) != sorted(changed[head])
    if differs and result["snapshot"] is None:
        said.append(f"says {result['files_modified']}, git says {changed[head]}")
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
    recorded = record(repo, refs(repo)[RUNS + status["run"]]).results
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
