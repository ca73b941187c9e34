"""Comments below quoted lines of a diff: what stands where is about what. Pure but for git's diff."""

from __future__ import annotations

import pytest

from git_parallel.git import Repository
from git_parallel.integrate import hunks, verdicts
from git_parallel.integrate.review.comments import parse, quote, template
from git_parallel.integrate.verdicts import Comment


@pytest.fixture
def quoted(repo):
    repo.write("src/n", "".join(f"{number}\n" for number in range(1, 16)))
    repo.write("gone", "old\n")
    before = repo.commit("before")
    (repo.path / "gone").unlink()
    repo.write("image", b"\0\1\2")
    repo.write("src/n", "".join(f"{number}\n" for number in [1, "two", *range(3, 14), "fourteen", 15, "}", "}"]))
    after = repo.commit("after")
    return quote(hunks.read(Repository.discover(str(repo.path)), before, after))


def edited(quoted, *under: tuple[str, str], above: str = "") -> str:
    """The template with texts written below the first line that ends like this."""
    whole = template("worker 1", quoted, cut=False)
    for ending, said in under:
        line = next(line.text for line in quoted if line.text.endswith(ending))
        whole = whole.replace(f"{line}\n", f"{line}\n{said}\n", 1)
    return above + whole


def test_nothing_written_is_nothing(quoted):
    assert parse(template("worker 1", quoted, cut=True), quoted) == (None, [])


def test_what_stands_above_is_the_message_and_what_stands_below_a_line_is_about_it(quoted):
    text = edited(
        quoted,
        ("+two", "Why a word?\n\nThe others are numbers.\n"),
        ("-2", "this was right"),
        (" 15", "unchanged, but look"),
        above="All in all fine.\n\nTwo things:\n",
    )
    message, comments = parse(text, quoted)
    assert message == "All in all fine.\n\nTwo things:"
    assert comments == [
        Comment("this was right", "src/n", 2, "old"),
        Comment("Why a word?\n\nThe others are numbers.", "src/n", 2, "new"),
        Comment("unchanged, but look", "src/n", 15, "new"),
    ]
    assert [verdicts.where(comment) for comment in comments] == ["src/n:2 (old)", "src/n:2", "src/n:15"]


def test_a_file_and_a_hunk_can_be_meant(quoted):
    text = edited(
        quoted,
        ("diff --git a/gone b/gone", "keep it"),
        ("(a binary file)", "what is this?"),
        ("diff --git a/src/n b/src/n", "rename it"),
    )
    assert parse(text, quoted)[1] == [
        Comment("keep it", "gone"),
        Comment("what is this?", "image"),
        Comment("rename it", "src/n"),
    ]
    hunk = next(line for line in quoted if line.text.startswith("> @@") and line.anchor.line == 11)
    assert parse(f"x\n{hunk.text}\nthis part\n", quoted) == ("x", [Comment("this part", "src/n", 11, "new")])


def test_quoted_lines_may_be_deleted_and_blanks_at_their_ends(quoted):
    lines = {line.anchor.line: line for line in quoted if line.text.endswith("+}")}
    assert set(lines) == {16, 17}
    second = lines[17].text.rstrip() + "   "
    assert parse(f"{second}\none too many\n", quoted)[1] == [Comment("one too many", "src/n", 17, "new")]


def test_ignored_lines_and_a_quote_of_the_persons_own(quoted):
    message, comments = parse("# not this\nas they say:\n> nothing that was there\nwell\n", quoted)
    assert message == "as they say:\n> nothing that was there\nwell"
    assert comments == []


def test_only_so_much_is_quoted(repo):
    before = repo.commit("before", {"big": ""})
    after = repo.commit("after", {"big": "x\n" * 500})
    files = hunks.read(Repository.discover(str(repo.path)), before, after)
    assert len(quote(files, 100)) == 100
    assert "goes on" in template("worker 1", quote(files, 100), cut=True)


def test_a_name_with_a_newline_stays_on_its_line(repo):
    before = repo.git("rev-parse", "HEAD")
    after = repo.commit("after", {"a\nb> c": "x\n"})
    lines = quote(hunks.read(Repository.discover(str(repo.path)), before, after))
    assert all("\n" not in line.text for line in lines)
    message, comments = parse(f"{lines[-1].text}\nhere\n", lines)
    assert (message, comments) == (None, [Comment("here", "a\nb> c", 1, "new")])
    assert verdicts.where(comments[0]) == "a b> c:1"
