"""The installation of the real programs: whole or not at all, once, and a missing one is named."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import installed_programs
import pytest
from installed_programs import InstallError, directory, executables, install


@pytest.fixture
def put(tmp_path, monkeypatch) -> list[Path]:
    """Install into a cache of the test's own, by making a file; return where that was done."""
    done: list[Path] = []

    def make(name: str, place: Path) -> Path:
        assert not place.exists()
        place.mkdir()
        (place / "half").touch()
        time.sleep(0.2)
        done.append(place)
        return place

    monkeypatch.setattr(installed_programs, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(installed_programs, "put", make)
    return done


def test_two_installations_at_once_are_one(put):
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(install, ("aider", "aider")))
    assert put == [directory("aider")]
    assert executables("aider") == directory("aider")


def test_what_was_cut_short_is_not_used_and_begun_anew(put):
    (directory("aider") / "bin").mkdir(parents=True)
    with pytest.raises(InstallError, match=r"aider-chat==[0-9.]+ is not installed"):
        executables("aider")
    install("aider")
    assert put == [directory("aider")]
    assert not (directory("aider") / "bin").exists()


def test_what_fails_leaves_nothing_and_is_named(put, monkeypatch):
    def fail(name: str, place: Path) -> Path:
        place.mkdir()
        raise InstallError("npm: no such version")

    monkeypatch.setattr(installed_programs, "put", fail)
    with pytest.raises(InstallError, match="no such version"):
        install("claude")
    assert not directory("claude").exists()
    with pytest.raises(
        InstallError, match=r"@anthropic-ai/claude-code@[0-9.]+ is not installed in .*: run tests/progr"
    ):
        executables("claude")


def test_versions_are_exact_and_each_has_a_directory_of_its_own():
    programs = installed_programs.PROGRAMS
    assert set(programs) == {"claude", "codex", "opencode", "omo", "gemini", "aider", "architect"}
    assert len({directory(name) for name in programs}) == len(programs)
    for name in programs:
        version = installed_programs.pinned(name).replace("==", "@").rpartition("@")[2]
        assert version.replace(".", "").isdecimal()


def test_the_script_is_shell_that_starts_it():
    script = Path(__file__).parents[1] / "programs"
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0
    assert script.stat().st_mode & 0o111
