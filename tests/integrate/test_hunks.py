"""Hunks: what is chosen, and nothing else, is what ``git apply`` makes of the base."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from repository import Repo

from git_parallel.git import Repository
from git_parallel.integrate import hunks

NUMBERS = [f"{number}\n" for number in range(1, 21)]


def tree_after(repo: Repo, before: str, files, chosen) -> str:
    """The tree that the patch of these pieces makes of ``before``."""
    with tempfile.TemporaryDirectory() as scratch:
        env = {**os.environ, "GIT_INDEX_FILE": f"{scratch}/index"}
        subprocess.run(["git", "read-tree", before], cwd=repo.path, env=env, check=True)
        made = hunks.patch(files, chosen)
        if made:
            apply = ["git", "apply", "--cached", "--whitespace=nowarn", "-"]
            done = subprocess.run(apply, cwd=repo.path, env=env, input=made, capture_output=True, check=False)
            assert done.returncode == 0, (done.stderr, made)
        done = subprocess.run(["git", "write-tree"], cwd=repo.path, env=env, capture_output=True, check=True)
    return done.stdout.decode().strip()


def content(repo: Repo, tree: str, path: str) -> bytes:
    return subprocess.run(
        ["git", "cat-file", "blob", f"{tree}:{path}"], cwd=repo.path, capture_output=True, check=True
    ).stdout


def change(repo: Repo, make) -> tuple[str, str, list[hunks.FileChange]]:
    """Commit what ``make`` does; return the commits before and after, and the change between them."""
    repo.git("add", "-A")
    repo.git("commit", "-q", "--allow-empty", "-m", "before")
    before = repo.git("rev-parse", "HEAD")
    make()
    after = repo.commit("after")
    return before, after, hunks.read(Repository.discover(str(repo.path)), before, after)


def everything(files) -> list[hunks.Piece]:
    return list(hunks.choose(files).pieces)


def answered(files, keys: str) -> hunks.Choice:
    choice = hunks.choose(files)
    for key in keys:
        choice, _ = hunks.answer(choice, key)
    return choice


def test_two_hunks_of_a_file_are_taken_apart(repo):
    repo.write("n", "".join(NUMBERS))
    before, _, files = change(repo, lambda: repo.write("n", "".join(["one\n", *NUMBERS[1:-1], "twenty\n"])))
    assert [len(file.hunks) for file in files] == [2]

    second = answered(files, "ny")
    assert second.over
    assert content(repo, tree_after(repo, before, files, second.chosen), "n") == (
        "".join([*NUMBERS[:-1], "twenty\n"]).encode()
    )
    first = answered(files, "yn")
    assert content(repo, tree_after(repo, before, files, first.chosen), "n") == (
        "".join(["one\n", *NUMBERS[1:]]).encode()
    )


def test_a_hunk_finds_its_place_whether_or_not_the_one_that_moves_it_is_taken(repo):
    same = ["x\n"] * 60  # every place looks alike: only the numbers tell
    repo.write("n", "".join(same))

    def make():
        repo.write("n", "".join([*["new\n"] * 7, *same[:40], "here\n", *same[40:]]))

    before, after, files = change(repo, make)
    done = content(repo, tree_after(repo, before, files, answered(files, "ny").chosen), "n")
    assert done == "".join([*same[:40], "here\n", *same[40:]]).encode()
    both = content(repo, tree_after(repo, before, files, answered(files, "yy").chosen), "n")
    assert both == content(repo, after, "n")


def test_a_hunk_is_split_where_unchanged_lines_part_it(repo):
    repo.write("n", "".join(NUMBERS[:5]))
    before, _, files = change(repo, lambda: repo.write("n", "1\ntwo\n3\nfour\n5\nsix\n"))
    choice, outcome = hunks.answer(hunks.choose(files), "s")
    assert outcome == "split"
    assert [hunks.shown(files, piece) for piece in choice.pieces] == [
        [b"@@ -1,3 +1,3 @@", b" 1", b"-2", b"+two", b" 3"],
        [b"@@ -3,3 +3,3 @@", b" 3", b"-4", b"+four", b" 5"],
        [b"@@ -5,1 +5,2 @@", b" 5", b"+six"],
    ]
    for keys, expected in {
        "syny": "1\ntwo\n3\n4\n5\nsix\n",
        "snyn": "1\n2\n3\nfour\n5\n",
        "snny": "1\n2\n3\n4\n5\nsix\n",
        "sya": "1\ntwo\n3\nfour\n5\nsix\n",
        "syd": "1\ntwo\n3\n4\n5\n",
        "syq": "1\ntwo\n3\n4\n5\n",
    }.items():
        chosen = answered(files, keys)
        assert chosen.over, keys
        assert content(repo, tree_after(repo, before, files, chosen.chosen), "n").decode() == expected, keys


def test_one_stretch_of_changes_cannot_be_split(repo):
    repo.write("n", "1\n2\n")
    _, _, files = change(repo, lambda: repo.write("n", "1\ntwo\n"))
    choice = hunks.choose(files)
    assert hunks.answer(choice, "s") == (choice, "whole")
    assert hunks.answer(choice, "?") == (choice, "help")
    assert hunks.answer(choice, "z") == (choice, "unknown")


def test_a_and_d_end_with_the_file_and_q_with_everything(repo):
    for name in "abc":
        repo.write(name, "".join(NUMBERS))

    def make():
        for name in "abc":
            repo.write(name, "".join(["one\n", *NUMBERS[1:-1], "twenty\n"]))

    _, _, files = change(repo, make)
    taken = answered(files, "adyn").taken
    assert taken == (True, True, False, False, True, False)
    assert answered(files, "yq").taken == (True, False, False, False, False, False)
    assert answered(files, "q").chosen == []


def test_a_missing_newline_at_the_end_is_kept_or_made_as_chosen(repo):
    repo.write("n", "1\n2\n3\n4\n5\n6\n7\n8\n9\nend")
    before, _, files = change(repo, lambda: repo.write("n", "one\n2\n3\n4\n5\n6\n7\n8\n9\nend\nmore\n"))
    for keys, expected in {
        "yn": b"one\n2\n3\n4\n5\n6\n7\n8\n9\nend",
        "ny": b"1\n2\n3\n4\n5\n6\n7\n8\n9\nend\nmore\n",
        "yy": b"one\n2\n3\n4\n5\n6\n7\n8\n9\nend\nmore\n",
    }.items():
        assert content(repo, tree_after(repo, before, files, answered(files, keys).chosen), "n") == expected


def test_split_at_the_end_of_a_file_without_newline(repo):
    repo.write("n", "1\n2\nend\n")
    before, _, files = change(repo, lambda: repo.write("n", "one\n2\nend"))
    assert content(repo, tree_after(repo, before, files, answered(files, "syn").chosen), "n") == b"one\n2\nend\n"
    assert content(repo, tree_after(repo, before, files, answered(files, "sny").chosen), "n") == b"1\n2\nend"


def test_files_that_come_and_go_are_taken_as_a_whole(repo):
    repo.write("gone", "old\n")
    repo.write("stays", "here\n")

    def make():
        (repo.path / "gone").unlink()
        (repo.path / "stays").unlink()
        repo.write("empty", "")
        repo.write("new/file", "a\nb\n")
        repo.write("unwanted", "x\n")

    before, _, files = change(repo, make)
    choice = hunks.choose(files)
    assert [piece.kind for piece in choice.pieces] == ["whole"] * 5
    wanted = [piece for piece in choice.pieces if files[piece.file].path in ("gone", "empty", "new/file")]
    tree = tree_after(repo, before, files, wanted)
    names = repo.git("ls-tree", "-r", "--name-only", tree).split()
    assert names == ["README", "empty", "new/file", "src/a.txt", "stays"]
    assert content(repo, tree, "empty") == b""


def test_a_mode_is_chosen_apart_from_the_lines(repo):
    path = repo.write("run", "".join(NUMBERS))

    def make():
        repo.write("run", "".join(["one\n", *NUMBERS[1:]]))
        path.chmod(0o755)

    before, after, files = change(repo, make)
    assert [piece.kind for piece in everything(files)] == ["mode", "hunk"]
    only_mode = tree_after(repo, before, files, answered(files, "yn").chosen)
    assert repo.git("ls-tree", only_mode, "run").split()[:3:2] == [
        "100755",
        repo.git("rev-parse", f"{before}:run"),
    ]
    only_lines = tree_after(repo, before, files, answered(files, "ny").chosen)
    assert repo.git("ls-tree", only_lines, "run").split()[:3:2] == ["100644", repo.git("rev-parse", f"{after}:run")]
    assert tree_after(repo, before, files, everything(files)) == repo.git("rev-parse", f"{after}^{{tree}}")


def test_a_mode_alone(repo):
    path = repo.write("run", "x\n")
    before, after, files = change(repo, lambda: path.chmod(0o755))
    assert [piece.kind for piece in everything(files)] == ["mode"]
    assert tree_after(repo, before, files, everything(files)) == repo.git("rev-parse", f"{after}^{{tree}}")


def test_binary_files_symlinks_and_submodules(repo, make_repo):
    repo.write("image", bytes(range(256)))
    repo.write("becomes-link", "text\n")
    inner = make_repo("inner")
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "module")

    def make():
        repo.write("image", bytes(reversed(range(256))))
        (repo.path / "becomes-link").unlink()
        (repo.path / "becomes-link").symlink_to("README")
        module = Repo(repo.path / "module")
        module.commit("next", {"x": "y\n"})

    before, after, files = change(repo, make)
    assert [(file.path, file.whole) for file in files] == [("becomes-link", True), ("image", True), ("module", True)]
    for index, file in enumerate(files):
        tree = tree_after(repo, before, files, [hunks.Piece("whole", index)])
        changed = repo.git("diff-tree", "-r", "--name-only", before, tree).split()
        assert changed == [file.path]
        assert repo.git("ls-tree", tree, file.path) == repo.git("ls-tree", after, file.path)


HOSTILE = [
    "new\nline",
    'quo"te',
    "tab\there",
    "back\\slash",
    "\x1b[31mred",
    " lead and trail ",
    "a b/a b",
    "ü",
    "-x",
    "b/x",
]


def test_hostile_names_are_read_and_applied(repo):
    for name in HOSTILE:
        repo.write(name, "".join(NUMBERS))

    def make():
        for name in HOSTILE:
            path = repo.write(name, "".join(["one\n", *NUMBERS[1:-1], "last\n"]))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    before, after, files = change(repo, make)
    assert sorted(file.path for file in files) == sorted(HOSTILE)
    assert tree_after(repo, before, files, everything(files)) == repo.git("rev-parse", f"{after}^{{tree}}")


def test_the_persons_settings_of_diffs_do_not_reach_it(repo):
    for setting, value in {
        "diff.noprefix": "true",
        "diff.mnemonicPrefix": "true",
        "diff.context": "0",
        "diff.renames": "copies",
        "diff.external": "false",
        "diff.suppressBlankEmpty": "true",
        "color.diff": "always",
        "color.ui": "always",
        "diff.interHunkContext": "30",
        "diff.algorithm": "patience",
        "diff.submodule": "log",
        "core.quotePath": "false",
        "apply.whitespace": "fix",
    }.items():
        repo.git("config", setting, value)
    repo.write("n", "\n".join(["1", "", "3", "", "5"] * 6))
    repo.write("move me", "".join(NUMBERS))

    def make():
        repo.write("n", "\n".join(["1", "", "3", "", "five   "] * 6))
        (repo.path / "move me").rename(repo.path / "moved")

    before, after, files = change(repo, make)
    assert sorted(file.path for file in files) == ["move me", "moved", "n"]
    assert tree_after(repo, before, files, everything(files)) == repo.git("rev-parse", f"{after}^{{tree}}")


def test_carriage_returns_and_odd_bytes_survive(repo):
    repo.write("n", b"a\r\nb\r\n\xff\xfe\nc\x0bd\n\x0c\ne\n" + b"-- \n+++ x\n--- y\n@@ -1 +1 @@\n")
    before, after, files = change(
        repo, lambda: repo.write("n", b"a\r\nB\r\n\xff\xfd\nc\x0bd\n\x0c\ne\n" + b"+++ x\n@@ -1 +1 @@\n--- z\n")
    )
    assert tree_after(repo, before, files, everything(files)) == repo.git("rev-parse", f"{after}^{{tree}}")


@pytest.fixture(scope="module")
def playground(tmp_path_factory) -> Repo:
    path = tmp_path_factory.mktemp("hunks")
    subprocess.run(["git", "init", "-q"], cwd=path, check=True)
    return Repo(Path(path))


TEXT = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=14)


def spelled_out(old: bytes, files, wanted) -> bytes:
    """What the chosen groups make of a file's old content, by their line numbers alone."""
    lines = old.splitlines(keepends=True)
    edits: list[tuple[int, int, list[bytes]]] = []
    for piece in wanted:
        hunk = files[piece.file].hunks[piece.hunk]
        numbered = list(hunk.numbered())
        for group in (hunk.groups[number] for number in piece.groups):
            above = [line.old for line in numbered[: group.start] if line.old is not None]
            start = above[-1] if above else max(hunk.old - 1, 0)
            removed = sum(numbered[index].old is not None for index in group)
            added: list[bytes] = []
            for index in group:
                if numbered[index].new is not None:
                    added.append(numbered[index].text[1:] + b"\n")
                elif numbered[index].text[:1] == b"\\" and numbered[index - 1].new is not None:
                    added[-1] = added[-1][:-1]
            edits.append((start, start + removed, added))
    for start, stop, added in reversed(edits):
        lines[start:stop] = added
    return b"".join(lines)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=TEXT, new=TEXT, ends=st.tuples(st.booleans(), st.booleans()), data=st.data())
def test_taking_some_pieces_changes_what_they_say_and_nothing_else(playground, old, new, ends, data):
    playground.write("n", "\n".join(old) + ("\n" if ends[0] else ""))
    before, after, files = change(playground, lambda: playground.write("n", "\n".join(new) + ("\n" if ends[1] else "")))
    choice = hunks.choose(files)
    while not choice.over:
        choice, _ = hunks.answer(choice, "s")
        choice, _ = hunks.answer(choice, "y" if data.draw(st.booleans()) else "n")
    tree = tree_after(playground, before, files, choice.chosen)
    assert content(playground, tree, "n") == spelled_out(content(playground, before, "n"), files, choice.chosen)
    if len(choice.chosen) == len(choice.pieces):
        assert content(playground, tree, "n") == content(playground, after, "n")
