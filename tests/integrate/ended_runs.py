"""Runs that have ended, made by the program itself, and independent ways to see that nothing of them is lost."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What a worker of these tests does unless the test says otherwise.
EDIT = "echo done > work.txt"


@dataclass(frozen=True)
class Worker:
    """One worker of a run that has ended. ``repo`` is conftest's Repo."""

    repo: Any
    run: str
    number: int
    branch: str
    path: Path
    head: str
    base: str

    @property
    def handle(self) -> str:
        return f"{self.run}/{self.number}"

    @property
    def kept(self) -> str:
        return f"refs/architect/kept/{self.handle}"

    @property
    def wip(self) -> str:
        return f"refs/architect/wip/{self.handle}"

    def git(self, *arguments: str, check: bool = True, stdin: bytes | None = None) -> str:
        """Run git in the worktree."""
        return self.repo.git(*arguments, cwd=self.path, check=check, stdin=stdin)

    def write(self, name: str, content: str) -> Path:
        """Write a file of the worktree."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def commit(self, message: str, name: str, content: str) -> str:
        """Commit a file in the worktree, as the person or the agent would; return the commit."""
        self.write(name, content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def snapshot(self) -> dict[str, str]:
        """The files of the snapshot that is kept, by path."""
        return files_of(self.repo, self.wip)


def ended_run(repo: Any, *tasks: str, options: tuple[str, ...] = ()) -> list[Worker]:
    """Run ``git parallel`` with the shell preset to its end; return its workers."""
    arguments = [word for task in tasks or (EDIT,) for word in ("--task", task)]
    done = repo.parallel("run", "--quiet", "--json", "--program", "shell", *options, *arguments)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    return [
        Worker(
            repo=repo,
            run=document["run"],
            number=result["worker_id"],
            branch=result["branch"],
            path=Path(result["worktree_path"]),
            head=result["head"],
            base=result["base"],
        )
        for result in document["workers"]
    ]


def cleanup(repo: Any, *arguments: str, code: int = 0, cwd: Path | None = None) -> dict[str, Any]:
    """Run ``git parallel cleanup --json``, hold it to its exit code, return its document."""
    done = repo.parallel("cleanup", "--json", *arguments, cwd=cwd)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def only(document: dict[str, Any]) -> dict[str, Any]:
    """The one worker of a document."""
    (worker,) = document["workers"]
    return worker


def ref(repo: Any, name: str) -> str | None:
    """The commit of a ref, or None."""
    return repo.git("rev-parse", "-q", "--verify", name, check=False) or None


def refs(repo: Any) -> dict[str, str]:
    """All refs."""
    lines = repo.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def files_of(repo: Any, commit: str) -> dict[str, str]:
    """The files of a commit, by path."""
    names = [name for name in repo.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]
    return {name: repo.git("cat-file", "blob", f"{commit}:{name}") for name in names}


def trashed(repo: Any) -> list[Path]:
    """The directories of worktrees in the trash."""
    return sorted((Path(repo.git("rev-parse", "--absolute-git-dir")) / "architect" / "trash").glob("*/worktree"))


def kept(repo: Any) -> tuple[set[bytes], set[str]]:
    """What nobody has lost: the content of every file that a ref reaches or that lies in the trash, and every commit
    that a ref reaches.

    Asks git alone, without the program.
    """
    objects = repo.git("rev-list", "--objects", "--glob=refs/*").splitlines()
    stdin = "".join(line.split(" ")[0] + "\n" for line in objects).encode()
    done = subprocess.run(
        ["git", "cat-file", "--batch"], cwd=repo.path, input=stdin, capture_output=True, check=True
    ).stdout
    contents, commits = set(), set()
    for oid, kind, data in _objects(done):
        if kind == "blob":
            contents.add(data)
        elif kind == "commit":
            commits.add(oid)
    return contents | {path.read_bytes() for top in trashed(repo) for path in _files(top)}, commits


def kept_contents(repo: Any) -> set[bytes]:
    return kept(repo)[0]


def kept_commits(repo: Any) -> set[str]:
    return kept(repo)[1]


def _objects(output: bytes) -> Iterator[tuple[str, str, bytes]]:
    at = 0
    while at < len(output):
        end = output.index(b"\n", at)
        oid, kind, size = output[at:end].decode().split(" ")
        start, at = end + 1, end + 1 + int(size) + 1
        yield oid, kind, output[start : start + int(size)]


def _files(top: Path) -> Iterator[Path]:
    for directory, _, names in os.walk(top):
        for name in names:
            path = Path(directory) / name
            if not path.is_symlink():
                yield path
