#!/usr/bin/env python3
"""Write the shells' completions from the commands themselves: ``python completions/generate.py [--check]``.

Commands, options and what kind of value each takes are fixed in the files, so that a shell starts no
program for them; words that only the repository knows come from ``git parallel __complete KIND``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from git_parallel.cli import COMMANDS, git_parallel

HERE = Path(__file__).parent
TOP_OPTIONS = ("--version",)

# What stands for a value in help: what completes it. "": nothing does; "file" and "directory" are the shell's
# own; all others are kinds of `git parallel __complete`. One command may have a word mean something else.
KINDS = {
    "BRANCH": "branches",
    "CMD": "",
    "COMMIT": "commits",
    "CSV": "models",
    "DIR": "directory",
    "DIRECTORY": "directory",
    "FILE": "file",
    "MERGE": "merges",
    "MODEL": "models",
    "N": "",
    "NAME": "settings",
    "NAME|COMMAND": "programs",
    "PATH": "directory",
    "REMOTE": "remotes",
    "ROLE": "",
    "RUN": "runs",
    "RUN|WORKER": "handles",
    "SECONDS": "",
    "SIZE": "",
    "TASK": "",
    "TEXT": "",
    "TIME": "",
    "USD": "",
    "WHEN": "",
    "WHERE": "",
    "WORKER": "handles",
    "agents test": "trials",
    "restore NAME": "",
    "restore RUN|WORKER": "removed",
}
LISTS = ("models",)
"""Kinds of which several may stand in one word, parted by commas."""


@dataclass(frozen=True)
class Option:
    """An option: its spellings, what it does, and for one with a value its name, kind or words.

    ``values``: how many values it takes, each a word of its own when there are several.
    """

    names: tuple[str, ...]
    about: str
    multiple: bool = False
    value: str | None = None
    kind: str = ""
    choices: tuple[str, ...] = ()
    values: int = 1

    @property
    def long(self) -> str:
        return next((name for name in self.names if name.startswith("--")), self.names[0])


@dataclass(frozen=True)
class Command:
    """A command: its options, and the kind of its arguments."""

    name: str
    about: str
    options: tuple[Option, ...]
    argument: str


def read() -> list[Command]:
    """Return all commands as click has them."""
    context = click.Context(git_parallel, info_name="git parallel")
    return [_command(context, name, about) for name, about in COMMANDS.items()]


def _command(context: click.Context, name: str, about: str) -> Command:
    command = git_parallel.get_command(context, name)
    assert command is not None
    own = click.Context(command, parent=context, info_name=name, help_option_names=["-h", "--help"])
    options, argument = [], ""
    for parameter in command.get_params(own):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            options += [_option(name, parameter, own)]
        elif isinstance(parameter, click.Argument):
            argument = _kind(name, parameter.make_metavar(own)) or argument
    return Command(name, about, tuple(options), argument)


def _option(command: str, option: click.Option, context: click.Context) -> Option:
    names = (*option.opts, *option.secondary_opts)
    about = " ".join((option.help or "").split()).rstrip(".")
    if option.is_flag or option.count:
        return Option(names, about, option.count)
    if isinstance(option.type, click.Choice):
        choices = tuple(str(choice) for choice in option.type.choices)
        return Option(names, about, option.multiple, "/".join(choices), choices=choices)
    value = option.make_metavar(context)
    return Option(names, about, option.multiple, value, _kind(command, value), values=option.nargs)


def _kind(command: str, metavar: str) -> str:
    metavar = metavar.split(maxsplit=1)[0].rstrip(".").strip("[]")
    if f"{command} {metavar}" in KINDS:
        return KINDS[f"{command} {metavar}"]
    if metavar not in KINDS:
        sys.exit(f"{HERE / 'generate.py'}: say in KINDS what completes '{metavar}' of git parallel {command}")
    return KINDS[metavar]


NOTICE = "Made by completions/generate.py from the commands; a test holds it to them."

BASH = r"""# bash completion for git-parallel(1). NOTICE
#
# git's own completion calls _git_parallel for `git parallel`; without it, `git-parallel` still completes.

__git_parallel_commands="COMMANDS"

