"""A model that follows a script: the loopback stand-in for the APIs that the real programs talk to.

It speaks Anthropic's messages, OpenAI's chat completions and responses, and Gemini's generateContent, streamed
or whole. The script stands in the prompt, one action a turn, each in double angle brackets:

    <<write NAME>>   call the tool that writes a file (programs without tools: an edit in the text)
    <<run COMMAND>>  call the tool that runs a command
    <<status CODE>>  answer with an HTTP error, however often it is asked
    <<hang>>         never answer
    <<again>>        from here on the action before, for ever
    <<meet N>>       no action: answer nobody until so many have asked, all at work at once
    <<spend IN OUT>> no action: the tokens that every answer from here on claims (1000 and 50 unless said)

After the last action it says ``FINAL``. But for meetings it keeps no state: where the script stands follows from the
results of tools that have come since the prompt.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

FINAL = "All done, as the script says."
_MARK = re.compile(r"<<(\w+)(?: (.*?))?>>")

Json = dict[str, Any]
Speaker = Literal["person", "tool", "model"]
Turn = tuple[Speaker, str]
Tools = dict[str, frozenset[str]]
"""The tools on offer: their names, and those of their arguments."""


@dataclass(frozen=True)
class Question:
    """One request, whatever the dialect: who said what so far, and what can be done."""

    model: str
    turns: list[Turn]
    tools: Tools
    edits: bool = False  # wants edits in the text: it offers no tools


@dataclass(frozen=True)
class Answer:
    """What to send back: a text, then a call of a tool; or an HTTP error; or (``hang``) nothing at all."""

    text: str = FINAL
    tool: str = ""
    arguments: Json | None = None
    status: int = 200
    hang: bool = False
    meet: int = 0
    spent: tuple[int, int] = (1000, 50)


# Tools that write a file and tools that run a command, by the names that the programs give them, and the
# arguments for them: those of another program's tool of that name are left out by its own list.
_WRITERS = ("Write", "write", "write_file")
_RUNNERS = ("Bash", "bash", "exec_command", "shell_command", "run_shell_command", "run_command")


def answer(question: Question) -> Answer:
    """Say what the script wants next. A request beside the conversation (a title, say) gets a word."""
    script, done = _script(question.turns)
    if not script or not (question.tools or question.edits):
        return Answer("A short answer.")
    meet = next((int(told) for word, told in script if word == "meet" and done == 0), 0)
    actions, spent = _plan([action for action in script if action[0] != "meet"], done)
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


def _plan(script: list[tuple[str, str]], done: int) -> tuple[list[tuple[str, str]], tuple[int, int]]:
    """Return the action that is next, if any, and the tokens that the answer claims."""
    spent, last = (1000, 50), None
    for word, told in script:
        if word == "spend":
            given, made = told.split()
            spent = (int(given), int(made))
        elif word == "again":
            return [last] if last else [], spent
        elif done == 0:
            return [(word, told)], spent
        else:
            last, done = (word, told), done - 1
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
    }
    wanted = tools[tool]
    arguments = {name: value for name, value in known.items() if name in wanted}
    return Answer("I write the file." if word == "write" else "I run a command.", tool, arguments, spent=spent)


def _content(name: str) -> str:
    return f"{name}, as the script says\n"


def _text(value: Any) -> str:
    """Return all text of a message's content, whatever the nesting."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, dict):
        return "\n".join(filter(None, (_text(value.get(key)) for key in ("text", "content", "parts"))))
    return ""


def _arguments(schema: Json | None) -> frozenset[str]:
    return frozenset((schema or {}).get("properties") or ())


class Anthropic:
    """``POST …/v1/messages``."""

    path = re.compile(r"/messages$")

    def question(self, body: Json, path: str) -> Question:
        turns: list[Turn] = []
        for message in body["messages"]:
            content = message["content"]
            for block in [content] if isinstance(content, str) else content:
                result = isinstance(block, dict) and block["type"] == "tool_result"
                speaker: Speaker = "model" if message["role"] == "assistant" else "tool" if result else "person"
                turns.append((speaker, _text(block)))
        tools = {t["name"]: _arguments(t["input_schema"]) for t in body.get("tools") or [] if "input_schema" in t}
        return Question(body["model"], turns, tools)

    def whole(self, question: Question, reply: Answer, number: int) -> Json:
        content: list[Json] = [{"type": "text", "text": reply.text}]
        if reply.tool:
            content.append({"type": "tool_use", "id": f"toolu_{number}", "name": reply.tool, "input": reply.arguments})
        usage = {"input_tokens": reply.spent[0], "output_tokens": reply.spent[1]}
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": question.model,
            "content": content,
            "stop_reason": "tool_use" if reply.tool else "end_turn",
            "stop_sequence": None,
            "usage": {**usage, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
        }

    def stream(self, question: Question, reply: Answer, number: int) -> Iterator[Json]:
        whole = self.whole(question, reply, number)
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield {"type": "content_block_start", "index": index, "content_block": start}
            yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
        yield {"type": "message_stop"}

    def error(self, status: int, text: str) -> Json:
        kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": text}}


