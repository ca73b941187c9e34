"""Tokens into dollars: what has no price is unknown, and never free."""

from __future__ import annotations

import json

import pytest

from git_parallel.agents import prices
from git_parallel.agents.preset import as_data, from_data, load, priced
from git_parallel.agents.prices import Price
from git_parallel.agents.readers import reader_for
from git_parallel.errors import UsageError

TABLE = {"gpt-5": {"input": 1.25, "output": 10, "cache_read": 0.125}, "gpt-*": {"input": 2, "output": 8}}
USAGE = {"input_tokens": 3_000_000, "cached_input_tokens": 1_000_000, "output_tokens": 100_000}


def codex(model: str | None, table: object = TABLE):
    reader = reader_for(priced(load("codex", {}), table), model=model)
    reader.feed(json.dumps({"type": "turn.completed", "usage": USAGE}).encode() + b"\n")
    return reader


@pytest.mark.parametrize(
    ("model", "cost"),
    [("gpt-5", 2.5 + 1 + 0.125), ("gpt-5-mini", 4 + 0.8 + 2), ("openai/gpt-5", 3.625), ("o9", None), (None, None)],
)
def test_tokens_cost_what_the_table_says_of_the_model(model, cost):
    expected = cost if cost is None else pytest.approx(cost)
    reader = codex(model)
    assert reader.progress.cost == expected
    assert reader.finish(0).cost == expected


def test_without_prices_the_cost_is_unknown():
    assert codex("gpt-5", None).finish(0).cost is None
    assert codex("gpt-5", {}).progress.cost is None


def test_the_model_that_the_program_names_comes_first():
    reader = reader_for(priced(load("gemini", {}), {"flash": {"input": 1, "output": 1}}), model="alias")
    result = {"type": "result", "status": "success", "stats": {"input_tokens": 1_000_000, "output_tokens": 0}}
    reader.feed(json.dumps({"type": "init", "model": "flash"}).encode() + b"\n" + json.dumps(result).encode() + b"\n")
    assert reader.progress.cost == 1
    assert reader.finish(0).cost == 1


def test_what_a_program_says_that_it_cost_is_left_as_it_is():
    preset = priced(load("claude", {}), TABLE)
    assert preset.prices == {}
    reader = reader_for(preset, model="gpt-5")
    reader.feed(json.dumps({"type": "result", "is_error": False, "total_cost_usd": 0.5}).encode() + b"\n")
    assert reader.finish(0).cost == 0.5


def test_dollars_made_of_totals_are_totals():
    assert priced(load("codex", {}), TABLE).cumulative == ("tokens", "cost")
    assert priced(load("gemini", {}), TABLE).cumulative == ()
    preset = priced(load("codex", {}), TABLE)
    assert from_data(json.loads(json.dumps(as_data(preset)))) == preset


def test_tokens_from_the_cache_cost_as_others_where_nothing_is_said():
    tokens = {"input": 1, "output": 1, "cache_read": 1_000_000, "cache_write": 1_000_000}
    assert prices.cost(Price(2, 8), tokens) == pytest.approx(4.00001)
    assert prices.cost(Price(2, 8, 0.5, 4), tokens) == pytest.approx(4.50001)
    assert prices.cost(Price(2, 8), None) is None
    assert prices.cost(None, tokens) is None


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (["x"], "prices: must map models to prices"),
        ({"m": 3}, "prices: m: expected"),
        ({"m": {"input": 1}}, "prices: m: 'output' is missing"),
        ({"m": {"input": 1, "output": "x"}}, "prices: m: output: expected"),
        ({"m": {"input": 1, "output": 2, "cached": 3}}, "prices: m: cached: unknown key 'cached'"),
        ({"m": {"input": -1, "output": 2}}, "prices: m: input: not an amount of US dollars"),
        ({"m": {"input": 1, "output": float("nan")}}, "prices: m: output: not an amount of US dollars"),
        (
            {"m": {"input": 1, "output": 2, "cache_read": float("inf")}},
            "prices: m: cache_read: not an amount",
        ),
    ],
)
def test_a_wrong_price_is_refused(section, says):
    with pytest.raises(UsageError) as caught:
        prices.parse(section)
    assert caught.value.message.startswith(says)
