"""Writes workers' ends into the record, those that end together in one transaction.

Each worker's thread submits its entry and waits until it is on a ref. While one thread writes, others
queue up behind it; the next writer takes all of them at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from msgspec import Struct

from git_parallel.errors import ParallelError
from git_parallel.git import Pending, Repository
from git_parallel.store import record, refs
from git_parallel.store.objects import Objects


class _Waiting(Struct):
    entry: record.Entry
    error: BaseException | None = None
    done: bool = False


class Recorder:
    """Combines record writes of one run. ``events`` returns the journal's bytes, which every record carries.

    It knows where the last write left the refs, which this process alone moves as a rule. :meth:`close` it, which
    closes ``objects``, too.
    """

    def __init__(
        self,
        repo: Repository,
        run: str,
        events: Callable[[], bytes],
        objects: Objects,
    ) -> None:
        self.repo = repo
        self.run = run
        self.events = events
        self.objects = objects
        self._tips: record.Tips = {}
        self._asked: Pending | None = None
        self._transactions = refs.Transactions(repo, f"parallel: workers of {run}")
        self._pending: list[_Waiting] = []
        self._list = threading.Lock()
        self._writing = threading.Lock()

    def close(self) -> None:
        """Let go the processes that it keeps."""
        if self._asked is not None:
            self._asked.cancel()
        self._transactions.close()
        self.objects.close()

    def begin(self) -> None:
        """Begin to read where the refs are that the first write moves. The caller holds the lock until that is done."""
        self._asked = record.begin_tips(self.repo, [record.run_chain(self.run, ())])

    def submit(self, entry: record.Entry) -> None:
        """Write ``entry``; returns once it is recorded.

        Raises RaceError when one of its own updates was overtaken, ParallelError when it cannot be written.
        """
        waiting = _Waiting(entry)
        with self._list:
            self._pending.append(waiting)
        with self._writing:
            if not waiting.done:
                with self._list:
                    batch, self._pending = self._pending, []
                self._write(batch)
        if waiting.error is not None:
            raise waiting.error

    def _write(self, batch: list[_Waiting]) -> None:
        try:
            chain = record.run_chain(self.run, self._entries(batch))
            asked, self._asked = self._asked, None
            record.write_chains(
                self.repo, [chain], objects=self.objects, tips=asked, known=self._tips, through=self._transactions
            )
        except ParallelError as error:
            if len(batch) == 1:
                batch[0].error = error
            else:  # one of them was overtaken, or cannot be written: each by itself, so that the others get through
                for waiting in batch:
                    self._write([waiting])
                return
        except BaseException as error:
            for waiting in batch:
                waiting.error = error
        for waiting in batch:
            waiting.done = True

    def _entries(self, batch: list[_Waiting]) -> list[record.Entry]:
        entries = [waiting.entry for waiting in batch]
        entries[-1] = entries[-1].with_changes({"events.jsonl": self.events()})
        return entries
