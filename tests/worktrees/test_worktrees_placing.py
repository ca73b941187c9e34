"""Numbers are free as branch and as path; what cannot work is said before anything is made."""

from __future__ import annotations

import os
import subprocess

import pytest
from workers_on_disk import BRANCH, RUN, WORKTREE, places, values, worker

from git_parallel.errors import UsageError
from git_parallel.git import Git, Repository
from git_parallel.worktrees import Place, Template, allocate, exclude
from git_parallel.worktrees.branches import Wanted, existing
from git_parallel.worktrees.names import field_values


def numbers(repo, count, **templates):
    return [place.worker for place in places(Repository.discover(str(repo.path)), count, **templates)]


def test_a_clean_repository_gives_one_to_n(repo):
    found = places(Repository.discover(str(repo.path)), 3)
    assert found == [
        Place(n, f"architect/parallel-{n}", str(repo.path / f".architect-parallel-{n}")) for n in (1, 2, 3)
    ]


def test_a_number_is_taken_by_a_branch_or_a_path_of_any_kind(repo):
    repo.git("branch", "architect/parallel-1")
    (repo.path / ".architect-parallel-2").mkdir()
    (repo.path / ".architect-parallel-3").write_text("mine\n")
    (repo.path / ".architect-parallel-5").symlink_to("nowhere")
    repo.git("branch", "architect/parallel-6/below")
    assert numbers(repo, 4) == [4, 7, 8, 9]
    assert (repo.path / ".architect-parallel-3").read_text() == "mine\n"


def test_the_branch_that_the_person_stands_on_is_only_taken(repo):
    repo.git("switch", "-q", "-c", "architect/parallel-1")
    assert numbers(repo, 1) == [2]


def test_an_unborn_branch_in_a_worktree_is_taken(repo):
    repo.git("switch", "-q", "--orphan", "architect/parallel-1")
    assert numbers(repo, 1) == [2]


def test_a_registered_worktree_whose_directory_is_gone_keeps_its_path(repo):
    repo.git("worktree", "add", "-q", "--detach", str(repo.path / ".architect-parallel-1"))
    (repo.path / ".architect-parallel-1").rename(repo.path.parent / "moved")
    assert numbers(repo, 1) == [2]


def test_numbers_that_the_caller_knows_to_be_taken_are_passed_over(repo):
    found = Repository.discover(str(repo.path))
    given = allocate(found, 2, branch=BRANCH, worktree=WORKTREE, values=values, taken=(1, 3))
    assert [place.worker for place in given] == [2, 4]


def test_a_packed_branch_and_an_unreadable_one_are_taken(repo):
    repo.git("branch", "architect/parallel-1")
    repo.git("pack-refs", "--all")
    repo.write(".git/refs/heads/architect/parallel-2", "")
    assert numbers(repo, 1) == [3]


def test_a_thousand_branches_cost_few_git_calls(repo, monkeypatch):
    head = repo.git("rev-parse", "HEAD")
    creates = "".join(f"create refs/heads/architect/parallel-{n} {head}\n" for n in range(1, 1001))
    repo.git("update-ref", "--stdin", stdin=creates.encode())
    repo.git("pack-refs", "--all")
    calls = []
    begin = Git.begin
    monkeypatch.setattr(Git, "begin", lambda self, *words, **more: calls.append(words) or begin(self, *words, **more))
    assert numbers(repo, 2) == [1001, 1002]
    assert len(calls) <= 10


def test_a_number_belongs_to_one_worker_whatever_its_task_is_called(repo):
    repo.git("branch", "work/other-task-1")
    repo.git("branch", "work/other-task-3/below")
    found = places(Repository.discover(str(repo.path)), 2, "work/{task}-{n}")
    assert [place.branch for place in found] == ["work/fix-thing-0-2", "work/fix-thing-1-4"]


def test_a_number_in_a_directory_of_the_branch_is_taken_by_a_branch_of_that_name(repo):
    repo.git("branch", "w1")
    assert numbers(repo, 1, branch="w{n}/{model}") == [2]


def test_names_that_come_out_the_same_are_given_once(repo):
    found = Repository.discover(str(repo.path))
    names = ["v1", "v"]
    given = allocate(
        found, 2, branch="{task}{n}", worktree=WORKTREE, values=lambda i: {"task": names[i]}, taken=range(2, 11)
    )
    assert [place.branch for place in given] == ["v11", "v12"]


