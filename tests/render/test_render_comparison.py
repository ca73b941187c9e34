"""The parts of a comparison as text."""

from __future__ import annotations

import pytest

from git_parallel.integrate.compare import Kinship
from git_parallel.render.comparison import letters, relation

A, B, LINK = ("100644", "a" * 40), ("100644", "b" * 40), ("120000", "a" * 40)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([A, A, A], "aaa"),
        ([A, B, A], "aba"),
        ([B, A, B], "aba"),
        ([None, A, None], "xax"),
        ([".", A, "."], ".a."),
        ([A, LINK, ".", None], "ab.x"),
    ],
)
def test_the_same_content_has_the_same_letter(versions, expected):
    assert "".join(letters(versions)) == expected


def test_no_letter_stands_for_two_things_however_many_versions_there_are():
    versions = [("100644", f"{number:040}") for number in range(60)]
    found = letters([*versions, None, "."])
    assert len(set(found)) == 62


def test_a_relation_leaves_out_what_is_nought_but_for_the_files_in_common():
    commits = {"=": 1, "!": 0, "<": 2, ">": 0}
    assert relation(Kinship(2, 0, (0, 3), commits), ("1", "2")) == (
        "files: 2 alike, 0 different, 3 only in 2; commits: 1 alike, 2 only in 1"
    )
    nothing = dict.fromkeys("=!<>", 0)
    assert relation(Kinship(0, 0, (0, 0), nothing), ("1", "2")) == "files: 0 alike, 0 different"
