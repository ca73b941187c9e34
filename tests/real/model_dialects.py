"""The wire formats of the model APIs: a request's body into a question, an answer into a body or a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

FINAL = "All done, as the script says."

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

    @property
    def works(self) -> bool:
        """Whether something can be done; else it is asked beside the conversation, for a title, say."""
        return bool(self.tools) or self.edits


@dataclass(frozen=True)
class Answer:
    """What to send back: a text, then a call of a tool; or an HTTP error; or (``hang``) nothing at all.

    ``meet``: only when so many have asked for it. ``spent``: tokens in and out.
    """

    text: str = FINAL
    tool: str = ""
    arguments: Json | None = None
    status: int = 200
    hang: bool = False
    meet: int = 0
    spent: tuple[int, int] = (1000, 50)


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


DIALECTS = (Anthropic(), Chat(), Responses(), Gemini())
