"""The wheel, installed as a person would: what it brings, and that everything finds it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from git_parallel import __version__
from git_parallel.cli import COMMANDS

ROOT = Path(__file__).parents[2]


def run(*argv: str | Path, **env: str) -> str:
    """Run a program, hold it to success, and return its standard output."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **env})
    assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from the source tree without network."""
    place = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = place.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A virtual environment with the wheel; it borrows the dependencies of the one that runs the tests."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    python = venv / "bin" / "python"
    libraries = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, wheel], check=True)
    (libraries / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


@pytest.fixture
def on_path(installed, monkeypatch) -> Path:
    """The same, with its programs first on PATH."""
    monkeypatch.setenv("PATH", f"{installed / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MANPAGER", "cat")
    monkeypatch.setenv("MANWIDTH", "80")
    return installed


def test_the_wheel_holds_everything_that_is_no_module(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    data = f"git_parallel-{__version__}.data/data/share"
    shared = {
        *(f"{data}/man/man1/git-parallel-{name}.1" for name in COMMANDS),
        f"{data}/man/man1/git-parallel.1",
        f"{data}/bash-completion/completions/git-parallel",
        f"{data}/zsh/site-functions/_git-parallel",
        f"{data}/fish/vendor_completions.d/git-parallel.fish",
        f"{data}/fish/vendor_conf.d/git-parallel.fish",
    }
    assert {name for name in names if name.startswith(f"{data}/")} == shared
    sources = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "git_parallel").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    hooks = {f"git_parallel/_hooks/{path.name}" for path in (ROOT / "hooks").iterdir()}
    assert {name for name in names if name.startswith("git_parallel/")} == sources | hooks


def test_the_hooks_in_the_wheel_can_be_executed(wheel):
    infos = {info.filename: info for info in zipfile.ZipFile(wheel).infolist()}
    for path in (ROOT / "hooks").iterdir():
        mode = infos[f"git_parallel/_hooks/{path.name}"].external_attr >> 16
        assert mode & 0o111 == path.stat().st_mode & 0o111, path.name


def test_the_programs_run(on_path, repo):
    assert run("git", "parallel", "--version") == f"git-parallel version {__version__}\n"
    where = run(on_path / "bin" / "python", "-P", "-c", "import git_parallel; print(git_parallel.__file__)")
    assert where.startswith(str(on_path))
    assert repo.git("parallel", "list") == ""
    done = subprocess.run(["git-parallel-cleanup"], cwd=repo.path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "nothing to clean up\n")


@pytest.mark.parametrize("page", ["git-parallel", *(f"git-parallel-{name}" for name in COMMANDS)])
def test_man_finds_a_page_by_path(on_path, page):
    assert run("man", "-w", page).strip() == str(on_path / f"share/man/man1/{page}.1")


@pytest.mark.parametrize(
    "argv",
    [
        ("git", "parallel", "--help"),
        ("git", "help", "parallel"),
        ("git-parallel", "--help"),
    ],
)
def test_help_opens_the_manual(on_path, argv):
    assert run(*argv).lstrip().startswith("GIT-PARALLEL(1)")


@pytest.mark.parametrize(
    "argv",
    [
        ("git", "parallel", "run", "--help"),
        ("git-parallel", "run", "--help"),
    ],
)
def test_help_after_a_command_opens_its_page(on_path, argv):
    assert run(*argv).lstrip().startswith("GIT-PARALLEL-RUN(1)")


def test_help_finds_the_manual_of_a_program_that_is_not_on_path(installed):
    shown = run(installed / "bin" / "git-parallel", "status", "--help", MANPAGER="cat", MANWIDTH="80")
    assert shown.lstrip().startswith("GIT-PARALLEL-STATUS(1)")


def test_help_without_man_is_one_screen(installed, tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    shown = run(installed / "bin" / "git-parallel", "--help", PATH=str(bare))
    assert shown.startswith("Usage: git parallel ")


def test_help_in_the_middle_of_a_line_is_one_screen(on_path):
    assert run("git", "parallel", "run", "--models", "a", "--help").startswith("Usage: git parallel run ")


def test_help_for_people_fits_one_screen(on_path):
    assert len(run("git", "parallel", "-h").splitlines()) <= 40


def test_a_task_may_be_called_help(on_path, repo):
    done = repo.parallel("run", "--program", "shell", "--dry-run", "--", "--help")
    assert done.returncode == 0, done.stderr
    assert "--help" in done.stdout
