"""Words for a landing: what is about to land, what became of each branch, and the total."""

from __future__ import annotations

from collections.abc import Sequence

from git_parallel.integrate.person import Link, outcome
from git_parallel.integrate.plan import Branch, Checked, Merge
from git_parallel.render import text

_COLOURS = {"landed": "green", "parked": "yellow", "red": "red", "refused": "red", "skipped": "dim", "waiting": None}
_MOST_FILES = 10
_MOST_TAIL = 15


def short(target: str) -> str:
    return target.removeprefix("refs/heads/")


def header(merge: Merge, branch: Branch, *, colour: bool) -> list[str]:
    """The lines that introduce a branch."""
    number = merge.branches.index(branch) + 1
    agent = text.one_line(branch.agent) + (f", {text.one_line(branch.model)}" if branch.model else "")
    review = f"approved by {text.one_line(branch.by)}" if branch.by else "not reviewed (--no-review)"
    facts = [agent, branch.status, review]
    title = f"worker {branch.worker} ({number} of {len(merge.branches)}): {text.fit(branch.title, 100)}"
    return [
        text.paint(title, "bold", colour),
        "  " + " · ".join(fact for fact in facts if fact),
    ]


def checks(found: Sequence[Checked], *, colour: bool) -> list[str]:
    """A line for each check."""
    return [check(one, colour=colour) for one in found]


def check(one: Checked, *, colour: bool) -> str:
    """``check: make test: green (1.2s)``."""
    how = "known for this tree" if one.cached else text.duration(one.duration)
    said = text.paint(outcome(one), "green" if one.green else "red", colour)
    return f"  check: {text.fit(one.command, 60)}: {said} ({how})"


def settled(merge: Merge, branch: Branch, *, colour: bool) -> str:
    """What became of a branch, in a line; files of a conflict below."""
    state = text.paint(f"{branch.state:8}", _COLOURS[branch.state], colour)
    if branch.state == "landed":
        said = f"{(branch.commit or '')[:12]} {text.fit(branch.title, 80)}"
    else:
        said = "\n".join(text.printable(line) for line in (branch.why or "").split("\n"))
    lines = [f"{state}  worker {branch.worker}: {said}"]
    lines += [f"            {text.printable(path)}" for path in branch.files[:_MOST_FILES]]
    if len(branch.files) > _MOST_FILES:
        lines.append(f"            … and {len(branch.files) - _MOST_FILES} more")
    red = next((one for one in branch.checks if not one.green), None)
    if branch.state == "red" and red is not None:
        lines += [f"            {line}" for line in tail(red.log)]
        lines.append(f"            (all of it: {red.log})")
    return "\n".join(lines)


def tail(path: str) -> list[str]:
    """The last lines of a check's output."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 8192))
            data = file.read()
    except OSError:
        return []
    return [text.fit(line, 200) for line in data.decode("utf-8", "surrogateescape").splitlines()[-_MOST_TAIL:]]


def total(merge: Merge) -> str:
    """``2 landed on main, 1 parked``."""
    counts = {
        state: sum(branch.state == state for branch in merge.branches)
        for state in ("landed", "parked", "red", "refused", "skipped", "waiting")
    }
    said = [f"{number} {state}" for state, number in counts.items() if number and state != "landed"]
    return ", ".join([f"{counts['landed']} landed on {short(merge.target)}", *said])


def hints(merge: Merge) -> list[str]:
    """What to type next."""
    found = []
    if merge.state == "stopped" and merge.stop is not None:
        found += [
            f"resolve the conflict in '{merge.stop.worktree}' (git mergetool works there), 'git add' the files,",
            "then: git parallel merge --continue (or --skip, --abort)",
        ]
    if any(branch.state == "parked" for branch in merge.branches):
        parked = " ".join(str(branch.worker) for branch in merge.branches if branch.state == "parked")
        found.append(f"resolve a parked one with: git parallel merge --stop {parked}")
    if any(branch.state == "refused" and branch.files for branch in merge.branches):
        found.append("commit or move what is in the way, and run the command again; none of it was touched")
    for branch in merge.branches:
        if branch.resolution is not None and branch.state != "landed":
            found += [
                f"what you resolved for worker {branch.worker} is kept: git show {branch.resolution[:12]}",
                f"to use it: git parallel merge --stop {branch.worker}, and in its worktree: "
                f"git checkout {branch.resolution[:12]} -- PATH",
            ]
    if merge.landed:
        found.append(f"take it back with: git parallel merge --undo {merge.merge}")
    return found


def preview(merge: Merge, links: Sequence[Link]) -> str:
    """The plan of a dry run."""
    known = {link.branch.handle: link for link in links}
    lines = [f"on {short(merge.target)} at {merge.start[:12]}, strategy {merge.strategy}:"]
    for branch in merge.branches:
        link = known.get(branch.handle)
        if link is None:
            lines.append(settled(merge, branch, colour=False))
            continue
        files = text.count(len(link.step.changed), "path")
        lines.append(
            f"would land  worker {branch.worker}: {text.fit(branch.title, 60)} ({files}, tree {link.step.tree[:12]})"
        )
    lines += [f"check: {text.one_line(command.text)}" for command in merge.checks]
    return "\n".join(lines) + "\n"
