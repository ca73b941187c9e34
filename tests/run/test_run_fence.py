"""Inside a worker git is fenced: its own branch only, no push, no stash; everything else works as usual."""

from __future__ import annotations

import json


def worker(repo, task: str, *options: str) -> dict:
    done = repo.parallel("run", "--json", "--program", "shell", *options, task)
    return json.loads(done.stdout)["workers"][0]


def log_of(repo, number: int = 1) -> str:
    return repo.parallel("log", str(number)).stdout


def test_another_branch_cannot_be_moved_made_or_deleted(repo):
    repo.git("branch", "side")
    before = repo.git("for-each-ref", "refs/heads/main", "refs/heads/side")
    task = (
        "echo x > x; git add x; git commit -qm x; git branch -f side HEAD; git branch -D side; "
        "git update-ref refs/heads/main HEAD; git switch -c mine; git branch new; echo tried"
    )
    result = worker(repo, task)
    assert result["status"] == "success"
    assert repo.git("for-each-ref", "refs/heads/main", "refs/heads/side") == before
    assert repo.git("branch", "--list", "mine", "new") == ""
    assert "may move only its own branch, architect/parallel-1, not side" in log_of(repo)


def test_nothing_is_pushed_and_the_stash_is_left_alone(repo, tmp_path):
    repo.git("init", "-q", "--bare", str(tmp_path / "remote.git"))
    repo.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    repo.write("README", "mine\n")
    repo.git("stash", "-q")
    stash = repo.git("rev-parse", "refs/stash")
    worker(
        repo, "echo x > x; git add x; git commit -qm x; git push origin HEAD:refs/heads/x; echo y > x; git stash; true"
    )
    assert repo.git("for-each-ref", cwd=tmp_path / "remote.git") == ""
    assert repo.git("stash", "list", "--format=%H") == stash
    assert "a worker does not push" in log_of(repo)
    assert repo.git("show", "architect/parallel-1:x") == "y"


def test_records_cannot_be_forged(repo):
    worker(repo, "git notes --ref=architect add -f -F README HEAD; echo x > x")
    assert "hello" not in repo.git("log", "--all", "--notes=architect", "--format=%N")
    assert "not a worker's to change" in log_of(repo)


def test_refs_may_be_packed(repo):
    repo.git("branch", "side")
    repo.git("stash", "store", "-q", repo.git("stash", "create") or repo.git("commit-tree", "-m", "s", "HEAD^{tree}"))
    task = "echo x > x; git add x; git commit -qm x; git pack-refs --all && git gc -q && git commit -q --amend -m y"
    result = worker(repo, task)
    assert (result["status"], log_of(repo)) == ("success", "")
    packed = (repo.path / ".git/packed-refs").read_text()
    for ref in ("refs/heads/side", "refs/stash", f"refs/architect/runs/{result['run']}"):
        assert f" {ref}\n" in packed
    assert repo.git("log", "-1", "--format=%s", "architect/parallel-1") == "y"


def test_the_agents_own_commits_say_which_run_they_come_from(repo):
    result = worker(repo, "echo x > x; git add x; git commit -qm 'mine: x'")
    message = repo.git("log", "-1", "--format=%B", "architect/parallel-1")
    assert message.startswith("mine: x\n")
    assert f"Parallel-Run: {result['run']}" in message
    assert "Parallel-Worker: 1" in message


def test_the_repositorys_own_hooks_run_too(repo, tmp_path):
    for name, body in {
        "pre-commit": f"pwd >> {tmp_path}/seen",
        "commit-msg": f'echo commit-msg >> {tmp_path}/seen; grep -q forbidden "$1" && exit 1; exit 0',
        "reference-transaction": f"cat > /dev/null; echo reference-$1 >> {tmp_path}/seen",
    }.items():
        hook = repo.path / ".git/hooks" / name
        hook.write_text(f"#!/bin/sh\n{body}\n")
        hook.chmod(0o755)
    worker(repo, "echo x > x; git add x; git commit -qm forbidden || git commit -qm allowed")
    seen = (tmp_path / "seen").read_text().split()
    assert str(repo.path / ".architect-parallel-1") in seen
    assert seen.count("commit-msg") == 2
    assert "reference-prepared" in seen
    assert "reference-committed" in seen
    assert repo.git("log", "-1", "--format=%s", "architect/parallel-1") == "allowed"


def test_a_relative_hooks_path_means_each_worktrees_own(repo, tmp_path):
    repo.git("config", "core.hooksPath", ".husky")
    hook = repo.write(".husky/pre-commit", f"#!/bin/sh\npwd >> {tmp_path}/seen\n")
    hook.chmod(0o755)
    repo.git("add", "-A")
    repo.git("-c", "core.hooksPath=/dev/null", "commit", "-qm", "husky")
    worker(repo, "echo x > x; git add x; git commit -qm x")
    assert (tmp_path / "seen").read_text().split() == [str(repo.path / ".architect-parallel-1")]


def test_repositories_that_a_worker_makes_are_not_fenced_and_have_their_own_hooks(repo, tmp_path):
    task = (
        f"git init -q {tmp_path}/other; cd {tmp_path}/other; "
        f"printf '#!/bin/sh\\necho ran > {tmp_path}/hook\\n' > .git/hooks/post-commit; "
        "chmod +x .git/hooks/post-commit; "
        "echo y > y; git add y; git commit -qm y; git branch second; echo z > y; git stash -q; "
        'cd "$GIT_PARALLEL_ROOT"; echo x > x'
    )
    assert worker(repo, task)["status"] == "success"
    assert repo.git("log", "-1", "--format=%B", cwd=tmp_path / "other").strip() == "y"
    assert repo.git("rev-parse", "second", "refs/stash", cwd=tmp_path / "other")
    assert (tmp_path / "hook").read_text() == "ran\n"


def test_configuration_given_with_git_c_still_reaches_the_worker(repo):
    env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.nickname", "GIT_CONFIG_VALUE_0": "bo"}
    done = repo.parallel("run", "--program", "shell", "git config user.nickname > nick", env=env)
    assert done.returncode == 0
    assert repo.git("show", "architect/parallel-1:nick") == "bo"