class OpenAI:
    def error(self, status: int, text: str) -> Json:
        return {"error": {"message": text, "type": "scripted", "code": str(status)}}


class Chat(OpenAI):
    """``POST …/chat/completions``."""

    path = re.compile(r"/chat/completions$")

    def question(self, body: Json, path: str) -> Question:
        speakers: dict[str, Speaker] = {"user": "person", "tool": "tool", "assistant": "model"}
        turns = [(speakers[m["role"]], _text(m.get("content"))) for m in body["messages"] if m["role"] in speakers]
        rules = "\n".join(_text(m.get("content")) for m in body["messages"] if m["role"] == "system")
        functions = [tool["function"] for tool in body.get("tools") or []]
        tools = {function["name"]: _arguments(function.get("parameters")) for function in functions}
        return Question(body["model"], turns, tools, edits="SEARCH/REPLACE" in rules)

    def whole(self, question: Question, reply: Answer, number: int) -> Json:
        message: Json = {"role": "assistant", "content": reply.text}
        if reply.tool:
            function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": question.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if reply.tool else "stop"}],
            "usage": self._usage(reply),
        }

    def stream(self, question: Question, reply: Answer, number: int) -> Iterator[Json]:
        (choice,) = self.whole(question, reply, number)["choices"]
        message = choice["message"]
        calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls", ()))]
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 0, "model": question.model}
        for delta in ({"role": "assistant", "content": reply.text}, *([{"tool_calls": calls}] if calls else ())):
            yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
        yield {**head, "choices": [], "usage": self._usage(reply)}

    def _usage(self, reply: Answer) -> Json:
        given, made = reply.spent
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


class Responses(OpenAI):
    """``POST …/responses``."""

    path = re.compile(r"/responses$")

    def question(self, body: Json, path: str) -> Question:
        turns: list[Turn] = []
        for item in body["input"]:
            if item.get("role") in ("user", "assistant"):
                turns.append(("person" if item["role"] == "user" else "model", _text(item["content"])))
            elif item.get("type", "").endswith("_output"):
                turns.append(("tool", _text(item.get("output"))))
        functions = [tool for tool in body.get("tools") or [] if tool["type"] == "function"]
        tools = {function["name"]: _arguments(function["parameters"]) for function in functions}
        return Question(body["model"], turns, tools)

    def whole(self, question: Question, reply: Answer, number: int) -> Json:
        said = {"type": "output_text", "text": reply.text, "annotations": []}
        output: list[Json] = [{"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [said]}]
        if reply.tool:
            call = {"call_id": f"call_{number}", "name": reply.tool, "arguments": json.dumps(reply.arguments)}
            output.append({"type": "function_call", "id": f"fc_{number}", "status": "completed", **call})
        given, made = reply.spent
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": question.model,
            "output": output,
            "usage": {
                "input_tokens": given,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": made,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": given + made,
            },
        }

    def stream(self, question: Question, reply: Answer, number: int) -> Iterator[Json]:
        whole = self.whole(question, reply, number)
        yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        for index, item in enumerate(whole["output"]):
            yield {"type": "response.output_item.added", "output_index": index, "item": item}
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
        yield {"type": "response.completed", "response": whole}


class Gemini:
    """``POST …/models/NAME:generateContent`` and ``…:streamGenerateContent?alt=sse``."""

    path = re.compile(r"/models/([^/:]+):(?:streamG|g)enerateContent$")

    def question(self, body: Json, path: str) -> Question:
        turns: list[Turn] = []
        for content in body["contents"]:
            for part in content["parts"]:
                said: Speaker = "model" if content.get("role") == "model" else "person"
                turns.append(("tool" if "functionResponse" in part else said, _text(part)))
        functions = [f for tool in body.get("tools") or [] for f in tool.get("functionDeclarations", ())]
        tools = {f["name"]: _arguments(f.get("parametersJsonSchema") or f.get("parameters")) for f in functions}
        found = self.path.search(path)
        assert found
        return Question(found[1], turns, tools)

    def whole(self, question: Question, reply: Answer, number: int) -> Json:
        parts: list[Json] = [{"text": reply.text}]
        if reply.tool:
            parts.append({"functionCall": {"name": reply.tool, "args": reply.arguments}})
        given, made = reply.spent
        return {
            "responseId": f"gemini-{number}",
            "modelVersion": question.model,
            "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made},
        }

    def stream(self, question: Question, reply: Answer, number: int) -> Iterator[Json]:
        yield self.whole(question, reply, number)

    def error(self, status: int, text: str) -> Json:
        kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED"}
        return {"error": {"code": status, "message": text, "status": kinds.get(status, "INTERNAL")}}


_DIALECTS = (Anthropic(), Chat(), Responses(), Gemini())


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
        dialect = next((one for one in _DIALECTS if one.path.search(path)), None)
        if dialect is None:
            self._whole(404, {"error": {"message": f"no such thing: {path}"}})
            return
        question = dialect.question(body, path)
        self.server.model.asked.append(question)
        reply = answer(question)
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
