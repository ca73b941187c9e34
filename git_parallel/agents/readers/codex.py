"""``codex exec --json``: one event a line; a turn is completed or has failed."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from git_parallel.agents.readers.actions import shown_path
from git_parallel.agents.readers.events import DONE, EventReader, api_failure
from git_parallel.agents.readers.lines import one_line
from git_parallel.agents.readers.values import at, items, whole, word

# A finished command with all that it printed: it was told when it started.
_COMMAND = re.compile(rb'\{"type":"item\.completed","item":\{"id":"[^"]{0,80}","type":"command_execution","command":')
_COMPLETED = b'{"type":"item.completed"'
_DECLINED = re.compile(rb'"status":"declined"\}\}\s*\Z')


class CodexReader(EventReader):
    """``error`` events and items may pass; ``turn.failed`` may not. Tokens count over the whole session."""

    DULL: ClassVar[tuple[bytes, ...]] = (b'{"type":"item.updated"',)

    def known(self, line: bytes) -> bool:
        if not line.startswith(_COMPLETED) or _COMMAND.match(line) is None or _DECLINED.search(line[-40:]):
            return False
        self.step()
        return True

    def event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind in ("item.started", "item.completed"):
            self._item(event.get("item"), done=kind == "item.completed")
        elif kind == "thread.started":
            self.name_session(event.get("thread_id"))
        elif kind == "turn.started":
            self.action, self.said = "thinking", None
        elif kind == "turn.completed":
            self.said = DONE
            self._usage(event.get("usage"))
        elif kind == "turn.failed":
            self.said = api_failure(word(at(event, "error", "message")) or "the turn failed")
        elif kind == "error":
            self._trouble(word(event.get("message")) or "")

    def _item(self, item: object, *, done: bool) -> None:
        kind = at(item, "type")
        if kind == "error":
            return  # a warning: it is no step, and the turn goes on
        self.go_on()
        if done and kind != "todo_list":
            self.step()
        if kind == "command_execution":
            self.act("command_execution", item)
            if done and at(item, "status") == "declined":
                self.deny("command_execution", item)
        elif kind == "agent_message":
            self.say(at(item, "text"))
        elif kind == "file_change":
            paths = [path for change in items(at(item, "changes")) if (path := word(at(change, "path")))]
            for path in paths:
                self.edit(path, failed=at(item, "status") == "failed")
            named = ", ".join(shown_path(path, self.where.worktree) for path in paths)
            self.action = one_line(f"editing {named or 'files'}")
        elif kind == "mcp_tool_call":
            self.action = one_line(f"using {at(item, 'server')}.{at(item, 'tool')}")
        elif kind == "web_search":
            self.act("websearch", item)
        elif kind == "reasoning":
            self.action = "thinking"

    def _trouble(self, message: str) -> None:
        failure = api_failure(message)
        if message.startswith("Reconnecting"):
            self.retry(message, failure.reason)
        else:
            self.error = failure

    def _usage(self, usage: object) -> None:
        # Here the input counts what came from the cache, and the output what was reasoning.
        cached, read = whole(at(usage, "cached_input_tokens")), whole(at(usage, "input_tokens"))
        written, reasoning = whole(at(usage, "cache_write_input_tokens")), whole(at(usage, "reasoning_output_tokens"))
        found = {
            "input": None if read is None else max(0, read - (cached or 0)),
            "output": whole(at(usage, "output_tokens")),
            "cache_read": cached,
            "cache_write": written,
            "reasoning": reasoning,
        }
        self.tokens = {name: count for name, count in found.items() if count is not None} or self.tokens
