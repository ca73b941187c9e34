"""One branch on top of another, in the object store alone (DESIGN section 9, step 3).

Every strategy comes down to merges of trees. A replayed commit (``rebase``, a revert) is one too: three
commits are written whose history says "this is the base", and no worktree, nor ``merge-tree --merge-base``
of git 2.40, is needed. They are unreachable at once and go with the next ``git gc``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import attributes, changes, mergetree
from git_parallel.integrate.changes import Changed
from git_parallel.integrate.message import with_trailers
from git_parallel.integrate.plan import Strategy
from git_parallel.store.objects import Objects


@dataclass(frozen=True)
class Step:
    """The target moved by one branch: from ``onto`` to ``commit``, whose tree is ``tree``.

    ``parents`` and ``message`` are those of the commit that a new message would change.
    """

    onto: str
    commit: str
    tree: str
    parents: tuple[str, ...]
    message: str
    changed: tuple[Changed, ...]


class ImpossibleError(Exception):
    """A branch cannot be put on top: ``why``, for ``state``; ``files`` are the conflicting paths."""

    def __init__(self, state: str, why: str, files: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.state = state
        self.why = why
        self.files = tuple(files)


# Gives the person's hooks their say: (onto, head, tree, message) to the tree and message to commit.
Hooks = Callable[[str, str, str, str], tuple[str, str]]


@dataclass
class Chain:
    """Where steps are built. ``sign``: commits are signed as ``commit.gpgSign`` asks. ``scratch`` is a directory."""

    repo: Repository
    objects: Objects
    scratch: str
    sign: bool = False
    hooks: Hooks | None = None
    _merging: tuple[str, Repository] | None = None

    def build(self, strategy: Strategy, onto: str, head: str, message: str) -> Step:
        """Put ``head`` on top of ``onto``. Raises ImpossibleError."""
        if strategy == "ff":
            return self._fast_forward(onto, head)
        if strategy == "rebase":
            return self._rebase(onto, head, message)
        return self.resolved(strategy, onto, head, self.merged(onto, head), message)

    def resolved(self, strategy: Strategy, onto: str, head: str, tree: str, message: str) -> Step:
        """Commit a tree that merges ``head`` into ``onto``. Raises ImpossibleError, also for what a hook refuses."""
        before = self.tree(onto)
        if tree == before:
            contained = self._is_ancestor(head, onto)
            raise ImpossibleError(
                "skipped", "already contained in the target" if contained else "it changes nothing there"
            )
        changed = changes.between(self.repo, before, tree)
        sides = (before, self.tree(head))
        clashes = changes.case_clashes(self.objects, tree, sides, [one.path for one in changed if one.added])
        if clashes:
            raise ImpossibleError("parked", "paths that differ only in case", clashes)
        if self.hooks is not None:
            hooked, message = self.hooks(onto, head, tree, message)
            if hooked != tree:
                tree, changed = hooked, changes.between(self.repo, before, hooked)
        parents = (onto, head) if strategy == "merge" else (onto,)
        commit = self.commit(tree, parents, message)
        return self._step(Step(onto, commit, tree, parents, message, tuple(changed)))

    def merged(self, onto: str, theirs: str) -> str:
        """Return the tree of ``theirs`` merged into ``onto`` (commits). Raises ImpossibleError."""
        return self._clean(mergetree.merge(self._with_attributes(onto), onto, theirs))

    def reworded(self, step: Step, message: str) -> Step:
        """The same step with another message on its last commit."""
        return replace(step, commit=self.commit(step.tree, step.parents, message), message=message)

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit as the person, signed if they sign theirs."""
        if not self.sign:
            return self.objects.commit(tree, parents, message)
        return self._commit_by_git(tree, parents, message, {})

    def tree(self, commit: str) -> str:
        return self.objects.read_commit(commit)[0]

    # within

    def _step(self, step: Step) -> Step:
        if any(os.path.basename(one.path) == attributes.NAME for one in step.changed):
            self._merging = None
        elif self._merging is not None:
            self._merging = (step.commit, self._merging[1])
        return step

    def _with_attributes(self, onto: str) -> Repository:
        """The repository for merges into ``onto``, with its attributes laid out."""
        if self._merging is None or self._merging[0] != onto:
            self._merging = (onto, attributes.lay_out(self.repo, onto, os.path.join(self.scratch, "attributes")))
        return self._merging[1]

    def _clean(self, outcome: mergetree.MergeOutcome) -> str:
        if outcome.failed is not None or outcome.tree is None:
            raise ImpossibleError("refused", outcome.failed or "git cannot merge it")
        if not outcome.clean:
            kinds = sorted({conflict.kind for conflict in outcome.conflicts})
            raise ImpossibleError("parked", f"conflict ({', '.join(kinds)})", outcome.paths)
        return outcome.tree

    def _is_ancestor(self, commit: str, of: str) -> bool:
        return self.repo.common.succeeds("merge-base", "--is-ancestor", commit, of)

    def _fast_forward(self, onto: str, head: str) -> Step:
        if self._is_ancestor(head, onto):
            raise ImpossibleError("skipped", "already contained in the target")
        if not self._is_ancestor(onto, head):
            raise ImpossibleError(
                "refused", "not possible to fast-forward: the target has commits that the branch lacks"
            )
        tree, parents, message = self.objects.read_commit(head)
        changed = changes.between(self.repo, self.tree(onto), tree)
        return self._step(Step(onto, head, tree, tuple(parents), message, tuple(changed)))

    def _rebase(self, onto: str, head: str, message: str) -> Step:
        """Replay the commits of ``head`` that ``onto`` lacks, each with the trailers of ``message``."""
        git = self.repo.common
        if git.text("rev-list", "--merges", "--max-count=1", f"{onto}..{head}"):
            raise ImpossibleError("refused", "the branch has merges, which a rebase would flatten: use merge or squash")
        form = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B"
        picks = ("--reverse", "--topo-order", "--cherry-pick", "--right-only", "--no-merges")
        shown = ("--encoding=UTF-8", "--date=raw", "--no-show-signature", "--no-notes")
        fields = git.run("log", "-z", *picks, *shown, form, f"{onto}...{head}").fields
        commits = [fields[at : at + 7] for at in range(0, len(fields), 7)]
        added = _trailers_of(message)
        at, tree = onto, self.tree(onto)
        for _, own, parents, name, mail, date, original in commits:
            before = self.tree(parents.split()[0]) if parents else self.objects.tree({})
            merged = self.picked(onto, before, tree, own)
            if merged == tree and own != before:
                continue  # the target has it already
            author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": date}
            said = with_trailers(original, added)
            if self.hooks is not None:
                merged, said = self.hooks(at, head, merged, said)
            tree, onto_before = merged, at
            at = self._commit_by_git(tree, (at,), said, author)
            last = (onto_before,), said
        if at == onto:
            raise ImpossibleError("skipped", "already contained in the target")
        changed = changes.between(self.repo, self.tree(onto), tree)
        return self._step(Step(onto, at, tree, *last, tuple(changed)))

    def picked(self, attributes_of: str, base: str, ours: str, theirs: str) -> str:
        """Return the tree ``ours`` with what leads from ``base`` to ``theirs`` (trees). Raises ImpossibleError."""
        root = self.objects.commit(base, (), "base")
        sides = (self.objects.commit(side, (root,), "side") for side in (ours, theirs))
        return self._clean(mergetree.merge(self._with_attributes(attributes_of), *sides))

    def _commit_by_git(self, tree: str, parents: Sequence[str], message: str, env: dict[str, str]) -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        signed = ("-S",) if self.sign else ()
        stdin = os.fsencode(message)
        try:
            return self.repo.git.run("commit-tree", *signed, tree, *named, stdin=stdin, env=env).text
        except GitError as error:
            what = "git cannot sign the commit" if self.sign else "git cannot write the commit"
            raise ParallelError(f"{what}: {error.message}", "nothing was landed by this step") from error


def _trailers_of(message: str) -> list[tuple[str, str]]:
    lines = message.rstrip().rpartition("\n\n")[2].split("\n")
    return [(key, value) for key, separator, value in (line.partition(": ") for line in lines) if separator]
