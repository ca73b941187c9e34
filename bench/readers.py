#!/usr/bin/env python3
"""Figure: how fast readers take in a program's output, and that its amount costs no memory.

Megabytes a second of processor time for lines that tell nothing (at least 100 for each program and length), beside
cutting the same bytes into lines and nothing else; then a gigabyte in one go.
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable

import paired

from git_parallel.agents.preset import load
from git_parallel.agents.readers import reader_for
from git_parallel.supervisor.watching import CHUNK

LEAST = 100.0  # MB/s
AMOUNT = 32 * 1024 * 1024
GIGABYTE = 1 << 30
GROWTH = 8 * 1024 * 1024  # bytes that a gigabyte may add to the memory of the process

TEXT = "x" * 100_000
# How the lines begin and end that a program writes most of.
SHAPES = {
    "claude, results": ("claude", '{"type":"user","message":{"role":"user","content":[{"content":"', '"}]}}'),
    "claude, pieces": ("claude", '{"type":"stream_event","event":{"delta":{"text":"', '"}}}'),
    "codex, commands": (
        "codex",
        '{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","output":"',
        '","exit_code":0,"status":"completed"}}',
    ),
    "opencode, reasoning": ("opencode", '{"type":"reasoning","part":{"text":"', '"}}'),
    "gemini, results": ("gemini", '{"type":"tool_result","tool_id":"1","status":"success","output":"', '"}'),
    "gemini, pieces": (
        "gemini",
        '{"type":"message","timestamp":"2026-11-29T00:00:00.000Z","role":"assistant","content":"',
        '","delta":true}',
    ),
    "copilot, pieces": (
        "copilot",
        '{"type":"assistant.message_delta","data":{"messageId":"1","deltaContent":"',
        '"},"ephemeral":true}',
    ),
    "cline, results": (
        "cline",
        '{"ts":"2026-11-29T22:36:32.324Z","type":"agent_event","event":{"type":"content_end","contentType":"tool","x":"',
        '"}}',
    ),
    "pi, pieces": ("pi", '{"type":"message_update","assistantMessageEvent":{"type":"text_delta","delta":"', '"}}'),
}
LENGTHS = (200, 2_000, 50_000)


def chunks(shape: str, length: int, amount: int) -> tuple[bytes, int]:
    """Whole and cut lines of about so many bytes, in pieces as they are read from a log; and how many pieces."""
    _, start, end = SHAPES[shape]
    line = (start + TEXT[: max(8, length - len(start) - len(end))] + end + "\n").encode()
    return (line * (CHUNK // len(line) + 1))[:CHUNK] if length < CHUNK else line, amount // CHUNK


def seconds(feed: Callable[[bytes], object], data: bytes, count: int) -> float:
    """Processor time."""
    begun = time.process_time()
    for _ in range(count):
        feed(data)
    return time.process_time() - begun


def main() -> None:
    given = paired.arguments(__doc__, 5)
    kept = True
    print(f"readers: MB/s of processor time, {given.rounds} rounds, medians; beside it, as a multiple of cutting lines")
    print(f"  {'':<20}" + "".join(f"{f'{length} B':>16}" for length in LENGTHS))
    for shape, (program, *_) in SHAPES.items():
        cells = []
        for length in LENGTHS:
            data, count = chunks(shape, length, AMOUNT)
            samples = []
            for _ in range(given.rounds):
                reader = reader_for(load(program, {}))
                samples.append((seconds(reader.feed, data, count), seconds(lambda d: d.split(b"\n"), data, count)))
            speed = statistics.median(AMOUNT / 1e6 / ours for ours, _ in samples)
            cells.append(f"{speed:>9.0f} {statistics.median(ours / plain for ours, plain in samples):>5.1f}x")
            kept = kept and speed >= LEAST
        print(f"  {shape:<20}" + "".join(cells))
    reader = reader_for(load("claude", {}))
    data, count = chunks("claude, results", 2_000, GIGABYTE)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = seconds(reader.feed, data, count)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    good = grown <= GROWTH
    print(f"  a gigabyte: {took:.1f} s, memory +{grown / 1e6:.1f} MB, limit {GROWTH / 1e6:.0f} MB")
    print(f"  limit: {LEAST:.0f} MB/s{'' if kept else '  too slow'}{'' if good else '  too much memory'}")
    sys.exit(not (kept and good))


if __name__ == "__main__":
    main()
