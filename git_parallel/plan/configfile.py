"""Reads settings from YAML: the project file, and the file named with ``-c``.

The tree of nodes is read instead of plain data, because only nodes know their lines, and because a
value is then the text that was written: a branch called ``1.10`` or a command called ``yes`` stays one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct, field

from git_parallel.errors import UsageError
from git_parallel.plan.settings import BY_NAME, Setting, near_name
from git_parallel.plan.values import nearest, quoted

if TYPE_CHECKING:
    import yaml

    Node = yaml.ScalarNode | yaml.SequenceNode | yaml.MappingNode

PROJECT_FILE = ".git-parallel.yaml"
SECTIONS = ("parallel_runs", "parallel")
"""The section with the settings: the seed's documentation calls it the first, its program the second."""
RAW_SECTIONS = ("agents", "prices")
LATER_SECTIONS = ("setup", "checks", "env")
_NULL = "tag:yaml.org,2002:null"


class Written(Struct, frozen=True):
    """A setting as it stands in a file: ``texts`` is None for null; ``where`` is ``FILE:LINE``."""

    setting: Setting
    texts: tuple[str, ...] | None
    where: str
    column: int


class Document(Struct, frozen=True):
    """What a file says: the settings of its section, and the sections that others read, as plain data."""

    settings: tuple[Written, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)


def read_project(top: str | None, *, settings: bool = True) -> Document:
    """Read the project file at the top of a worktree; nothing when there is none.

    ``settings`` False leaves out its settings, because ``-c`` stands in for them. Raises UsageError.
    """
    path = None if top is None else os.path.join(top, PROJECT_FILE)
    if path is None or not os.path.lexists(path):
        misnamed = None if path is None else path.removesuffix(".yaml") + ".yml"
        if misnamed is not None and os.path.lexists(misnamed):
            raise UsageError(
                f"'{os.path.basename(misnamed)}' would not be read: the project file is '{PROJECT_FILE}'",
                f"rename it: git mv {os.path.basename(misnamed)} {PROJECT_FILE}",
            )
        return Document()
    return _Reader(PROJECT_FILE, _text_of(path, PROJECT_FILE)).project(settings)


def read_named(path: str) -> Document:
    """Read the file of ``-c``: only its section with settings counts, so that a whole architect configuration fits.

    Raises UsageError.
    """
    return _Reader(path, _text_of(path, path)).named()


def personal_file() -> str:
    """Return the path of the person's own file, whether there is one or not."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(home if os.path.isabs(home) else os.path.expanduser("~/.config"), "git-parallel", "config.yaml")


def shown_home(path: str) -> str:
    """Return a path with ``~`` for the home directory, as people know it."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path


def read_personal(path: str, shown: str) -> Document:
    """Read what the person's own file says of programs; nothing when there is none. Raises UsageError."""
    return _Reader(shown, _text_of(path, shown)).personal() if os.path.lexists(path) else Document()


def _text_of(path: str, shown: str) -> str:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise UsageError(f"'{shown}' is a directory, not a configuration file")
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"cannot read the configuration file '{shown}': {reason}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{shown}:{line}: not valid UTF-8") from None


