"""Launch: what is started, and that a task arrives unchanged, by really starting it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from git_parallel.agents import launch
from git_parallel.agents.launch import LaunchValues, build, check_task, resolve, resolved, soft_timeout
from git_parallel.agents.preset import find, load
from git_parallel.errors import UsageError

DUMP = """#!{python}
import json, os, sys
files = {{a: open(a, "rb").read().hex() for a in sys.argv[1:] if len(a) < 4000 and os.path.isfile(a)}}
argv = [os.fsencode(a).hex() for a in sys.argv[1:]]
print(json.dumps(dict(argv=argv, files=files, stdin=sys.stdin.buffer.read().hex())))
"""

TASKS = {
    "plain": "fix the bug",
    "newlines": "one\n\n  two\r\nthree\n",
    "quotes": """it's "quoted" `here` $HOME \\ {model} {task} %s *""",
    "emoji": "größer 🚀 日本",
    "dash": "-x --help",
    "dashes": "--",
    "plus": "+x",
    "spaces": "  edge  ",
    "not utf-8": os.fsdecode(b"caf\xe9 \xff"),
    "long": "0123456789" * 20_000,
    "long dash": "-é" * 60_000,
    "nearly too long": "x" * 131_071,
}
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A program that prints its arguments, the files they name and its standard input, all as hexadecimal."""
    program = tmp_path / "bin dir" / "dump"
    program.parent.mkdir()
    program.write_text(DUMP.format(python=sys.executable))
    program.chmod(0o755)
    return program


def values(task: str, tmp_path: Path, **more) -> LaunchValues:
    file = tmp_path / "prompt.txt"
    file.write_bytes(os.fsencode(task))
    return LaunchValues(task=task, task_file=str(file), worktree=str(tmp_path), **more)


def start(command: launch.Launch, **options) -> subprocess.CompletedProcess[bytes]:
    """Start a command as a guard does."""
    with open(command.stdin_file or os.devnull, "rb") as stdin:
        return subprocess.run(command.argv, stdin=stdin, capture_output=True, check=False, **options)


def received(done: subprocess.CompletedProcess[bytes]) -> list[bytes]:
    """Everything the dump program got that is not empty: arguments that are no files, files, standard input."""
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    arguments = [bytes.fromhex(argument) for argument in got["argv"]]
    found = [argument for argument in arguments if os.fsdecode(argument) not in got["files"]]
    found += [bytes.fromhex(content) for content in [*got["files"].values(), got["stdin"]]]
    return [content for content in found if content]


# The task arrives.


@every_task
@pytest.mark.parametrize("line", ["{dump} {{task}}", "{dump} {{task_file}}", "{dump}"])
def test_an_own_command_gets_the_task_unchanged(line, task, dump, tmp_path):
    preset = find(line.format(dump=f"'{dump}'"), {})
    assert received(start(build(preset, values(task, tmp_path)))) == [os.fsencode(task)]


def test_a_task_that_no_argument_can_hold_goes_to_standard_input_and_says_so(dump, tmp_path):
    preset = find(f"'{dump}' -p {{task}} --last", {})
    command = build(preset, values("x" * 131_072, tmp_path))
    assert command.channel == "stdin"
    assert command.note == "the task is too long for an argument (131072 bytes): given on standard input instead"
    assert received(start(command)) == [b"-p", b"--last", b"x" * 131_072]
    assert build(preset, values("x" * 131_071, tmp_path)).channel == "argv"


def test_a_long_task_inside_an_argument_is_refused_before_anything_starts(tmp_path):
    preset = find("prog --message={task}", {})
    check_task(preset, "x" * 131_061)
    with pytest.raises(UsageError, match=r"takes the task inside an argument, and the task is too long"):
        check_task(preset, "x" * 131_062)


@every_task
def test_architect_gets_the_task_after_two_dashes_or_refuses_it(task, dump, tmp_path):
    architect = load("architect", {"architect": {"command": [str(dump), "run", "--json"]}})
    if len(os.fsencode(task)) > 131_071:
        with pytest.raises(UsageError, match=r"only on its command line, and the task is too long"):
            check_task(architect, task)
        return
    got = received(start(build(architect, values(task, tmp_path, role="build"))))
    assert got == [b"run", b"--json", b"--agent", b"build", b"--", os.fsencode(task)]


@every_task
def test_a_shell_task_runs_as_a_command_line_whatever_it_holds(task, tmp_path):
    # The task's text as a here-document, between commands of the shell: 200 kB of it come back.
    script = f"cat <<'END OF IT'\n{task}\nEND OF IT\nexit 3\n"
    done = start(build(load("shell", {}), values(script, tmp_path)))
    assert (done.returncode, done.stdout) == (3, os.fsencode(task) + b"\n")


@pytest.mark.parametrize("padding", ["", " " * 200_000], ids=["short", "long"])
@pytest.mark.parametrize(
    ("script", "exit_code", "output"),
    [
        ("echo one; echo two", 0, b"one\ntwo\n"),
        ("exit 125", 125, b""),
        ("no-such-program-here", 127, b""),
        ("-x --help", 127, b""),
        ("+x", 127, b""),
        ("false", 1, b""),
        ("(exit 7) | (exit 9)", 9, b""),
        ("kill -TERM $$", -15, b""),
        ("cat; echo $#", 0, b"0\n"),
        ("x='a b'\nprintf '%s\\n' \"$x\"\n# the end", 0, b"a b\n"),
    ],
)
def test_a_shell_task_behaves_the_same_when_it_goes_by_file(script, exit_code, output, padding, tmp_path):
    command = build(load("shell", {}), values(script + padding, tmp_path))
    assert command.channel == ("file" if padding or script[0] in "-+" else "argv")
    done = start(command)
    assert (done.returncode, done.stdout) == (exit_code, output)


@given(task=st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=60))
def test_templates_are_filled_once_and_nothing_else_is_touched(task):
    preset = find("prog a={task} '{{task}}' '${task}' {} '{print}' {attempt}", {})
    given_values = LaunchValues(task=task, task_file="/f", worktree="/w", attempt=2)
    assert build(preset, given_values).argv == ("prog", f"a={task}", "{task}", "${task}", "{}", "{print}", "2")


# The channel that is taken.


@pytest.mark.parametrize(
    ("prompt", "task", "channel"),
    [
        ({"argv": ["--", "{task}"], "stdin": []}, "-x", "argv"),
        ({"argv": ["{task}"], "stdin": []}, "-x", "stdin"),
        ({"argv": ["-m", "{task}"], "stdin": []}, "-x", "stdin"),
        ({"argv": ["--m={task}"], "stdin": []}, "-x", "argv"),
        ({"argv": ["{task}"], "stdin": []}, "x", "argv"),
        ({"argv": ["{task}"], "stdin": []}, "x" * 100_001, "stdin"),
        ({"argv": ["{task}"], "stdin": []}, "é" * 50_001, "stdin"),
        ({"argv": ["{task}"], "stdin": []}, "a\0b", "stdin"),
        ({"argv": ["{task}"], "stdin": []}, "\ud800", "stdin"),
        ({"argv": ["{task}"], "file": ["{task_file}"], "stdin": []}, "-x", "file"),
        ({"stdin": ["-"], "argv": ["{task}"]}, "x", "stdin"),
        ({"argv": ["{task}"]}, "x" * 131_071, "argv"),
    ],
)
def test_the_first_way_that_carries_the_task_unchanged_is_taken(prompt, task, channel):
    preset = load("p", {"p": {"command": ["p"], "prompt": prompt}})
    command = build(preset, LaunchValues(task=task, task_file="/f", worktree="/w"))
    assert command.channel == channel
    assert command.stdin_file == ("/f" if channel == "stdin" else None)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("x" * 131_072, "is too long for an argument (131072 bytes)"),
        ("-x", "begins with '-', as an option does"),
        ("a\0b", "holds a NUL byte"),
        ("\ud800", "holds characters that no argument can"),
    ],
)
def test_a_task_that_cannot_arrive_unchanged_is_refused(task, why):
    preset = load("p", {"p": {"command": ["p"], "prompt": {"argv": ["{task}"]}}})
    with pytest.raises(UsageError) as raised:
        check_task(preset, task)
    assert raised.value.message == f"program 'p' takes a task only on its command line, and the task {why}"


# Options, environment.


def test_architect_is_started_as_its_own_parallel_command_starts_it():
    given_values = LaunchValues(
        task="do it", task_file="/f", worktree="/w", role="build", model="m", budget=2.5, timeout=300, max_steps=50
    )
    command = build(load("architect", {}), given_values)
    assert " ".join(command.argv) == (
        "architect run --json --confirm-mode yolo"
        " --agent build --max-steps 50 --model m --budget 2.5 --timeout 285 -- do it"
    )
    assert (command.env, command.separate_errors, command.stdin_file) == ({"LITELLM_LOG": "ERROR"}, True, None)


def test_arguments_are_left_out_when_their_value_is_not_known():
    command = build(load("architect", {}), LaunchValues(task="t", task_file="/f", worktree="/w"))
    assert command.argv == ("architect", "run", "--json", "--confirm-mode", "yolo", "--", "t")


def test_a_session_is_begun_or_gone_on_with():
    preset = load(
        "p", {"p": {"command": ["p"], "options": {"session": ["-s", "{session}"], "resume": ["-r", "{session}"]}}}
    )
    base = {"task": "t", "task_file": "/f", "worktree": "/w"}
    assert build(preset, LaunchValues(**base)).argv == ("p",)
    assert build(preset, LaunchValues(**base, session="id")).argv == ("p", "-s", "id")
    assert build(preset, LaunchValues(**base, session="id", resume=True)).argv == ("p", "-r", "id")


def test_read_only_tasks_get_the_mode_that_writes_nothing_in_place_of_the_role():
    command = build(
        load("architect", {}), LaunchValues(task="t", task_file="/f", worktree="/w", role="x", read_only=True)
    )
    assert command.argv[5:] == ("--agent", "plan", "--", "t")


def test_the_environment_is_filled_in_unset_and_left_alone():
    entry = {
        "command": ["p"],
        "env": {"P_MODEL": "{model}", "P_DIR": "{worktree}/x", "P_ROLE": "{role}", "NESTED": None},
        "root_env": {"SANDBOX": "1"},
    }
    preset = load("p", {"p": entry})
    base = {"task": "t", "task_file": "/f", "worktree": "/w", "model": "m"}
    command = build(preset, LaunchValues(**base))
    assert (command.env, command.unset) == ({"P_MODEL": "m", "P_DIR": "/w/x"}, ("NESTED",))
    assert build(preset, LaunchValues(**base, root=True)).env["SANDBOX"] == "1"


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("model", "--models"),
        ("budget", "--budget-per-worker"),
        ("timeout", "--timeout-per-worker"),
        ("max_steps", "--max-steps"),
    ],
)
def test_a_value_that_an_own_command_needs_must_be_given(field, hint):
    preset = find(f"prog {{{field}}}", {})
    with pytest.raises(UsageError) as raised:
        build(preset, LaunchValues(task="t", task_file="/f", worktree="/w"))
    assert raised.value.message == f"program 'command' needs {{{field}}}, which is not known"
    assert raised.value.hints == (f"give it with {hint}",)


@pytest.mark.parametrize(
    ("budget", "text"), [(2.0, "2"), (0.5, "0.5"), (0.1, "0.1"), (1234567.89, "1234567.89"), (1e-12, "1e-12")]
)
def test_money_is_written_as_people_write_it(budget, text):
    command = build(find("p {budget}", {}), LaunchValues(task="t", task_file="/f", worktree="/w", budget=budget))
    assert command.argv == ("p", text)


@pytest.mark.parametrize(
    ("timeout", "told"), [(300, 285), (600, 585), (60, 54), (10, 9), (5, 4), (1.5, 1), (1, 1), (0.2, 1)]
)
def test_a_program_is_told_a_little_less_time_than_it_has(timeout, told):
    assert soft_timeout(timeout) == told


# The program.


def test_a_program_is_looked_for_on_the_path_and_named_absolutely(dump, monkeypatch):
    preset = load("d", {"d": {"command": ["dump", "-x"]}})
    assert resolve(preset, path=str(dump.parent)) == str(dump)
    assert resolved(preset, path=str(dump.parent)).command == (str(dump), "-x")
    monkeypatch.chdir(dump.parent.parent)
    assert resolve(preset, path="bin dir") == str(dump)


def test_a_program_that_is_a_path_is_taken_from_where_the_person_stands(dump):
    preset = find("./dump {task}", {})
    assert resolve(preset, cwd=str(dump.parent)) == str(dump)
    with pytest.raises(UsageError, match=r"^program './dump' does not exist$"):
        resolve(preset, cwd="/")
    dump.chmod(0o644)
    with pytest.raises(UsageError, match=r"^program './dump' is not executable$"):
        resolve(preset, cwd=str(dump.parent))


def test_a_missing_program_is_an_error_that_says_how_to_get_it():
    with pytest.raises(UsageError) as raised:
        resolve(load("architect", {}), path="/nowhere")
    assert raised.value.message == "program 'architect' not found on PATH"
    assert raised.value.hints == ("install it: pip install architect-ai-cli (Python 3.12 or later)",)
    with pytest.raises(UsageError, match="not found on PATH") as raised:
        resolve(find("A=1 prog", {}), path="/nowhere")
    assert raised.value.hints == ("to set a variable: --program 'env A=1 …'",)


# What it leaves.


def test_what_a_program_leaves_is_kept_out_at_any_depth(repo):
    preset = load("p", {"p": {"command": ["p"], "leaves": [".architect/", ".p*", "top/x"]}})
    for name in (
        ".architect/s/1.json",
        "src/.architect/2",
        ".p.log",
        "src/.pcache/a/b",
        "top/x/y",
        "src/top/x/y",
        "keep",
    ):
        repo.write(name, "x")
    repo.git("add", "-A", "--", ".", *launch.pathspecs(preset), cwd=repo.path / "src")
    repo.git("add", "-A", "--", ":/", *launch.pathspecs(preset), cwd=repo.path / "src")
    assert repo.git("diff", "--cached", "--name-only").splitlines() == ["keep", "src/top/x/y"]
