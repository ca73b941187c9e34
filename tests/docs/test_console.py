"""The harness itself: what it takes for a command, and what it lets differ."""

from __future__ import annotations

import console
import pytest

DOCUMENT = """text

```console
$ echo one
one
$ printf '%s\\n' \\
>   two
two
```
<!-- not run: it needs a model -->
```console
$ git parallel "fix it"
```
```sh
$ not a console block
```
"""


def test_blocks_of_markdown():
    first, second = console.markdown(DOCUMENT)
    assert (first.run, second.run) == (True, False)
    assert [(command.text, command.output) for command in first.commands] == [
        ("echo one", ["one"]),
        ("printf '%s\\n' \\\n  two", ["two"]),
    ]


def test_blocks_of_a_manual_page():
    page = '.\\" run\n.Bd -literal -offset indent\n$ echo \\(dqa\\(dq \\e\n    b\n\\&...\n.Ed\n.Bd -literal\n$ c\n.Ed\n'
    first, second = console.manual(page)
    assert (first.run, second.run) == (True, False)
    assert (first.commands[0].text, first.commands[0].output) == ('echo "a" \\\n    b', ["..."])


def test_one_shell_runs_all_commands(tmp_path):
    texts = ["mkdir there && cd there", "x=1", 'echo "$x in $(basename "$PWD")"; echo problem >&2', "false   # exits 1"]
    ran = console.execute([console.Command(1, text) for text in texts], tmp_path, {})
    assert [(one.output, one.exit_code) for one in ran] == [
        ("", 0),
        ("", 0),
        ("1 in there\nproblem\n", 0),
        ("", 1),
    ]


def test_an_exit_in_the_middle_is_a_problem_of_the_rest(tmp_path):
    commands = [console.Command(1, "exit 3"), console.Command(2, "true")]
    assert [one.exit_code for one in console.execute(commands, tmp_path, {})] == [None, None]


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("", ""),
        ("run 20261129T165000Z-7f3a", "run 20270101T000000Z-0000\n"),
        ("[1] success (0.4s)  1 file", "[1] success (1m04s)   1 file\n"),
        ("at 1a2b3c4, <0.1s", "at ffffffffffff, 12s\n"),
        ("first\n...\nlast", "first\nlast\n"),
        ("first\n...\nlast", "first\na\nb\nlast\n"),
        ("worker ... ended", "worker 2 (model a) ended\n"),
        ("...", ""),
        ("Date:   Sun Nov 29 19:11:23 2026 +0000", "Date:   Mon Nov 30 01:02:03 2026 +0000\n"),
        ("ended 3 minutes ago", "ended just now\n"),
    ],
)
def test_outputs_that_match(expected, output):
    assert console.matches(expected.splitlines(), output)


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("", "something\n"),
        ("something", ""),
        ("2 success", "3 success\n"),
        ("first\n...\nlast", "first\nlast\nmore\n"),
        ("1 file", "1 file, 2 more\n"),
    ],
)
def test_outputs_that_do_not_match(expected, output):
    assert not console.matches(expected.splitlines(), output)


def test_lines_in_any_order():
    assert console.matches(["a", "b"], "b\na\n", any_order=True)
    assert not console.matches(["a", "b"], "b\na\n")
    assert not console.matches(["a", "b"], "b\na\na\n", any_order=True)
    assert not console.matches(["a", "b"], "b\n", any_order=True)
    assert console.matches(["b", "..."], "a\nb\n", any_order=True)
    assert not console.matches(["b", "..."], "a\n", any_order=True)
    (block,) = console.markdown("<!-- any order -->\n```console\n$ x\n```\n")
    assert block.commands[0].any_order


def test_a_wrong_exit_code_is_a_problem():
    assert console.problem(console.Command(1, "x"), console.Ran("", 1)) is not None
    assert console.problem(console.Command(1, "x  # exits 1"), console.Ran("", 1)) is None


def test_the_real_output_is_put_in():
    (block, _) = console.markdown(DOCUMENT)
    new = console.updated(DOCUMENT, [(block.commands[0], console.Ran("eins\nzwei\n", 0))])
    assert new == DOCUMENT.replace("one\none\n", "one\neins\nzwei\n")