# Sets options, and in kinds the values of those that take one: "OPTION=KIND", where KIND is a kind of
# `git parallel __complete`, "file", "none", or words with a colon before and between them; "+" after it: several words.
__git_parallel_describe ()
{
	case $1 in
CASES
	esac
}

# The words of one kind, one a line. Inside git's completion the repository is the one of its -C and --git-dir.
__git_parallel_ask ()
{
	if declare -F __git >/dev/null; then
		__git parallel __complete "$1"
	else
		git-parallel __complete "$1" 2>/dev/null
	fi | cut -f1
}

# Offer the lines of standard input that begin with $2 and end in $3. $1 stands before it in the same word.
__git_parallel_offer ()
{
	local before=$1 current=$2 after=$3 word
	# bash itself parts words at a colon and replaces only what follows it.
	local whole=$before$current cut=
	if [[ $whole == *:* && $COMP_WORDBREAKS == *:* ]]; then
		cut=${whole%"${whole##*:}"}
	fi
	while IFS= read -r word; do
		if [[ $word == "$current"* ]]; then
			word=$before$word
			COMPREPLY+=("${word#"$cut"}$after")
		fi
	done
}

# Offer values of kind $1 for the part $2 of the current word.
__git_parallel_value ()
{
	local kind=${1%+} current=$2 before=
	case $kind in
	none|file|directory|'') ;;
	:*) __git_parallel_offer "" "$current" " " < <(printf '%s\n' ${kind//:/ }) ;;
	LISTS)
		if [[ $current == *,* ]]; then before=${current%,*},; fi
		__git_parallel_offer "$before" "${current##*,}" "" < <(__git_parallel_ask "$kind")
		;;
	*) __git_parallel_offer "" "$current" " " < <(__git_parallel_ask "$kind") ;;
	esac
}

