"""A real repository on disk, and the ways a test works in it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import forked


@dataclass(frozen=True)
class Repo:
    """A real repository on disk and the ways a test works in it."""

    path: Path

    def git(self, *arguments: str, cwd: Path | None = None, check: bool = True, stdin: bytes | None = None) -> str:
        """Run git and return its output without the trailing newline."""
        done = subprocess.run(["git", *arguments], cwd=cwd or self.path, capture_output=True, check=False, input=stdin)
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(arguments)}: {done.returncode}\n{done.stderr.decode()}")
        return os.fsdecode(done.stdout).rstrip("\n")

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file below the top, with its directories."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def commit(self, message: str, files: dict[str, str] | None = None) -> str:
        """Write ``files``, commit everything, return the commit id."""
        for name, content in (files or {}).items():
            self.write(name, content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def parallel(
        self,
        *arguments: str,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``git-parallel`` as a person would and return what it printed."""
        environment = {**os.environ, **(env or {})}
        return forked.run(arguments, cwd=cwd or self.path, env=environment, stdin=stdin, timeout=timeout)