class _Reader:
    """One file; ``shown`` is its name in messages."""

    def __init__(self, shown: str, text: str) -> None:
        import yaml  # noqa: PLC0415 (21 ms, and most repositories have no file)

        loader_type: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._shown = shown
        self._text = text
        self._clear: set[int] = set()
        try:
            self._loader = loader_type(text)
            self._root: Node | None = self._loader.get_single_node()
        except yaml.MarkedYAMLError as error:
            self._refuse_syntax(error)
        except yaml.YAMLError as error:
            raise UsageError(f"{shown}: {' '.join(str(error).split())}") from None
        except RecursionError:
            raise UsageError(f"{shown}: nested too deeply") from None

    def project(self, settings: bool) -> Document:
        """Read the project file, where every section is known."""
        chosen: list[tuple[str, Node]] = []
        raw = {}
        for name, key, value in self._items(self._root, "the file"):
            if name in SECTIONS:
                chosen.append((name, value))
            elif name in RAW_SECTIONS:
                raw[name] = self._plain(value)
            elif name in LATER_SECTIONS:
                self._refuse(key, f"the section '{name}:' is not supported by this version")
            else:
                self._refuse_section(name, key)
        return Document(self._settings(chosen) if settings else (), raw)

    def personal(self) -> Document:
        """Read a person's own file, which has no settings: git's configuration is the place of these."""
        raw = {}
        for name, key, value in self._items(self._root, "the file"):
            if name in SECTIONS or name in BY_NAME:
                self._refuse(key, "settings do not belong here", "use git: git config --global parallel.NAME VALUE")
            if name not in RAW_SECTIONS:
                near = nearest(name, RAW_SECTIONS)
                hint = f"did you mean '{near}:'?" if near else f"sections: {', '.join(RAW_SECTIONS)}"
                self._refuse(key, f"unknown section {quoted(name)}", hint)
            raw[name] = self._plain(value)
        return Document((), raw)

    def named(self) -> Document:
        """Read a file of which only the section with settings is ours."""
        items = list(self._items(self._root, "the file", unique=SECTIONS))
        chosen = [(name, value) for name, _, value in items if name in SECTIONS]
        if not chosen:
            # The whole file is about to be ignored: not when that is a slip.
            for name, key, value in items:
                misspelt = nearest(name, SECTIONS) if name not in RAW_SECTIONS else None
                if misspelt or (name in BY_NAME and not hasattr(value.value, "append")):
                    self._refuse_section(name, key)
        return Document(self._settings(chosen))

    def _settings(self, sections: Sequence[tuple[str, Node]]) -> tuple[Written, ...]:
        if len(sections) > 1:
            self._refuse(sections[1][1], f"settings stand in both {' and '.join(f'{name}:' for name, _ in sections)}")
        return tuple(
            self._written(name, key, value)
            for section, node in sections
            for name, key, value in self._items(node, f"{section}:")
        )

    def _written(self, name: str, key: Node, value: Node) -> Written:
        setting = BY_NAME.get(name)
        if setting is None:
            near = near_name(name)
            hints = (f"did you mean '{near.name}'?",) if near else ("see 'git parallel config' for all settings",)
            self._refuse(key, f"unknown setting {quoted(name)}", *hints)
        where = f"{self._shown}:{key.start_mark.line + 1}"
        column = value.start_mark.column + 1
        if isinstance(value.value, str):
            texts = None if value.tag == _NULL else (value.value,)
            return Written(setting, texts, where, column)
        if setting.shape == "one":
            self._refuse(value, f"{name} must be {setting.kind.wants}, not a {value.id}")
        for item in value.value:
            if not hasattr(item, "value") or not isinstance(item.value, str) or item.tag == _NULL:
                self._refuse(value, f"{name} must be a list of texts")
        return Written(setting, tuple(item.value for item in value.value), where, column)

    def _items(
        self, node: Node | None, what: str, unique: Sequence[str] | None = None
    ) -> Iterator[tuple[str, Node, Node]]:
        """Yield (name, key, value) of a mapping. No name (of ``unique``, if given) may come twice."""
        if node is None or node.tag == _NULL:
            return
        if node.id != "mapping":
            self._refuse(node, f"{what} must hold 'name: value' lines")
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key.value, str):
                if unique is None:
                    self._refuse(key, "a name must be plain text")
                continue
            if key.value in seen and (unique is None or key.value in unique):
                self._refuse(key, f"{quoted(key.value)} is already set in line {seen[key.value]}")
            seen[key.value] = key.start_mark.line + 1
            yield key.value, key, value

    def _plain(self, node: Node) -> Any:
        """Turn a section into plain data, once it can only mean one thing."""
        import yaml  # noqa: PLC0415 (imported already when a reader exists)

        self._refuse_unclear(node, ())
        try:
            return self._loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            self._refuse_syntax(error)
        except (ValueError, RecursionError) as error:  # a date like 2026-13-41
            self._refuse(node, str(error))

    def _refuse_unclear(self, node: Node, above: tuple[Node, ...]) -> None:
        """Raise for a name that comes twice, and for an alias that holds itself."""
        if isinstance(node.value, str) or id(node) in self._clear:
            return
        if any(node is other for other in above):
            self._refuse(node, "this node holds itself")
        inner = [value for _, _, value in self._items(node, "the section")] if node.id == "mapping" else node.value
        for value in inner:
            self._refuse_unclear(value, (*above, node))
        self._clear.add(id(node))

    def _refuse_section(self, name: str, key: Node) -> NoReturn:
        if name in BY_NAME:
            self._refuse(key, f"the setting '{name}' is outside its section", f"put it below '{SECTIONS[0]}:'")
        near = nearest(name, (*SECTIONS, *RAW_SECTIONS))
        hint = f"did you mean '{near}:'?" if near else f"sections: {', '.join((SECTIONS[0], *RAW_SECTIONS))}"
        self._refuse(key, f"unknown section {quoted(name)}", hint)

    def _refuse_syntax(self, error: yaml.MarkedYAMLError) -> NoReturn:
        mark = error.problem_mark or error.context_mark
        problem = " ".join((error.problem or "not YAML").split())
        if mark is None:
            raise UsageError(f"{self._shown}: {problem}") from None
        line = self._text.split("\n")[mark.line :][:1]
        hints = (
            ("indent with spaces: YAML allows no tabs there",) if line and "\t" in line[0][mark.column :][:1] else ()
        )
        raise UsageError(f"{self._shown}:{mark.line + 1}:{mark.column + 1}: {problem}", *hints) from None

    def _refuse(self, node: Node, message: str, *hints: str) -> NoReturn:
        mark = node.start_mark
        raise UsageError(f"{self._shown}:{mark.line + 1}:{mark.column + 1}: {message}", *hints)