__git_parallel_kind_of ()
{
	local pair
	for pair in $kinds; do
		if [[ ${pair%%=*} == "$1" ]]; then
			kind=${pair#*=}
			return 0
		fi
	done
	return 1
}

# Uses words, cword and cur, as git's completion sets them.
_git_parallel ()
{
	local index=${__git_cmd_idx-} command=run options= kinds= argument=none kind= word i
	if [[ -z $index ]]; then
		for ((index = 1; index < cword; index++)); do
			if [[ ${words[index]} == parallel ]]; then break; fi
		done
	fi
	if ((cword == index + 1)) && [[ $cur != -* ]]; then
		__git_parallel_offer "" "$cur" " " < <(printf '%s\n' $__git_parallel_commands)
		return
	fi
	for word in $__git_parallel_commands; do
		if ((cword > index + 1)) && [[ ${words[index + 1]} == "$word" ]]; then
			command=$word
			((++index))
		fi
	done
	__git_parallel_describe "$command"
	if ((cword == index + 1)) && [[ $command == run && ${words[index]} != run ]]; then
		options+=" TOP"
	fi

	for ((i = index + 1; i < cword; i++)); do
		if [[ ${words[i]} == -- ]]; then
			__git_parallel_value "$argument" "$cur"
			return
		fi
	done
	if __git_parallel_kind_of "${words[cword - 1]}"; then
		__git_parallel_value "$kind" "$cur"
	elif [[ $cur == --*=* ]] && __git_parallel_kind_of "${cur%%=*}"; then
		# bash parts words at the equals sign, too.
		__git_parallel_value "$kind" "${cur#*=}"
	elif [[ $cur == -* ]]; then
		for word in $options; do
			if __git_parallel_kind_of "$word" && [[ $word == --* && $kind != *+ ]]; then
				__git_parallel_offer "" "$cur" "" <<<"$word="
			else
				__git_parallel_offer "" "$cur" " " <<<"$word"
			fi
		done
	else
		__git_parallel_value "$argument" "$cur"
	fi
}

# For `git-parallel` itself: puts together what bash parted at = and :, and goes on as git's completion would.
__git_parallel_main ()
{
	local cur= cword=0 words=() __git_cmd_idx=0 i last=-1
	for ((i = 0; i <= COMP_CWORD; i++)); do
		if ((i > 1)) && [[ ${COMP_WORDS[i]} =~ ^[=:]+$ || ${COMP_WORDS[i - 1]} =~ ^[=:]+$ ]]; then
			words[last]+=${COMP_WORDS[i]}
		else
			words[++last]=${COMP_WORDS[i]}
		fi
	done
	cword=$last
	cur=${words[last]}
	_git_parallel
}

complete -o bashdefault -o default -o nospace -F __git_parallel_main git-parallel
"""


def bash(commands: list[Command]) -> str:
    """The file for bash, which git's own completion reads as well."""
    cases = []
    for command in commands:
        kinds = [f"{name}={_bash_kind(option)}" for option in command.options if option.value for name in option.names]
        cases += [
            f"\t{command.name})",
            f'\t\toptions="{" ".join(option.long for option in command.options)}"',
            f'\t\tkinds="{" ".join(kinds)}"',
            f"\t\targument={command.argument or 'none'}",
            "\t\t;;",
        ]
    return _fill(BASH, commands, CASES="\n".join(cases), TOP=" ".join(TOP_OPTIONS), LISTS="|".join(LISTS))


def _bash_kind(option: Option) -> str:
    kind = "".join(f":{choice}" for choice in option.choices) or option.kind or "none"
    return f"{kind}+" if option.values > 1 else kind


ZSH = r"""#compdef git-parallel
#description run many coding agents at once, each in its own worktree and branch

# zsh completion for git-parallel(1). NOTICE
#
# zsh's _git finds _git-parallel by its name and the line above. With another git completion, say:
#     zstyle ':completion:*:*:git:*' user-commands parallel:'run many coding agents at once'

# Offer the words of one kind that the repository knows; several, parted by commas, when $2 is "list".
(( $+functions[_git-parallel-words] )) ||
_git-parallel-words () {
  local kind=$1 line
  local -a found described
  [[ $2 == list ]] && compset -P '*,'
  found=( ${(f)"$(_call_program $kind git-parallel __complete $kind 2>/dev/null)"} )
  for line in $found; do
    described+=( "${${line%%$'\t'*}//:/\\:}${${(M)line:#*$'\t'*}:+:${line#*$'\t'}}" )
  done
  if [[ $2 == list ]]; then
    _describe -V -t $kind $kind described -S ''
  else
    _describe -V -t $kind $kind described
  fi
}

_git-parallel () {
  local curcontext=$curcontext state line command=run ret=1
  declare -A opt_args
  local -a commands names top
  commands=(
COMMANDS
  )
  names=( ${commands%%:*} )

  if (( CURRENT == 2 )); then
    if [[ $words[2] != -* ]]; then
      _describe -t commands 'git parallel command' commands
      return
    fi
    top=( '(- *)--version[show the version]' )
  elif (( ${names[(Ie)$words[2]]} )); then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  curcontext=${curcontext%:*:*}:git-parallel-$command:

  case $command in
CASES
  esac
  return ret
}

_git-parallel "$@"
"""


def zsh(commands: list[Command]) -> str:
    """The file for zsh."""
    cases = []
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_specs(option)]
        if command.name == "run":
            specs.append("$top")
        # "( )": with the plain space of an option's value, zsh would show a message in place of inserting an option.
        specs.append(f"'*:{command.argument or 'word'}:{_zsh_action(command.argument) if command.argument else '( )'}'")
        body = " \\\n".join(f"        {spec}" for spec in specs)
        cases.append(f"    ({command.name})\n      _arguments -s -S : \\\n{body} && ret=0\n      ;;")
    listed = "\n".join(f"    {_quoted(f'{command.name}:{command.about}')}" for command in commands)
    return _fill(ZSH, commands, COMMANDS=listed, CASES="\n".join(cases))


def _zsh_specs(option: Option) -> list[str]:
    about = option.about.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    action = ""
    if option.value:
        action = (
            f":{option.value.replace(':', chr(92) + ':')}:{_zsh_action(option.kind, option.choices)}" * option.values
        )
    specs = []
    for name in option.names:
        before = "*" if option.multiple else f"({' '.join(option.names)})"
        # `--name=value` and `--name value`; `-nvalue` and `-n value`.
        sign = ("=" if name.startswith("--") else "+") if option.value and option.values == 1 else ""
        specs.append(_quoted(f"{before}{name}{sign}[{about}]{action}"))
    return specs


