"""The one place that spawns git."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from git_parallel import git
from git_parallel.errors import GitError
from git_parallel.git import LOCAL_ENVIRONMENT, Git, Repository, clean_environment

PACKAGE = Path(__file__).parents[1] / "git_parallel"


def test_every_variable_that_locates_a_repository_is_known(repo):
    listed = set(repo.git("rev-parse", "--local-env-vars").split())
    assert listed - {"GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"} <= LOCAL_ENVIRONMENT


def test_a_call_is_made_where_it_says_whatever_the_environment(repo, make_repo, monkeypatch):
    other = make_repo("other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / "index"))
    here = Git(("-C", str(repo.path)))
    assert here.text("rev-parse", "--show-toplevel") == str(repo.path)
    assert "GIT_DIR" not in clean_environment()
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody Else")  # a changed environment counts from the next call on
    assert here.text("var", "GIT_AUTHOR_IDENT").startswith("Somebody Else ")


def test_git_dir_of_the_caller_counts_once_in_finding_the_repository(repo, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.path))
    found = Repository.discover(str(repo.path / "src"))
    assert (found.top, found.prefix, found.common_dir) == (str(repo.path), "src/", str(repo.path / ".git"))
    assert found.git.text("rev-parse", "HEAD") == repo.git("rev-parse", "HEAD")


def test_a_failure_carries_gits_own_reason(repo):
    with pytest.raises(GitError) as raised:
        Git(("-C", str(repo.path))).run("rev-parse", "--verify", "nonsense")
    assert raised.value.returncode == 128
    assert raised.value.message == "Needed a single revision"


def test_hooks_run_only_when_asked_for(repo, tmp_path):
    hook = repo.path / ".git/hooks/post-commit"
    hook.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n")
    hook.chmod(0o755)
    git = Git(("-C", str(repo.path)))
    git.run("commit", "-q", "--allow-empty", "-m", "plumbing")
    assert not (tmp_path / "ran").exists()
    git.run("commit", "-q", "--allow-empty", "-m", "a person's", hooks=True)
    assert (tmp_path / "ran").read_text() == "ran\n"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules that note when they are loaded, by name. The last one lets go who waits for ``go``."""
    loaded: list[str] = []
    monkeypatch.setattr(git, "_meanwhile", [])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("builtins.loaded", loaded, raising=False)
    names = [f"meanwhile_{number}" for number in range(3)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"loaded.append({name!r})\n")
    with open(tmp_path / f"{names[-1]}.py", "a") as last:
        last.write(f"open({str(tmp_path / 'go')!r}, 'x').close()\n")
    yield names, loaded
    for name in names:
        sys.modules.pop(name, None)


def test_modules_are_loaded_while_git_works(repo, modules, tmp_path):
    names, loaded = modules
    git.load_meanwhile(*names)
    waiting = "alias.waiting=!timeout 20 sh -c 'until test -e go; do sleep 0.01; done'"  # until the last one is loaded
    Git(("-C", str(tmp_path), "-c", waiting)).run("waiting", hooks=True)
    assert loaded == names


def test_no_more_is_loaded_than_there_is_time_for(modules):
    names, loaded = modules
    git.load_meanwhile(*names)
    git.load_until(lambda: loaded == names[:2])
    assert loaded == names[:2]
    git.load_until(lambda: True)
    assert loaded == names[:2]


def test_nothing_else_spawns_git():
    """Every other module goes through `git.py`: no argv that begins with "git" stands anywhere else."""
    guilty = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "git.py" and path.parent == PACKAGE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.List | ast.Tuple) and node.elts and isinstance(node.elts[0], ast.Constant):
                words = [element.value for element in node.elts if isinstance(element, ast.Constant)]
                if words[0] == "git" and words[1:2] != ["parallel"]:
                    guilty.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: {words}")
    assert guilty == []


def test_imports_go_one_way():
    """cli → {plan, agents, supervisor, store, integrate, render} → worktrees → git → errors: none goes back."""
    rank = {"errors": 0, "git": 1, "layout": 1, "worktrees": 3, "cli": 9}
    guilty = []
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("git_parallel."):
                theirs = str(node.module).split(".")[1]
                if theirs == "cli" and own not in ("cli", "__main__"):
                    guilty.append(f"{own} imports {node.module}")
                if own in ("errors", "git", "layout") and rank.get(theirs, 5) > rank[own]:
                    guilty.append(f"{own} imports {node.module}")
    assert guilty == []


def test_nothing_below_the_command_line_prints():
    """It returns what there is to say; the guard and the zygote are programs of their own, with a log for output."""
    guilty = []
    for path in PACKAGE.rglob("*.py"):
        own = str(path.relative_to(PACKAGE))
        if own.startswith("cli/") or own in ("supervisor/guard.py", "supervisor/zygote.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "click.echo", "sys.stdout.write"):
                guilty.append(f"{own}:{node.lineno}")
    assert guilty == []


def test_no_asyncio_and_nothing_slow_at_start_up(repo):
    script = (
        "import sys; from git_parallel import cli; cli.run(['status']); "
        "print(sorted({'asyncio', 'rich', 'yaml', 'psutil', 'dulwich'} & set(sys.modules)))"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", script], cwd=repo.path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
