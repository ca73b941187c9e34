"""Names of branches and worktrees: templates, slugs and git's rules for a branch name. Nothing here touches a disk."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

from msgspec import Struct

from git_parallel.errors import UsageError

FIELDS = ("n", "run", "task", "model", "repo")

SLUG_LENGTH = 40
# A file name has at most 255 bytes, and git adds `.lock` to that of a ref while it writes it.
_COMPONENT_BYTES = 250
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")


class Place(Struct, frozen=True):
    """A worker's number, the short name of its branch, and the absolute path of its worktree."""

    worker: int
    branch: str
    path: str


def slug(text: str, fallback: str) -> str:
    """Return ``text`` as ascii lower-case words joined by '-', 1 to 40 long; ``fallback`` when nothing is left."""
    if not text.isascii():
        import unicodedata  # noqa: PLC0415 (few tasks and models need it)

        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:SLUG_LENGTH].rstrip("-") or fallback


def plain(text: str, fallback: str) -> str:
    """Return ``text`` as one component that is safe in refs and paths and stays recognisable (case, '_' and '.')."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text)
    name = re.sub(r"\.\.+", ".", name).strip("-.")[:100].rstrip("-.")
    return f"{name}-" if name.endswith(".lock") else name or fallback


def field_values(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return what ``{run} {task} {model} {repo}`` stand for, each safe inside a ref and a path and never empty."""
    return {
        "run": plain(values.get("run") or "", "run"),
        "task": slug(values.get("task") or "", "task"),
        "model": slug(values.get("model") or "", "default"),
        "repo": plain(values.get("repo") or "", "repo"),
    }


class Template(Struct, frozen=True):
    """A name with fields, split into pairs of literal text and the field after it ('' after the last text)."""

    source: str
    parts: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, source: str, setting: str) -> Template:
        """Read a template. Raises UsageError, naming ``setting`` (as in ``parallel.branch``)."""
        try:
            parsed = list(string.Formatter().parse(source))
        except ValueError as error:
            raise _fault(source, setting, str(error).lower()) from None
        for _, field, spec, conversion in parsed:
            if field is not None and field not in FIELDS:
                raise _unknown_field(source, setting, field)
            if spec or conversion:
                raise _fault(source, setting, f"{{{field}}} takes no format")
        if not any(field == "n" for _, field, _, _ in parsed):
            raise _fault(source, setting, "it has no {n}, so that two workers would get one name")
        if setting == "parallel.branch" and source.startswith("refs/"):
            raise _fault(source, setting, "give the short name, without 'refs/heads/'")
        if "\0" in source:
            raise _fault(source, setting, "it holds a NUL character")
        return cls(source, _parts(source))

    def render(self, number: object, values: Mapping[str, str]) -> str:
        """Return the name for one worker."""
        return "".join(self.pieces({**values, "n": str(number)}))

    def pieces(self, values: Mapping[str, str]) -> list[str]:
        """Return literals and the values of fields in turn."""
        return [piece for literal, field in self.parts for piece in (literal, values[field] if field else "")]

    def fields(self) -> set[str]:
        """The fields in use."""
        return {field for _, field in self.parts if field}

    def prefixes(self) -> list[Template]:
        """Return the template of each directory above the name, outermost first, and the template itself."""
        words = self.source.split("/")  # values hold no slash
        sources = ["/".join(words[:end]) for end in range(1, len(words) + 1)]
        return [Template(source, _parts(source)) for source in sources]


def _parts(source: str) -> tuple[tuple[str, str], ...]:
    """Split a template that is known to be well formed."""
    return tuple((literal, field or "") for literal, field, _, _ in string.Formatter().parse(source))


def branch_fault(name: str) -> str | None:
    """Say why git would refuse ``name`` as a branch (git-check-ref-format(1) ``--branch``), or None."""
    if not name:
        return "it is empty"
    if name.startswith("-"):
        return "it begins with '-'"
    if name == "HEAD":
        return "'HEAD' means something else to git"
    if found := _FORBIDDEN.search(name):
        return f"it holds {found.group()!r}"
    for text in ("..", "@{", "//"):
        if text in name:
            return f"it holds '{text}'"
    if name.startswith("/") or name.endswith(("/", ".")):
        return "it begins or ends with '/' or ends with '.'"
    for component in name.split("/"):
        if component.startswith(".") or component.endswith(".lock"):
            return f"its part '{component}' begins with '.' or ends with '.lock'"
        if len(component.encode("utf-8", "surrogateescape")) > _COMPONENT_BYTES:
            return "a part of it is too long"
    return None


def path_fault(path: str) -> str | None:
    """Say why no file system would take ``path``, or None."""
    if any(len(part.encode("utf-8", "surrogateescape")) > 255 for part in path.split("/")):
        return "a part of it is too long"
    return None


def _fault(source: str, setting: str, reason: str) -> UsageError:
    example = "architect/parallel-{n}" if setting == "parallel.branch" else ".architect-parallel-{n}"
    return UsageError(f"{setting} '{source}': {reason}", f"for example: git config {setting} '{example}'")


def _unknown_field(source: str, setting: str, field: str) -> UsageError:
    from difflib import get_close_matches  # noqa: PLC0415 (only on the way to an error)

    near = get_close_matches(field, FIELDS, n=1, cutoff=0.4)
    hints = [f"did you mean {{{near[0]}}}?"] if near else []
    known = " ".join(f"{{{name}}}" for name in FIELDS)
    return UsageError(f"{setting} '{source}': unknown field {{{field}}}", *hints, f"known fields: {known}")
