"""The walk of ``git parallel review``: shows a worker, asks for a key, does what it says, goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from msgspec import Struct, field

from git_parallel import errors
from git_parallel.cli import _act, _common, _keys, _look
from git_parallel.cli._act import say
from git_parallel.cli._keys import Keys
from git_parallel.errors import ParallelError
from git_parallel.git import Repository
from git_parallel.integrate import verdicts, workers
from git_parallel.integrate.review import decide, facts, session
from git_parallel.integrate.review.decide import MovedError, OvertakenError
from git_parallel.integrate.review.facts import Facts, Outlook
from git_parallel.integrate.review.session import KEYS, Action, Address, Session
from git_parallel.integrate.verdicts import Comment, Verdict, Word
from git_parallel.integrate.workers import Candidate
from git_parallel.render import review, terminal, text
from git_parallel.store import handles

_PAUSE = 0.2  # seconds between two looks at workers that go on


def walk(repo: Repository, words: Sequence[str], *, follow: bool) -> int:
    """Walk the workers that have ended; return the exit code: 1 when one was rejected."""
    from git_parallel.supervisor import interrupted  # noqa: PLC0415 (not needed for -h)

    for line in interrupted.notice(repo):
        click.echo(line, err=True)
    words = list(words) or workers.going_on(repo)
    if not words:
        _common.say("hint", 'no run yet; start one with: git parallel "what is to be done"')
        return errors.OK
    named = any(handle.worker is not None for handle in handles.resolve(repo, words))
    return Walk(repo, words, follow, Keys.of(repo.git), every=named).run()


class Walk(Struct, dict=True):
    """One person's way through the workers that ``words`` name. ``every``: also through those already decided."""

    repo: Repository
    words: Sequence[str]
    follow: bool
    keys: Keys
    every: bool
    colour: bool = False
    session: Session = field(default_factory=lambda: Session(()))
    known: dict[Address, Candidate] = field(default_factory=dict)
    all: list[Candidate] = field(default_factory=list)
    shown: set[tuple[Address, str]] = field(default_factory=set)
    before: dict[Address, str] = field(default_factory=dict)
    decided: dict[Address, Word] = field(default_factory=dict)
    sent_back: set[Address] = field(default_factory=set)

    def run(self) -> int:
        """Go through all of them."""
        self.colour = terminal.colour(self.repo, sys.stdout)
        self.outlook = Outlook(self.repo)
        ended = self._gather()
        self.session = session.begin(ended, self._given(ended), every=self.every)
        self._open()
        try:
            while self.session.worker is not None or self._more():
                if not self._visit():
                    break
        except KeyboardInterrupt:
            say("")
            self._close()
            raise
        self._close()
        return errors.WORKER_FAILED if "rejected" in self.decided.values() else errors.OK

    # the workers

    def _gather(self) -> list[Address]:
        """Read all workers again; return those that can be reviewed."""
        found = workers.gather(self.repo, self.words)
        self.known = {(one.run, one.worker): one for one in found}
        self.all = workers.gather(self.repo, list({one.run: None for one in found}), default=())
        return [address for address, one in self.known.items() if one.ended and one.tip is not None]

    def _given(self, addresses: Sequence[Address]) -> dict[Address, Word]:
        """The verdicts that stand."""
        found: dict[Address, Word] = {}
        for run in {run for run, _ in addresses}:
            of_run = verdicts.of_run(self.repo, run)
            for address in addresses:
                if address[0] == run:
                    one = verdicts.current(of_run.get(address[1], []), self.known[address].tip)
                    found.update({address: one.verdict} if one is not None else {})
        return found

    def _more(self) -> bool:
        """Take in what has ended meanwhile; with ``--follow`` wait for it. False when there is nothing to come."""
        told = False
        while True:
            ended = self._gather()
            given = self._given(ended)
            for address in ended:
                void = address in self.session.given and address not in given
                if void or address in self.sent_back:
                    self.session = session.reopened(self.session, address)
            self.sent_back -= set(ended)
            self.session = session.joined(self.session, ended, given)
            if self.session.worker is not None:
                return True
            going = [one for one in self.known.values() if not one.ended and one.state != "interrupted"]
            if not self.follow or not going:
                return False
            if not told:
                say(f"waiting for {text.count(len(going), 'worker')}; q and Enter leaves")
                told = True
            if _keys.pressed(_PAUSE) in ("q", _keys.END):
                return False

    def _open(self) -> None:
        """Say what will not come up."""
        for one in self.known.values():
            if one.ended and one.tip is None:
                status = f" ({text.ending(one.result.status, one.result.reason)})" if one.result is not None else ""
                say(f"worker {one.worker} has no branch to review{status}")
        waiting = [one for one in self.known.values() if not one.ended]
        if waiting and not self.follow:
            say(f"{text.count(len(waiting), 'worker')} still at work; --follow waits for them")
        if self.session.workers and self.session.worker is None:
            say("all of them have a verdict already; name a worker to look at it again")

    # one worker

    def _visit(self) -> bool:
        """Show the worker and take keys until the walk goes on; False when the person leaves."""
        seen = self._present()
        while seen is not None:
            at = self.session.position + 1
            question = f"({at}/{len(self.session.workers)}) worker {seen.candidate.worker}: approve it"
            key = self.keys.ask(question, list(KEYS))
            self.session, action = session.step(self.session, key or "q")
            if action == "leave":
                return False
            if action == "arrive":
                return True
            try:
                again = self._do(action, seen)
            except MovedError as error:
                _complain(error)
                again = True
            except OvertakenError as error:
                _complain(error)
                again = True
            except ParallelError as error:
                _complain(error)
                again = False
            if self.session.position + 1 != at:
                return True
            if again:
                seen = self._present()
        return True

    def _present(self) -> Facts | None:
        """Print all about the worker as it is now; None when it can no longer be reviewed."""
        address = self.session.worker
        assert address is not None
        self._gather()
        one = self.known.get(address)
        if one is None or one.tip is None or not one.ended:
            say(f"worker {address[1]} can no longer be reviewed: its branch is gone, or it works again")
            self.session, _ = session.step(self.session, "s")
            return None
        given = verdicts.of_run(self.repo, one.run).get(one.worker, [])
        found = self.outlook.add(facts.gather(self.repo, one, given), self.all)
        self.session = session.stands(self.session, address, found.verdict.verdict if found.verdict else None)
        at, count = self.session.position + 1, len(self.session.workers)
        sys.stdout.write("\n" + review.header(found, at=at, count=count, colour=self.colour))
        sys.stdout.flush()
        if found.empty:
            say("the branch changes nothing")
        else:
            _look.stat(self.repo, found)
        moved = self.before.get(address)
        self.before[address] = found.tip
        old = moved if moved not in (None, found.tip) else found.void.head if found.void is not None else None
        if old is not None and (address, found.tip) not in self.shown:
            self._interdiff(found, old)
        if not found.empty and (address, found.tip) not in self.shown:
            _look.diff(self.repo, found)
        self.shown.add((address, found.tip))
        return found

    def _do(self, action: Action, seen: Facts) -> bool:
        """Do what a key asks for; True when the worker is to be shown again. Raises ParallelError."""
        match action:
            case "approve":
                self._give(seen, "approved")
            case "reject":
                self._give(seen, "rejected")
            case "changes":
                self._ask_for_changes(seen)
            case "edit":
                _act.edit_in_worktree(self.repo, self.keys, seen)
                return self._moved(seen)
            case "hunks":
                return _act.take_hunks(self.repo, self.keys, seen) is not None
            case "check":
                _act.run_checks(self.repo, self.keys, seen)
                return self._moved(seen)
            case "help":
                sys.stdout.write(review.help_lines(list(KEYS)))
            case "first":
                say("this is the first one")
            case _:
                self._look(action, seen)
        return False

    def _look(self, action: Action, seen: Facts) -> None:
        one = seen.candidate
        match action:
            case "diff":
                _look.diff(self.repo, seen)
            case "difftool":
                _look.difftool(self.repo, seen)
            case "interdiff":
                self._since_last_review(seen)
            case "log":
                _look.log(self.repo, one)
            case "compare":
                same = [other for other in self.all if facts.same_task(other, one)]
                _look.compare(self.repo, same, coloured=self.colour)

    def _since_last_review(self, seen: Facts) -> None:
        reviewed = next((given.head for given in reversed(seen.history) if given.head != seen.tip), None)
        left = seen.candidate.result.head if seen.candidate.result is not None else None
        old = reviewed or (left if left != seen.tip else None)
        if old is None:
            say("it was not reviewed at another head")
        else:
            self._interdiff(seen, old)

    def _interdiff(self, seen: Facts, old: str) -> None:
        if _look.known(self.repo, old):
            _look.interdiff(self.repo, seen, old)
        else:
            say(f"{old[:12]} is not in this repository any more: there is nothing to compare with")

    def _moved(self, seen: Facts) -> bool:
        """Whether the branch is elsewhere now: what was shown is not what a verdict would be about."""
        self._gather()
        now = self.known.get((seen.candidate.run, seen.candidate.worker))
        return now is None or now.tip != seen.tip

    # verdicts

    def _give(self, seen: Facts, word: Word, message: str | None = None, comments: Sequence[Comment] = ()) -> Verdict:
        verdict = decide.give(
            self.repo, seen.candidate, word, seen=seen.verdict, message=message, comments=comments, terminal=True
        )
        address = (seen.candidate.run, seen.candidate.worker)
        said = text.paint(word, review.VERDICT_COLOURS[word], self.colour)
        sys.stdout.write(f"worker {seen.candidate.worker}: {said} at {verdict.head[:12]}\n")
        sys.stdout.flush()
        for doubt in decide.doubts(self.repo, seen.candidate) if word == "approved" else ():
            _common.say("warning", doubt)
        self.decided[address] = word
        self.session = session.decided(self.session, word)
        return verdict

    def _ask_for_changes(self, seen: Facts) -> None:
        written = _act.comment(self.repo, seen)
        if written is None:
            return
        path, message, comments = written
        try:
            self._give(seen, "changes", message, comments)
        except ParallelError:
            say(f"what you wrote is in {path}")
            raise
        _act.discard(path)
        self._offer_another_round(seen.candidate)

    def _offer_another_round(self, one: Candidate) -> None:
        """Let the agent go on with the comments as its task; it comes up again when it has ended."""
        from git_parallel.supervisor import again  # noqa: PLC0415 (only after a request for changes)

        if _takes_commands(one):
            _common.say("hint", f"its task is a command line: git parallel retry {one.worker} -m COMMAND")
        elif self.keys.ask("send it back to the agent now", "yn") == "y":
            again.retry(self.repo, one.run, one.worker)
            self.sent_back.add((one.run, one.worker))
            when = "it comes up again" if self.follow else "review it again"
            say(f"worker {one.worker} goes on; {when} when it has ended")

    def _close(self) -> None:
        """Sum up what was decided, and say what comes next."""
        left = len(self.session.left)
        rest = f"; {text.count(left, 'worker')} without a verdict" if left else ""
        if self.decided:
            say(f"{review.tally(self.decided.values())}{rest}")
        for (run, worker), word in self.decided.items():
            one = self.known.get((run, worker)) if (run, worker) not in self.sent_back else None
            if word == "changes" and one is not None and not _takes_commands(one):
                _common.say("hint", f"send worker {worker} back with: git parallel retry {worker}")
        if "approved" in self.decided.values():
            _common.say("hint", "land what is approved with: git parallel merge")


def _takes_commands(one: Candidate) -> bool:
    """Whether a worker's task is a command line, into which no review is put."""
    from git_parallel.agents import preset  # noqa: PLC0415 (only after a request for changes)
    from git_parallel.supervisor import feedback  # noqa: PLC0415

    return bool(one.spec.preset) and feedback.takes_commands(preset.from_data(one.spec.preset))


def _complain(error: ParallelError) -> None:
    _common.say("error", error.message)  # never fatal: the walk goes on
    for hint in error.hints:
        _common.say("hint", hint)
