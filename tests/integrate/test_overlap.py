"""Which pairs need a merge to know: never one too few, whatever the branches did."""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_history import EXECUTABLE, FILE, LINK, SUBMODULE, Made, lines, make

from git_parallel.git import Repository
from git_parallel.integrate import mergetree, overlap
from git_parallel.integrate.mergetree import MergeOutcome, parse
from git_parallel.integrate.overlap import Changes, History, case_clashes, suspicious

DIRECTORIES = ["", "d/", "d/s/", "d/s/t/", "e/", "f/"]
NAMES = ["a", "b", "c", "x"]
OPERATIONS = ["edit", "edit", "delete", "move", "move directory", "move directory", "add", "add", "add below",
              "add in the way", "delete directory", "mode", "link", "submodule"]  # fmt: skip


def put(tree: dict, path: str, what: tuple[str, str]) -> None:
    """Set a path, taking out what cannot be there beside it."""
    for other in list(tree):
        if other.startswith(f"{path}/") or path.startswith(f"{other}/"):
            del tree[other]
    tree[path] = what


def change(rng: random.Random, tree: dict) -> dict:
    """What an agent may do to a tree in one step."""
    tree = dict(tree)
    operation = rng.choice(OPERATIONS)
    path = rng.choice(sorted(tree) or ["a"])
    what = tree.get(path, (FILE, lines("a")))
    directory = rng.choice(
        sorted({path[: cut + 1] for path in tree for cut in range(len(path)) if path[cut] == "/"}) or ["d/"]
    )
    somewhere = rng.choice(DIRECTORIES) + rng.choice([*NAMES, "n"])
    fresh = (FILE, lines(rng.randrange(1 << 30)))
    if operation == "edit" and what[0] in (FILE, EXECUTABLE):
        number = rng.randrange(8)
        changed = [*what[1].splitlines(keepends=True)[:number], f"changed {fresh[1][:40]}\n"]
        put(tree, path, (what[0], "".join([*changed, *what[1].splitlines(keepends=True)[number + 1 :]])))
    elif operation == "delete":
        tree.pop(path, None)
    elif operation == "move":
        tree.pop(path, None)
        put(tree, somewhere, what)
    elif operation == "move directory":
        to = rng.choice(["g/", "e/", "d/", "d/s/", "h/k/", ""])
        if not to.startswith(directory):
            for name in [name for name in tree if name.startswith(directory)]:
                put(tree, to + name.removeprefix(directory), tree.pop(name))
    elif operation == "add":
        put(tree, somewhere, fresh)
    elif operation == "add below":
        put(tree, f"{path}/{rng.choice(NAMES)}", fresh)
    elif operation == "add in the way":
        put(tree, directory.rstrip("/"), fresh)
    elif operation == "delete directory":
        tree = {name: kept for name, kept in tree.items() if not name.startswith(directory)}
    elif operation == "mode" and what[0] == FILE:
        put(tree, path, (EXECUTABLE, what[1]))
    elif operation in ("link", "submodule"):
        put(tree, somewhere, (LINK, rng.choice("ab")) if operation == "link" else (SUBMODULE, rng.choice("12") * 40))
    return tree or {"z": (FILE, "z\n")}


def history(rng: random.Random) -> list[Made]:
    """A base and what became of it: branches of it, branches of branches, merges, and now and then a stranger."""
    base = {directory + name: (FILE, lines(directory + name)) for directory in DIRECTORIES for name in NAMES}
    base = {path: what for path, what in base.items() if rng.randrange(5) < 3} or {"a": (FILE, lines("a"))}
    commits = [Made(base)]
    for _ in range(rng.randrange(3, 6)):
        kind = rng.randrange(20)
        parents = (0,)
        if len(commits) > 2 and kind >= 14:
            parents = tuple(rng.sample(range(len(commits)), 2)) if kind >= 18 else (rng.randrange(len(commits)),)
        if kind == 13:
            parents = ()
        tree = dict(commits[parents[0]].tree if parents else base)
        for _ in range(rng.randrange(1, 4)):
            tree = change(rng, tree)
        commits.append(Made(tree, parents))
    return commits


