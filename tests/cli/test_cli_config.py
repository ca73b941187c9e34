"""`git parallel config` as a person runs it."""

from __future__ import annotations

import json

PROJECT = ".git-parallel.yaml"


def test_lists_what_is_in_force_as_git_config_does(repo):
    repo.write(PROJECT, "parallel_runs:\n  workers: 4\n  check: [make lint, make test]\n")
    repo.git("config", "parallel.timeoutPerWorker", "900")
    done = repo.parallel("config", cwd=repo.path / "src")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "parallel.workers=4"
    assert "parallel.timeoutPerWorker=15m" in lines
    assert "parallel.budget=none" in lines
    assert [line for line in lines if line.startswith("parallel.check=")] == [
        "parallel.check=make lint",
        "parallel.check=make test",
    ]
    assert not [line for line in lines if "notify" in line]


def test_what_it_lists_can_be_given_to_git_and_means_the_same(repo):
    repo.git("config", "parallel.models", "a, b")
    listed = repo.parallel("config").stdout
    repo.git("config", "--unset", "parallel.models")
    for line in listed.splitlines():
        repo.git("config", *line.split("=", 1))
    assert repo.parallel("config").stdout == listed


def test_show_origin_goes_before_a_tab(repo):
    repo.write(PROJECT, "parallel_runs:\n  workers: 4\n")
    repo.git("config", "parallel.retries", "1")
    lines = repo.parallel("config", "--show-origin").stdout.splitlines()
    assert lines[0] == "file:.git-parallel.yaml:2\tparallel.workers=4"
    assert "default\tparallel.agent=build" in lines
    (retries,) = [line for line in lines if "retries" in line]
    assert retries.startswith("git:file:")
    assert retries.endswith(".git/config\tparallel.retries=1")


def test_nul_has_gits_own_form(repo):
    repo.git("config", "parallel.check", "a\nb")
    done = repo.parallel("config", "-z", "--show-origin")
    fields = done.stdout.split("\0")
    assert fields[:2] == ["default", "parallel.workers\n3"]
    assert "parallel.check\na\nb" in fields
    assert repo.parallel("config", "-z", "check").stdout == "a\nb\0"


def test_one_setting_by_any_spelling(repo):
    for word in ("max_steps", "max-steps", "maxSteps", "parallel.maxSteps"):
        assert repo.parallel("config", word).stdout == "50\n"
    assert repo.parallel("config", "--show-origin", "workers").stdout == "default\t3\n"


def test_a_setting_without_a_value_exits_with_1(repo):
    done = repo.parallel("config", "notify")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_json(repo):
    repo.git("config", "parallel.budget", "2.5")
    done = repo.parallel("config", "--json")
    document = json.loads(done.stdout)
    assert document["v"] == 1
    assert document["config"]["workers"] == {"key": "parallel.workers", "value": 3, "origin": "default"}
    assert document["config"]["budget"]["value"] == 2.5
    assert document["config"]["trash_expire"]["value"] == 604800
    assert document["config"]["notify"]["value"] is None
    one = json.loads(repo.parallel("config", "--json", "notify").stdout)
    assert list(one["config"]) == ["notify"]


def test_a_named_file(repo):
    repo.write("arch.yaml", "llm: {}\nparallel:\n  workers: 6\n")
    assert repo.parallel("config", "-c", "arch.yaml", "--show-origin", "workers").stdout == "file:arch.yaml:3\t6\n"


def test_git_dash_c_counts(repo):
    done = repo.parallel("config", "workers", env={"GIT_CONFIG_PARAMETERS": "'parallel.workers'='8'"})
    assert done.stdout == "8\n"


def test_an_unknown_name_is_a_usage_error(repo):
    done = repo.parallel("config", "wrokers")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown setting 'wrokers'\nhint: did you mean 'workers'?\n"


def test_a_mistake_in_a_file_is_one_line_and_exit_2(repo):
    repo.write(PROJECT, "parallel_runs:\n  workers: 0\n")
    done = repo.parallel("config")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: .git-parallel.yaml:2:12: workers must be a whole number from 1 to 1000, not '0'\n"


def test_text_outside_ascii_survives_the_c_locale(repo):
    repo.git("config", "parallel.target", "größe")
    done = repo.parallel("config", "target", env={"LC_ALL": "C"})
    assert (done.returncode, done.stdout) == (0, "größe\n")


def test_outside_a_repository(tmp_path, repo):
    done = repo.parallel("config", cwd=tmp_path / "home")
    assert done.returncode == 128
    assert done.stderr.startswith("fatal: not a git repository")
