"""The layers of the configuration, and what each error names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from git_parallel.errors import GitError, UsageError
from git_parallel.git import Git, Repository
from git_parallel.plan.config import load

PROJECT = ".git-parallel.yaml"


def config_of(repo, flags=None, file=None):
    return load(Repository.discover(str(repo.path)), flags, file)


def error_of(repo, flags=None, file=None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        config_of(repo, flags, file)
    assert "\n" not in caught.value.message
    return caught.value


# --- layers ---------------------------------------------------------------------------------------


def test_defaults(repo):
    config = config_of(repo)
    assert (config.workers, config.agent, config.program, config.models) == (3, "build", None, ())
    assert (config.max_steps, config.budget_per_worker, config.timeout_per_worker) == (50, None, None)
    assert (config.budget, config.timeout, config.retries, config.halt, config.check) == (None, None, 0, "never", ())
    assert (config.branch, config.worktree) == ("architect/parallel-{n}", ".architect-parallel-{n}")
    assert (config.grace, config.strategy, config.trash_expire, config.lfs) == (10.0, "merge", 604800.0, "auto")
    assert config.raw == {}
    assert config.origin("workers") == "default"


def test_the_seeds_documented_section(repo):
    repo.write(
        PROJECT,
        "parallel_runs:\n"
        "  workers: 4               # 1-10\n"
        "  agent: plan\n"
        "  max_steps: 20\n"
        "  budget_per_worker: 1.5\n"
        "  timeout_per_worker: null\n",
    )
    config = config_of(repo)
    assert (config.workers, config.agent, config.max_steps) == (4, "plan", 20)
    assert (config.budget_per_worker, config.timeout_per_worker) == (1.5, None)
    assert config.origin("workers") == "file:.git-parallel.yaml:2"
    assert config.origin("timeout_per_worker") == "file:.git-parallel.yaml:6"
    assert config.layer("workers") == "project"


def test_flags_beat_git_and_git_beats_the_file(repo):
    repo.write(PROJECT, "parallel_runs:\n  workers: 4\n  retries: 4\n  max_steps: 4\n")
    repo.git("config", "parallel.retries", "5")
    repo.git("config", "parallel.maxSteps", "5")
    config = config_of(repo, {"max_steps": "6"})
    assert (config.workers, config.retries, config.max_steps) == (4, 5, 6)
    assert config.origin("retries").startswith("git:file:")
    assert config.origin("retries").endswith(".git/config")
    assert config.origin("max_steps") == "flag"
    assert config.layer("retries") == "git"


def test_flags_may_be_text_numbers_or_sequences_and_none_is_not_given(repo):
    repo.git("config", "parallel.check", "make lint")
    config = config_of(
        repo, {"workers": 5, "budget": 0.25, "timeout": "2h", "check": (), "models": None, "agent": None}
    )
    assert (config.workers, config.budget, config.timeout, config.check) == (5, 0.25, 7200.0, ("make lint",))
    config = config_of(repo, {"check": ["a", "b"], "models": "a, b"})
    assert (config.check, config.models) == (("a", "b"), ("a", "b"))
    assert config.origin("check") == "flag"


def test_git_dash_c_is_the_command_line(repo, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "parallel.workers")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "7")
    config = config_of(repo)
    assert config.workers == 7
    assert config.origin("workers") == "command line"


def test_the_last_git_value_wins_and_checks_add_up(repo):
    repo.git("config", "--global", "parallel.workers", "7")
    repo.git("config", "--global", "parallel.check", "make lint")
    repo.git("config", "parallel.workers", "8")
    repo.git("config", "parallel.check", "make\ntest")
    config = config_of(repo)
    assert config.workers == 8
    assert config.check == ("make lint", "make\ntest")
    repo.git("config", "--replace-all", "parallel.check", "")
    repo.git("config", "--add", "parallel.check", "true")
    assert config_of(repo).check == ("true",)


def test_git_lists_replace_those_of_the_file(repo):
    repo.write(PROJECT, "parallel_runs:\n  check: [make lint]\n")
    repo.git("config", "parallel.check", "make test")
    assert config_of(repo).check == ("make test",)


def test_a_limit_can_be_lifted_again(repo):
    repo.write(PROJECT, "parallel_runs:\n  budget: 3\n")
    assert config_of(repo, {"budget": "none"}).budget is None
    repo.git("config", "parallel.budget", "none")
    assert config_of(repo).budget is None


def test_the_project_file_is_that_of_the_callers_worktree(repo, tmp_path):
    repo.commit("settings", {PROJECT: "parallel_runs: {workers: 4}\n"})
    linked = tmp_path / "linked"
    repo.git("worktree", "add", "-q", str(linked))
    (linked / PROJECT).write_text("parallel_runs: {workers: 9}\n")
    assert load(Repository.discover(str(repo.path / "src"))).workers == 4
    assert load(Repository.discover(str(linked / "src"))).workers == 9


def test_a_bare_repository_has_no_project_file(repo, tmp_path):
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    subprocess.run(["git", "config", "parallel.workers", "6"], cwd=tmp_path / "bare.git", check=True)
    config = load(Repository.discover(str(tmp_path / "bare.git")))
    assert (config.workers, config.retries) == (6, 0)


def test_settings_of_another_subsection_are_left_alone(repo):
    repo.git("config", "parallel.agent.mine.command", "x")
    repo.git("config", "parallel.someone.workers", "0")
    assert config_of(repo).workers == 3


def test_git_is_called_once_and_yaml_is_not_imported_without_a_file(repo, monkeypatch):
    calls = []
    begin = Git.begin
    monkeypatch.setattr(
        Git, "begin", lambda self, *words, **options: calls.append(words) or begin(self, *words, **options)
    )
    config_of(repo)
    assert len(calls) == 1
    code = (
        "import sys; from git_parallel.git import Repository; from git_parallel.plan.config import load;"
        "load(Repository.discover()); print('yaml' in sys.modules, 'difflib' in sys.modules, 'msgspec' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repo.path, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["False", "False"]


# --- the project file -----------------------------------------------------------------------------


def test_values_are_the_text_that_was_written(repo):
    repo.write(
        PROJECT,
        "parallel_runs:\n"
        "  target: 1.10\n"
        "  program: yes\n"
        "  models: [a, 'b', 1.0]\n"
        "  check:\n"
        "  - true\n"
        "  - |\n"
        "    make test\n"
        "    make lint\n"
        "  budget: 2\n"
        "  timeout: 15m\n"
        "  branch: 'w/{n}'\n",
    )
    config = config_of(repo)
    assert (config.target, config.program, config.models) == ("1.10", "yes", ("a", "b", "1.0"))
    assert config.check == ("true", "make test\nmake lint\n")
    assert (config.budget, config.timeout, config.branch) == (2.0, 900.0, "w/{n}")


def test_lists_may_be_written_as_one_text(repo):
    repo.write(PROJECT, "parallel:\n  models: a, b\n  check: make test\n")
    config = config_of(repo)
    assert (config.models, config.check) == (("a", "b"), ("make test",))


def test_agents_and_prices_are_passed_on_as_data(repo):
    repo.write(PROJECT, "agents:\n  mine: {argv: &a [a, b], also: *a}\nprices: {x: 1.5}\nparallel_runs: {workers: 2}\n")
    config = config_of(repo)
    assert config.raw == {"agents": {"mine": {"argv": ["a", "b"], "also": ["a", "b"]}}, "prices": {"x": 1.5}}
    assert config.workers == 2


@pytest.mark.parametrize(
    "text", ["", "# only a comment\n", "---\n", "parallel_runs:\n", "\ufeffparallel_runs: {}\n", "null\n"]
)
def test_a_file_that_says_nothing_changes_nothing(repo, text):
    repo.write(PROJECT, text)
    assert config_of(repo).workers == 3


@pytest.mark.parametrize(
    ("text", "place", "says", "hint"),
    [
        ("parallel_runs:\n  worker: 3\n", "2:3", "unknown setting 'worker'", "did you mean 'workers'?"),
        ("parallel_runs:\n  budgetPerWorker: 3\n", "2:3", "unknown setting", "did you mean 'budget_per_worker'?"),
        ("parallel_runs:\n  xyzzy: 3\n", "2:3", "unknown setting 'xyzzy'", "see 'git parallel config'"),
        ("parallel_runs:\n  <<: {workers: 2}\n", "2:3", "unknown setting '<<'", "see"),
        ("paralel_runs:\n  workers: 3\n", "1:1", "unknown section 'paralel_runs'", "did you mean 'parallel_runs:'?"),
        ("agent:\n  x: 3\n", "1:1", "the setting 'agent' is outside its section", "parallel_runs:"),
        ("workers: 3\n", "1:1", "the setting 'workers' is outside its section", "put it below 'parallel_runs:'"),
        ("agnts:\n  x: 3\n", "1:1", "unknown section 'agnts'", "did you mean 'agents:'?"),
        ("setup: make\n", "1:1", "'setup:' is not supported by this version", None),
        ("checks: []\n", "1:1", "not supported by this version", None),
        ("env: {}\n", "1:1", "not supported by this version", None),
        ("parallel_runs:\n  workers: 3\n  workers: 4\n", "3:3", "'workers' is already set in line 2", None),
        ("parallel_runs: {}\nparallel: {}\n", "2:11", "both parallel_runs: and parallel:", None),
        ("agents:\n  a: 1\n  a: 2\n", "3:3", "'a' is already set in line 2", None),
        ("agents:\n- x:\n    a: 1\n    a: 2\n", "4:5", "'a' is already set in line 3", None),
        ("parallel_runs: 3\n", "1:16", "parallel_runs: must hold 'name: value' lines", None),
        ("- a\n", "1:1", "the file must hold 'name: value' lines", None),
        ("parallel_runs:\n  ? [a]\n  : 1\n", "2:5", "a name must be plain text", None),
        ("parallel_runs:\n  workers: 0\n", "2:12", "workers must be a whole number from 1 to 1000, not '0'", None),
        ("parallel_runs:\n  workers: null\n", "2:12", "workers must be a whole number from 1 to 1000, not null", None),
        ("parallel_runs:\n  workers: [3]\n", "2:12", "not a sequence", None),
        ("parallel_runs:\n  workers: {a: 3}\n", "2:12", "not a mapping", None),
        ("parallel_runs:\n  budget_per_worker: -1\n", "2:22", "budget_per_worker must be an amount", None),
        ("parallel_runs:\n  timeout: .inf\n", "2:12", "timeout must be a time greater than 0", None),
        ("parallel_runs:\n  check: [[a]]\n", "2:10", "check must be a list of texts", None),
        ("parallel_runs:\n  check: [~]\n", "2:10", "check must be a list of texts", None),
        ("parallel_runs:\n  check: &a [*a]\n", "2:10", "check must be a list of texts", None),
        ("parallel_runs:\n  check: {a: b}\n", "2:10", "check must be a list of texts", None),
        ("parallel_runs:\n  models: [a, '']\n", "2:11", "models must not be empty", None),
        ("parallel_runs:\n\tworkers: 3\n", "2:1", "cannot start any token", "indent with spaces"),
        ("parallel_runs:\n  workers: 3\n\tretries: 3\n", "3:1", "found a tab", "indent with spaces"),
        ("agents: {a: &a {b: {c: *a}}}\n", "1:13", "this node holds itself", None),
        ("parallel_runs: [\n", "2:1", "did not find expected node", None),
        ("a: 1\n--- \nb: 2\n", "2:1", "but found another document", None),
        ("agents: {d: 2026-13-41}\n", "1:9", "month must be in 1..12", None),
        ("agents: !!python/object:os.system {}\n", "1:9", "could not determine a constructor", None),
        ("agents: &a [*a]\n", "1:9", "this node holds itself", None),
    ],
)  # fmt: skip
def test_every_mistake_in_the_project_file_names_its_place(repo, text, place, says, hint):
    repo.write(PROJECT, text)
    error = error_of(repo)
    assert error.message.startswith(f"{PROJECT}:{place}: ")
    assert says in error.message
    if hint is not None:
        assert hint in " ".join(error.hints)


@pytest.mark.parametrize("data", [b"a: \x00\n", b"a: \x07\n"])
def test_control_characters_are_one_clean_line(repo, data):
    (repo.path / PROJECT).write_bytes(data)
    assert error_of(repo).message.startswith(PROJECT)


def test_bytes_that_are_no_text_name_their_line(repo):
    (repo.path / PROJECT).write_bytes(b"parallel_runs:\n  target: \xff\n")
    assert error_of(repo).message == f"{PROJECT}:2: not valid UTF-8"


def test_nesting_without_end_is_an_error(repo):
    repo.write(PROJECT, "agents: " + "[" * 5000)
    assert error_of(repo).message.startswith(PROJECT)


def test_a_project_file_with_the_other_ending_is_not_silently_ignored(repo):
    repo.write(".git-parallel.yml", "parallel_runs: {budget: 1}\n")
    assert "'.git-parallel.yml' would not be read" in error_of(repo).message
    repo.write(PROJECT, "parallel_runs: {budget: 2}\n")
    assert config_of(repo).budget == 2.0


def test_a_project_file_that_cannot_be_read(repo):
    (repo.path / PROJECT).symlink_to("nowhere")
    assert error_of(repo).message == f"cannot read the configuration file '{PROJECT}': no such file or directory"
    (repo.path / PROJECT).unlink()
    (repo.path / PROJECT).mkdir()
    assert error_of(repo).message == f"'{PROJECT}' is a directory, not a configuration file"


# --- -c FILE --------------------------------------------------------------------------------------

ARCHITECT = """\
llm:
  model: gpt-4o