def _zsh_action(kind: str, choices: tuple[str, ...] = ()) -> str:
    if choices:
        return f"({' '.join(choices)})"
    if kind in ("file", "directory"):
        return "_files" if kind == "file" else "_directories"
    # The space before it: called without the options that _arguments has for compadd.
    return f" _git-parallel-words {kind}{' list' if kind in LISTS else ''}" if kind else " "


FISH = r"""# fish completion for git-parallel(1). NOTICE
#
# For `git parallel`, fish asks these for the same words after `git-parallel`, but commandline still says
# what was really typed.

# The words before the one at the cursor, from the subcommand on.
function __git_parallel_typed
    set -l words (commandline -opc)
    if test "$words[1]" = git
        set -l index (contains -i -- parallel $words); or return
        set -e words[1..$index]
    else
        set -e words[1]
    end
    string join \n -- $words
end

function __git_parallel_using
    set -l words (__git_parallel_typed)
    set -l known COMMANDS
    contains -- "$words[1]" $known; or set words run
    test $words[1] = $argv[1]
end

function __git_parallel_first
    test (count (__git_parallel_typed)) -eq 0
end

# Words of one kind that the repository knows.
function __git_parallel_words
    git-parallel __complete $argv[1] 2>/dev/null
end

# The same where several may stand in one word, parted by commas.
function __git_parallel_list
    set -l before (string match -r '^(?:.*=)?(.*,)?' -- (commandline -ct))[2]
    for word in (__git_parallel_words $argv[1])
        echo "$before$word"
    end
end

complete -c git-parallel -f
complete -c git-parallel -s h -l help -d 'Show help and exit'
complete -c git-parallel -n __git_parallel_first -l version -d 'Show the version'
CASES
"""


def fish(commands: list[Command]) -> str:
    """The file for fish."""
    lines = []
    for command in commands:
        lines.append("")
        lines.append(
            f"complete -c git-parallel -n __git_parallel_first -k -a {command.name} -d {_quoted(command.about)}"
        )
        using = f"complete -c git-parallel -n '__git_parallel_using {command.name}'"
        lines += [_fish_option(using, option) for option in command.options if option.long != "--help"]
        if command.argument:
            lines.append(f"{using} {_fish_values(command.argument)}")
    return _fill(FISH, commands, CASES="\n".join(lines))


def _fish_option(using: str, option: Option) -> str:
    words = [using]
    for name in option.names:
        words.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.value is not None:
        words.append(
            f"-x -a {_quoted(' '.join(option.choices))}" if option.choices else _fish_values(option.kind, "-x")
        )
    return " ".join((*words, "-d", _quoted(option.about)))


def _fish_values(kind: str, exclusive: str = "") -> str:
    """Options of ``complete`` for the values of a kind; ``exclusive`` (-x) when they are those of an option."""
    if kind == "file":
        return "-r -F"
    if not kind:
        return exclusive
    if kind == "directory":
        words = "-a '(__fish_complete_directories)'"
    else:
        words = f"-k -a '(__git_parallel_{'list' if kind in LISTS else 'words'} {kind})'"
    return f"{exclusive} {words}".strip()


def _quoted(text: str) -> str:
    """Quote for a shell. zsh ends a quoted part for a quote; fish knows a backslash, and so do both this way."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fill(template: str, commands: list[Command], **parts: str) -> str:
    parts = {"NOTICE": NOTICE, "COMMANDS": " ".join(command.name for command in commands), **parts}
    for name, text in parts.items():
        template = template.replace(name, text)
    return template


FILES = {"git-parallel.bash": bash, "_git-parallel": zsh, "git-parallel.fish": fish}


def main() -> None:
    """Write the files, or with ``--check`` say which are out of step and exit with 1."""
    commands = read()
    stale = []
    for name, made in FILES.items():
        path, text = HERE / name, made(commands)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
    for name in stale:
        print(f"completions/{name}: {'out of step' if '--check' in sys.argv[1:] else 'written'}")
    sys.exit(bool(stale) and "--check" in sys.argv[1:])


if __name__ == "__main__":
    main()
