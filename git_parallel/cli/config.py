"""``git parallel config``: the settings in force, listed as ``git config --list`` does."""

from __future__ import annotations

from collections.abc import Iterator

import click

from git_parallel.errors import UsageError
from git_parallel.git import Repository
from git_parallel.plan.config import Config, load
from git_parallel.plan.settings import SETTINGS, Setting, named, near_name


@click.command()
@click.argument("name", required=False)
@click.option("--show-origin", is_flag=True, help="Say where each value comes from, before it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; money in US dollars, times in seconds.")
@click.option("-z", "nul", is_flag=True, help="End values with NUL, as git config -z does.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of .git-parallel.yaml, for editors.")
@click.option("-c", "--config", "file", metavar="FILE", help="Read FILE in place of the project file's settings.")
def command(name: str | None, *, show_origin: bool, as_json: bool, nul: bool, schema: bool, file: str | None) -> int:
    """Show the settings in force: all of them, or the value of NAME.

    Flags come before git's configuration (parallel.*), that before the project file .git-parallel.yaml
    (section parallel_runs:), that before the defaults. Settings without a value are left out; asking for
    one by NAME exits with 1.
    """
    if schema:
        click.echo(_schema())
        return 0
    asked = None if name is None else _setting(name)
    config = load(Repository.discover(), file=file)
    chosen = SETTINGS if asked is None else (asked,)
    if as_json:
        output = _json(config, chosen)
    else:
        output = b"".join(_lines(config, chosen, with_key=asked is None, show_origin=show_origin, nul=nul))
    click.echo(output, nl=False)
    return 0 if output else 1


def _schema() -> str:
    from json import dumps  # noqa: PLC0415 (only for this)

    from git_parallel.plan.schema import schema  # noqa: PLC0415

    return dumps(schema(), indent=2)


def _setting(name: str) -> Setting:
    setting = named(name)
    if setting is None:
        near = near_name(name)
        hint = f"did you mean '{near.name}'?" if near else "see 'git parallel config' for all settings"
        raise UsageError(f"unknown setting '{name}'", hint)
    return setting


def _lines(
    config: Config, settings: tuple[Setting, ...], *, with_key: bool, show_origin: bool, nul: bool
) -> Iterator[bytes]:
    """Yield what ``git config`` would print for ``--list`` (``with_key``) or ``--get-all``, as bytes."""
    for setting in settings:
        end = "\0" if nul else "\n"
        origin = config.origin(setting.name) + ("\0" if nul else "\t") if show_origin else ""
        key = setting.git_key + ("\n" if nul else "=") if with_key else ""
        for value in setting.show(getattr(config, setting.name)):
            yield f"{origin}{key}{value}{end}".encode(errors="surrogateescape")


def _json(config: Config, settings: tuple[Setting, ...]) -> bytes:
    import msgspec  # noqa: PLC0415 (only for this format)

    shown = {
        setting.name: {
            "key": setting.git_key,
            "value": getattr(config, setting.name),
            "origin": config.origin(setting.name).encode(errors="replace").decode(),
        }
        for setting in settings
    }
    return msgspec.json.encode({"v": 1, "config": shown}) + b"\n"
