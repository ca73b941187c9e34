"""Which numbers of a branch template are taken: one question to git for a whole batch of candidates."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from git_parallel.git import Repository
from git_parallel.layout import HEADS
from git_parallel.worktrees.names import Template

_PATTERNS_PER_CALL = 1000  # far below the kernel's limit on arguments


class Wanted(Struct, frozen=True):
    """A branch template with what its fields other than ``{n}`` stand for in one run.

    ``parents`` are the templates of the directories above the name. ``values`` has every value a field
    takes: where it is one for all workers it is part of the name, where it differs any value counts, so
    that a number belongs to one worker whatever its task is called.
    """

    template: Template
    parents: tuple[Template, ...]
    values: Mapping[str, frozenset[str]]
    fixed: frozenset[str]

    @classmethod
    def of(cls, template: Template, rows: Sequence[Mapping[str, str]]) -> Wanted:
        """``rows`` has the values of each worker."""
        values = {field: frozenset(row[field] for row in rows) for field in template.fields() - {"n"}}
        parents = tuple(template.prefixes()[:-1])
        fixed = {
            parent.render("", row)
            for parent in parents
            if "n" not in parent.fields()
            for row in (rows if parent.fields() else rows[:1])
        }
        return cls(template, parents, values, frozenset(fixed))

    def patterns(self, numbers: Iterable[int]) -> list[str]:
        """Return patterns of ``git for-each-ref`` for every ref that matters to these numbers.

        That is the branches themselves, what lies below such a name, and branches that have the name of
        a directory above. A pattern without a glob also matches all that lies below; where that could be
        much, a backslash before the last character makes it a glob that matches one name.
        """
        patterns = [_exactly(name) for name in sorted(self.fixed)]
        for number in numbers:
            patterns.extend(_exactly(self._glob(parent, number)) for parent in self._numbered_parents())
            name = self._glob(self.template, number)
            patterns.extend([name, f"{name}/**"] if "*" in name else [name])
        return [HEADS + pattern for pattern in patterns]

    def clash(self, names: Collection[str]) -> str | None:
        """Return a branch that has the name of a directory the template needs for every number."""
        return next(iter(sorted(self.fixed & set(names))), None)

    def numbers(self, names: Iterable[str]) -> set[int]:
        """Return the numbers that these branches take."""
        whole = self._expression(self.template) + "(?:/.*)?"
        sources = [whole, *map(self._expression, self._numbered_parents())]
        expressions = [re.compile(source, re.DOTALL) for source in sources]
        found = (match for name in names for expression in expressions if (match := expression.fullmatch(name)))
        return {int(match["n"]) for match in found}

    def _numbered_parents(self) -> list[Template]:
        return [parent for parent in self.parents if "n" in parent.fields()]

    def _glob(self, template: Template, number: int) -> str:
        shown = {field: next(iter(found)) if len(found) == 1 else "*" for field, found in self.values.items()}
        return template.render(number, shown)

    def _expression(self, template: Template) -> str:
        text, seen = "", False
        for literal, field in template.parts:
            text += re.escape(literal)
            if field == "n":
                text += "(?P=n)" if seen else "(?P<n>[1-9][0-9]*)"
                seen = True
            elif field:
                found = self.values[field]
                text += re.escape(next(iter(found))) if len(found) == 1 else "[^/]+"
        return text


def existing(repo: Repository, patterns: Sequence[str]) -> set[str]:
    """Return the short names of the branches that match. One git call for each thousand patterns."""
    names: set[str] = set()
    for start in range(0, len(patterns), _PATTERNS_PER_CALL):
        batch = patterns[start : start + _PATTERNS_PER_CALL]
        done = repo.common.run("for-each-ref", "--format=%(refname)", *batch, env={"LC_ALL": "C"})
        names.update(line.removeprefix(HEADS) for line in done.lines)
        # A ref that git cannot read is in the way all the same.
        names.update(os.fsdecode(name) for name in re.findall(rb"broken ref refs/heads/(\S+)", done.stderr))
    return names


def _exactly(name: str) -> str:
    return name if name.endswith("*") else f"{name[:-1]}\\{name[-1]}"
