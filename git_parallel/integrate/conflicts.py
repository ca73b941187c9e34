"""Which branches collide, with each other and with the target, foreseen without touching any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from git_parallel.errors import UsageError
from git_parallel.git import Git, Repository
from git_parallel.integrate import mergetree, order, overlap
from git_parallel.integrate.heads import Absent, Head, present
from git_parallel.integrate.mergetree import Conflict, MergeOutcome
from git_parallel.integrate.order import Step
from git_parallel.integrate.overlap import Overlaps, Pair
from git_parallel.integrate.workers import Candidate
from git_parallel.layout import HEADS
from git_parallel.store import refs


class Finding(Struct, frozen=True):
    """What was found of two commits.

    ``shared`` is how many paths both changed. ``outcome`` is None where no merge was needed to know that they
    merge. ``same_but_case``: new names of the two that one directory cannot hold where case does not count.
    """

    shared: int = 0
    outcome: MergeOutcome | None = None
    same_but_case: tuple[tuple[str, str], ...] = ()

    @property
    def clean(self) -> bool:
        return self.outcome is None or self.outcome.clean

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return self.outcome.conflicts if self.outcome is not None else ()

    @property
    def failed(self) -> str | None:
        """Why git would not even try, as for unrelated histories."""
        return self.outcome.failed if self.outcome is not None else None

    @property
    def size(self) -> int:
        """How many paths conflict; 0 when the two merge cleanly, and at least 1 when not."""
        return 0 if self.clean else max(1, len(self.conflicts))


NOTHING = Finding()


class Target(Struct, frozen=True):
    """Where branches are to land. ``name`` is as people say it."""

    name: str
    commit: str


class Forecast(Struct, frozen=True):
    """All of it. Heads are named by their index in ``heads``.

    ``targets`` gives each head's target, None where there is none; ``pairs`` (smaller index first) and
    ``against`` (with the target) hold only what is worth a word: shared paths, conflicts, case. ``files`` is
    how many files each head changes, ``idle`` the heads that bring the target nothing. ``merged`` counts the
    merges that were made to know.
    """

    heads: Sequence[Head]
    absent: Sequence[Absent]
    targets: Sequence[Target | None]
    pairs: Mapping[Pair, Finding]
    against: Mapping[int, Finding]
    files: Sequence[int]
    idle: frozenset[int]
    merged: int
    possible: int

    def between(self, one: int, other: int) -> Finding:
        """What was found of two heads."""
        return self.pairs.get((min(one, other), max(one, other)), NOTHING)

    def with_target(self, head: int) -> Finding:
        """What was found of a head and its target."""
        return self.against.get(head, NOTHING)

    @property
    def collisions(self) -> int:
        """How many pairs, those with the target included, do not merge."""
        return sum(not one.clean for one in (*self.pairs.values(), *self.against.values()))

    def order(self) -> list[Step]:
        """A good order to land them in; heads that bring nothing are left out."""
        return order.suggest(
            [index for index in range(len(self.heads)) if index not in self.idle],
            {pair: found.size for pair, found in self.pairs.items()},
            {head: found.size for head, found in self.against.items()},
            _dependencies(self.heads),
        )


def foresee(
    repo: Repository,
    candidates: Sequence[Candidate],
    *,
    target: str | None = None,
    look: bool = True,
    env: Mapping[str, str] | None = None,
) -> Forecast:
    """Compare every two of the workers, and each with its target (``target``: a commit for all of them).

    Live workers count with what lies in their worktrees (``look``). Nothing is written to the repository:
    objects go where ``env`` says (default: to a scratch place, and are gone). Raises UsageError when
    ``target`` is no commit.
    """
    if env is None:
        with mergetree.scratch_objects(repo) as scratch:
            return foresee(repo, candidates, target=target, look=look, env=scratch)
    heads, absent = present(repo, candidates, env, look=look)
    targets = _targets(repo, heads, target)
    different = list({one.commit: one for one in targets if one is not None}.values())
    place = {one.commit: len(heads) + index for index, one in enumerate(different)}
    commits = [*(one.commit for one in heads), *(one.commit for one in different)]
    between = [(one, other) for one in range(len(heads)) for other in range(one + 1, len(heads))]
    against = {index: (index, place[one.commit]) for index, one in enumerate(targets) if one is not None}
    known = overlap.find(repo, commits, [*between, *against.values()], env=env)
    outcomes = _merge(repo, commits, list(known.suspects), _attributes_of(heads, targets), env)
    files = _files_changed(repo, heads, against, known, env)
    findings = {
        pair: Finding(known.suspects.get(pair, 0), outcomes.get(pair), known.same_but_case.get(pair, ()))
        for pair in (*known.suspects, *(one for one in known.same_but_case if one not in known.suspects))
    }
    return Forecast(
        heads=heads,
        absent=absent,
        targets=targets,
        pairs={pair: findings[pair] for pair in between if pair in findings},
        against={head: findings[pair] for head, pair in against.items() if pair in findings},
        files=files,
        idle=frozenset(index for index, count in enumerate(files) if not count),
        merged=len(outcomes),
        possible=len(between) + len(against),
    )


def _attributes_of(heads: Sequence[Head], targets: Sequence[Target | None]) -> list[str]:
    """Return for each head the commit whose .gitattributes count when it is merged: its target's, or its base's."""
    return [
        target.commit if target is not None else head.candidate.base
        for head, target in zip(heads, targets, strict=True)
    ]


def _merge(
    repo: Repository, commits: Sequence[str], pairs: Sequence[Pair], sources: Sequence[str], env: Mapping[str, str]
) -> dict[Pair, MergeOutcome]:
    """Merge pairs of commits, with the attributes of the first one's source: heads come before targets."""
    by_source: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_source.setdefault(sources[pair[0]], []).append(pair)
    outcomes: dict[Pair, MergeOutcome] = {}
    if not pairs:
        return outcomes
    from git_parallel.integrate.attributes import attributed  # noqa: PLC0415 (only when there is something to merge)

    for source, group in by_source.items():
        # The target is "ours", as it will be when the branch lands; of two branches the first one.
        sides = [(commits[b], commits[a]) if b >= len(sources) else (commits[a], commits[b]) for a, b in group]
        with attributed(repo, source) as merging:
            outcomes |= zip(group, mergetree.merge_trees(merging, sides, env=env), strict=True)
    return outcomes


