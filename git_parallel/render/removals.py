"""Words for what cleanup removed and what restore can bring back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from git_parallel.integrate.cleanup import Outcome
from git_parallel.integrate.restorable import Restorable
from git_parallel.render import text
from git_parallel.store.snapshots import Snapshot
from git_parallel.worktrees import Trashed
from git_parallel.worktrees.uncaptured import Size

SHORT = 10
_INDENT = " " * 9
_MOST_EARLIER = 10
_MOST_NAMES = 5


def measured(total: Size) -> str:
    """``3 files, 1.2 MiB``."""
    more = "more than " if total.more else ""
    return f"{more}{text.count(total.files, 'file')}, {more}{text.size(total.size)}"


def span(seconds: float | None) -> str:
    """How long trash is kept, for a sentence: ``7 days``."""
    if seconds is None:
        return "ever"
    days = seconds / 86400
    return text.count(round(days), "day") if days >= 1 else text.duration(seconds)


def outcome(one: Outcome, *, dry_run: bool, expire: float | None) -> Iterator[str]:
    """The lines about one worker: what was done, then, indented, what is kept."""
    worker = one.remains
    branch = text.fit(worker.job.branch, 80)
    if one.action != "removed":
        why = one.obstacle.message if one.obstacle is not None else "nothing is left of it here"
        verb = "nothing" if one.action == "nothing" else one.action
        yield f"{verb:<8} {worker.handle}: {text.printable(why)}"
        if one.obstacle is not None and one.obstacle.hint:
            yield from (f"{_INDENT}{text.printable(line)}" for line in one.obstacle.hint.splitlines())
        return
    captured = one.captured
    assert captured is not None
    done = "would remove" if dry_run else "removed"
    gone = " and ".join(["worktree"] * one.worktree_removed + [f"branch {branch}"] * one.branch_removed)
    tip = f" (was {captured.head[:SHORT]})" if captured.head is not None else ""
    yield f"{done:<8} {worker.handle}: {gone}{tip}"
    if one.obstacle is not None:
        yield f"{_INDENT}branch kept: {text.printable(one.obstacle.message)}"
        yield from (f"{_INDENT}{text.printable(line)}" for line in one.obstacle.hint.splitlines())
    if kept := kept_work(one):
        snapshot = f" in snapshot {captured.snapshot[:SHORT]}" if captured.snapshot else ""
        yield f"{_INDENT}{'to keep' if dry_run else 'kept'}{snapshot}: {', '.join(kept)}"
    if captured.ignored.total.files:
        names = text.fit(", ".join(captured.ignored.names[:_MOST_NAMES]), 60)
        yield f"{_INDENT}ignored: {measured(captured.ignored.total)} ({names}); in the trash for {span(expire)}"
    for reason in captured.uncaptured:
        yield f"{_INDENT}not captured, stays in the trash: {text.printable(reason)}"


def kept_work(one: Outcome) -> list[str]:
    """What of a worker's work was in no commit of its branch."""
    captured = one.captured
    if captured is None:
        return []
    said = [text.count(captured.files, "uncommitted file")] if captured.files else []
    if captured.staged:
        said.append("an index of its own")
    if captured.at is not None and captured.at != captured.head:
        said.append(f"HEAD at {captured.at[:SHORT]}")
    if captured.lost:
        said.append(f"{text.count(len(captured.lost), 'commit')} that no branch had")
    return said


def outcomes_total(outcomes: Sequence[Outcome], *, dry_run: bool) -> str:
    """The line that sums a cleanup up."""
    removed = [one for one in outcomes if one.action == "removed"]
    said = [f"{text.count(len(removed), 'worker')} {'to remove' if dry_run else 'removed'}"]
    for action in ("refused", "kept"):
        if number := sum(one.action == action for one in outcomes):
            said.append(f"{number} {action}")
    return ", ".join(said)


def outcome_document(one: Outcome) -> Mapping[str, object]:
    """One worker of the JSON of ``cleanup``."""
    worker, captured = one.remains, one.captured
    ignored = captured.ignored if captured is not None else None
    return {
        "run": worker.run,
        "worker": worker.worker,
        "action": one.action,
        "reason": one.obstacle.reason if one.obstacle else None,
        "message": one.obstacle.message if one.obstacle else None,
        "hint": (one.obstacle.hint or None) if one.obstacle else None,
        "status": worker.result.status if worker.result else None,
        "branch": worker.job.branch,
        "branch_removed": one.branch_removed,
        "head": captured.head if captured else worker.tip,
        "snapshot": captured.snapshot if captured else None,
        "files": captured.files if captured else None,
        "lost": list(captured.lost) if captured else [],
        "worktree": worker.path,
        "worktree_removed": one.worktree_removed,
        "trash": one.trash,
        "ignored": {
            "files": ignored.total.files,
            "bytes": ignored.total.size,
            "more": ignored.total.more,
            "names": list(ignored.names[:_MOST_NAMES]),
        }
        if ignored is not None
        else None,
        "uncaptured": list(captured.uncaptured) if captured else [],
        "restore": f"git parallel restore {worker.handle}" if one.action == "removed" else None,
    }


