"""Readers: what is claimed from which output and exit, and that no input whatever upsets them."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from git_parallel.agents.claim import Claim
from git_parallel.agents.preset import load
from git_parallel.agents.readers import architect, reader_for
from git_parallel.agents.readers.lines import Lines, last_line, one_line, readable

SHELL = load("shell", {})
ARCHITECT = load("architect", {})


def read(preset, data: bytes, exit_code: int | None = 0, signal: int | None = None, errors: bytes = b"") -> Claim:
    reader = reader_for(preset)
    reader.feed(data)
    return reader.finish(exit_code, signal, errors)


def result(**changes) -> bytes:
    """What `architect run --json` printed for one step with one request, with some keys changed."""
    whole = {
        "status": "success",
        "stop_reason": "llm_done",
        "output": "Done: wrote hello.txt.",
        "steps": 1,
        "tools_used": [{"name": "write_file", "success": True, "path": "hello.txt"}],
        "duration_seconds": 0.52,
        "model": "openai/gpt-4o",
        "costs": {
            "total_input_tokens": 2000,
            "total_output_tokens": 100,
            "total_cached_tokens": 0,
            "total_tokens": 2100,
            "total_cost_usd": 0.006,
            "by_source": {"agent": 0.006},
        },
        "cost": 0.006,
        **changes,
    }
    return json.dumps({key: value for key, value in whole.items() if value is not ...}, indent=2).encode() + b"\n"


def test_architect_names_no_session_and_its_preset_promises_none():
    assert read(ARCHITECT, result()).session is None
    assert "resume" not in ARCHITECT.options


# plain


@pytest.mark.parametrize(
    ("exit_code", "signal", "outcome", "reason", "detail"),
    [
        (0, None, "done", "done", None),
        (1, None, "failed", "agent_error", "exited with 1: last words"),
        (125, None, "unknown", "cannot_tell", "exited with 125: last words"),
        (127, None, "stop_run", "command_not_found", "exited with 127: last words"),
        (137, None, "failed", "agent_error", "exited with 137 (128 + SIGKILL): last words"),
        (None, 15, "failed", "signal", "killed by SIGTERM: last words"),
        (None, 99, "failed", "signal", "killed by signal 99: last words"),
        (None, None, "unknown", "no_exit", "nobody saw how the program ended: last words"),
    ],
)
def test_the_exit_decides_for_a_shell_task(exit_code, signal, outcome, reason, detail):
    claim = read(SHELL, b"first\nlast words\n\n", exit_code, signal)
    assert (claim.outcome, claim.reason, claim.detail) == (outcome, reason, detail)
    assert (claim.text, claim.steps, claim.cost, claim.tokens) == ("first\nlast words", None, None, None)


def test_the_action_is_the_last_line_that_says_something_and_safe_to_show():
    reader = reader_for(SHELL)
    assert reader.progress.action is None
    reader.feed(b"\x1b[1mcompiling\x1b[0m a.c\n\n  \n")
    assert reader.progress.action == "compiling a.c"
    reader.feed(b"10 %\r20 %\r\x1b]0;title\x0730 % \xff\x1b[2J\x07")
    assert reader.progress.action == "30 % \ufffd"
    reader.feed(b"\ny" + b"x" * 5000)
    assert reader.progress.action == "y" + "x" * 198 + "…"


def test_the_text_of_a_long_output_is_its_end_in_whole_lines():
    claim = read(SHELL, b"".join(b"line %d \xc3\xa9\n" % n for n in range(10_000)))
    assert claim.text is not None
    lines = claim.text.splitlines()
    assert lines[-1] == "line 9999 é"
    assert lines[0].startswith("line ")
    assert len(claim.text.encode()) <= 16 * 1024


def test_an_empty_output_is_no_text():
    assert read(SHELL, b"").text is None


# architect


def test_architect_success_is_done_with_steps_money_and_tokens():
    assert read(ARCHITECT, result()) == Claim(
        outcome="done",
        reason="done",
        detail=None,
        steps=1,
        cost=0.006,
        tokens={"input": 2000, "output": 100, "cache_read": 0},
        text="Done: wrote hello.txt.",
        model="openai/gpt-4o",
    )


@pytest.mark.parametrize(
    ("status", "stop", "exit_code", "outcome", "reason"),
    [
        ("success", "llm_done", 0, "done", "done"),
        ("success", None, 0, "done", "done"),
        ("partial", "budget_exceeded", 2, "partial", "budget"),
        ("partial", "max_steps", 2, "partial", "max_steps"),
        ("partial", "timeout", 2, "partial", "timeout"),
        ("partial", "context_full", 2, "partial", "context_full"),
        ("partial", "user_interrupt", 130, "partial", "signal"),
        ("partial", "llm_done", 2, "partial", "agent_error"),
        ("partial", None, 0, "partial", "agent_error"),
        ("failed", "llm_error", 1, "failed", "agent_error"),
        ("failed", "some_new_reason", 1, "failed", "agent_error"),
        ("failed", None, 1, "failed", "agent_error"),
        # The exit code has to agree before anything is done.
        ("success", "llm_done", 1, "partial", "agent_error"),
        ("success", "llm_done", 130, "partial", "signal"),
        ("success", "max_steps", 0, "partial", "max_steps"),
        ("success", "llm_done", None, "unknown", "no_exit"),
    ],
)
def test_architect_status_stop_reason_and_exit(status, stop, exit_code, outcome, reason):
    claim = read(ARCHITECT, result(status=status, stop_reason=stop), exit_code)
    assert (claim.outcome, claim.reason, claim.steps, claim.cost) == (outcome, reason, 1, 0.006)
    assert (claim.detail is None) == (outcome == "done")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("litellm.AuthenticationError: AuthenticationError: OpenAIException - no", "auth"),
        ("litellm.RateLimitError: RateLimitError: OpenAIException - no", "rate_limit"),
        ("litellm.InternalServerError: InternalServerError: OpenAIException - no", "api_error"),
        ("litellm.BadRequestError: OpenAIException - no", "agent_error"),
    ],
)
def test_architect_names_a_failed_request_by_its_librarys_exception(text, reason):
    said = result(status="failed", stop_reason="llm_error", output=f"Unrecoverable LLM error: {text}")
    assert read(ARCHITECT, said, 1).reason == reason


def test_success_of_a_program_that_was_killed_is_not_done():
    claim = read(ARCHITECT, result(), None, 9)
    assert (claim.outcome, claim.reason, claim.detail) == (
        "partial",
        "signal",
        "says success, but was killed by SIGKILL",
    )


NOISE = b"""{'component': 'llm_adapter', 'event': 'llm.no_api_key'}
17:23:56 - LiteLLM:WARNING: utils.py:1 - {"a": [1, {"status": 7}
Give Feedback / Get Help: {not json}
{"level": "debug", "n": {"status": "failed"}}
{
  "half": "an object
\xff\xfe\x00 binary
"""


@pytest.mark.parametrize("before", [b"", NOISE, NOISE * 3, b"\xef\xbb\xbf", b"\x1b[0m", b"loading... "])
@pytest.mark.parametrize("after", [b"", NOISE, b"17:24:03 - LiteLLM:DEBUG: [LoggingWorker] atexit: {}\n", b"}\n]\n"])
def test_the_result_is_found_among_noise(before, after):
    claim = read(ARCHITECT, before + result() + after)
    assert (claim.outcome, claim.steps, claim.cost) == ("done", 1, 0.006)


def test_the_result_is_found_with_a_library_line_between_its_lines():
    lines = result().splitlines(keepends=True)
    noisy = b"17:23:56 - LiteLLM:DEBUG: flushing {\n".join(lines)
    assert read(ARCHITECT, noisy).outcome == "done"


@pytest.mark.parametrize("compact", [True, False])
def test_the_result_may_be_one_line_and_lack_its_newline(compact):
    data = result()
    data = json.dumps(json.loads(data)).encode() if compact else data.rstrip(b"\n")
    assert read(ARCHITECT, b"noise\n" + data).outcome == "done"
    assert read(ARCHITECT, data + b" trailing words").outcome == "done"


def test_the_last_result_counts_and_another_status_does_not_displace_it():
    assert read(ARCHITECT, result(status="failed") + result()).outcome == "done"
    assert read(ARCHITECT, result() + b'{"status": 200}\n{"status": "ok"}\n').outcome == "done"


@pytest.mark.parametrize(
    ("changes", "steps", "cost", "tokens"),
    [
        ({"cost": "0.5", "steps": "3"}, 3, 0.5, {"input": 2000, "output": 100, "cache_read": 0}),
        ({"cost": ..., "costs": {"total_cost_usd": "0.25"}}, 1, 0.25, None),
        ({"cost": None, "costs": None, "steps": None}, None, None, None),
        ({"cost": ..., "costs": ..., "steps": ...}, None, None, None),
        ({"cost": True, "costs": [], "steps": "many"}, None, None, None),
        ({"cost": -1, "costs": {"total_input_tokens": "12"}, "steps": -2}, None, None, {"input": 12}),
        ({"cost": float("nan"), "costs": 5, "steps": float("inf")}, None, None, None),
        ({"cost": 10**400, "costs": 5, "steps": 10**400}, None, None, None),
        ({"cost": 0, "steps": 0}, 0, 0.0, {"input": 2000, "output": 100, "cache_read": 0}),
    ],
)
def test_numbers_may_be_text_and_what_is_no_amount_is_unknown(changes, steps, cost, tokens):
    claim = read(ARCHITECT, result(**changes))
    assert (claim.outcome, claim.steps, claim.cost, claim.tokens) == ("done", steps, cost, tokens)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]\n",
        b"null\n",
        b"{}\n",
        b"true",
        b'"status"',
        b"\xff\xfe\xfd\n",
        b"[[" * 50_000,
        b'{"status":' * 50_000 + b"}",
    ],
)
def test_output_without_a_result_is_unknown_with_a_reason(data):
    claim = read(ARCHITECT, data, 0)
    assert (claim.outcome, claim.reason, claim.cost, claim.steps) == ("unknown", "no_result", None, None)
    assert claim.detail is not None
    assert claim.detail.startswith("exited with 0 and printed no result")


@pytest.mark.parametrize("status", [None, 5, [], {}, "great", ""])
def test_a_status_that_is_none_of_the_known_is_unknown(status):
    claim = read(ARCHITECT, result(status=status))
    assert (claim.outcome, claim.reason, claim.cost) == ("unknown", "no_result", 0.006)
    assert claim.detail == f"printed a result with the status {status!r}"


@pytest.mark.parametrize(
    ("exit_code", "signal", "outcome", "reason"),
    [
        (1, None, "failed", "agent_error"),
        (2, None, "failed", "agent_error"),
        (3, None, "failed", "agent_config"),
        (4, None, "failed", "auth"),
        (130, None, "failed", "signal"),
        (None, 9, "failed", "signal"),
        (None, None, "unknown", "no_exit"),
    ],
)
def test_without_a_result_the_exit_and_the_last_message_speak(exit_code, signal, outcome, reason):
    claim = read(ARCHITECT, b"", exit_code, signal, b"Usage: architect run\n\nError: No such option '--x'.\n")
    assert (claim.outcome, claim.reason) == (outcome, reason)
    assert claim.detail is not None
    assert claim.detail.endswith(": Error: No such option '--x'.")


def test_text_with_lone_surrogates_and_escapes_can_be_written_as_json_again():
    claim = read(ARCHITECT, result(output="\ud800 \x1b[31mred\x1b[0m\nsecond \u202eline", model="m\ud800"))
    assert (claim.text, claim.model) == ("red\nsecond line", "m")


def test_progress_of_architect_is_its_messages_then_its_result():
    reader = reader_for(ARCHITECT)
    reader.feed(b"thinking hard\n")
    assert reader.progress.action == "thinking hard"
    reader.feed(result())
    assert (reader.progress.step, reader.progress.cost) == (1, 0.006)


def test_a_result_that_is_too_large_is_not_read_and_a_later_one_is():
    huge = result(tools_used=["x" * 4000] * 2500)
    assert len(huge) > 8 * 1024 * 1024
    assert read(ARCHITECT, huge).reason == "no_result"
    assert read(ARCHITECT, huge + result()).outcome == "done"


# Any input.

PRESETS = pytest.mark.parametrize("preset", [SHELL, ARCHITECT], ids=lambda preset: preset.name)
bits = st.sampled_from([b"{", b"}", b"\n", b'"', b'"status"', b":", b"\r", b" ", b"[", b"\x1b[", b"\xff", b'"success"'])
streams = st.one_of(
    st.binary(max_size=300),
    st.lists(bits, max_size=80).map(b"".join),
    st.lists(st.sampled_from([result(), result(status="failed"), NOISE, b"{\n", b"}\n", b"x\n"]), max_size=6).map(
        b"".join
    ),
)


@PRESETS
@settings(max_examples=300, deadline=None)
@given(data=streams, cuts=st.lists(st.integers(0, 4000), max_size=12), code=st.sampled_from([0, 1, 2, 127, None]))
def test_however_the_output_is_cut_the_claim_is_the_same(preset, data, cuts, code):
    whole, pieces = reader_for(preset), reader_for(preset)
    whole.feed(data)
    last = 0
    for cut in sorted(min(cut, len(data)) for cut in cuts):
        pieces.feed(data[last:cut])
        assert pieces.progress is not None
        last = cut
    pieces.feed(data[last:])
    assert pieces.progress == whole.progress
    assert pieces.finish(code) == whole.finish(code)


@PRESETS
@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=2000), errors=st.binary(max_size=200), code=st.integers(-300, 300))
def test_no_bytes_raise_and_none_but_a_result_is_success(preset, data, errors, code):
    claim = read(preset, data, code, None, errors)
    assert (claim.outcome == "done") <= (code == 0 and preset is SHELL)
    for text in (claim.detail, claim.text, claim.reason):
        assert text is None or text.encode().decode() == text


@PRESETS
@pytest.mark.parametrize("line", [b"x" * 65_536, b"short line {\n", b'{"status": 1}\n', b"{\n", b'  "k": 1,\n'])
def test_memory_does_not_grow_with_the_output(preset, line, monkeypatch):
    monkeypatch.setattr(architect, "LINE", 128 * 1024)
    monkeypatch.setattr(architect, "RESULT", 256 * 1024)
    reader = reader_for(preset)
    block = line * (65_536 // len(line))
    reader.feed(b"{\n" + block * 8)
    tracemalloc.start()
    try:
        for start in range(0, 16 * len(block), 1000):
            reader.feed((block + block)[start % len(block) :][:1000])
        assert tracemalloc.get_traced_memory()[0] < 512 * 1024
    finally:
        tracemalloc.stop()


# lines


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200)), limit=st.integers(1, 20))
def test_lines_are_cut_at_newlines_and_at_the_limit(data, cuts, limit):
    lines = Lines(limit)
    found, last = [], 0
    for cut in [*sorted(min(cut, len(data)) for cut in cuts), len(data)]:
        found += lines.feed(data[last:cut])
        last = cut
    assert [*found, lines.rest()] == [line[:limit] for line in data.split(b"\n")]


def test_what_is_shown_is_one_printable_line():
    assert readable(b"a\tb  c\x00\x7f\xc2\x9b\r\n") == "a b c"
    assert readable(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert one_line("\n  \n two \n three") == "two"
    assert (one_line(" \n"), last_line(b"\n \n")) == (None, None)
