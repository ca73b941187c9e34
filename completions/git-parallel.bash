# bash completion for git-parallel(1). Made by completions/generate.py from the commands; a test holds it to them.
#
# git's own completion calls _git_parallel for `git parallel`; without it, `git-parallel` still completes.

__git_parallel_commands="run status watch list show log diff attach stop pause unpause wait resume retry compare conflicts review merge cleanup restore push fetch agents config init doctor demo"

# Sets options, and in kinds the values of those that take one: "OPTION=KIND", where KIND is a kind of
# `git parallel __complete`, "file", "none", or words with a colon before and between them; "+" after it: several words.
__git_parallel_describe ()
{
	case $1 in
	run)
		options="--task --task-file --workers --models --agent --program --budget-per-worker --timeout-per-worker --idle-timeout --max-steps --memory-per-worker --memfree --max-output --max-disk --budget --timeout --check --base --target --with-changes --halt --until --terminal --retries --checkpoint --keep-ignored --matrix --allow-empty --config --dry-run --detach --trust --json --quiet --help"
		kinds="--task=none --task-file=file --workers=none --models=models --agent=none --program=programs --budget-per-worker=none --timeout-per-worker=none --idle-timeout=none --max-steps=none --memory-per-worker=none --memfree=none --max-output=none --max-disk=none --budget=none --timeout=none --check=none --base=commits --target=branches --halt=none --until=none --terminal=none --retries=none --checkpoint=none --keep-ignored=none -c=file --config=file"
		argument=none
		;;
	status)
		options="--all --json --porcelain -z --help"
		kinds=""
		argument=handles
		;;
	watch)
		options="--help"
		kinds=""
		argument=handles
		;;
	list)
		options="--max-count --json --porcelain -z --help"
		kinds="-n=none --max-count=none"
		argument=none
		;;
	show)
		options="--events --trace --json --help"
		kinds=""
		argument=handles
		;;
	log)
		options="--follow --errors --check --help"
		kinds="--check=none"
		argument=handles
		;;
	diff)
		options="--help"
		kinds=""
		argument=handles
		;;
	attach)
		options="--help"
		kinds=""
		argument=handles
		;;
	stop)
		options="--now --help"
		kinds=""
		argument=handles
		;;
	pause)
		options="--help"
		kinds=""
		argument=handles
		;;
	unpause)
		options="--help"
		kinds=""
		argument=handles
		;;
	wait)
		options="--timeout --json --help"
		kinds="--timeout=none"
		argument=runs
		;;
	resume)
		options="--failed --timeout-per-worker --budget-per-worker --idle-timeout --max-steps --memory-per-worker --memfree --max-output --max-disk --budget --timeout --terminal --detach --json --quiet --help"
		kinds="--timeout-per-worker=none --budget-per-worker=none --idle-timeout=none --max-steps=none --memory-per-worker=none --memfree=none --max-output=none --max-disk=none --budget=none --timeout=none --terminal=none"
		argument=handles
		;;
	retry)
		options="--message --file --new-session --timeout-per-worker --budget-per-worker --idle-timeout --max-steps --memory-per-worker --memfree --max-output --max-disk --budget --timeout --terminal --detach --json --quiet --help"
		kinds="-m=none --message=none -F=file --file=file --timeout-per-worker=none --budget-per-worker=none --idle-timeout=none --max-steps=none --memory-per-worker=none --memfree=none --max-output=none --max-disk=none --budget=none --timeout=none --terminal=none"
		argument=handles
		;;
	compare)
		options="--rank --range-diff --json --help"
		kinds="--range-diff=handles+"
		argument=handles
		;;
	conflicts)
		options="--target --committed --json --porcelain -z --help"
		kinds="--target=commits"
		argument=handles
		;;
	review)
		options="--follow --approve --reject --changes --message --file --list --json --porcelain -z --help"
		kinds="--approve=handles --reject=handles --changes=handles -m=none --message=none -F=file --file=file"
		argument=handles
		;;
	merge)
		options="--target --strategy --yes --no-review --batch --stop --resolve --check --no-checks --check-timeout --recheck --no-verify --cleanup --reject-siblings --trust --dry-run --continue --skip --abort --undo --json --help"
		kinds="--target=branches --strategy=:merge:squash:rebase:ff --resolve=:agent --check=none --check-timeout=none --undo=merges"
		argument=handles
		;;
	cleanup)
		options="--all --merged --keep-branches --dry-run --json --porcelain -z --help"
		kinds=""
		argument=handles
		;;
	restore)
		options="--branch --worktree --to --from-trash --at --list --json --help"
		kinds="--branch=none --to=directory --from-trash=directory --at=none"
		argument=removed
		;;
	push)
		options="--logs --json --quiet --help"
		kinds=""
		argument=remotes
		;;
	fetch)
		options="--logs --json --quiet --help"
		kinds=""
		argument=remotes
		;;
	agents)
		options="--model --timeout --trust --json --help"
		kinds="--model=models --timeout=none"
		argument=trials
		;;
	config)
		options="--show-origin --json -z --schema --config --help"
		kinds="-c=file --config=file"
		argument=settings
		;;
	init)
		options="--agent-docs --undo --help"
		kinds=""
		argument=none
		;;
	doctor)
		options="--repair --json --help"
		kinds=""
		argument=none
		;;
	demo)
		options="--help"
		kinds=""
		argument=directory
		;;
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
	models)
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
		options+=" --version"
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
