"""Plain data as JSON, of every text that a file name or an agent can hold.

msgspec does it, which the program has loaded anyway; what is not UTF-8 (surrogates in a string, which msgspec
refuses) is left to the standard library, which takes 2 ms to import.
"""

from __future__ import annotations

from typing import Any

import msgspec


def encode(value: object) -> bytes:
    """Encode data (structs, too) as one line of JSON. A byte that is not UTF-8 becomes ``\\udcXX``."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 (rare)

        return json.dumps(msgspec.to_builtins(value, str_keys=True)).encode("ascii")


def decode(data: bytes) -> Any:
    """Decode a JSON document, whether bytes that are not UTF-8 stand in it escaped or raw. Raises ValueError."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json  # noqa: PLC0415 (rare)

        return json.loads(data.decode("utf-8", "surrogateescape"))
