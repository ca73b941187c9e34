"""Branches that cannot meet, merged all at once: the same commits as one by one, or not at all."""

from __future__ import annotations

import random
import subprocess

import pytest
from landings import commit, landable

from git_parallel.git import Repository
from git_parallel.integrate import union
from git_parallel.integrate.changes import Changed
from git_parallel.store.objects import Objects

A, B = "1" * 40, "2" * 40


def changed(path: str, old: str = "100644", new: str = "100644") -> Changed:
    return Changed(path, old, new, A, B)


@pytest.mark.parametrize(
    ("branches", "answer"),
    [
        ([["a"], ["b"], ["c/d"]], True),
        ([["a"], ["a"]], False),
        ([["a/b"], ["a/c"]], True),
        ([["a"], ["a/b"]], False),
        ([["a/b/c"], ["a/b"]], False),
        ([["x/a", "x/a/b"]], False),
        ([["a"], []], False),
    ],
)
def test_who_can_meet(branches, answer):
    assert union.apart([[changed(path) for path in paths] for paths in branches]) is answer


def test_what_takes_something_away_is_looked_at_by_git():
    assert not union.apart([[changed("a")], [changed("b", new="000000")]])


def tried(repo, works, strategy="merge"):
    """The steps of these works on main, or None; and what ``git merge`` makes of them."""
    where = Repository.discover(str(repo.path))
    base = repo.git("rev-parse", "main")
    wanted = []
    for number, work in enumerate(works, 1):
        head = commit(repo, work, base, f"work {number}")
        wanted.append((head, f"take {number}\n\nbecause\n"))
    with Objects(where) as known:
        return union.build(where, known, strategy, base, wanted), wanted


def merged_by_git(repo, wanted) -> list[str]:
    repo.git("checkout", "-q", "--detach", "main")
    trees = []
    for head, message in wanted:
        repo.git("merge", "-q", "--no-ff", "-m", message.rstrip(), head)
        trees.append(repo.git("rev-parse", "HEAD^{tree}"))
    return trees


@pytest.mark.parametrize("seed", range(6))
def test_it_is_what_git_merge_makes(repo, seed):
    rng = random.Random(seed)
    repo.commit(
        "start", {f"d{one}/e{two}/f{three}": f"{one}{two}{three}\n" for one in "ab" for two in "ab" for three in "ab"}
    )
    paths = [f"d{one}/e{two}/f{three}" for one in "abc" for two in "abc" for three in "abc"] + [
        'q"uo te',
        "ü\\x",
        "new\nline",
    ]
    rng.shuffle(paths)
    kinds = [("100644", "new\n"), ("100755", "run\n"), ("120000", "there"), ("160000", "3" * 40)]
    works = [{path: rng.choice(kinds) for path in paths[number * 4 : number * 4 + 4]} for number in range(7)]
    steps, wanted = tried(repo, works)
    assert steps is not None
    assert [step.tree for step in steps] == merged_by_git(repo, wanted)
    for step, before, (head, message) in zip(steps, [None, *steps], wanted, strict=False):
        onto = before.commit if before else repo.git("rev-parse", "main")
        assert (step.onto, step.head, step.parents) == (onto, head, (onto, head))
        assert repo.git("log", "-1", "--format=%P%n%B", step.commit) == f"{onto} {head}\n{message}".rstrip("\n")
        assert repo.git("log", "-1", "--format=%an %cn", step.commit) == "A U Thor C O Mitter"
        raw = repo.git("diff-tree", "-r", "--raw", "--no-abbrev", "-z", onto, step.commit)
        assert raw.count("\0") == 2 * len(step.changed)
    assert repo.git("for-each-ref", "refs/architect/") == "", "no ref is left"


def test_squashed_they_have_one_parent(repo):
    steps, _ = tried(repo, [{"a": "1"}, {"b": "2"}, {"c": "3"}], "squash")
    assert steps is not None
    assert [len(step.parents) for step in steps] == [1, 1, 1]
    assert repo.git("log", "--format=%s", steps[-1].commit).splitlines() == ["take 3", "take 2", "take 1", "first"]


def test_a_target_that_has_moved_is_no_case_for_it(repo):
    run = landable(repo, {"a": "1"}, {"b": "2"}, {"c": "3"})
    repo.commit("theirs", {"x": "x\n"})
    where = run.where
    onto = repo.git("rev-parse", "main")
    with Objects(where) as known:
        assert union.build(where, known, "merge", onto, [(head, "m\n") for head in run.heads]) is None
    code, document, _ = run.merge()
    assert (code, set(run.states(document).values())) == (0, {"landed"})


def test_a_landing_is_the_same_either_way(repo, monkeypatch):
    from git_parallel.integrate import landing

    run = landable(repo, {"a": "1\n"}, {"b/c": "2\n"}, {"README": "3\n"}, {"src/a.txt": "4\n"})
    code, document, _ = run.merge()
    assert code == 0
    fast = [branch["tree"] for branch in document["branches"]]
    repo.parallel("merge", "--undo", document["merge"])
    monkeypatch.setattr(landing, "_WORTH_UNITING", 99)
    from git_parallel.integrate import land, prepare
    from git_parallel.integrate.person import Answer
    from git_parallel.plan import config

    class Quiet:
        def asked(self, *_):
            return Answer("yes")

        asked_together = told = checking = noted = asked

    settings = config.load(run.where, {})
    draft = prepare.prepare(run.where, prepare.Request(words=(), config=settings, argv=(), yes=True))
    merge = land.begin(run.where, draft.merge, Quiet(), settings.worktree).run()
    assert [branch.tree for branch in merge.branches] == fast


def test_sha256_and_a_shared_repository_work_too(make_repo):
    repo = make_repo("other", init=("--object-format=sha256", "--shared=group"))
    run = landable(repo, {"a": "1\n"}, {"b": "2\n"}, {"c": "3\n"})
    code, document, said = run.merge()
    assert (code, set(run.states(document).values())) == (0, {"landed"}), said
    assert subprocess.run(["git", "fsck", "--strict"], cwd=repo.path, check=False).returncode == 0
