"""Some hunks and not the others: the new commit, the agent's own that stays, and the worktrees of the branch."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from at_terminal import parallel
from msgspec.structs import replace

from git_parallel.errors import ParallelError, UsageError
from git_parallel.git import Repository
from git_parallel.integrate import hunks, workers
from git_parallel.integrate.review import take
from git_parallel.integrate.review.decide import MovedError

NUMBERS = "".join(f"{number}\n" for number in range(1, 21))
TASK = "sed -i -e s/^3$/three/ -e s/^17$/seventeen/ n; echo new > other"


class Worker:
    """One worker whose change is three pieces: two hunks of ``n`` and the new file ``other``."""

    def __init__(self, repo, task: str = TASK) -> None:
        repo.write("n", NUMBERS)
        self.base = repo.commit("numbers")
        done = repo.parallel("run", "--json", "--program", "shell", "--task", task)
        self.run = json.loads(done.stdout)["run"]
        self.repo = repo
        self.here = Repository.discover(str(repo.path))
        self.tree = repo.path / ".architect-parallel-1"
        self.old = self.tip()

    def tip(self) -> str:
        return self.repo.git("rev-parse", "architect/parallel-1")

    def taken(self, keys: str) -> take.Taken:
        candidate = workers.gather(self.here, ["1"])[0]
        choice = hunks.choose(hunks.read(self.here, self.base, self.old))
        for key in keys:
            choice, _ = hunks.answer(choice, key)
        return take.take(self.here, candidate, self.base, choice)


@pytest.fixture
def worker(repo) -> Worker:
    return Worker(repo)


def test_the_new_commit_has_what_was_taken_and_follows_the_fork(repo, worker):
    taken = worker.taken("nyn")
    assert taken.left_alone == []
    assert worker.tip() == taken.commit
    assert repo.git("rev-parse", f"{taken.commit}^@") == worker.base
    assert repo.git("diff-tree", "-r", "--name-only", worker.base, taken.commit) == "n"
    assert repo.git("show", f"{taken.commit}:n") == NUMBERS.replace("17\n", "seventeen\n").rstrip("\n")
    trailers = repo.git("log", "-1", "--format=%(trailers:only)", taken.commit).splitlines()
    assert f"Parallel-Reviewed-From: {worker.old}" in trailers
    assert trailers.count("Parallel-Worker: 1") == 1
    assert repo.git("log", "-1", "--format=%s %an", taken.commit) == repo.git(
        "log", "-1", "--format=%s %an", worker.old
    )
    note = repo.git("log", "-1", "--format=%N", "--notes=architect", taken.commit)
    assert f"Reviewed: 1 of 3 hunks taken by C O Mitter, of {worker.old}" in note


def test_what_was_there_stays_though_everything_else_is_forgotten(repo, worker):
    (worker.tree / "n").write_text(NUMBERS.replace("3\n", "III\n", 1).replace("17\n", "XVII\n"))
    repo.git("commit", "-q", "-am", "later, in no record yet", cwd=worker.tree)
    worker.old = worker.tip()
    worker.taken("nyn")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("show", f"{worker.old}:other") == "new"
    assert repo.git("for-each-ref", "--contains", worker.old, "--format=%(refname)") == (
        f"refs/architect/runs/{worker.run}"
    )
    step = repo.git("log", "-1", "--format=%s%n%(trailers:only)", f"refs/architect/runs/{worker.run}")
    assert "worker 1: 1 of 3 hunks taken by C O Mitter" in step
    assert f"Architect-From: {worker.old}" in step


def test_a_clean_worktree_follows_the_branch(repo, worker):
    (worker.tree / "untracked").write_text("mine\n")
    worker.taken("ynn")
    assert repo.git("status", "--porcelain", cwd=worker.tree) == "?? untracked"
    assert (worker.tree / "n").read_text() == NUMBERS.replace("3\n", "three\n", 1)
    assert not (worker.tree / "other").exists()
    assert "hunks taken" in repo.git("reflog", "-1", cwd=worker.tree)


def test_a_worktree_with_changes_is_left_as_it_is(repo, worker):
    (worker.tree / "n").write_text("mine\n")
    taken = worker.taken("ynn")
    assert worker.tip() == taken.commit
    assert [line.split(" was left as it is: ")[1] for line in taken.left_alone] == [
        "it has changes that are not committed"
    ]
    assert (worker.tree / "n").read_text() == "mine\n"
    assert (worker.tree / "other").read_text() == "new\n"


def test_an_untracked_file_in_the_way_is_not_overwritten(repo):
    worker = Worker(repo, "git rm -q n; echo new > other")
    (worker.tree / "n").write_text("mine, and git does not know it\n")
    taken = worker.taken("ny")  # leaving the deletion brings n back
    assert worker.tip() == taken.commit
    assert "n" in taken.left_alone[0]
    assert (worker.tree / "n").read_text() == "mine, and git does not know it\n"


def test_a_worktree_in_the_middle_of_an_operation_is_left_alone(repo, worker):
    repo.git("branch", "side", worker.base)
    repo.git("merge", "-q", "--no-commit", "--no-ff", "-s", "ours", "side", cwd=worker.tree, check=False)
    admin = Path((worker.tree / ".git").read_text().removeprefix("gitdir: ").strip())
    (admin / "MERGE_HEAD").write_text(f"{worker.base}\n")
    taken = worker.taken("ynn")
    assert "an operation is in progress there" in taken.left_alone[0]


def test_a_branch_that_moves_meanwhile_is_not_moved_back(repo, worker):
    candidate = workers.gather(worker.here, ["1"])[0]
    choice = hunks.choose(hunks.read(worker.here, worker.base, worker.old))
    choice, _ = hunks.answer(choice, "y")
    choice, _ = hunks.answer(choice, "q")
    repo.git("commit", "-q", "--allow-empty", "-m", "late", cwd=worker.tree)
    late = worker.tip()
    with pytest.raises(MovedError):
        take.take(worker.here, candidate, worker.base, choice)
    assert worker.tip() == late


def test_nothing_and_everything_are_no_choice(worker):
    with pytest.raises(UsageError, match="no hunk was taken"):
        worker.taken("q")
    with pytest.raises(UsageError, match="all hunks were taken"):
        worker.taken("yyy")
    assert worker.tip() == worker.old


def test_a_branch_of_another_clone_is_not_moved(worker):
    candidate = replace(workers.gather(worker.here, ["1"])[0], branch="refs/architect/away/run/1")
    choice = hunks.choose(hunks.read(worker.here, worker.base, worker.old))
    with pytest.raises(UsageError, match="another clone's"):
        take.take(worker.here, candidate, worker.base, hunks.answer(choice, "y")[0])


def test_the_person_s_hook_sees_the_message(repo, worker):
    hook = repo.path / ".git" / "hooks" / "commit-msg"
    hook.write_text('#!/bin/sh\necho "Checked-By: hook" >> "$1"\n')
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    taken = worker.taken("ynn")
    assert "Checked-By: hook" in repo.git("log", "-1", "--format=%(trailers:only)", taken.commit)


def test_a_refusing_hook_leaves_all_as_it_was(repo, worker):
    hook = repo.path / ".git" / "hooks" / "commit-msg"
    hook.write_text("#!/bin/sh\necho 'not like this' >&2\nexit 1\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ParallelError, match="the commit-msg hook refuses: not like this"):
        worker.taken("ynn")
    assert worker.tip() == worker.old
    assert repo.git("status", "--porcelain", cwd=worker.tree) == ""


def test_commits_are_signed_where_the_person_signs(repo, worker, tmp_path):
    gpg = tmp_path / "gpg"
    gpg.write_text("#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho 'SIGNED BY A TEST'\n")
    gpg.chmod(gpg.stat().st_mode | stat.S_IXUSR)
    repo.git("config", "gpg.program", str(gpg))
    repo.git("config", "commit.gpgSign", "true")
    taken = worker.taken("ynn")
    assert "gpgsig SIGNED BY A TEST" in repo.git("cat-file", "commit", taken.commit)


def test_several_commits_of_the_agent_become_one_named_after_the_task(repo):
    worker = Worker(repo, f"{TASK}; git add -A; git commit -qm one; echo more > more; git add -A; git commit -qm two")
    taken = worker.taken("yq")
    assert repo.git("log", "-1", "--format=%s", taken.commit).startswith("sed -i -e s/^3$/three/")
    assert repo.git("rev-list", "--count", f"{worker.base}..{taken.commit}") == "1"


def test_at_the_terminal(repo):
    worker = Worker(
        repo,
        f"{TASK}; printf '\\0\\1' > image; git rm -q README; chmod +x src/a.txt; sed -i s/^5$/five/ n",
    )
    with parallel("review", cwd=repo.path) as person:
        person.answer("approve it", "h")
        assert "deleted file mode" in person.answer(r"\(1/6\) take this deletion \[y,n,q,a,d,\?", "n")
        assert "(a binary file)" in person.answer(r"\(2/6\) take this new file", "y")
        person.answer(r"\(3/6\) take this hunk \[y,n,q,a,d,s,\?", "s")
        person.wait("split into 2 hunks")
        person.answer(r"\(3/7\) take this hunk \[y,n,q,a,d,\?", "?")
        person.wait("q - leave this hunk and all that come after it")
        person.answer(r"\(3/7\) take this hunk", "n")
        assert "+five" in person.answer(r"\(4/7\) take this hunk", "y")
        person.answer(r"\(5/7\) take this hunk", "n")
        person.answer(r"\(6/7\) take this new file", "n")
        assert "old mode 100644\nnew mode 100755" in person.answer(r"\(7/7\) take this change of mode", "y")
        person.answer(r"put 3 of 7 hunks on architect/parallel-1 as a new commit, without the rest \[y,n", "y")
        shown = person.wait("approve it")
        assert "rewritten since the worker ended" in shown
        assert "verdict:   none yet" in shown
        person.type("y\r")
        assert person.end() == 0
    new = worker.tip()
    changed = repo.git("diff-tree", "-r", "--name-status", worker.base, new).splitlines()
    assert changed == ["A\timage", "M\tn", "M\tsrc/a.txt"]
    assert repo.git("show", f"{new}:n") == NUMBERS.replace("5\n", "five\n", 1).rstrip("\n")
    assert repo.git("ls-tree", new, "src/a.txt").startswith("100755")
    assert repo.git("log", "-1", "--format=%N", "--notes=architect", new).count("Review: approved") == 1


def test_leaving_the_choice_changes_nothing(repo):
    worker = Worker(repo)
    with parallel("review", cwd=repo.path) as person:
        person.answer("approve it", "h")
        person.answer(r"\(1/3\)", "y")
        person.wait(r"\(2/3\).*\]\? $")
        person.type("\x04")
        person.wait("nothing was changed")
        person.answer("approve it", "h")
        person.answer(r"\(1/3\)", "q")
        person.wait("no hunk was taken: reject it with n")
        person.answer("approve it", "h")
        person.answer(r"\(1/3\)", "a")
        person.answer(r"\(3/3\)", "y")
        person.wait("all were taken: approve it with y")
        person.answer("approve it", "h")
        person.answer(r"\(1/3\)", "y")
        person.answer(r"\(2/3\)", "q")
        person.answer("put 1 of 3 hunks", "n")
        person.wait("nothing was changed")
        person.answer("approve it", "q")
        assert person.end() == 0
    assert worker.tip() == worker.old
