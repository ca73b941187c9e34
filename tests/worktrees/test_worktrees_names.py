"""Templates, slugs and branch names: what git and file systems take."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from git_parallel.errors import UsageError
from git_parallel.worktrees.names import Template, branch_fault, field_values, path_fault, plain, slug


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fix the login test", "fix-the-login-test"),
        ("  --Über/Größe: 100%!  ", "uber-groe-100"),
        ("openai/gpt-4.1", "openai-gpt-4-1"),
        ("修复登录", "task"),
        ("🚀", "task"),
        ("", "task"),
        ("../../etc/passwd\n", "etc-passwd"),
        ("a" * 39 + " b", "a" * 39),
        ("x" * 100, "x" * 40),
    ],
)
def test_a_slug_is_short_ascii_and_never_empty(text, expected):
    assert slug(text, "task") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My.Repo", "My.Repo"),
        ("20261129T165000Z-7f3a", "20261129T165000Z-7f3a"),
        (".hidden", "hidden"),
        ("a..b/c", "a.b-c"),
        ("x.lock", "x.lock-"),
        ("répo", "r-po"),
        ("...", "repo"),
    ],
)
def test_a_plain_name_stays_recognisable(text, expected):
    assert plain(text, "repo") == expected


@given(st.text())
@example("refs")
@example("HEAD.lock")
@settings(max_examples=100, deadline=None)
def test_whatever_a_task_says_its_branch_is_valid(text):
    names = field_values({"run": text, "task": text, "model": text, "repo": text})
    template = Template.parse("{run}/{task}/{model}/{repo}/{n}", "parallel.branch")
    assert branch_fault(template.render(1, names)) is None


# Names built from the pieces that git's rules are about, with ordinary letters between them.
_PIECES = ["a", "B", "é", ".", "..", "/", "//", "-", "@", "@{", "{", "}", ".lock", "~", "^", ":", "?", "*", "["]
_PIECES += ["]", "\\", " ", "\t", "\x7f", "HEAD", "lock", "'", '"', "\n"]


@given(st.lists(st.sampled_from(_PIECES), min_size=1, max_size=5).map("".join))
@settings(max_examples=120, deadline=None)
def test_branch_names_are_judged_as_git_judges_them(name):
    done = subprocess.run(["git", "check-ref-format", "--branch", name], capture_output=True, check=False)
    # `@{-1}` and its like are expanded by git; we take no name that means another.
    assert (branch_fault(name) is None) == (done.returncode == 0), done.stdout


@pytest.mark.parametrize("name", ["", "a" * 251, "x/" + "é" * 126])
def test_names_that_git_would_only_fail_on_later_are_refused_now(name):
    assert branch_fault(name)


def test_a_template_is_rendered_with_its_fields():
    template = Template.parse("{{x}}/{run}-{task}/{n}", "parallel.branch")
    values = {"run": "r", "task": "t", "model": "m", "repo": "p"}
    assert template.render(7, values) == "{x}/r-t/7"
    assert [prefix.render(7, values) for prefix in template.prefixes()] == ["{x}", "{x}/r-t", "{x}/r-t/7"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("architect/parallel", "no {n}"),
        ("a/{{n}}", "no {n}"),
        ("a/{n", "expected '}'"),
        ("a/n}", "single '}'"),
        ("a/{n:03}", "no format"),
        ("a/{n!r}", "no format"),
        ("a/{}-{n}", "unknown field {}"),
        ("a/{n.x}", "unknown field {n.x}"),
        ("", "no {n}"),
        ("a\0{n}", "nul"),
        ("refs/heads/{n}", "short name"),
    ],
)
def test_a_wrong_template_is_a_usage_error_with_its_reason(source, words):
    with pytest.raises(UsageError) as caught:
        Template.parse(source, "parallel.branch")
    assert words in caught.value.message.lower()
    assert "parallel.branch" in caught.value.message
    assert caught.value.exit_code == 2


def test_an_unknown_field_names_the_nearest():
    with pytest.raises(UsageError) as caught:
        Template.parse("a/{modle}-{n}", "parallel.branch")
    assert caught.value.hints[0] == "did you mean {model}?"
    assert "{run}" in caught.value.hints[-1]


def test_a_path_component_longer_than_a_file_name_is_refused():
    assert path_fault("/x/" + "a" * 256)
    assert path_fault("/x/" + "a" * 255) is None