def _targets(repo: Repository, heads: Sequence[Head], asked: str | None) -> list[Target | None]:
    """Return each head's target: the one asked for, or its run's own, if that branch is there."""
    if asked is not None:
        found = repo.git.run("rev-parse", "-q", "--verify", f"{asked}^{{commit}}", ok=(0, 1, 128))
        if found.returncode:
            raise UsageError(f"target '{asked}' is not a commit", "list branches with: git branch")
        return [Target(asked, found.text)] * len(heads)
    names = {head.candidate.spec.target for head in heads} - {None}
    tips = refs.read(repo, *(name for name in names if name is not None))
    known = {name: Target(name.removeprefix(HEADS), commit) for name, commit in tips.items()}
    return [known.get(head.candidate.spec.target or "") for head in heads]


def _files_changed(
    repo: Repository, heads: Sequence[Head], against: Mapping[int, Pair], known: Overlaps, env: Mapping[str, str]
) -> list[int]:
    """How many files each head changes: since its merge base with the target, or else since it started."""
    since = []
    for index, head in enumerate(heads):
        base = known.bases[against[index]] if index in against else None
        since.append((base or head.candidate.base, head.commit))
    missing = [pair for pair in since if pair not in known.changes]
    git = Git(repo.common.options, repo.common.cwd, env)
    changes = {**known.changes, **(overlap.changed(git, missing) if missing else {})}
    return [len(changes[pair].touched) for pair in since]


def _dependencies(heads: Sequence[Head]) -> dict[int, set[int]]:
    """Which heads each head's task depends on."""
    by_task: dict[tuple[str, str], set[int]] = {}
    for index, head in enumerate(heads):
        by_task.setdefault((head.candidate.run, head.candidate.task.id), set()).add(index)
    return {
        index: {one for task in head.candidate.task.depends for one in by_task.get((head.candidate.run, task), ())}
        for index, head in enumerate(heads)
    }
