"""Shows a run's workers in herdr, a terminal multiplexer for agents, where one is running.

Each worker that starts is opened as one of its worktrees, and its state reported there. The protocol is one
JSON object a line over a Unix socket, a request and its response (herdr.dev/docs/socket-api). Whatever goes
wrong with it, the run knows nothing of it: a thread of its own talks, never waits long, and is silent for the
rest of the run once herdr has not answered.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue
from typing import Any

from git_parallel.render import text
from git_parallel.supervisor.view import WorkerView

_SOURCE = "custom:git-parallel"
_PATIENCE = 2.0  # seconds for one answer
_LAST_WAIT = 1.0  # seconds at the end of the run for what is still to be said
_MOST = 1 << 20  # bytes of an answer
_LABEL = 40

# herdr's states by ours; it calls an agent that has become idle done, until the person has looked. The short
# steps before and after the work are none of its business.
_STATES = {"running": "working", "blocked": "blocked", "paused": "idle", "ended": "idle"}


class Herdr:
    """Tells the herdr that listens at ``path`` of the workers of a run.

    ``cwd`` is an absolute path in the repository, ``agent`` what does the work.
    """

    def __init__(self, path: str, *, cwd: str, agent: str) -> None:
        self._path = path
        self._cwd = cwd
        self._agent = text.fit(agent, _LABEL)
        self._panes: dict[int, str | None] = {}
        self._said: dict[int, tuple[str, str | None]] = {}
        self._views: SimpleQueue[WorkerView | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._talk, name="herdr", daemon=True)
        self._thread.start()

    def show(self, view: WorkerView) -> None:
        """Report a worker's state, if it is another one. Returns at once."""
        state = _STATES.get(view.state)
        if state is None or (view.result is not None and view.result.started is None):  # that one never ran
            return
        said = (state, _message(view))
        if self._said.get(view.worker) != said:
            self._said[view.worker] = said
            self._views.put(view)

    def close(self) -> None:
        """Let the last reports through, if herdr is quick."""
        self._views.put(None)
        self._thread.join(_LAST_WAIT)

    def _talk(self) -> None:
        try:
            while (view := self._views.get()) is not None:
                self._report(view)
        except (OSError, ValueError):  # gone, too slow, or something else than herdr: no more of it
            return

    def _report(self, view: WorkerView) -> None:
        if view.worker not in self._panes:
            self._panes[view.worker] = self._open(view)
        pane = self._panes[view.worker]
        if pane is not None:
            report = {"pane_id": pane, "source": _SOURCE, "agent": self._agent, "state": _STATES[view.state]}
            # A later round of a worker finds the same pane: numbers must go on growing over runs of the program.
            self._ask("pane.report_agent", {**report, "message": _message(view), "seq": time.time_ns() // 1000})

    def _open(self, view: WorkerView) -> str | None:
        """Open the worktree and return the pane that stands for the worker; None when herdr refuses it."""
        label = f"{view.worker}: {text.fit(view.title, _LABEL)}"
        asked = {"cwd": self._cwd, "path": view.worktree, "label": label, "focus": False}
        pane = self._ask("worktree.open", asked).get("root_pane")
        found = pane.get("pane_id") if isinstance(pane, dict) else None
        return found if isinstance(found, str) else None

    def _ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        """Send a request and return its result; empty for an error. Raises OSError, ValueError."""
        import socket  # noqa: PLC0415 (4 ms, on this thread alone)

        request = json.dumps({"id": f"git-parallel:{method}", "method": method, "params": params}) + "\n"
        deadline = time.monotonic() + _PATIENCE
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE)
            connection.connect(self._path)
            connection.sendall(request.encode("utf-8", "replace"))
            answer = b""
            while b"\n" not in answer:
                connection.settimeout(max(0.01, deadline - time.monotonic()))
                data = connection.recv(1 << 16)
                if not data or len(answer) > _MOST or time.monotonic() > deadline:
                    raise ValueError("no answer of herdr")
                answer += data
        said = json.loads(answer.partition(b"\n")[0])
        if not isinstance(said, dict):
            raise ValueError("no answer of herdr")
        result = said.get("result")
        return result if isinstance(result, dict) else {}


def _message(view: WorkerView) -> str | None:
    """What is said beside the state: how a worker ended, what it waits for."""
    if view.result is not None:
        return text.ending(view.result.status, view.result.reason)
    return view.reason if view.state in ("blocked", "paused") else None