def alone(path: Path, ours: str, theirs: str) -> MergeOutcome:
    """What a `git merge-tree` of its own says."""
    argv = ["git", "merge-tree", "--write-tree", "-z", "--messages", ours, theirs]
    done = subprocess.run(argv, cwd=path, capture_output=True, check=False)
    if done.returncode not in (0, 1):
        return MergeOutcome(ours, theirs, None, False, failed=done.stderr.decode().strip().removeprefix("fatal: "))
    return parse(str(1 - done.returncode).encode() + b"\0" + done.stdout + b"\0", [(ours, theirs)])[0]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False))
def test_what_is_not_merged_would_merge_and_what_is_merged_comes_out_as_in_git(tmp_path, rng):
    path = Path(tempfile.mkdtemp(dir=tmp_path))
    try:
        subprocess.run(["git", "init", "-q"], cwd=path, check=True)
        commits = make(path, history(rng))[1:]
        pairs = list(itertools.combinations(range(len(commits)), 2))
        repo = Repository.discover(str(path))
        suspects = list(overlap.find(repo, commits, pairs).suspects)
        sides = [(commits[one], commits[other]) for one, other in suspects]
        found = dict(zip(suspects, mergetree.merge_trees(repo, sides), strict=True))
        for one, other in pairs:
            naive = alone(path, commits[one], commits[other])
            if (one, other) in found:
                assert found[one, other] == naive
            else:
                assert naive.clean, naive
    finally:
        shutil.rmtree(path)


def find(repo, commits: list[str]) -> overlap.Overlaps:
    pairs = list(itertools.combinations(range(len(commits)), 2))
    return overlap.find(Repository.discover(str(repo.path)), commits, pairs)


BASE = {"a": (FILE, lines("a")), "d/one": (FILE, lines("one")), "d/two": (FILE, lines("two"))}


def test_pairs_without_a_common_path_are_not_merged(repo):
    commits = make(
        repo.path,
        [Made(BASE), *(Made({**BASE, f"new{number}": (FILE, "new\n")}, (0,)) for number in range(5))],
    )
    assert find(repo, commits[1:]).suspects == {}


def test_common_paths_are_counted(repo):
    edit = {"a": (FILE, "edited\n"), "d/one": (FILE, "edited\n")}
    commits = make(repo.path, [Made(BASE), Made({**BASE, **edit}, (0,)), Made({**BASE, **edit}, (0,))])
    assert find(repo, commits[1:]).suspects == {(0, 1): 2}


def test_heads_of_runs_with_different_bases_are_compared_from_where_they_part(repo):
    later = {**BASE, "log": (FILE, "two\n")}
    commits = make(
        repo.path,
        [
            Made(BASE),  # the base of the first run, which does not have `log`
            Made({**BASE, "mine": (FILE, "mine\n")}, (0,)),
            Made(later, (0,)),  # the base of the second
            Made({**later, "a": (FILE, "edited\n")}, (2,)),
            Made({**later, "log": (FILE, "three\n")}, (2,)),
            Made({**BASE, "log": (FILE, "one\n")}, (0,)),  # the first run adds `log`, too
        ],
    )
    found = find(repo, [commits[1], commits[3], commits[4], commits[5]])
    assert set(found.suspects) == {(1, 3), (2, 3)}
    assert found.bases == {
        (0, 1): commits[0], (0, 2): commits[0], (0, 3): commits[0],
        (1, 2): commits[2], (1, 3): commits[0], (2, 3): commits[0],
    }  # fmt: skip


def test_a_pair_with_several_merge_bases_is_always_merged(repo):
    one, other = {**BASE, "one": (FILE, "1\n")}, {**BASE, "other": (FILE, "2\n")}
    both = {**one, **other}
    commits = make(
        repo.path,
        [
            Made(BASE),
            Made(one, (0,)),
            Made(other, (0,)),
            Made(both, (1, 2)),
            Made({**both, "n": (FILE, "n\n")}, (2, 1)),
        ],
    )
    found = find(repo, commits[3:])
    assert (found.bases, found.suspects) == ({(0, 1): None}, {(0, 1): 0})


