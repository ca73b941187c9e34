"""The real programs as the tests meet them: a home of their own, a clean environment, a model on the loopback.

Nothing of the developer's is seen: HOME is new, the environment is made from nothing, every key is a word that
only the scripted model accepts, and the proxies that are named lead nowhere, so that a program which wants to
talk to the world learns at once that it cannot.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import installed_programs

MODEL = "scripted"


@dataclass(frozen=True)
class Program:
    """One program: what ``--program`` and ``--models`` name, its packages, and how it finds its model.

    ``files`` go into the home and ``env`` into the environment; ``{url}`` in both is the model's address.
    """

    name: str
    agent: str
    model: str
    packages: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    turns: bool = True  # goes on after a call of a tool; else one answer is all


_CODEX = """\
model_provider = "loopback"
check_for_update_on_startup = false
[model_providers.loopback]
name = "loopback"
base_url = "{url}/v1"
env_key = "LOOPBACK_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""


def _opencode(*plugins: str) -> str:
    model = {"name": MODEL, "limit": {"context": 1_000_000, "output": 4000}, "cost": {"input": 1, "output": 10}}
    options = {"baseURL": "{url}/v1", "apiKey": "none"}
    loopback = {"npm": "@ai-sdk/openai-compatible", "name": "loopback", "options": options, "models": {MODEL: model}}
    return json.dumps(
        {
            "provider": {"loopback": loopback},
            "model": f"loopback/{MODEL}",
            "small_model": f"loopback/{MODEL}",
            "plugin": list(plugins),
            "snapshot": False,
        }
    )


_OPENCODE_ENV = {
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_MODELS_PATH": "{home}/models.json",
    # A process that lives for seconds: collecting garbage and optimizing are a third of each start.
    "BUN_JSC_useGC": "0",
    "BUN_JSC_useDFGJIT": "0",
}
_OPENCODE_FILES = {
    "models.json": "{}",
    # As after a first start with a network: else npm is loaded and tries to install this, each time.
    ".config/opencode/package-lock.json": '{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "1"}}}}',
    ".config/opencode/node_modules/.package-lock.json": "{}",
}
_LITELLM = {"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "none", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
_COMPILED = str(installed_programs.directory("node") / "compiled")  # kept from test to test: a third of each start
_OMO = f"file://{installed_programs.directory('omo')}/node_modules/oh-my-opencode"

PROGRAMS = {
    program.name: program
    for program in (
        Program(
            "claude",
            "claude",
            "claude-sonnet-4-5",
            ("claude",),
            env={
                "ANTHROPIC_BASE_URL": "{url}",
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_MAX_RETRIES": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        ),
        Program(
            "codex",
            "codex",
            MODEL,
            ("codex", "node"),
            env={"LOOPBACK_KEY": "none"},
            files={".codex/config.toml": _CODEX},
        ),
        Program(
            "opencode",
            "opencode",
            f"loopback/{MODEL}",
            ("opencode",),
            env=_OPENCODE_ENV,
            files={**_OPENCODE_FILES, ".config/opencode/opencode.json": _opencode()},
        ),
        Program(
            "opencode with oh-my-opencode",
            "opencode",
            f"loopback/{MODEL}",
            ("opencode", "omo", "node"),
            env={**_OPENCODE_ENV, "OMO_DISABLE_POSTHOG": "1"},
            files={**_OPENCODE_FILES, ".config/opencode/opencode.json": _opencode(_OMO)},
        ),
        Program(
            "gemini",
            "gemini",
            "gemini-2.5-pro",
            ("gemini", "node"),
            env={"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "none", "NODE_COMPILE_CACHE": _COMPILED},
            files={
                ".gemini/settings.json": json.dumps(
                    {
                        "security": {"auth": {"selectedType": "gemini-api-key"}},
                        "general": {"disableAutoUpdate": True},
                        "privacy": {"usageStatisticsEnabled": False},
                    }
                )
            },
        ),
        Program("aider", "aider", "openai/gpt-4o", ("aider",), env=_LITELLM, turns=False),
        Program("architect", "architect", "openai/gpt-4o", ("architect",), env=_LITELLM),
    )
}


@dataclass(frozen=True)
class World:
    """A repository, a home and an environment in which programs are installed. ``path`` holds both."""

    path: Path
    env: dict[str, str]

    @property
    def repo(self) -> Path:
        return self.path / "repo"

    def run(self, *argv: str) -> str:
        """Run a program in the repository and return its output."""
        done = subprocess.run(
            argv,
            executable=shutil.which(argv[0], path=self.env["PATH"]),
            cwd=self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout.rstrip("\n")

    def git(self, *arguments: str) -> str:
        """Run git in the repository and return its output."""
        return self.run("git", *arguments)

    def commit(self, message: str, name: str, content: str) -> None:
        """Commit one file."""
        (self.repo / name).write_text(content)
        self.git("add", name)
        self.git("commit", "-q", "-m", message)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start ``git parallel`` as a person would."""
        return subprocess.Popen(
            [sys.executable, "-m", "git_parallel", *arguments],
            cwd=self.repo,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def parallel(self, *arguments: str, timeout: float = 400) -> subprocess.CompletedProcess[str]:
        """Run ``git parallel`` and return what it printed."""
        process = self.start(*arguments)
        try:
            out, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=60)
            raise AssertionError(f"{' '.join(arguments)[:200]}: not done in {timeout} s\n{out}\n{errors}") from None
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def world(path: Path, url: str, programs: Sequence[Program]) -> World:
    """Make a home and a repository with one commit, and let PATH have these programs and the system's.

    Raises InstallError when a program is not installed.
    """
    home = path / "home"
    home.mkdir()
    packages = dict.fromkeys(package for program in programs for package in program.packages)
    directories = [str(installed_programs.executables(package)) for package in packages]
    for first in map(installed_programs.first_home, packages):
        if first.exists():  # opencode's database: two first starts at once would trip over each other's making it
            # Locks stay: who held them is gone, and where another user installed it, nobody else may read them.
            shutil.copytree(first, home, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.lock"))
    env = {
        "HOME": str(home),
        "PATH": ":".join((*directories, "/usr/bin", "/bin")),
        "TMPDIR": str(path),
        "PWD": str(path / "repo"),  # as a person's shell says
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "USER": "someone",
        "SHELL": "/bin/sh",
        "GIT_CONFIG_NOSYSTEM": "1",
        # Who wants the network is told at once that there is none.
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
        "NO_PROXY": "127.0.0.1,localhost",
        "npm_config_offline": "true",
    }
    files = {".gitconfig": "[user]\n\tname = A U Thor\n\temail = author@example.com\n[init]\n\tdefaultBranch = main\n"}
    for program in programs:
        env |= program.env
        files |= program.files
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content.replace("{url}", url))
    made = World(path, {name: value.replace("{url}", url).replace("{home}", str(home)) for name, value in env.items()})
    made.repo.mkdir()
    made.git("init", "-q")
    made.commit("first", "README", "hello\n")
    return made


def workers(printed: str) -> list[dict[str, Any]]:
    """Return the workers of a run's JSON."""
    found: list[dict[str, Any]] = json.loads(printed)["workers"]
    return found
