"""`git parallel init --agent-docs`: what agents are told, where they look for it, beside the person's words."""

from __future__ import annotations

import os
import re

import pytest
import yaml

from git_parallel.agents import docs
from git_parallel.cli import COMMANDS
from git_parallel.errors import RefusedError

SKILL = ".claude/skills/git-parallel/SKILL.md"
MINE = "# How we work\n\nUse tabs.\n"


def init(repo, *arguments: str, code: int = 0):
    done = repo.parallel("init", "--agent-docs", *arguments)
    assert done.returncode == code, done.stderr
    return done


def front_matter(text: str) -> dict[str, str]:
    _, head, _ = text.split("---\n", 2)
    return yaml.safe_load(head)


def test_a_skill_and_a_block_are_written_and_nothing_is_configured(repo):
    config = (repo.path / ".git/config").read_text()
    done = init(repo)
    assert done.stdout == f"wrote {SKILL}\nwrote AGENTS.md\n"
    assert "git parallel init --agent-docs --undo" in done.stderr
    skill = (repo.path / SKILL).read_text()
    head = front_matter(skill)  # agentskills.io: both are needed, and the name is the directory's
    assert head["name"] == "git-parallel"
    assert 0 < len(head["description"]) <= 1024
    for text in (skill, (repo.path / "AGENTS.md").read_text()):
        for said in ("run --json --detach", "status --json", "Never approve by yourself", "GIT_PARALLEL_WORKER"):
            assert said in text
    assert (repo.path / ".git/config").read_text() == config


def test_what_agents_are_told_to_type_exists(repo):
    init(repo)
    text = (repo.path / "AGENTS.md").read_text()
    assert set(re.findall(r"git parallel ([a-z]+)", text)) <= {"begin", "end", *COMMANDS}
    for command in ("run", "status", "review"):
        options = repo.parallel(command, "-h").stdout
        for option in re.findall(rf"(?:git parallel )?{command} [^`\n]*", text):
            assert [name for name in re.findall(r"--[a-z-]+", option) if name not in options] == []


def test_the_way_that_agents_are_told_works(repo):
    done = repo.parallel("run", "--json", "--detach", "--program", "shell", "--task", "echo a > a")
    run = re.search(r'"run": ?"([^"]+)"', done.stdout)[1]
    repo.parallel("wait", run)
    shown = repo.parallel("status", "--json", run).stdout
    assert re.search(r'"status": ?"ended"', shown)
    for name in ("status", "reason", "files_modified", "check", "cost"):
        assert f'"{name}"' in shown


def test_twice_is_once_and_the_persons_text_stays(repo):
    repo.write("AGENTS.md", MINE)
    init(repo)
    once = (repo.path / "AGENTS.md").read_bytes()
    assert once.startswith(MINE.encode() + b"\n<!-- git parallel: begin")
    assert init(repo).stdout == f"unchanged {SKILL}\nunchanged AGENTS.md\n"
    assert (repo.path / "AGENTS.md").read_bytes() == once
    init(repo, "--undo")
    assert (repo.path / "AGENTS.md").read_text() == MINE
    assert not (repo.path / ".claude").exists()


def test_an_older_block_is_written_anew_in_its_place(repo):
    init(repo)
    path = repo.path / "AGENTS.md"
    new = path.read_text()
    path.write_text(MINE + "\n" + new.replace("Never approve", "Always approve") + "\nafter\n")
    assert "renewed AGENTS.md" in init(repo).stdout
    assert path.read_text() == MINE + "\n" + new + "\nafter\n"


def test_undo_takes_out_only_what_is_ours(repo):
    repo.write(".claude/settings.json", "{}\n")
    init(repo)
    skill = repo.path / SKILL
    skill.write_text(skill.read_text() + "\nAsk Ann first.\n")
    assert init(repo, "--undo").stdout == f"removed our part of {SKILL}\nremoved AGENTS.md\n"
    assert "Ask Ann first." in skill.read_text()
    assert "run --json" not in skill.read_text()
    assert (repo.path / ".claude/settings.json").exists()
    assert not (repo.path / "AGENTS.md").exists()


def test_a_broken_pair_of_marks_is_refused_and_left(repo):
    init(repo)
    broken = (repo.path / "AGENTS.md").read_text().replace("<!-- git parallel: end -->", "")
    repo.write("AGENTS.md", broken)
    assert "not one pair" in init(repo, code=5).stderr
    assert (repo.path / "AGENTS.md").read_text() == broken


def test_line_ends_links_and_permissions_stay(repo):
    repo.write("CLAUDE.md", "mine\r\n")
    os.chmod(repo.path / "CLAUDE.md", 0o640)
    (repo.path / "AGENTS.md").symlink_to("CLAUDE.md")
    init(repo)
    written = (repo.path / "CLAUDE.md").read_bytes()
    assert (repo.path / "AGENTS.md").is_symlink()
    assert written.count(b"\n") == written.count(b"\r\n") > 10
    assert (repo.path / "CLAUDE.md").stat().st_mode & 0o777 == 0o640
    init(repo, "--undo")
    assert (repo.path / "CLAUDE.md").read_bytes() == b"mine\r\n"


@pytest.mark.parametrize("text", [b"", b"mine", b"mine\n", b"mine\n\n", b"a\r\nb"])
def test_joined_and_parted_again(text):
    joined = docs.joined(text, b"block\n")
    assert docs.joined(joined, b"block\n") == joined
    assert docs.parted(joined).rstrip(b"\r\n") == text.rstrip(b"\r\n")
    with pytest.raises(RefusedError):
        docs.joined(joined + joined, b"block\n")


def test_without_a_worktree_there_is_no_place(make_repo):
    bare = make_repo("bare", commit=False, init=("--bare",))
    assert "no worktree here" in init(bare, code=2).stderr