def test_a_stranger_is_left_to_git_and_does_not_slow_down_the_others(repo):
    commits = make(
        repo.path,
        [Made(BASE), *(Made({**BASE, f"new{number}": (FILE, "n\n")}, (0,)) for number in range(3)), Made(BASE)],
    )
    assert set(find(repo, commits[1:]).suspects) == {(0, 3), (1, 3), (2, 3)}


def test_a_head_that_others_contain_collides_with_none_of_them(repo):
    edited = {**BASE, "a": (FILE, "edited\n")}
    commits = make(repo.path, [Made(BASE), Made(edited, (0,)), Made({**edited, "a": (FILE, "more\n")}, (1,))])
    found = find(repo, [*commits, commits[1]])
    assert found.suspects == {}
    assert found.bases[1, 3] == commits[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Changes(touched=frozenset({"x"}), added=frozenset({"x"})), Changes(added=frozenset({"x/y"}))),
        (Changes(touched=frozenset({"x"}), added=frozenset({"x"})), Changes(added=frozenset({"x/deep/er/y"}))),
        (Changes(gone=frozenset({"d"})), Changes(added=frozenset({"d/new"}))),
        (Changes(gone=frozenset({"d", "d/s"})), Changes(added=frozenset({"d/s/t/new"}))),
        (Changes(touched=frozenset({"a"})), Changes(touched=frozenset({"a"}))),
    ],
)
def test_what_may_clash_is_suspicious_from_either_side(one, other):
    assert set(suspicious({0: one, 1: other})) == {(0, 1)}
    assert set(suspicious({0: other, 1: one})) == {(0, 1)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Changes(added=frozenset({"x"})), Changes(added=frozenset({"xy"}))),
        (Changes(added=frozenset({"x/a"})), Changes(added=frozenset({"x/b"}))),
        (Changes(gone=frozenset({"d"})), Changes(added=frozenset({"dd/new"}))),
        (Changes(gone=frozenset({"d"})), Changes(touched=frozenset({"e/old"}))),
        (Changes(gone=frozenset({"d"})), Changes(gone=frozenset({"d"}))),
    ],
)
def test_what_cannot_clash_is_not(one, other):
    assert suspicious({0: one, 1: other}) == {}


def test_everybody_touching_a_path_makes_every_pair_suspicious_once():
    changes = {side: Changes(touched=frozenset({"a", "b"})) for side in range(4)}
    assert suspicious(changes) == dict.fromkeys(itertools.combinations(range(4), 2), 2)


def test_names_that_differ_in_case_or_unicode_form_are_told_at_their_topmost_difference():
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    changes = {
        0: Changes(added=frozenset({"README", "Docs/a", "same", composed}), made=frozenset({"Docs"})),
        1: Changes(added=frozenset({"Readme", "docs/a", "same", decomposed}), made=frozenset({"docs"})),
        2: Changes(added=frozenset({"other"})),
    }
    assert case_clashes(changes) == {
        (0, 1): (("Docs", "docs"), ("README", "Readme"), (composed, decomposed)),
    }


def test_merge_bases_are_those_of_git(repo):
    rng = random.Random(3)
    commits = [Made(BASE)]
    for number in range(1, 40):
        parents = tuple(rng.sample(range(max(0, number - 8), number), min(number, rng.choice([1, 1, 2]))))
        commits.append(Made({**BASE, "n": (FILE, f"{number}\n")}, parents))
    heads = make(repo.path, commits)[28:]
    found = find(repo, heads).bases
    for (one, other), base in found.items():
        bases = repo.git("merge-base", "--all", heads[one], heads[other]).split()
        assert base == (bases[0] if len(bases) == 1 else None)


def test_only_commits_where_heads_part_are_kept():
    """h1 and h2 part at c2, whose ancestors c1 and root say no more; h3 parts from both at c1."""
    graph = [("h1", ["c2"]), ("h2", ["c2"]), ("c2", ["c1"]), ("h3", ["c1"]), ("c1", ["root"]), ("root", [])]
    known = History.of(graph, ["h1", "h2", "h3"])
    assert known.joints == ["c2", "c1"]
    assert (known.base("h1", "h2"), known.base("h1", "h3"), known.base("h1", "h1")) == ("c2", "c1", "h1")
    assert known.base("h1", "unknown") is None