@pytest.mark.parametrize("template", ["architect/parallel-{n}", "architect/{run}/{n}"])
def test_a_branch_in_the_way_of_the_directory_is_found_first(repo, template):
    repo.git("branch", "architect")
    with pytest.raises(UsageError) as caught:
        numbers(repo, 1, branch=template)
    assert "a branch named 'architect' exists" in caught.value.message
    assert "git branch -m architect" in caught.value.hints[0]
    assert "git config parallel.branch" in caught.value.hints[1]


def test_a_branch_in_the_way_of_one_workers_directory_is_found_first(repo):
    repo.git("branch", "fix-thing-1")
    with pytest.raises(UsageError, match="a branch named 'fix-thing-1' exists"):
        numbers(repo, 3, branch="{task}/{n}")


def test_what_lies_beside_the_candidates_is_not_listed(repo):
    for name in ("architect/other", "architect/deep/er", "architect/parallel-9", "main-line"):
        repo.git("branch", name)
    wanted = Wanted.of(Template.parse(BRANCH, "parallel.branch"), [field_values(values(0))])
    assert existing(Repository.discover(str(repo.path)), wanted.patterns(range(1, 3))) == set()


def test_branches_below_the_template_are_not_in_its_way(repo):
    repo.git("branch", "architect/something")
    assert numbers(repo, 1) == [1]


@pytest.mark.parametrize("template", ["-x{n}", "a..{n}", "a b{n}", "x/{n}.lock", ".x/{n}", "a/{n}/"])
def test_a_branch_template_that_makes_an_invalid_name_is_refused(repo, template):
    with pytest.raises(UsageError, match="no valid branch name"):
        numbers(repo, 1, branch=template)


def test_relative_absolute_and_home_templates(repo, tmp_path):
    def path(template):
        return places(Repository.discover(str(repo.path)), 1, worktree=template)[0].path

    assert path("wt/{n}") == str(repo.path / "wt" / "1")
    assert path("../{repo}-trees/{n}") == str(tmp_path / "repo-trees" / "1")
    assert path(str(tmp_path / "x-{n}")) == str(tmp_path / "x-1")
    assert path("~/trees/{n}-{task}") == os.path.join(os.environ["HOME"], "trees", "1-fix-thing-0")


def test_a_path_through_a_link_is_the_path_that_git_records(repo, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert places(Repository.discover(str(repo.path)), 1, worktree="../link/{n}")[0].path == str(tmp_path / "real/1")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (".git/{n}", "inside the git directory"),
        (".git/worktrees/{n}", "inside the git directory"),
        ("README/{n}", "'{top}/README' is not a directory"),
        ("{n}/..", "names no directory"),
        ("~nobody-here/{n}", "no user"),
        ("x" * 260 + "{n}", "too long"),
        (".architect-parallel-{n}/x", None),
    ],
)
def test_a_worktree_template_that_cannot_work_is_refused(repo, template, words):
    if words is None:
        assert numbers(repo, 1, worktree=template) == [1]
        return
    with pytest.raises(UsageError) as caught:
        numbers(repo, 1, worktree=template)
    assert words.replace("{top}", str(repo.path)) in caught.value.message
    assert "git config parallel.worktree" in caught.value.hints[0]


def test_a_worktree_inside_a_workers_worktree_is_refused(repo):
    made = worker(repo.path)
    with pytest.raises(UsageError, match="inside the worktree of a worker"):
        numbers(repo, 1, worktree=f"{made.path}/sub/{{n}}")


def test_a_bare_repository_holds_worktrees_but_not_in_gits_own_directories(make_repo):
    bare = make_repo("bare.git", commit=False, init=("--bare",))
    assert places(Repository.discover(str(bare.path)), 1)[0].path == str(bare.path / ".architect-parallel-1")
    for own in ("refs", "worktrees", "objects"):
        with pytest.raises(UsageError, match="inside the git directory"):
            numbers(bare, 1, worktree=f"{own}/{{n}}")


def test_a_bare_repository_called_dot_git_has_its_worktrees_beside_it(make_repo, tmp_path):
    bare = make_repo("project/.git", commit=False, init=("--bare",))
    assert places(Repository.discover(str(bare.path)), 1)[0].path == str(tmp_path / "project/.architect-parallel-1")


def test_from_a_linked_worktree_and_a_subdirectory_the_place_is_the_same(repo, tmp_path):
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    for where in (tmp_path / "linked", repo.path / "src", repo.path / ".git"):
        assert places(Repository.discover(str(where)), 1)[0].path == str(repo.path / ".architect-parallel-1")


