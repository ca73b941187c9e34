"""One branch on top of another, in the object store alone (DESIGN section 9, step 3).

Every strategy comes down to merges of trees. A replayed commit (``rebase``, a revert) is one too: three
commits are written whose history says "this is the base", and no worktree, nor ``merge-tree --merge-base``
of git 2.40, is needed. They are unreachable at once and go with the next ``git gc``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from git_parallel.errors import GitError, ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import changes, mergetree
from git_parallel.integrate.changes import Changed
from git_parallel.integrate.message import with_trailers
from git_parallel.integrate.plan import State, Strategy
from git_parallel.store.objects import Objects


class Step(Struct, frozen=True):
    """The target moved by one branch: from ``onto`` to ``commit``, whose tree is ``tree``.

    ``parents`` and ``message`` are those of the commit that a new message would change. ``changed`` is what the
    step changes, once :meth:`Chain.compared` has found it.
    """

    onto: str
    head: str
    commit: str
    tree: str
    parents: tuple[str, ...]
    message: str
    changed: tuple[Changed, ...] = ()


class ImpossibleError(Exception):
    """A branch cannot be put on top: ``why``, for ``state``; ``files`` are the conflicting paths."""

    def __init__(self, state: State, why: str, files: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.state = state
        self.why = why
        self.files = tuple(files)


# Gives the person's hooks their say: (onto, head, tree, message) to the tree and message to commit.
Hooks = Callable[[str, str, str, str], tuple[str, str]]


class Chain:
    """Where steps are built. ``sign``: commits are signed as ``commit.gpgSign`` asks. ``scratch`` is a directory.

    ``trees`` are the trees of commits, as far as they are known: a packed commit takes 25 ms to be read first.
    """

    def __init__(
        self, repo: Repository, objects: Objects, scratch: str, *, sign: bool = False, hooks: Hooks | None = None
    ) -> None:
        self.repo = repo
        self.objects = objects
        self.trees: dict[str, str] = {}
        self._scratch = scratch
        self._sign = sign
        self._hooks = hooks
        self._attributed: tuple[str, Repository] | None = None

    def build(self, strategy: Strategy, onto: str, head: str, message: str) -> Step:
        """Put ``head`` on top of ``onto``. Raises ImpossibleError."""
        if strategy == "ff":
            return self._fast_forward(onto, head)
        if strategy == "rebase":
            return self._rebase(onto, head, message)
        return self.resolved(strategy, onto, head, self.merged(onto, head), message)

    def resolved(self, strategy: Strategy, onto: str, head: str, tree: str, message: str) -> Step:
        """Commit a tree that merges ``head`` into ``onto``. Raises ImpossibleError, also for what a hook refuses."""
        if tree == self.tree(onto):
            contained = self._is_ancestor(head, onto)
            raise ImpossibleError(
                "skipped", "already contained in the target" if contained else "it changes nothing there"
            )
        if self._hooks is not None:
            tree, message = self._hooks(onto, head, tree, message)
        parents = (onto, head) if strategy == "merge" else (onto,)
        return self._made(Step(onto, head, self.commit(tree, parents, message), tree, parents, message))

    def compared(self, steps: Sequence[Step]) -> list[Step]:
        """The same steps with what each changes, in one git call where it is not known."""
        if all(step.changed for step in steps):
            return list(steps)
        found = changes.compare(self.repo, [(step.onto, step.commit) for step in steps])
        return [replace(step, changed=tuple(changed)) for step, changed in zip(steps, found, strict=True)]

    def clashes(self, step: Step) -> list[str]:
        """Paths of a step that differ only in case, and do not in the branch or the target alone."""
        added = [one.path for one in step.changed if one.added]
        if not added:
            return []
        return changes.case_clashes(
            self.objects, step.tree, added, lambda: (self.tree(step.onto), self.tree(step.head))
        )

    def without_clashes(self, steps: Sequence[Step]) -> bool:
        """Whether steps on top of each other have none, seen at the last of them alone: where nothing is taken away."""
        if len(steps) < 2 or any(one.deleted for step in steps for one in step.changed):
            return False
        added = [one.path for step in steps for one in step.changed if one.added]
        return not changes.case_clashes(self.objects, steps[-1].tree, added, lambda: ())

    def merged(self, onto: str, theirs: str) -> str:
        """Return the tree of ``theirs`` merged into ``onto`` (commits). Raises ImpossibleError."""
        return self._merge(onto, onto, theirs)

    def reworded(self, step: Step, message: str) -> Step:
        """The same step with another message on its last commit."""
        commit = self.commit(step.tree, step.parents, message)
        self.trees[commit] = step.tree
        return replace(step, commit=commit, message=message)

    def commit(self, tree: str, parents: Sequence[str], message: str) -> str:
        """Write a commit as the person, signed if they sign theirs."""
        if not self._sign:
            return self.objects.commit(tree, parents, message)
        return self._commit_by_git(tree, parents, message, {})

    def tree(self, commit: str) -> str:
        """The tree of a commit."""
        if commit not in self.trees:
            self.trees[commit] = self.objects.read_commit(commit)[0]
        return self.trees[commit]

    def clear(self) -> None:
        """Remove what was laid out for merges."""
        if self._attributed is not None:
            import shutil  # noqa: PLC0415 (most merges need nothing)

            shutil.rmtree(os.path.join(self._scratch, "attributes"), ignore_errors=True)
            self._attributed = None

    # within

    def _made(self, step: Step) -> Step:
        self.trees[step.commit] = step.tree
        return step

    def _merge(self, attributes_of: str, ours: str, theirs: str) -> str:
        """Merge two commits. Attributes decide only where a file's content is merged: most merges need none."""
        plain = self.repo.setting("merge.renormalize") is None
        outcome = mergetree.merge(self.repo, ours, theirs) if plain else None
        if outcome is None or (outcome.failed is None and (outcome.messages or not outcome.clean)):
            outcome = mergetree.merge(self._with_attributes(attributes_of), ours, theirs)
        if outcome.failed is not None or outcome.tree is None:
            raise ImpossibleError("refused", outcome.failed or "git cannot merge it")
        if not outcome.clean:
            kinds = sorted({conflict.kind for conflict in outcome.conflicts})
            raise ImpossibleError("parked", f"conflict ({', '.join(kinds)})", outcome.paths)
        return outcome.tree

    def _with_attributes(self, commit: str) -> Repository:
        """The repository for merges into a commit, with its attributes laid out."""
        if self._attributed is None or self._attributed[0] != commit:
            from git_parallel.integrate import attributes  # noqa: PLC0415 (most merges need none)

            place = os.path.join(self._scratch, "attributes")
            self._attributed = (commit, attributes.lay_out(self.repo, commit, place))
        return self._attributed[1]

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
        return self._made(Step(onto, head, head, tree, tuple(parents), message))

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
            if self._hooks is not None:
                merged, said = self._hooks(at, head, merged, said)
            tree, onto_before = merged, at
            at = self._commit_by_git(tree, (at,), said, author)
            self.trees[at] = tree
            last = (onto_before,), said
        if at == onto:
            raise ImpossibleError("skipped", "already contained in the target")
        return self._made(Step(onto, head, at, tree, *last))

    def picked(self, attributes_of: str, base: str, ours: str, theirs: str) -> str:
        """Return the tree ``ours`` with what leads from ``base`` to ``theirs`` (trees). Raises ImpossibleError."""
        root = self.objects.commit(base, (), "base")
        one, other = (self.objects.commit(side, (root,), "side") for side in (ours, theirs))
        return self._merge(attributes_of, one, other)

    def _commit_by_git(self, tree: str, parents: Sequence[str], message: str, env: dict[str, str]) -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        signed = ("-S",) if self._sign else ()
        stdin = os.fsencode(message)
        try:
            return self.repo.git.run("commit-tree", *signed, tree, *named, stdin=stdin, env=env).text
        except GitError as error:
            what = "git cannot sign the commit" if self._sign else "git cannot write the commit"
            raise ParallelError(f"{what}: {error.message}", "nothing was landed by this step") from error


def _trailers_of(message: str) -> list[tuple[str, str]]:
    lines = message.rstrip().rpartition("\n\n")[2].split("\n")
    return [(key, value) for key, separator, value in (line.partition(": ") for line in lines) if separator]
