# ruff: noqa: E501 (one case, one line)
"""Presets: the built-in ones, those of the configuration, own command lines, and every wrong word in them."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
import yaml

from git_parallel.agents import launch, preset
from git_parallel.agents.locate import in_files
from git_parallel.agents.preset import find, known_programs, load, names
from git_parallel.agents.readers import reader_for
from git_parallel.errors import UsageError


@pytest.mark.parametrize("name", names({}))
def test_every_built_in_preset_that_is_complete_loads_and_has_a_reader(name):
    data = preset.read(preset.file_of(name))
    if name == "command":
        data["command"] = ["prog"]
    loaded = load(name, {name: data})
    assert loaded.about
    assert reader_for(loaded).progress.step is None


def test_the_first_presets_are_there():
    assert {"shell", "command", "architect"} <= set(names({}))


@pytest.mark.parametrize("name", ["shell", "command"])
def test_a_preset_written_as_json_says_the_same_when_read_as_yaml(name):
    file = preset.file_of(name)
    with open(file, "rb") as stream:
        assert yaml.safe_load(stream) == preset.read(file)


def test_the_presets_that_need_no_model_do_not_load_the_yaml_library():
    code = (
        "import sys; from git_parallel.agents import preset, launch, readers;"
        "readers.reader_for(preset.load('shell', {})); preset.find('prog {task}', {});"
        "print([m for m in ('yaml', 'json', 'shutil', 'difflib', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import site; site.main(); {code}"], check=True, capture_output=True
    )
    assert (done.stdout.decode().strip(), done.stderr.decode()) == ("[]", "")


def test_shell_says_what_125_and_127_mean():
    exits = load("shell", {}).exits
    assert (exits[125].outcome, exits[127].outcome) == ("unknown", "stop_run")


def test_architect_can_be_told_every_limit_and_parts_its_data_from_its_messages():
    architect = load("architect", {})
    assert architect.caps == {"budget", "timeout", "max_steps"}
    assert (architect.stderr, architect.money, architect.leaves) == ("separate", "reported", (".architect/",))
    assert load("shell", {}).caps == frozenset()


def test_names_that_people_give_to_programs_are_known_before_they_have_a_preset():
    assert {"claude", "codex", "opencode", "gemini", "aider", "architect", "shell", "command"} <= known_programs()
    assert not {"build", "plan", "review"} & known_programs()


# The configuration's own.


def test_an_entry_of_a_new_name_stands_alone():
    mine = load("mine", {"mine": {"command": ["mine", "--go"], "exits": {9: {"outcome": "partial", "reason": "x"}}}})
    assert (mine.name, mine.command, mine.channels) == ("mine", ("mine", "--go"), {"stdin": ()})
    assert mine.exits[9].outcome == "partial"
    assert names({"mine": {}}) == sorted(["mine", *names({})])


def test_exit_codes_may_be_written_as_text():
    assert (
        load("m", {"m": {"command": ["m"], "exits": {"9": {"outcome": "done", "reason": "x"}}}}).exits[9].reason == "x"
    )


def test_an_entry_of_our_name_starts_from_ours_and_null_takes_away():
    extra = {"architect": {"env": {"A": "1"}, "options": {"role": None}, "command": ["/opt/architect", "run"]}}
    changed, ours = load("architect", extra), load("architect", {})
    assert changed.env == {"LITELLM_LOG": "ERROR", "A": "1"}
    assert changed.command == ("/opt/architect", "run")
    assert [key for key in ours.options if key != "role"] == list(changed.options)
    assert (changed.output, changed.prompt) == (ours.output, ours.prompt)


def test_extends_names_another_entry_and_null_starts_from_nothing():
    extra = {
        "fast": {"extends": "base", "env": {"B": "2"}},
        "base": {"extends": "shell", "env": {"A": "1"}},
        "shell": {"extends": None, "command": ["zsh"]},
    }
    fast = load("fast", extra)
    assert (fast.name, fast.command, fast.env, fast.exits) == ("fast", ("zsh",), {"A": "1", "B": "2"}, {})


WRONG = [
    ({"comand": ["x"]}, "agents.mine.comand: unknown key 'comand'", "did you mean 'command'?"),
    ({}, "agents.mine.command: the program's command line is empty", None),
    ({"command": "x"}, "agents.mine.command: expected a list, got a text", None),
    ({"command": ["x", 1]}, "agents.mine.command.1: expected a text, got a number", None),
    ({"command": ["{task}"]}, "agents.mine.command: the program's name cannot be {task}", None),
    ({"command": ["x", "{modle}"]}, "agents.mine.command: there is no field {modle}", "did you mean 'model'?"),
    ({"command": ["x"], "options": {"modle": []}}, "agents.mine.options.modle: 'modle' is not valid here", "did you mean 'model'?"),
    ({"command": ["x"], "options": {"model": ["{modl}"]}}, "agents.mine.options.model: there is no field {modl}", "did you mean 'model'?"),
    ({"command": ["x"], "env": {"A": 1}}, "agents.mine.env: expected a text or nothing, got a number", None),
    ({"command": ["x"], "env": {"A": "{rol}"}}, "agents.mine.env.A: there is no field {rol}", "did you mean 'role'?"),
    ({"command": ["x"], "exits": {1: {"outcome": "dun", "reason": ""}}}, "agents.mine.exits.outcome: 'dun' is not valid here", None),
    ({"command": ["x"], "exits": {1: {"reason": ""}}}, "agents.mine.exits: 'outcome' is missing", None),
    ({"command": ["x"], "exits": {"one": {}}}, "agents.mine.exits: expected a number, got a text", None),
    ({"command": ["x"], "stderr": "merg"}, "agents.mine.stderr: 'merg' is not valid here", "did you mean 'merge'?"),
    ({"command": ["x"], "stop": ["KIL"]}, "agents.mine.stop.0: 'KIL' is not valid here", "it can be INT, TERM, HUP, QUIT"),
    ({"command": ["x"], "output": "plian"}, "agents.mine.output: no reader 'plian'", "did you mean 'plain'?"),
    ({"command": ["x"], "version": {"prob": []}}, "agents.mine.version.prob: unknown key 'prob'", "did you mean 'probe'?"),
    ({"command": ["x"], "prompt": {"std": []}}, "agents.mine.prompt.std: 'std' is not valid here", "did you mean 'stdin'?"),
    ({"command": ["x"], "prompt": {"argv": ["-m"]}}, "agents.mine.prompt.argv: {task} is not in it", None),
    ({"command": ["x"], "prompt": {"file": ["-m"]}}, "agents.mine.prompt.file: {task_file} is not in it", None),
    ({"command": ["x", "{task}"], "prompt": {"stdin": []}}, "agents.mine.prompt: 'command' says already where the task goes", None),
    ({"command": ["x"], "name": "y"}, "agents.mine.name: unknown key 'name'", None),
    ({"command": ["x"], "interactive": {"comand": []}}, "agents.mine.interactive.comand: unknown key 'comand'", "did you mean 'command'?"),
    ({"command": ["x"], "interactive": {"about": "x"}}, "agents.mine.interactive.about: unknown key 'about'", None),
    ({"command": ["x"], "interactive": ["x"]}, "agents.mine.interactive: expected a map or nothing, got a list", None),
    ({"command": ["x"], "interactive": {"command": []}}, "agents.mine.interactive.command: the program's command line is empty", None),
    ({"command": ["x"], "interactive": {"output": "plian"}}, "agents.mine.interactive.output: no reader 'plian'", "did you mean 'plain'?"),
    ({"command": ["x"], "interactive": {"stop": ["KIL"]}}, "agents.mine.interactive.stop.0: 'KIL' is not valid here", "it can be INT, TERM, HUP, QUIT"),
    ({"command": ["x"], "interactive": {"prompt": {"argv": ["-m"]}}}, "agents.mine.interactive.prompt.argv: {task} is not in it", None),
    ({"command": ["x"], "interactive": {"options": {"model": ["{modle}"]}}}, "agents.mine.interactive.options.model: there is no field {modle}", "did you mean 'model'?"),
    ({"command": ["x", "{task}"], "interactive": {"prompt": {"stdin": []}}}, "agents.mine.interactive.prompt: 'command' says already where the task goes", None),
    ({"extends": "archtect"}, "agents.mine.extends: unknown program 'archtect'", "did you mean 'architect'?"),
    ({"extends": "mine"}, "agents.mine.extends: 'mine' extends itself", None),
    ({"extends": 3}, "agents.mine.extends: expected the name of a program, got a number", None),
    (["x"], "agents.mine: expected a map, got a list", None),
    (None, "agents.mine: expected a map, got nothing", None),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "message", "hint"), WRONG, ids=[message for _, message, _ in WRONG])
def test_a_wrong_entry_is_an_error_with_its_place_and_the_nearest_word(entry, message, hint):
    with pytest.raises(UsageError) as raised:
        load("mine", {"mine": entry})
    assert raised.value.message == f".git-parallel.yaml: {message}"
    if hint:
        assert raised.value.hints[0] == hint


def test_a_name_that_is_none_is_refused():
    with pytest.raises(UsageError, match="is not a name for a program"):
        load("a b", {"a b": {"command": ["x"]}})


def test_entries_that_extend_each_other_are_refused():
    with pytest.raises(UsageError, match="extends itself"):
        load("a", {"a": {"extends": "b"}, "b": {"extends": "a"}})


def test_the_line_of_a_wrong_key_is_found_in_its_file(tmp_path):
    file = tmp_path / ".git-parallel.yaml"
    file.write_text(
        "parallel_runs:\n  workers: 2\nagents:\n  mine:\n    command: [x]\n    stop:\n      - TERM\n      - KIL\n"
    )
    extra = yaml.safe_load(file.read_text())["agents"]
    with pytest.raises(UsageError, match=r"^\.git-parallel\.yaml:8: agents\.mine\.stop\.1: 'KIL'"):
        load("mine", extra, in_files([(".git-parallel.yaml", str(file))]))
    file.write_text("agents:\n\n  other: {}\n  mine:\n    about: nothing\n")
    extra = yaml.safe_load(file.read_text())["agents"]
    with pytest.raises(UsageError, match=r"^\.git-parallel\.yaml:4: agents\.mine\.command: .* empty"):
        load("mine", extra, in_files([(".git-parallel.yaml", str(file))]))


def test_a_file_that_is_gone_still_gives_the_key(tmp_path):
    assert in_files([("f.yaml", str(tmp_path / "f.yaml"))])(("agents", "x")) == "f.yaml: agents.x"
    (tmp_path / "f.yaml").write_text("agents: {x: [1, 2]}\n")
    assert in_files([("f.yaml", str(tmp_path / "f.yaml"))])(("agents", "x", "7")) == "f.yaml:1: agents.x.7"
    (tmp_path / "f.yaml").write_text("")
    assert in_files([("f.yaml", str(tmp_path / "f.yaml"))])(("agents",)) == "f.yaml:1: agents"


# What --program says.


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("prog --flag {task}", ("prog", "--flag", "{task}")),
        ("prog{model}", None),
        ("./prog", ("./prog",)),
        ("/opt/my prog/x", ("/opt/my", "prog/x")),
        ("'/opt/my prog/x' \"a b\"", ("/opt/my prog/x", "a b")),
        ("awk '{print $1}' {}", ("awk", "{print $1}", "{}")),
        ("sh -c 'run \"$1\" > out' sh {task}", ("sh", "-c", 'run "$1" > out', "sh", "{task}")),
        ("sh -c {task}", ("sh", "-c", "{task}")),
        ("bash tool.sh --message={task}", ("bash", "tool.sh", "--message={task}")),
    ],
)
def test_a_program_with_a_space_a_field_or_a_path_is_an_own_command(program, command):
    if command is None:
        with pytest.raises(UsageError, match=r"the program's name cannot be prog\{model\}"):
            find(program, {})
        return
    found = find(program, {})
    assert (found.name, found.command) == ("command", command)


def test_a_plain_word_is_the_name_of_a_preset():
    assert find("shell", {}).name == "shell"
    assert find("mine", {"mine": {"command": ["x"]}}).command == ("x",)


@pytest.mark.parametrize(
    ("program", "message", "hint"),
    [
        ("archtect", "unknown program 'archtect'", "did you mean 'architect'?"),
        ("zzz", "unknown program 'zzz'", f"presets: {', '.join(names({}))}"),
        ("", "unknown program ''", f"presets: {', '.join(names({}))}"),
        ("amp", "there is no preset for 'amp' yet", "give its command line: --program 'amp … {task}'"),
        ("command", "'command' needs a command line", "give it as the program: --program 'PROG {task}'"),
        (" ", "the program's command line is empty", None),
        ("prog 'x", "program 'prog 'x': no closing quotation", None),
        ("prog {taks}", "program 'prog {taks}': there is no field {taks}", "did you mean {task}?"),
        (
            "sh -ec 'prog {task}'",
            "program 'sh -ec 'prog {task}'': {task} inside a shell's command line is not safe",
            "hand it over as an argument: sh -c 'PROG \"$1\"' sh {task}",
        ),
        (
            "env A=1 /bin/bash -c 'prog \"{task}\"'",
            "program 'env A=1 /bin/bash -c 'prog \"{task}\"'': {task} inside a shell's command line is not safe",
            None,
        ),
    ],
)
def test_a_program_that_is_none_is_an_error_that_says_what_to_type(program, message, hint):
    with pytest.raises(UsageError) as raised:
        find(program, {})
    assert raised.value.message == message
    if hint:
        assert raised.value.hints[0] == hint


def test_a_preset_survives_being_written_and_read():
    architect = load("architect", {})
    assert (
        msgspec.convert(msgspec.json.decode(msgspec.json.encode(architect)), preset.Preset, strict=False) == architect
    )


# At a terminal.

TALKER = {
    "command": ["x", "--batch"],
    "options": {"model": ["-m", "{model}"], "max_steps": ["-n", "{max_steps}"]},
    "env": {"A": "1"},
    "stderr": "separate",
    "interactive": {
        "command": ["x"],
        "options": {"max_steps": None},
        "prompt": {"argv": ["{task}"]},
        "env": {"B": "2"},
        "stderr": "merge",
    },
}


def test_at_a_terminal_the_interactive_section_is_on_top_of_the_rest():
    alone = load("mine", {"mine": TALKER})
    assert preset.settled(alone, None) == alone
    assert preset.from_data(msgspec.json.decode(msgspec.json.encode(preset.as_data(alone)))) == alone
    talker = preset.settled(alone, "tmux")
    assert (talker.command, talker.options, talker.prompt) == (
        ("x",),
        {"model": ("-m", "{model}")},
        {"argv": ("{task}",)},
    )
    assert (talker.env, talker.stderr, talker.output) == ({"A": "1", "B": "2"}, "merge", "plain")
    assert preset.settled(talker, "tmux") == talker
    without = load("mine", {"mine": {**TALKER, "interactive": None}})
    assert preset.settled(without, "tmux") == without


def test_an_entry_with_another_command_line_does_not_keep_the_interactive_one():
    extra = {
        "mine": TALKER,
        "same": {"extends": "mine", "env": {"A": "3"}},
        "other": {"extends": "mine", "command": ["y"]},
    }
    assert preset.settled(load("same", extra), "tmux").env == {"A": "3", "B": "2"}
    assert load("other", extra).interactive is None


@pytest.mark.parametrize("name", ["claude", "codex", "opencode", "gemini"])
def test_programs_with_a_screen_of_their_own_begin_with_the_task_there(name):
    alone = load(name, {})
    talker = preset.settled(alone, "tmux")
    assert (talker.output, talker.money, talker.stderr) == ("plain", "none", "merge")
    values = launch.LaunchValues(task="-x", task_file="/f", worktree="/w", max_steps=3, budget=1.0)
    started = launch.build(talker, values)
    assert (started.argv[0], started.stdin_file) == (name, None)
    assert started.argv[-1].endswith("-x")
    assert not {"-p", "exec", "run", "--json", "--max-turns", "--max-budget-usd", "yolo"} & {*started.argv}


def test_a_session_goes_on_at_a_terminal_where_the_program_takes_a_prompt_then():
    values = launch.LaunchValues(task="more", task_file="/f", worktree="/w", session="S", resume=True)
    started = {
        name: launch.build(preset.settled(load(name, {}), "tmux"), values).argv
        for name in ("claude", "codex", "opencode", "gemini")
    }
    assert started["claude"][-4:] == ("--resume", "S", "--", "more")
    assert started["codex"][-4:] == ("resume", "S", "--", "more")
    assert started["gemini"][-3:] == ("--resume", "S", "--prompt-interactive=more")
    assert started["opencode"] == ("opencode", "--prompt=more")


def test_both_programs_are_found_before_anything_starts(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    mine = load("mine", {"mine": {"command": ["./one"], "interactive": {"command": ["./two", "-i"]}}})
    found = launch.resolved(mine, cwd=str(tmp_path))
    assert found.command == (f"{tmp_path}/one",)
    assert preset.settled(found, "tmux").command == (f"{tmp_path}/two", "-i")
    (tmp_path / "two").unlink()
    with pytest.raises(UsageError, match=r"'\./two' does not exist"):
        launch.resolved(mine, cwd=str(tmp_path))
