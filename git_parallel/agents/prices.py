"""Tokens into US dollars, where a program reports only tokens: the ``prices:`` section of the configuration.

::

    prices:
      gpt-5-codex: {input: 1.25, output: 10, cache_read: 0.125}   # US dollars for a million tokens
      gpt-*: {input: 2, output: 8}

A model's own name comes first, then the longest pattern that matches it. What has no price is unknown,
and never free.
"""

from collections.abc import Callable, Mapping

import msgspec

from git_parallel.errors import UsageError

_MILLION = 1_000_000


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens. Tokens from the cache and into it cost as ``input`` where nothing is said."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def parse(section: object, where: Callable[[tuple[str, ...]], str] = ": ".join) -> dict[str, Price]:
    """Return the prices of a ``prices:`` section as plain data. Raises UsageError.

    ``where`` says where a key stands.
    """
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise UsageError("prices: must map models to prices", "as in: gpt-5: {input: 1.25, output: 10}")
    return {str(model): _price(("prices", str(model)), entry, where) for model, entry in section.items()}


def _price(path: tuple[str, ...], entry: object, where: Callable[[tuple[str, ...]], str]) -> Price:
    try:
        price = msgspec.convert(entry, Price)
    except msgspec.ValidationError as error:
        from git_parallel.agents.mistakes import explain  # noqa: PLC0415 (only on the way to an error)

        told = explain(error, path, where)
        example = "US dollars for a million tokens, as in: {input: 1.25, output: 10, cache_read: 0.125}"
        raise UsageError(told.message, *told.hints, example) from None
    for name in Price.__struct_fields__:
        amount = getattr(price, name)
        if amount is not None and not 0 <= amount < _MILLION:
            raise UsageError(f"{where((*path, name))}: not an amount of US dollars")
    return price


def find(prices: Mapping[str, Price], model: str | None) -> Price | None:
    """Return the price of a model; ``provider/model`` is looked for under both names."""
    if model is None:
        return None
    from fnmatch import fnmatchcase  # noqa: PLC0415 (only where there are prices)

    for name in (model, model.rpartition("/")[2]):
        if name in prices:
            return prices[name]
        matching = [pattern for pattern in prices if fnmatchcase(name, pattern)]
        if matching:
            return prices[max(matching, key=len)]
    return None


def cost(price: Price | None, tokens: Mapping[str, int] | None) -> float | None:
    """Return US dollars for tokens; None when either is not known. ``reasoning`` is part of ``output``."""
    if price is None or not tokens:
        return None
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    amounts = {"input": price.input, "output": price.output, "cache_read": read, "cache_write": write}
    return sum(tokens.get(name, 0) * amount for name, amount in amounts.items()) / _MILLION