def trashed_document(item: Trashed, total: Size | None) -> Mapping[str, object]:
    """A directory in the trash, in JSON."""
    return {
        "path": item.files,
        "was": item.path,
        "time": item.time,
        "files": total.files if total else None,
        "bytes": total.size if total else None,
        "held": list(item.hold),
    }


def restorable_document(
    item: Restorable,
    *,
    files: int | None,
    subjects: Mapping[str, str],
    sizes: Mapping[str, Size],
    history: Sequence[Snapshot],
) -> Mapping[str, object]:
    """One worker of the JSON of ``restore --list``."""
    state = item.snapshot
    return {
        "run": item.run,
        "worker": item.worker,
        "status": item.status,
        "branch": item.branch,
        "branch_exists": item.tip is not None,
        "head": item.head,
        "kept": item.kept,
        "snapshot": state.oid if state else None,
        "snapshot_time": state.time if state else None,
        "files": files,
        "staged": state.index is not None if state else False,
        "checkpoints": [{"commit": one.oid, "time": one.time} for one in history],
        "lost": [{"commit": oid, "subject": subjects.get(oid)} for oid in lost(item, history)],
        "ignored": item.ignored,
        "trash": [trashed_document(one, sizes.get(one.top)) for one in item.trash],
    }


def restorable_lines(
    item: Restorable,
    *,
    files: int | None,
    subjects: Mapping[str, str],
    sizes: Mapping[str, Size],
    history: Sequence[Snapshot],
    now: float,
    expire: float | None,
) -> Iterator[str]:
    """The lines about one worker in ``restore --list``."""
    where = "branch exists" if item.tip is not None else "branch removed"
    status = f"  {item.status}" if item.status else ""
    yield f"{item.handle}  {text.fit(item.branch or '?', 80)}  ({where}){status}"
    if item.head is not None:
        yield f"    tip       {item.head[:SHORT]}{_subject(subjects, item.head)}"
    state = item.snapshot
    if state is not None:
        what = [text.count(files, "uncommitted file")] if files else []
        what += ["an index of its own"] if state.index else []
        what += [f"HEAD at {state.head[:SHORT]}"] if state.head and state.head != item.head else []
        said = f": {', '.join(what)}" if what else ""
        yield f"    snapshot  {state.oid[:SHORT]}, {text.age(state.time, now)}{said}"
    for oid in lost(item, history):
        yield f"    commit    {oid[:SHORT]}{_subject(subjects, oid)} (no branch had it)"
    if item.ignored is not None:
        yield f"    ignored   {item.ignored[:SHORT]}, files that git ignores: with --worktree or --to DIR"
    earlier = [one for one in history if state is None or one.oid != state.oid]
    for past in earlier[:_MOST_EARLIER]:
        yield f"    earlier   {past.oid[:SHORT]}, {text.age(past.time, now)} ({text.clock(past.time)})"
    if len(earlier) > _MOST_EARLIER:
        yield f"    earlier   … and {len(earlier) - _MOST_EARLIER} more, back to {text.clock(earlier[-1].time)}"
    for one in item.trash:
        yield f"    trash     {_in_trash(one, sizes.get(one.top), now, expire)}"


def lost(item: Restorable, history: Sequence[Snapshot]) -> list[str]:
    """The commits that no branch had, of a worker's last state and of all that are kept before it."""
    states = [*([item.snapshot] if item.snapshot is not None else []), *history]
    return list(dict.fromkeys(oid for one in states for oid in one.lost))


def _subject(subjects: Mapping[str, str], oid: str) -> str:
    return f" {text.fit(subjects[oid], 60)}" if subjects.get(oid) else ""


def _in_trash(item: Trashed, total: Size | None, now: float, expire: float | None) -> str:
    said = [measured(total)] if total is not None else []
    said.append(f"removed {text.age(item.time, now)}")
    if item.held:
        said.append("kept until you take it out: " + "; ".join(text.printable(reason) for reason in item.hold))
    elif expire is not None:
        left = item.time + expire - now
        said.append(f"expires in {span(left)}" if left > 0 else "expires at the next cleanup")
    return ", ".join(said)


def lines(groups: Iterable[Iterable[str]]) -> str:
    """Join groups of lines into what is written to a terminal or a file."""
    return "".join(f"{line}\n" for group in groups for line in group)
