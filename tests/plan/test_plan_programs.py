"""Programs of the person's own file, and of the project's on top of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from git_parallel.agents import preset
from git_parallel.errors import UsageError
from git_parallel.plan import configfile, programs


def write(path: str | Path, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def loaded(top: Path, personal: str = "", project: str = "") -> programs.Programs:
    if personal:
        write(configfile.personal_file(), personal)
    write(top / ".git-parallel.yaml", project)
    return programs.load(yaml.safe_load(project) or {}, str(top))


def test_without_any_file_there_are_the_built_in_ones(tmp_path) -> None:
    known = programs.load({}, None)
    assert (known.agents, known.prices, known.project) == ({}, {}, frozenset())


def test_the_persons_file_is_where_git_would_look(tmp_path, monkeypatch) -> None:
    assert configfile.personal_file() == os.path.expanduser("~/.config/git-parallel/config.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert configfile.personal_file() == str(tmp_path / "xdg/git-parallel/config.yaml")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert configfile.personal_file() == os.path.expanduser("~/.config/git-parallel/config.yaml")


def test_the_project_adds_to_what_the_person_says_and_both_to_ours(tmp_path) -> None:
    known = loaded(
        tmp_path,
        "agents:\n  claude:\n    options: {max_steps: null, model: [-m, '{model}']}\n    env: {MINE: '1'}\n"
        "  own: {extends: codex, command: [own]}\nprices: {a: {input: 1, output: 2}, b: {input: 1, output: 2}}\n",
        "agents:\n  claude: {env: {THEIRS: '2'}, stop: [TERM]}\n  other: {extends: own, about: theirs}\n"
        "prices: {b: {input: 3, output: 4}}\n",
    )
    claude = preset.load("claude", known.agents, known.locate)
    assert claude.env == {"MINE": "1", "THEIRS": "2"}
    assert (claude.options["model"], claude.stop) == (("-m", "{model}"), ("TERM",))
    assert "max_steps" not in claude.options
    assert "budget" in claude.options
    other = preset.load("other", known.agents, known.locate)
    assert (other.command, other.about, other.output) == (("own",), "theirs", "codex")
    assert known.project == {"claude", "other"}
    assert known.prices == {"a": {"input": 1, "output": 2}, "b": {"input": 3, "output": 4}}


def test_an_entry_that_says_what_it_extends_starts_from_there(tmp_path) -> None:
    known = loaded(
        tmp_path,
        "agents: {claude: {env: {MINE: '1'}}, x: {command: [x]}}\n",
        "agents: {claude: {extends: codex}, x: {extends: claude}}\n",
    )
    assert preset.load("claude", known.agents).output == "codex"
    assert preset.load("x", known.agents).output == "codex"


@pytest.mark.parametrize(
    ("personal", "project", "message", "hint"),
    [
        ("agents:\n  x:\n    comand: [x]\n", "", "~/.config/git-parallel/config.yaml:3: .*'comand'", "'command'"),
        ("agents:\n  x: {command: [x]}\n", "agents:\n  x:\n    stop: [KIL]\n", ".git-parallel.yaml:3: .*'KIL'", "INT"),
        ("agents:\n  x:\n    stop: [KIL]\n", "agents:\n  x: {command: [x]}\n", "~/.*:3: .*'KIL'", "INT"),
    ],
)
def test_a_mistake_is_found_in_its_file(tmp_path, personal, project, message, hint) -> None:
    known = loaded(tmp_path, personal, project)
    with pytest.raises(UsageError) as caught:
        preset.load("x", known.agents, known.locate)
    assert re.match(message, caught.value.message)
    assert hint in caught.value.hints[0]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("agnets: {}\n", "1:1", "unknown section 'agnets'", "did you mean 'agents:'?"),
        ("parallel: {workers: 3}\n", "1:1", "settings do not belong here", "use git: git config --global"),
        ("a: 1\nworkers: 3\n", "1:1", "unknown section 'a'", "sections: agents, prices"),
        ("agents: [\n", "2:1", "expected", None),
    ],
)
def test_what_the_persons_file_cannot_hold_is_refused(tmp_path, text, place, message, hint) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(tmp_path, text)
    assert caught.value.message.startswith(f"~/.config/git-parallel/config.yaml:{place}: ")
    assert message in caught.value.message
    assert hint is None or caught.value.hints[0].startswith(hint)


@pytest.mark.parametrize("section", ["agents: [x]", "prices: 3"])
def test_a_section_holds_names_and_values(tmp_path, section) -> None:
    with pytest.raises(UsageError, match="must hold 'name: value' lines"):
        loaded(tmp_path, section + "\n")
    os.unlink(configfile.personal_file())
    with pytest.raises(UsageError, match="must hold 'name: value' lines"):
        loaded(tmp_path, "", section + "\n")


def test_a_program_of_ones_own_works_without_approval_and_a_project_cannot_use_its_name_for_another(repo) -> None:
    write(
        configfile.personal_file(),
        "agents: {mine: {command: [sh, -c, 'cat > out'], version: {probe: [-c, 'echo 1.2']}}}\n",
    )
    listed = repo.parallel("agents").stdout
    assert next(line for line in listed.splitlines() if line.startswith("mine")).split()[1] == "1.2"
    done = repo.parallel("run", "--quiet", "--program", "mine", "words")
    assert done.returncode == 0, done.stderr
    assert repo.git("show", "architect/parallel-1:out") == "words"
    repo.commit("theirs", {".git-parallel.yaml": "agents: {mine: {command: [sh, -c, 'touch evil']}}\n"})
    done = repo.parallel("run", "--quiet", "--program", "mine", "words")
    assert done.returncode != 0
    assert "evil" in done.stderr
    listed = repo.parallel("agents").stdout
    assert next(line for line in listed.splitlines() if line.startswith("mine")).split()[1] == "installed"