# --- info/exclude ----------------------------------------------------------------------------------


def exclusions(repo):
    return (repo.path / ".git/info/exclude").read_bytes()


def test_the_pattern_is_added_once_and_the_file_is_kept(repo):
    found = Repository.discover(str(repo.path))
    (repo.path / ".git/info/exclude").write_bytes(b"# mine\r\n*.tmp")
    assert exclude(found, WORKTREE) == []
    first = exclusions(repo)
    assert first == b"# mine\r\n*.tmp\n# worktrees of git parallel\n/.architect-parallel-[0-9]*/\n"
    exclude(found, WORKTREE)
    assert exclusions(repo) == first
    exclude(found, "trees/{task}-{n}")
    assert exclusions(repo) == first + b"/trees/*-[0-9]*/\n"


def test_the_file_is_made_when_it_is_absent_and_written_through_when_it_is_a_link(repo, tmp_path):
    found = Repository.discover(str(repo.path))
    info = repo.path / ".git/info"
    for child in info.iterdir():
        child.unlink()
    info.rmdir()
    exclude(found, WORKTREE)
    assert b"/.architect-parallel-[0-9]*/\n" in exclusions(repo)
    (tmp_path / "shared").write_text("x\n")
    (info / "exclude").unlink()
    (info / "exclude").symlink_to(tmp_path / "shared")
    exclude(found, WORKTREE)
    assert "/.architect-parallel-[0-9]*/\n" in (tmp_path / "shared").read_text()


def test_worktrees_elsewhere_need_no_pattern(repo, tmp_path):
    before = exclusions(repo)
    found = Repository.discover(str(repo.path))
    exclude(found, "../trees/{n}")
    exclude(found, str(tmp_path / "repo-trees-{n}"))
    assert exclusions(repo) == before


def test_a_template_with_little_fixed_text_hides_only_the_worktrees_themselves(repo):
    found = Repository.discover(str(repo.path))
    template = "{task}-{n}"
    exclude(found, template, places(found, 2, worktree=template))
    assert exclusions(repo).endswith(b"/fix-thing-0-1/\n/fix-thing-1-2/\n")
    repo.write("python-3/file", "mine\n")
    assert repo.git("status", "--porcelain") == "?? python-3/"


def test_glob_characters_in_the_template_are_literal(repo):
    exclude(Repository.discover(str(repo.path)), "w[x]*/{n}")
    assert exclusions(repo).endswith(b"/w\\[x]\\*/[0-9]*/\n")


def test_add_and_clean_in_the_main_worktree_leave_the_worktrees_alone(repo):
    made = worker(repo.path)
    (made.path / "work.txt").write_text("hours of it\n")
    repo.write("new.txt", "new\n")
    repo.git("add", "-A")
    assert repo.git("diff", "--cached", "--name-only") == "new.txt"
    repo.write("junk/x", "junk\n")
    repo.git("clean", "-ffdq")
    assert not (repo.path / "junk").exists()
    assert (made.path / "work.txt").read_text() == "hours of it\n"


@pytest.mark.parametrize("template", [WORKTREE, "trees/{n}"])
def test_a_gitignore_that_takes_the_exclusion_back_is_told(repo, template):
    repo.commit("white list", {".gitignore": "*\n!*/\n!*.txt\n"})
    (warning,) = exclude(Repository.discover(str(repo.path)), template)
    advice = f"/{template.replace('{n}', '*')}/"
    assert advice in warning
    assert repo.git("status", "--porcelain") == ""
    assert sorted(child.name for child in repo.path.iterdir()) == [".git", ".gitignore", "README", "src"]
    repo.write(".gitignore", f"*\n!*/\n!*.txt\n{advice}\n")
    assert exclude(Repository.discover(str(repo.path)), template) == []


def test_a_negation_about_other_files_is_no_reason_to_warn(repo):
    repo.commit("ignore", {".gitignore": "*.log\n!keep.log\n"})
    assert exclude(Repository.discover(str(repo.path)), WORKTREE) == []


def test_run_ids_are_kept_as_they_are_in_names(repo):
    (place,) = places(Repository.discover(str(repo.path)), 1, "architect/{run}/{n}")
    assert place.branch == f"architect/{RUN}/1"
    checked = subprocess.run(["git", "check-ref-format", "--branch", place.branch], check=False, capture_output=True)
    assert checked.returncode == 0
