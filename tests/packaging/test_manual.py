"""The manual pages: clean mdoc, and in step with the commands, options and settings they describe."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import click
import pytest

from git_parallel.cli import COMMANDS, git_parallel
from git_parallel.plan.settings import SETTINGS

MANUAL = Path(__file__).parents[2] / "man"
PAGES = sorted(path.name for path in MANUAL.iterdir())


def section(page: str, title: str) -> str:
    """The source of one section; empty when the page has none."""
    text = (MANUAL / page).read_text()
    found = re.search(rf"^\.Sh {re.escape(title)}\n(.*?)(?=^\.Sh |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def test_there_is_one_page_for_each_command():
    assert sorted(PAGES) == sorted(["git-parallel.1", *(f"git-parallel-{name}.1" for name in COMMANDS)])


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_clean(page):
    done = subprocess.run(
        ["mandoc", "-Tlint", "-W", "warning", MANUAL / page], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_pages_that_exist(page):
    own = re.findall(r"^\.Xr (git-parallel\S*) 1", (MANUAL / page).read_text(), re.MULTILINE)
    assert own
    assert [f"{name}.1" for name in own if f"{name}.1" not in PAGES] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_exactly_the_options_of_its_command(command):
    written = {}
    for line in re.findall(r"^\.It (Fl .*)", section(f"git-parallel-{command}.1", "OPTIONS"), re.MULTILINE):
        names = frozenset(f"-{name}" for name in re.findall(r"Fl (\S+)", line))
        written[names] = "Ar " in line.replace("Ns Op = Ns Ar", "")
    context = click.Context(git_parallel, info_name="git parallel")
    found = git_parallel.get_command(context, command)
    assert found is not None
    real = {
        frozenset(option.opts): not (option.is_flag or option.count)
        for option in found.params
        if isinstance(option, click.Option) and not option.hidden
    }
    assert written == real


@pytest.mark.parametrize("command", COMMANDS)
def test_the_synopsis_names_only_options_of_the_command(command):
    page = f"git-parallel-{command}.1"
    described = set(re.findall(r"Fl (-?[a-z-]+)", "\n".join(re.findall(r"^\.It (.*)", section(page, "OPTIONS"), re.M))))
    assert set(re.findall(r"Fl (-?[a-z][a-z-]*)", section(page, "SYNOPSIS"))) <= described


def test_the_overview_lists_exactly_the_commands():
    assert re.findall(r"^\.It Cm (\S+)", section("git-parallel.1", "COMMANDS"), re.MULTILINE) == list(COMMANDS)


def test_the_overview_has_exactly_the_settings_with_their_defaults():
    text = section("git-parallel.1", "CONFIGURATION")
    written = {}
    for item in text.split(".It Cm ")[1:]:
        default = re.search(r"^Default: (.*)\.$", item, re.MULTILINE)
        written[item.split("\n", 1)[0]] = default[1] if default else None
    real = {setting.git_key: ", ".join(setting.show(setting.default)) or None for setting in SETTINGS}
    assert written == real
