"""A model that follows a script: the loopback stand-in for the APIs that the real programs talk to.

It speaks Anthropic's messages, OpenAI's chat completions and responses, and Gemini's generateContent, streamed
or whole. The script stands in the prompt, one action a turn, each in double angle brackets:

    <<write NAME>>   call the tool that writes a file (programs without tools: an edit in the text)
    <<run COMMAND>>  call the tool that runs a command
    <<status CODE>>  answer with an HTTP error; asked again, do what is next, or the same when nothing is
    <<hang>>         never answer
    <<again>>        from here on the command before, for ever, each time as another: programs end what repeats itself
    <<meet N>>       no action: answer nobody until so many have asked, all at work at once
    <<spend IN OUT>> no action: the tokens that every answer from here on claims (1000 and 50 unless said)

After the last action it says ``FINAL``. But for meetings it keeps no state: where the script stands follows from the
results of tools that have come since the prompt, and from how often the same was asked before.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from model_dialects import DIALECTS, FINAL, Answer, Json, Question, Tools, Turn

_MARK = re.compile(r"<<(\w+)(?: (.*?))?>>")

# Tools that write a file and tools that run a command, by the names that the programs give them, and the
# arguments for them: those of another program's tool of that name are left out by its own list.
_WRITERS = ("Write", "write", "write_file")
_RUNNERS = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "run_command")


def answer(question: Question, before: int) -> Answer:
    """Say what the script wants next of a question that was asked so often ``before``.

    A request beside the conversation gets a word.
    """
    script, done = _script(question.turns)
    if not script or not question.works:
        return Answer("A short answer.")
    meet = next((int(told) for word, told in script if word == "meet" and done == 0), 0)
    actions, spent = _plan([action for action in script if action[0] != "meet"], done, before)
    if not actions:
        return Answer(spent=spent)
    word, told = actions[0]
    if word == "status":
        return Answer(f"scripted error {told}", status=int(told))
    if word == "hang":
        return Answer(hang=True)
    if question.edits and word == "write":
        edit = f"{told}\n```\n<<<<<<< SEARCH\n=======\n{_content(told)}>>>>>>> REPLACE\n```\n"
        return Answer(f"{edit}\n{FINAL}", spent=spent)
    return replace(_call(word, told, question.tools, spent), meet=meet)


def _script(turns: list[Turn]) -> tuple[list[tuple[str, str]], int]:
    """Return the newest prompt's actions, and how many results of tools have come since."""
    done = 0
    for speaker, text in reversed(turns):
        if speaker == "tool":
            done += 1
        elif speaker == "person" and (script := _MARK.findall(text)):
            return script, done
    return [], 0


def _plan(script: list[tuple[str, str]], done: int, before: int) -> tuple[list[tuple[str, str]], tuple[int, int]]:
    """Return the action that is next, if any, and the tokens that the answer claims."""
    spent, last = (1000, 50), ""
    for number, (word, told) in enumerate(script, 1):
        if word == "spend":
            given, made = told.split()
            spent = (int(given), int(made))
        elif word == "again":
            return [("run", f"{last} # {done}")], spent
        elif done == 0 and word == "status" and before and number < len(script):
            before -= 1
        elif done == 0:
            return [(word, told)], spent
        else:
            last, done = told, done - 1
    return [], spent


def _call(word: str, told: str, tools: Tools, spent: tuple[int, int]) -> Answer:
    """Call the first tool on offer that does it, or say that there is none.

    A file is written by a command where no tool writes one.
    """
    content = _content(told)
    if word == "write" and not any(name in tools for name in _WRITERS):
        word, told = "run", f"printf %s {shlex.quote(content)} > {shlex.quote(told)}"
    tool = next((name for name in (_WRITERS if word == "write" else _RUNNERS) if name in tools), None)
    if tool is None:
        return Answer(f"Nothing here can {word}.", spent=spent)
    known = {
        **dict.fromkeys(("file_path", "filePath", "path"), told),
        **dict.fromkeys(("command", "cmd"), told),
        "content": content,
        "description": "as the script says",
        "yield_time_ms": 30_000,  # Codex: how long a command may take before the model is told that it goes on
    }
    wanted = tools[tool]
    arguments = {name: value for name, value in known.items() if name in wanted}
    return Answer("I write the file." if word == "write" else "I run a command.", tool, arguments, spent=spent)


def _content(name: str) -> str:
    return f"{name}, as the script says\n"


class Model:
    """A server on a free port of the loopback interface, as a context manager. ``asked`` is every question so far."""

    def __init__(self) -> None:
        self.asked: list[Question] = []
        self.closing = threading.Event()
        self.met = False
        self._meeting = 0
        self._came = threading.Condition()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.model = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def meet(self, count: int) -> None:
        """Return when so many are here; nobody waits for ever."""
        with self._came:
            self._meeting += 1
            self._came.notify_all()
            self.met |= self._came.wait_for(lambda: self._meeting >= count, timeout=120)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: Model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        raw = self._body()
        body = json.loads(raw) if raw else {}
        path, _, query = self.path.partition("?")
        dialect = next((one for one in DIALECTS if one.path.search(path)), None)
        if dialect is None:
            self._whole(404, {"error": {"message": f"no such thing: {path}"}})
            return
        question = dialect.question(body, path)
        before = sum(1 for one in self.server.model.asked if one.works and one.turns == question.turns)
        self.server.model.asked.append(question)
        reply = answer(question, before)
        if reply.meet:
            self.server.model.meet(reply.meet)
        if reply.hang:
            self.close_connection = True
            self.server.model.closing.wait()
        elif reply.status != 200:
            self._whole(reply.status, dialect.error(reply.status, reply.text))
        elif body.get("stream") or "alt=sse" in query:
            self._events(dialect.stream(question, reply, len(self.server.model.asked)))
        else:
            self._whole(200, dialect.whole(question, reply, len(self.server.model.asked)))

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            raw = b"".join(pieces)
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

    def _whole(self, status: int, body: Json) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _events(self, events: Iterator[Json]) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        if isinstance(event, dict) and event.get("object") == "chat.completion.chunk":
            self.wfile.write(b"data: [DONE]\n\n")
