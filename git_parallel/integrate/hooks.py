"""The person's commit hooks on what lands: run in the scratch worktree, where a commit by git would run them.

``git merge`` and ``git commit`` run them in the checkout; a landing is committed without one, so each step's
merged tree is laid out in the scratch worktree, with HEAD, index and MERGE_HEAD as git would have them.
"""

from __future__ import annotations

import os
from contextlib import suppress

from msgspec import Struct

from git_parallel.git import Repository
from git_parallel.integrate.chain import ImpossibleError
from git_parallel.integrate.plan import Strategy
from git_parallel.integrate.scratch import Scratch

# What runs where git itself would run it (githooks(5)). A replayed commit is checked for its new message alone.
HOOKS: dict[Strategy, tuple[str, ...]] = {
    "merge": ("pre-merge-commit", "prepare-commit-msg", "commit-msg"),
    "squash": ("pre-commit", "prepare-commit-msg", "commit-msg"),
    "rebase": ("commit-msg",),
    "ff": (),
}
# What runs once the checkout has followed, and its arguments: whether it was a squash merge. git merge runs no
# post-commit, and the commit after a squash merge does.
AFTER: dict[Strategy, tuple[tuple[str, ...], ...]] = {
    "merge": (("post-merge", "0"),),
    "squash": (("post-merge", "1"), ("post-commit",)),
    "rebase": (("post-merge", "0"),),
    "ff": (("post-merge", "0"),),
}
_SHOWN = 20  # lines of a hook's output


class Present(Struct, frozen=True):
    """The hooks of a strategy that the person has, in the order in which they run, and the directory they are in.

    The directory is the one of the caller's worktree: a relative ``core.hooksPath`` would otherwise mean the hooks
    that a branch brings along, and hooks made by a package manager are in no other worktree.
    """

    directory: str
    names: tuple[str, ...]


def present(repo: Repository, strategy: Strategy) -> Present:
    """Find the person's hooks. No git call unless core.hooksPath says where they are."""
    names = HOOKS[strategy]
    directory = os.path.join(repo.common_dir, "hooks")
    if names and repo.setting("core.hookspath") is not None:
        named = repo.git.run("rev-parse", "--git-path", "hooks", hooks=True).text
        directory = os.path.join(repo.git.cwd or "", named)
    found = {name for name in names if os.access(os.path.join(directory, name), os.X_OK)}
    # Hooks may be settings since git 2.54: hook.NAME.event.
    configured = {one.value for one in repo.settings if one.key.startswith("hook.") and one.key.endswith(".event")}
    return Present(directory, tuple(name for name in names if name in found or name in configured))


def after(repo: Repository, checkout: str, strategy: Strategy) -> list[str]:
    """Run the hooks for when the checkout at a path has followed, in it; return what they say. None can refuse."""
    elsewhere = any(one.key == "core.hookspath" or one.key.startswith("hook.") for one in repo.settings)
    said = []
    for name, *arguments in AFTER[strategy]:
        if not elsewhere and not os.access(os.path.join(repo.common_dir, "hooks", name), os.X_OK):
            continue
        run = ("hook", "run", "--ignore-missing", name, "--", *arguments)
        done = repo.at(checkout).run(*run, ok=range(256), hooks=True)
        said += os.fsdecode(done.stdout + done.stderr).strip().splitlines()[:_SHOWN]
        if done.returncode:
            said.append(f"the hook {name} failed with exit code {done.returncode}; what has landed stays landed")
    return said


def signs(repo: Repository) -> bool:
    """Whether the person signs their commits."""
    given = repo.setting("commit.gpgsign")
    if given is None or given in ("true", "false"):
        return given == "true"
    return repo.git.run("config", "--type=bool", "--get", "commit.gpgSign", ok=(0, 1)).text == "true"


class Hooks(Struct):
    """Runs the hooks of one strategy."""

    scratch: Scratch
    strategy: Strategy
    present: Present

    def __call__(self, onto: str, head: str, tree: str, message: str) -> tuple[str, str]:
        """Let the hooks see what is about to be committed; return the tree and message as they leave them.

        Raises ImpossibleError with a hook's output when it refuses.
        """
        self.scratch.show(onto)
        git = self.scratch.git
        git.run("read-tree", "-m", "-u", "--no-recurse-submodules", onto, tree)
        if self.strategy == "merge":
            self._write("MERGE_HEAD", f"{head}\n")
            self._write("MERGE_MSG", message)
        try:
            for name in self.present.names:
                if name.startswith("pre-"):
                    self._run(name)
                    tree = git.text("write-tree")  # a hook may change what is committed, and git allows it
            return tree, self.reword(message)
        finally:
            for name in ("MERGE_HEAD", "MERGE_MSG", "COMMIT_EDITMSG"):
                with suppress(FileNotFoundError):
                    os.unlink(self._place(name))

    def reword(self, message: str, *, edited: bool = False) -> str:
        """Return a message as the hooks for messages leave it; ``edited``: the person has written it."""
        path = self._place("COMMIT_EDITMSG")
        self._write("COMMIT_EDITMSG", message)
        source = "merge" if self.strategy == "merge" else "message"
        for name in self.present.names:
            if name == "prepare-commit-msg" and not edited:
                self._run(name, path, source)
            elif name == "commit-msg":
                self._run(name, path)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            said = file.read()
        if not said.strip():
            raise ImpossibleError("refused", "a hook left the commit message empty")
        return said

    def _run(self, name: str, *arguments: str) -> None:
        setting = f"core.hooksPath={self.present.directory}"
        run = ("-c", setting, "hook", "run", "--ignore-missing", name, "--", *arguments)
        done = self.scratch.git.run(*run, ok=range(256), hooks=True)
        if done.returncode:
            said = os.fsdecode(done.stdout + done.stderr).strip().splitlines()
            output = "\n".join(said[:_SHOWN])
            raise ImpossibleError("refused", f"the hook {name} refused it" + (f":\n{output}" if output else ""))

    def _place(self, name: str) -> str:
        return os.path.join(self.scratch.admin or "", name)

    def _write(self, name: str, content: str) -> None:
        with open(self._place(name), "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(content)
