"""Modules that other packages import first of all and hardly use: loaded when they are needed, 13 ms of every command.

Each stands in ``sys.modules`` under its name, knows the little that it is asked for while those packages are
imported, and becomes what it stands for when it is asked for anything else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType


class Later(ModuleType):
    """Stands for a module of its name."""

    def __getattr__(self, name: str) -> object:
        if name == "__path__":  # `from … import` asks whether it is a package
            raise AttributeError(name)
        if (known := _KNOWN.get((self.__name__, name))) is not None:
            try:
                self.__dict__[name] = known()
                return self.__dict__[name]
            except ImportError:
                pass
        self._load()
        if name not in self.__dict__:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        return self.__dict__[name]

    def _load(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        self.__dict__.update(import_module(self.__name__).__dict__)


def put_off() -> None:
    """Put those off that nobody has loaded yet."""
    for name in _PUT_OFF:
        if name not in sys.modules:
            sys.modules[name] = Later(name)


def load_msgspec() -> None:
    """Import it without typing_extensions, of which it takes what typing has, too, where that is installed: 5 ms."""
    name = "typing_extensions"
    if name in sys.modules:
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401, PLC0415
    finally:
        del sys.modules[name]


def _cleandoc(doc: str) -> str:
    """Do what inspect does: click has it done to the help of each option, which is a line."""
    if "\n" not in doc:
        return doc.expandtabs().lstrip()
    later = sys.modules["inspect"]
    if isinstance(later, Later):
        later._load()
    return str(later.cleandoc(doc))


def _sha256() -> object:
    try:
        return import_module("_sha2").sha256
    except ImportError:  # Python 3.11
        return import_module("_sha256").sha256


_PUT_OFF = ("hashlib", "inspect", "platform", "textwrap")

# By whom: dulwich (hashlib itself loads OpenSSL), click, uuid for msgspec.
_KNOWN: dict[tuple[str, str], Callable[[], object]] = {
    ("hashlib", "sha1"): lambda: import_module("_sha1").sha1,
    ("hashlib", "sha256"): _sha256,
    ("inspect", "cleandoc"): lambda: _cleandoc,
    ("platform", "system"): lambda: lambda: os.uname().sysname,
}
