"""`git parallel init`: opt-in, for one repository, and taken back without a trace."""

from __future__ import annotations

NOTES = "refs/notes/architect"


def values(repo) -> list[str]:
    return repo.git("config", "--local", "--get-all", "notes.displayRef", check=False).splitlines()


def test_git_log_shows_the_notes_after_init_and_not_before(repo) -> None:
    repo.git("notes", f"--ref={NOTES}", "add", "-m", "made by worker 1")
    assert "made by worker 1" not in repo.git("log")
    done = repo.parallel("init")
    assert done.returncode == 0
    assert f"notes.displayRef = {NOTES}" in done.stdout
    assert "git parallel init --undo" in done.stderr
    assert "made by worker 1" in repo.git("log")


def test_twice_is_once(repo) -> None:
    repo.parallel("init")
    done = repo.parallel("init")
    assert (done.returncode, values(repo)) == (0, [NOTES])
    assert "already" in done.stdout


def test_other_values_stay_through_init_and_undo(repo) -> None:
    before = (repo.path / ".git" / "config").read_text()
    repo.git("config", "--add", "notes.displayRef", "refs/notes/review")
    with_other = (repo.path / ".git" / "config").read_text()
    repo.parallel("init")
    assert values(repo) == ["refs/notes/review", NOTES]
    done = repo.parallel("init", "--undo")
    assert done.returncode == 0
    assert (repo.path / ".git" / "config").read_text() == with_other
    repo.git("config", "--unset-all", "notes.displayRef")
    assert before.split() == (repo.path / ".git" / "config").read_text().replace("[notes]", "").split()


def test_undo_without_init_is_no_error(repo) -> None:
    done = repo.parallel("init", "--undo")
    assert (done.returncode, done.stdout) == (0, "nothing to take back\n")


def test_a_pattern_that_covers_the_notes_is_enough(repo) -> None:
    repo.git("config", "--global", "notes.displayRef", "refs/notes/*")
    done = repo.parallel("init")
    assert "notes.displayRef = refs/notes/*" in done.stdout
    assert values(repo) == []
    assert "is set elsewhere" in repo.parallel("init", "--undo").stderr


def test_from_a_linked_worktree_it_is_set_for_the_whole_repository(repo, tmp_path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "other"))
    repo.parallel("init", cwd=tmp_path / "other")
    assert values(repo) == [NOTES]