llm: twice is not our business
agents:
  build: {confirm_mode: yolo}
logging: [x]
? [odd]
: key
parallel_runs:
  workers: 5
"""


@pytest.mark.parametrize("section", ["parallel_runs", "parallel"])
def test_a_whole_architect_configuration_is_accepted(repo, section):
    path = repo.write("arch.yaml", ARCHITECT.replace("parallel_runs", section))
    config = config_of(repo, file=str(path))
    assert config.workers == 5
    assert config.origin("workers") == f"file:{path}:10"
    assert config.layer("workers") == "file"
    assert config.raw == {}


def test_a_wrong_key_within_its_section_is_an_error(repo):
    path = repo.write("arch.yaml", ARCHITECT + "  worker: 3\n")
    error = error_of(repo, file=str(path))
    assert error.message == f"{path}:11:3: unknown setting 'worker'"
    assert error.hints == ("did you mean 'workers'?",)


def test_its_section_must_not_come_twice(repo):
    path = repo.write("arch.yaml", ARCHITECT + "parallel_runs:\n  workers: 6\n")
    assert error_of(repo, file=str(path)).message == f"{path}:11:1: 'parallel_runs' is already set in line 9"


def test_the_named_file_stands_in_for_the_project_files_settings(repo):
    repo.write(PROJECT, "parallel_runs:\n  retries: 9\n  not: read\nagents:\n  mine: {}\n")
    path = repo.write("other.yaml", "parallel_runs: {workers: 5}\n")
    repo.git("config", "parallel.maxSteps", "7")
    config = config_of(repo, {"budget": "1"}, str(path))
    assert (config.workers, config.retries, config.max_steps, config.budget) == (5, 0, 7, 1.0)
    assert config.raw == {"agents": {"mine": {}}}


def test_the_named_file_is_found_from_the_current_directory(repo, monkeypatch):
    repo.write("src/own.yaml", "parallel_runs: {workers: 5}\n")
    monkeypatch.chdir(repo.path / "src")
    config = load(Repository.discover(), file="own.yaml")
    assert (config.workers, config.origin("workers")) == (5, "file:own.yaml:1")


def test_a_named_file_without_a_section_changes_nothing(repo):
    path = repo.write("arch.yaml", "llm: {model: x}\nagents: {}\n")
    assert config_of(repo, file=str(path)).workers == 3


@pytest.mark.parametrize("text", ["paralel_runs: {workers: 1}\n", "workers: 1\n", "llm: {}\nparallel_run:\n"])
def test_a_named_file_that_would_be_ignored_by_a_slip_is_an_error(repo, text):
    path = repo.write("arch.yaml", text)
    assert "parallel_runs:" in " ".join(error_of(repo, file=str(path)).hints)


def test_a_named_file_that_is_missing(repo):
    assert error_of(repo, file="none.yaml").message.endswith("'none.yaml': no such file or directory")


# --- git and flags --------------------------------------------------------------------------------


def test_a_wrong_git_key_names_its_file_and_the_nearest_name(repo):
    repo.git("config", "parallel.worker", "3")
    error = error_of(repo)
    assert error.message.endswith(".git/config: unknown setting 'parallel.worker'")
    assert error.hints == ("did you mean 'parallel.workers'?",)


def test_a_wrong_git_value_names_its_file_and_key(repo):
    repo.git("config", "--global", "parallel.timeoutPerWorker", "0")
    error = error_of(repo)
    assert error.message.startswith(os.path.join(os.environ["HOME"], ".gitconfig") + ": parallel.timeoutPerWorker must")
    assert "git config --show-origin --get-all parallel.timeoutPerWorker" in error.hints[0]


def test_a_git_key_without_a_value(repo):
    with (repo.path / ".git/config").open("a") as file:
        file.write("[parallel]\n\tworkers\n")
    assert error_of(repo).message.endswith(".git/config: parallel.workers has no value")


def test_a_wrong_value_of_git_dash_c(repo, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'parallel.workers'='0'")
    assert error_of(repo).message.startswith("git -c: parallel.workers must be")


def test_configuration_that_git_cannot_read_is_gits_own_error(repo):
    repository = Repository.discover(str(repo.path))
    with (repo.path / ".git/config").open("a") as file:
        file.write("[parallel\n")
    with pytest.raises(GitError, match="bad config line"):
        load(repository)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"workers": "0"}, "--workers must be a whole number from 1 to 1000, not '0'"),
        ({"workers": 0}, "--workers must be"),
        ({"budget_per_worker": float("nan")}, "--budget-per-worker must be an amount"),
        ({"timeout_per_worker": float("inf")}, "--timeout-per-worker must be a time"),
        ({"timeout": 0.0}, "--timeout must be a time greater than 0"),
        ({"models": "a,,b"}, "--models must be names"),
        ({"models": ""}, "--models must not be empty"),
        ({"check": ["true", ""]}, "--check must not be an empty command"),
        ({"agent": ""}, "--agent must not be empty"),
        ({"halt": "soon"}, "--halt must be 'never' or like"),
    ],
)
def test_a_wrong_flag_is_named(repo, flags, says):
    assert error_of(repo, flags).message.startswith(says)


def test_a_later_layer_does_not_hide_an_earlier_mistake(repo):
    repo.write(PROJECT, "parallel_runs: {workers: none}\n")
    repo.git("config", "parallel.workers", "3")
    assert error_of(repo, {"workers": "2"}).message.startswith(PROJECT)


def test_commands_that_came_with_the_repository_are_told_apart(repo, tmp_path: Path):
    repo.write(PROJECT, "parallel_runs: {check: [make evil, make bad], notify: spy}\n")
    assert config_of(repo).repository_commands() == ("make evil", "make bad", "spy")
    repo.git("config", "parallel.notify", "mine")
    assert config_of(repo, {"check": ["mine"]}).repository_commands() == ()
    own = tmp_path / "own.yaml"
    own.write_text("parallel_runs: {check: mine}\n")
    assert config_of(repo, file=str(own)).repository_commands() == ()


def test_programs_that_the_repository_defines_count_as_its_commands(repo):
    repo.write(PROJECT, "parallel_runs: {program: ./evil}\nagents: {claude: {command: [evil], exits: {3: failed}}}\n")
    entry = 'agents: claude: {"command": ["evil"], "exits": {"3": "failed"}}'
    assert config_of(repo).repository_commands() == ("./evil", entry)
    assert config_of(repo, {"program": "./mine"}).repository_commands() == (entry,)
    repo.write(PROJECT, "parallel_runs: {program: claude}\n")
    assert config_of(repo).repository_commands() == ()
