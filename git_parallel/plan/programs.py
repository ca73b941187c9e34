"""What the configuration says of programs: the person's own file, and on top of it the project's.

git's configuration cannot hold a preset, so a person's stand in ``$XDG_CONFIG_HOME/git-parallel/config.yaml``
(default: ``~/.config``), in the same two sections as in the project file: ``agents:`` and ``prices:``.
An entry that both have adds to the person's; of a price the project's counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from git_parallel.agents import preset
from git_parallel.agents.locate import in_files
from git_parallel.agents.preset import Locate
from git_parallel.errors import UsageError
from git_parallel.plan import configfile


class Programs(Struct, frozen=True):
    """The sections of both files as one. ``project`` are the entries that the project has a say in.

    ``locate`` names the line of a key, in whichever file it stands.
    """

    agents: Mapping[str, object]
    prices: Mapping[str, object]
    project: frozenset[str]
    locate: Locate


def load(raw: Mapping[str, Any], top: str | None) -> Programs:
    """Put the person's file below the project's sections (``raw``, at ``top``). Raises UsageError."""
    path = configfile.personal_file()
    shown = configfile.shown_home(path)
    own = configfile.read_personal(path, shown).raw
    files = [(configfile.PROJECT_FILE, os.path.join(top, configfile.PROJECT_FILE))] if top is not None else []
    sections = {
        name: (_section(own, name, shown), _section(raw, name, configfile.PROJECT_FILE))
        for name in configfile.RAW_SECTIONS
    }
    below, above = sections["agents"]
    return Programs(
        agents=preset.layered(below, above),
        prices={**sections["prices"][0], **sections["prices"][1]},
        project=frozenset(above),
        locate=in_files([*files, (shown, path)]),
    )


def _section(raw: Mapping[str, Any], name: str, shown: str) -> Mapping[str, object]:
    section = raw.get(name)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise UsageError(f"{shown}: {name}: must hold 'name: value' lines")
    return {str(key): value for key, value in section.items()}
