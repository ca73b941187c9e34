"""A stand-in for herdr: listens on a Unix socket and answers as its documentation of the socket API says.

A request is held to what the schema of the protocol (version 20) asks for; a wrong one is an error, as there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_REQUIRED = {
    "worktree.open": {"cwd": str, "path": str, "label": str, "focus": bool},
    "pane.report_agent": {"pane_id": str, "source": str, "agent": str, "state": str},
}
_STATES = {"idle", "working", "blocked", "unknown"}


class FakeHerdr:
    """Listens in a directory of its own, whose path is short enough for a socket. ``asked`` are all requests.

    ``answer`` may take a request and return other bytes than herdr would (None: hang up; sleeps are allowed).
    """

    def __init__(self, name: str = "herdr.sock", answer: Callable[[dict[str, Any]], bytes | None] | None = None):
        self.top = Path(tempfile.mkdtemp(prefix="hd-", dir="/tmp"))
        self.path = self.top / name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.asked: list[dict[str, Any]] = []
        self.connections = 0
        self.wrong: list[str] = []
        self.answer = answer or self.answered
        self._panes: dict[str, str] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self.path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeHerdr:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)
        shutil.rmtree(self.top)
        assert self.wrong == []

    def reports(self, pane: str) -> list[dict[str, Any]]:
        """The states that were reported of a pane, in order."""
        asked = [one["params"] for one in self.asked if one["method"] == "pane.report_agent"]
        return [one for one in asked if one["pane_id"] == pane]

    def answered(self, request: dict[str, Any]) -> bytes:
        """What herdr says to a request."""
        method, params = request["method"], request["params"]
        for name, kind in _REQUIRED.get(method, {}).items():
            if not isinstance(params.get(name), kind):
                self.wrong.append(f"{method}: {name} is {params.get(name)!r}")
        if method == "worktree.open":
            if not (os.path.isabs(params["cwd"]) and os.path.isdir(params["path"])):
                self.wrong.append(f"not a place: {params}")
            already = params["path"] in self._panes
            pane = self._panes.setdefault(params["path"], f"w{len(self._panes) + 2}:p1")
            workspace = pane.partition(":")[0]
            result: dict[str, Any] = {
                "type": "worktree_opened",
                "workspace": {"workspace_id": workspace, "number": 2, "label": params["label"], "focused": False},
                "tab": {"tab_id": f"{workspace}:t1", "workspace_id": workspace},
                "root_pane": {"pane_id": pane, "workspace_id": workspace, "agent_status": "unknown", "revision": 1},
                "worktree": {"path": params["path"], "is_linked_worktree": True},
                "already_open": already,
            }
        elif method == "pane.report_agent":
            if params["state"] not in _STATES or params["pane_id"] not in self._panes.values():
                self.wrong.append(f"{params}")
            result = {"type": "ok"}
        else:
            self.wrong.append(method)
            error = {"code": "unknown_method", "message": method}
            return json.dumps({"id": request["id"], "error": error}).encode() + b"\n"
        return json.dumps({"id": request["id"], "result": result}).encode() + b"\n"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                line = connection.makefile("rb").readline()
                if not line:
                    continue
                request = json.loads(line)
                self.asked.append(request)
                said = self.answer(request)
                if said is not None:
                    try:
                        connection.sendall(said)
                    except OSError:
                        continue


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
