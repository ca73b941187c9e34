"""Adds dollars to what a program reports in tokens only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from git_parallel.agents import prices
from git_parallel.agents.claim import Claim, Progress
from git_parallel.agents.prices import Price

if TYPE_CHECKING:
    from git_parallel.agents.readers import Reader


class PricedReader:
    """Wraps a reader. What the program itself says that it cost is left as it is."""

    def __init__(self, reader: Reader, table: Mapping[str, Price], model: str | None) -> None:
        self._reader = reader
        self._table = table
        self._price = prices.find(table, model)

    def feed(self, data: bytes) -> None:
        self._reader.feed(data)

    @property
    def progress(self) -> Progress:
        seen = self._reader.progress
        return seen if seen.cost is not None else replace(seen, cost=prices.cost(self._rate(), seen.tokens))

    def finish(self, exit_code: int | None, signal: int | None = None, errors: bytes = b"") -> Claim:
        claim = self._reader.finish(exit_code, signal, errors)
        if claim.cost is not None:
            return claim
        return replace(claim, cost=prices.cost(self._rate(), claim.tokens))

    def _rate(self) -> Price | None:
        """The price of the model that the program says it uses, or else of the one that it was told to."""
        return prices.find(self._table, getattr(self._reader, "model", None)) or self._price
