"""What lands is committed as the person would: their hooks, their signature, their name."""

from __future__ import annotations

import pytest
from landings import landable, tree_on_disk

from git_parallel.git import Repository
from git_parallel.integrate import hooks


def hook(repo, name: str, script: str, directory: str = ".git/hooks") -> None:
    path = repo.write(f"{directory}/{name}", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_commit_hooks_run_as_git_merge_runs_them(repo, tmp_path):
    seen = tmp_path / "seen"
    for name in ("pre-merge-commit", "prepare-commit-msg", "commit-msg", "pre-commit", "post-checkout", "pre-push"):
        hook(repo, name, f'echo {name} "$2" >> "{seen}"')
    run = landable(repo, {"one": "1\n"})
    assert run.merge()[0] == 0
    assert seen.read_text().splitlines() == ["pre-merge-commit ", "prepare-commit-msg merge", "commit-msg "]
    repo.git("switch", "-q", "-c", "theirs", run.base)
    seen.unlink()
    repo.git("merge", "-q", "--no-ff", "--no-edit", "architect/parallel-1")
    assert [line for line in seen.read_text().splitlines() if not line.startswith("post-checkout")] == [
        "pre-merge-commit ",
        "prepare-commit-msg merge",
        "commit-msg ",
    ]


def test_a_hook_sees_the_merged_tree_and_what_is_merged(repo, tmp_path):
    seen = tmp_path / "seen"
    hook(
        repo,
        "pre-merge-commit",
        f'{{ cat one README; git diff --cached --name-only HEAD; git rev-parse HEAD MERGE_HEAD; }} > "{seen}"',
    )
    run = landable(repo, {"one": "1\n"})
    theirs = repo.commit("theirs", {"README": "mine\n"})
    assert run.merge()[0] == 0
    assert seen.read_text().splitlines() == ["1", "mine", "one", theirs, run.heads[0]]


def test_a_refusing_hook_keeps_the_branch_out_and_is_quoted(repo):
    hook(repo, "pre-merge-commit", 'test ! -e bad || { echo "no bad files, please" >&2; exit 1; }')
    run = landable(repo, {"one": "1\n"}, {"bad": "b\n"}, {"three": "3\n"})
    code, document, _ = run.merge()
    assert (code, run.states(document)) == (5, {1: "landed", 2: "refused", 3: "landed"})
    assert "the hook pre-merge-commit refused it" in document["branches"][1]["why"]
    assert "no bad files, please" in document["branches"][1]["why"]
    assert "bad" not in tree_on_disk(repo.path)


def test_no_verify_runs_none_and_says_so_in_the_record(repo):
    hook(repo, "pre-merge-commit", "exit 1")
    run = landable(repo, {"one": "1\n"})
    assert run.merge()[0] == 5
    assert run.merge("--no-verify")[0] == 0


def test_a_hook_may_change_the_message_and_the_tree(repo):
    hook(repo, "pre-merge-commit", "echo generated > generated; git add generated")
    hook(repo, "commit-msg", 'echo "Change-Id: I1234" >> "$1"')
    run = landable(repo, {"one": "1\n"})
    code, document, _ = run.merge("--check", "test -f generated")
    assert code == 0
    assert repo.git("log", "-1", "--format=%(trailers:key=Change-Id,valueonly)", "main").strip() == "I1234"
    assert (repo.path / "generated").read_text() == "generated\n"
    assert document["branches"][0]["tree"] == repo.git("rev-parse", "main^{tree}")


@pytest.mark.parametrize(
    ("strategy", "names"),
    [("squash", ["pre-commit", "prepare-commit-msg", "commit-msg"]), ("rebase", ["commit-msg"]), ("ff", [])],
)
def test_other_strategies_run_the_hooks_of_theirs(repo, tmp_path, strategy, names):
    seen = tmp_path / "seen"
    for name in ("pre-merge-commit", "prepare-commit-msg", "commit-msg", "pre-commit"):
        hook(repo, name, f'echo {name} >> "{seen}"')
    landable(repo, {"one": "1\n"}).merge("--strategy", strategy)
    assert (seen.read_text().splitlines() if seen.exists() else []) == names


def test_hooks_are_those_of_the_checkout_and_not_of_the_branch(repo, tmp_path):
    """A relative core.hooksPath means the person's own files, also where the worktree has others or none."""
    seen = tmp_path / "seen"
    repo.git("config", "core.hooksPath", ".husky")
    repo.write(".gitignore", ".husky/\n")
    repo.commit("ignore")
    hook(repo, "commit-msg", f'echo mine >> "{seen}"', ".husky")
    run = landable(repo, {".husky/commit-msg": ("100755", f'#!/bin/sh\necho theirs >> "{seen}"\n'), "one": "1\n"})
    repo.git("rm", "-q", "--cached", "-r", "--ignore-unmatch", ".husky")
    code, document, _ = run.merge()
    assert code == 5, "the ignored file is in the way"
    assert seen.read_text().splitlines() == ["mine"]
    assert document["branches"][0]["files"] == [".husky/commit-msg"]


def test_no_hooks_means_no_worktree(repo):
    run = landable(repo, {"one": "1\n"})
    assert hooks.present(Repository.discover(str(repo.path)), "merge").names == ()
    run.merge()
    assert "architect-parallel-merge" not in (repo.path / ".git/info/exclude").read_text()


def test_commits_are_signed_as_the_person_signs_theirs(repo, tmp_path):
    program = tmp_path / "gpg"
    program.write_text(
        '#!/bin/sh\ncat > /dev/null\necho "[GNUPG:] SIG_CREATED " >&2\n'
        'printf "%s\\n" "-----BEGIN PGP SIGNATURE-----" "" "fake" "-----END PGP SIGNATURE-----"\n'
    )
    program.chmod(0o755)
    repo.git("config", "gpg.program", str(program))
    run = landable(repo, {"one": "1\n"}, {"two": "2\n"})
    repo.git("config", "commit.gpgSign", "true")
    assert run.merge("1")[0] == 0
    assert "gpgsig -----BEGIN PGP SIGNATURE-----" in repo.git("cat-file", "commit", "main")
    assert run.merge("2", "--strategy", "rebase")[0] == 0
    assert "gpgsig" in repo.git("cat-file", "commit", "main")


def test_a_signature_that_cannot_be_made_lands_nothing(repo):
    repo.git("config", "gpg.program", "false")
    run = landable(repo, {"one": "1\n"})
    repo.git("config", "commit.gpgSign", "true")
    done = repo.parallel("merge", "--yes")
    assert (done.returncode, "cannot sign" in done.stderr) == (128, True)
    assert repo.git("rev-parse", "main") == run.base
    assert repo.git("status", "--porcelain") == ""


def test_the_committer_is_the_person(repo):
    landable(repo, {"one": "1\n"}).merge()
    assert repo.git("log", "-1", "--format=%an <%ae> %cn <%ce>", "main") == (
        "A U Thor <author@example.com> C O Mitter <committer@example.com>"
    )


AFTER = ("post-merge", "post-commit", "post-checkout", "post-rewrite")


@pytest.mark.parametrize(
    ("strategy", "ran"),
    [
        ("merge", ["post-merge 0"]),
        ("squash", ["post-merge 1", "post-commit "]),
        ("rebase", ["post-merge 0"]),
        ("ff", ["post-merge 0"]),
    ],
)
def test_after_a_landing_into_a_checkout_the_hooks_run_that_git_would_run(repo, tmp_path, strategy, ran):
    seen = tmp_path / "seen"
    for name in AFTER:
        hook(
            repo,
            name,
            f'git status -s; echo "{name} $1" >> "{seen}"; pwd >> "{seen}.where"; cat one >> "{seen}.one" || :',
        )
    run = landable(repo, {"one": "1\n"})
    assert run.merge("--strategy", strategy)[0] == 0
    assert seen.read_text().splitlines() == ran
    assert {*(tmp_path / "seen.where").read_text().splitlines()} == {str(repo.path)}
    assert {*(tmp_path / "seen.one").read_text().splitlines()} == {"1"}  # the files had followed
    if strategy == "merge":
        seen.unlink()
        repo.git("switch", "-q", "-c", "theirs", run.base)
        seen.unlink()
        repo.git("merge", "-q", "--no-ff", "--no-edit", "architect/parallel-1")
        assert seen.read_text().splitlines() == ran


def test_no_hook_runs_after_a_landing_where_no_checkout_follows(repo, tmp_path):
    for name in AFTER:
        hook(repo, name, f'echo {name} >> "{tmp_path}/seen"')
    run = landable(repo, {"one": "1\n"})
    repo.git("switch", "-q", "-c", "elsewhere")
    (tmp_path / "seen").unlink()
    assert run.merge()[0] == 0
    assert not (tmp_path / "seen").exists()


def test_what_a_hook_says_afterwards_is_told_and_its_failure_changes_nothing(repo):
    hook(repo, "post-merge", "echo dependencies changed; exit 3")
    run = landable(repo, {"one": "1\n"})
    done = repo.parallel("merge", "--yes")
    assert done.returncode == 0
    assert "note: dependencies changed" in done.stderr
    assert "note: the hook post-merge failed with exit code 3; what has landed stays landed" in done.stderr
    assert repo.git("rev-parse", "main") != run.base
