"""Merges in batches: what git says of each pair by itself, for many pairs, without leaving anything behind."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from made_history import EXECUTABLE, FILE, LINK, SUBMODULE, Made, lines, make

from git_parallel.git import Repository
from git_parallel.integrate import mergetree
from git_parallel.integrate.mergetree import Conflict, merge_trees, parse, scratch_objects

BASE = {
    "a": (FILE, lines("a")),
    "d/one": (FILE, lines("one")),
    "d/two": (FILE, lines("two")),
    "old": (FILE, lines("old")),
}


def alone(path: Path, ours: str, theirs: str) -> mergetree.MergeOutcome:
    """What git says of one pair in a process of its own, in whose exit code 0 means clean."""
    argv = ["git", "merge-tree", "--write-tree", "-z", "--messages", ours, theirs]
    done = subprocess.run(argv, cwd=path, capture_output=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return parse(str(1 - done.returncode).encode() + b"\0" + done.stdout + b"\0", [(ours, theirs)])[0]


@pytest.fixture
def branch(repo):
    """Return a function that makes two commits on BASE and returns their ids."""

    def make_two(ours: dict, theirs: dict, base: dict | None = None) -> tuple[str, str]:
        start = base or BASE
        _, one, other = make(repo.path, [Made(start), Made(ours, (0,)), Made(theirs, (0,))])
        return one, other

    return make_two


def merged(repo, pair: tuple[str, str]) -> mergetree.MergeOutcome:
    outcome = mergetree.merge(Repository.discover(str(repo.path)), *pair)
    assert outcome == alone(repo.path, *pair)
    return outcome


def without(*names: str) -> dict:
    return {path: what for path, what in BASE.items() if path not in names}


CASES = {
    "content": ({**BASE, "a": (FILE, lines("a", changed=[2]))}, {**BASE, "a": (FILE, "other\n")}, "a"),
    "add/add": ({**BASE, "new": (FILE, "one\n")}, {**BASE, "new": (FILE, "other\n")}, "new"),
    "modify/delete": (without("a"), {**BASE, "a": (FILE, lines("a", changed=[2]))}, "a"),
    "binary": ({**BASE, "a": (FILE, "\0one")}, {**BASE, "a": (FILE, "\0other")}, "a"),
    "file/directory": ({**BASE, "x": (FILE, "file\n")}, {**BASE, "x/y": (FILE, "below\n")}, "x"),
    "distinct types": ({**BASE, "new": (LINK, "a")}, {**BASE, "new": (FILE, lines("new"))}, "new"),
    "file location": (
        {**without("d/one", "d/two"), "e/one": BASE["d/one"], "e/two": BASE["d/two"]},
        {**BASE, "d/three": (FILE, lines("three"))},
        "e/three",
    ),
    "rename/delete": ({**without("old"), "new": BASE["old"]}, without("old"), "new"),
    "submodule not initialized": (
        {**BASE, "sub": (SUBMODULE, "1" * 40)},
        {**BASE, "sub": (SUBMODULE, "2" * 40)},
        "sub",
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_conflict_has_its_path_and_gits_word_for_its_kind(repo, branch, kind):
    ours, theirs, path = CASES[kind]
    outcome = merged(repo, branch(ours, theirs))
    assert not outcome.clean
    assert [(conflict.path, conflict.kind) for conflict in outcome.conflicts] == [(path, kind)]


def test_a_file_renamed_to_two_names_is_told_for_each_of_them(repo, branch):
    outcome = merged(repo, branch({**without("old"), "n1": BASE["old"]}, {**without("old"), "n2": BASE["old"]}))
    assert {(conflict.path, conflict.kind) for conflict in outcome.conflicts} == {
        (path, "rename/rename") for path in ("old", "n1", "n2")
    }


def test_stages_hold_modes_and_ids_of_base_ours_and_theirs(repo, branch):
    ours, theirs = branch({**BASE, "a": (FILE, "ours\n")}, {**BASE, "a": (EXECUTABLE, "theirs\n")})
    [conflict] = merged(repo, (ours, theirs)).conflicts
    ids = [repo.git("rev-parse", f"{commit}:a") for commit in (f"{ours}~", ours, theirs)]
    assert conflict == Conflict("a", "content", {1: ("100644", ids[0]), 2: ("100644", ids[1]), 3: ("100755", ids[2])})


def test_what_merges_is_clean_and_has_the_merged_tree(repo, branch):
    ours, theirs = branch({**BASE, "a": (FILE, "ours\n")}, {**BASE, "b": (FILE, "theirs\n")})
    outcome = merged(repo, (ours, theirs))
    assert (outcome.clean, outcome.conflicts) == (True, ())
    assert repo.git("ls-tree", "--name-only", outcome.tree or "").split() == ["a", "b", "d", "old"]


def test_paths_come_as_they_are(repo, branch):
    names = ["new\nline", "tab\there", "\udcff\udcfe", "ünïcode", "-dash", "sp ace"]
    quoted = {name: f'"{name}"'.replace("\n", "\\n").replace("\t", "\\t") for name in names}
    ours = {**BASE, **{quoted[name]: (FILE, "ours\n") for name in names if not name.startswith("\udcff")}}
    theirs = {**BASE, **{quoted[name]: (FILE, "theirs\n") for name in names if not name.startswith("\udcff")}}
    ours['"\\377\\376"'], theirs['"\\377\\376"'] = (FILE, "ours\n"), (FILE, "theirs\n")
    assert sorted(merged(repo, branch(ours, theirs)).paths) == sorted(names)


def test_many_pairs_come_back_in_their_order(repo):
    commits = make(
        repo.path,
        [Made(BASE), *(Made({**BASE, "a": (FILE, f"{n}\n"), f"n{n}": (FILE, f"{n}\n")}, (0,)) for n in range(12))],
    )
    pairs = [(commits[1 + n % 12], commits[1 + (n * 5 + 1) % 12]) for n in range(40)]
    outcomes = list(merge_trees(Repository.discover(str(repo.path)), pairs))
    assert [(outcome.ours, outcome.theirs) for outcome in outcomes] == pairs
    assert outcomes == [alone(repo.path, *pair) for pair in pairs]


def test_a_pair_that_git_refuses_ends_only_itself(repo):
    one, other, strange = make(repo.path, [Made(BASE), Made({**BASE, "n": (FILE, "n\n")}, (0,)), Made(BASE)])
    gone = "1" * 40
    pairs = [(one, other), (one, strange), (other, one), (gone, one), (one, one)]
    outcomes = list(merge_trees(Repository.discover(str(repo.path)), pairs))
    assert [outcome.clean for outcome in outcomes] == [True, False, True, False, True]
    assert outcomes[1].failed == "refusing to merge unrelated histories"
    assert outcomes[1].tree is None
    assert gone in (outcomes[3].failed or "")


def test_no_pairs_are_no_work(repo):
    assert list(merge_trees(Repository.discover(str(repo.path)), [])) == []


def objects(repo) -> set[Path]:
    return {path for path in (repo.path / ".git/objects").rglob("*") if path.is_file()}


def test_objects_of_predictions_are_gone_afterwards(repo, branch):
    pair = branch(CASES["content"][0], CASES["content"][1])
    before = objects(repo)
    with scratch_objects(Repository.discover(str(repo.path))) as env:
        outcome = mergetree.merge(Repository.discover(str(repo.path)), *pair, env=env)
        written = repo.path / env["GIT_OBJECT_DIRECTORY"]
        assert any(written.rglob("*"))
        assert os.stat(written).st_mode & 0o077 == 0, "source code must not be readable to others"
    assert not written.exists()
    assert objects(repo) == before
    assert outcome == alone(repo.path, *pair)


@pytest.mark.parametrize("name", ["plain", "with:colon", 'quo"te', "back\\slash:colon", '"leading'])
def test_scratch_objects_find_a_repositorys_own_wherever_it_lies(make_repo, name):
    made = make_repo(name)
    one, other = made.commit("one", {"n": "1\n"}), made.commit("other", {"n": "2\n"})
    repository = Repository.discover(str(made.path))
    with scratch_objects(repository) as env:
        assert mergetree.merge(repository, one, other, env=env).clean


def test_scratch_objects_find_alternates_that_are_named_relative_to_the_repository(make_repo, tmp_path):
    repo = make_repo()
    one = repo.commit("one", {"n": "1\n"})
    subprocess.run(["git", "clone", "-q", "--shared", repo.path, tmp_path / "clone"], check=True)
    alternates = tmp_path / "clone/.git/objects/info/alternates"
    alternates.write_text("../../../repo/.git/objects\n")
    repository = Repository.discover(str(tmp_path / "clone"))
    with scratch_objects(repository) as env:
        assert mergetree.merge(repository, one, f"{one}~", env=env).clean


def test_without_memory_to_spare_the_scratch_objects_go_where_temporary_files_go(repo, monkeypatch):
    monkeypatch.setattr(mergetree, "_ROOM", 1 << 62)
    monkeypatch.setattr(tempfile, "tempdir", None)  # forget the answer of an earlier test
    with scratch_objects(Repository.discover(str(repo.path))) as env:
        assert env["GIT_OBJECT_DIRECTORY"].startswith(os.environ["TMPDIR"])
