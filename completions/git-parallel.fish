# fish completion for git-parallel(1). Made by completions/generate.py from the commands; a test holds it to them.
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
    set -l known run status watch list show log diff attach stop pause unpause wait resume retry compare conflicts review merge cleanup restore push fetch agents config init doctor demo
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

complete -c git-parallel -n __git_parallel_first -k -a run -d 'start a run (the default command)'
complete -c git-parallel -n '__git_parallel_using run' -l task -x -d 'A task (repeatable); '\''-'\'' reads it from stdin'
complete -c git-parallel -n '__git_parallel_using run' -l task-file -r -F -d 'A file that holds one task (repeatable)'
complete -c git-parallel -n '__git_parallel_using run' -l workers -x -d 'How many workers run at once'
complete -c git-parallel -n '__git_parallel_using run' -l models -x -k -a '(__git_parallel_list models)' -d 'Models to use; named twice, a model makes two attempts'
complete -c git-parallel -n '__git_parallel_using run' -l agent -x -d 'The role, for programs that know roles'
complete -c git-parallel -n '__git_parallel_using run' -l program -x -k -a '(__git_parallel_words programs)' -d 'The program that does the work'
complete -c git-parallel -n '__git_parallel_using run' -l budget-per-worker -x -d 'US dollars that one worker may spend'
complete -c git-parallel -n '__git_parallel_using run' -l timeout-per-worker -x -d 'Time for one worker'
complete -c git-parallel -n '__git_parallel_using run' -l idle-timeout -x -d 'Time that a worker may do nothing'
complete -c git-parallel -n '__git_parallel_using run' -l max-steps -x -d 'Steps of one worker'
complete -c git-parallel -n '__git_parallel_using run' -l memory-per-worker -x -d 'Memory that one worker'\''s processes may use'
complete -c git-parallel -n '__git_parallel_using run' -l memfree -x -d 'Memory that must be free for a worker to start'
complete -c git-parallel -n '__git_parallel_using run' -l max-output -x -d 'Output that one worker may write'
complete -c git-parallel -n '__git_parallel_using run' -l max-disk -x -d 'Room on the disk that one worktree may take'
complete -c git-parallel -n '__git_parallel_using run' -l budget -x -d 'US dollars that the whole run may spend'
complete -c git-parallel -n '__git_parallel_using run' -l timeout -x -d 'Time for the whole run'
complete -c git-parallel -n '__git_parallel_using run' -l check -x -d 'Command that says whether a worker'\''s tree is good'
complete -c git-parallel -n '__git_parallel_using run' -l base -x -k -a '(__git_parallel_words commits)' -d 'Commit the workers start from (default: HEAD)'
complete -c git-parallel -n '__git_parallel_using run' -l target -x -k -a '(__git_parallel_words branches)' -d 'Branch that approved work lands on (default: the current one)'
complete -c git-parallel -n '__git_parallel_using run' -l with-changes -d 'Take uncommitted changes into the base'
complete -c git-parallel -n '__git_parallel_using run' -l halt -x -d 'When the run ends before all have ended'
complete -c git-parallel -n '__git_parallel_using run' -l until -x -d 'End the run with the N-th success, or the first-success; all: when all have ended. Short for --halt'
complete -c git-parallel -n '__git_parallel_using run' -l terminal -x -d 'Where agents run: each in a window of tmux'
complete -c git-parallel -n '__git_parallel_using run' -l retries -x -d 'How often a worker is tried again'
complete -c git-parallel -n '__git_parallel_using run' -l checkpoint -x -d 'Time between captures of a running worker'\''s files'
complete -c git-parallel -n '__git_parallel_using run' -l keep-ignored -x -d 'Keep files that git ignores too, so much of each worker'
complete -c git-parallel -n '__git_parallel_using run' -l matrix -d 'Run every task with every model'
complete -c git-parallel -n '__git_parallel_using run' -l allow-empty -d 'A worker that changes nothing may still succeed'
complete -c git-parallel -n '__git_parallel_using run' -s c -l config -r -F -d 'Read FILE in place of .git-parallel.yaml'
complete -c git-parallel -n '__git_parallel_using run' -s n -l dry-run -d 'Show who would do what, where, from which commit; start nothing'
complete -c git-parallel -n '__git_parallel_using run' -l detach -d 'Return once the run is up, and print its id'
complete -c git-parallel -n '__git_parallel_using run' -l trust -d 'Approve the commands that .git-parallel.yaml brings'
complete -c git-parallel -n '__git_parallel_using run' -l json -d 'One JSON document on standard output at the end'
complete -c git-parallel -n '__git_parallel_using run' -s q -l quiet -d 'Show only the final result'

complete -c git-parallel -n __git_parallel_first -k -a status -d 'where every worker is now'
complete -c git-parallel -n '__git_parallel_using status' -l all -d 'Every run that has files here, not only those that go on'
complete -c git-parallel -n '__git_parallel_using status' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using status' -l porcelain -d 'Print stable lines for scripts'
complete -c git-parallel -n '__git_parallel_using status' -s z -d 'End lines with NUL, quote nothing; implies --porcelain'
complete -c git-parallel -n '__git_parallel_using status' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a watch -d 'the same, live'
complete -c git-parallel -n '__git_parallel_using watch' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a list -d 'the runs of this repository'
complete -c git-parallel -n '__git_parallel_using list' -s n -l max-count -x -d 'At most N runs'
complete -c git-parallel -n '__git_parallel_using list' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using list' -l porcelain -d 'Print stable lines for scripts'
complete -c git-parallel -n '__git_parallel_using list' -s z -d 'End lines with NUL, quote nothing; implies --porcelain'

complete -c git-parallel -n __git_parallel_first -k -a show -d 'one run or worker as it was recorded'
complete -c git-parallel -n '__git_parallel_using show' -l events -d 'Every event of the run, too'
complete -c git-parallel -n '__git_parallel_using show' -l trace -d 'The commits of the run'\''s record, as git log shows them'
complete -c git-parallel -n '__git_parallel_using show' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using show' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a log -d 'an agent'\''s output (-f follows it)'
complete -c git-parallel -n '__git_parallel_using log' -s f -l follow -d 'Go on as the output grows, until the worker has ended'
complete -c git-parallel -n '__git_parallel_using log' -l errors -d 'Standard error, of agents whose standard output is data'
complete -c git-parallel -n '__git_parallel_using log' -l check -x -d 'The output of check N'
complete -c git-parallel -n '__git_parallel_using log' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a diff -d 'what a worker changed'
complete -c git-parallel -n '__git_parallel_using diff' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a attach -d 'get into a worker'\''s terminal'
complete -c git-parallel -n '__git_parallel_using attach' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a stop -d 'end a run or a worker gracefully'
complete -c git-parallel -n '__git_parallel_using stop' -l now -d 'Kill at once. What is in the worktrees is captured all the same'
complete -c git-parallel -n '__git_parallel_using stop' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a pause -d 'let workers stand still'
complete -c git-parallel -n '__git_parallel_using pause' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a unpause -d 'let them go on'
complete -c git-parallel -n '__git_parallel_using unpause' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a wait -d 'wait for a run and exit as it does'
complete -c git-parallel -n '__git_parallel_using wait' -l timeout -x -d 'Wait no longer; then exit with 124'
complete -c git-parallel -n '__git_parallel_using wait' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using wait' -k -a '(__git_parallel_words runs)'

complete -c git-parallel -n __git_parallel_first -k -a resume -d 'go on after a crash or an interrupt'
complete -c git-parallel -n '__git_parallel_using resume' -l failed -d 'Also those that ended without success: failed, partial, timeout'
complete -c git-parallel -n '__git_parallel_using resume' -l timeout-per-worker -x -d 'Time for one worker in this round'
complete -c git-parallel -n '__git_parallel_using resume' -l budget-per-worker -x -d 'US dollars that one worker may spend in this round'
complete -c git-parallel -n '__git_parallel_using resume' -l idle-timeout -x -d 'Time that a worker may do nothing'
complete -c git-parallel -n '__git_parallel_using resume' -l max-steps -x -d 'Steps of one worker in this round'
complete -c git-parallel -n '__git_parallel_using resume' -l memory-per-worker -x -d 'Memory that one worker'\''s processes may use'
complete -c git-parallel -n '__git_parallel_using resume' -l memfree -x -d 'Memory that must be free for a worker to start'
complete -c git-parallel -n '__git_parallel_using resume' -l max-output -x -d 'Output that one worker may write, with that of earlier rounds'
complete -c git-parallel -n '__git_parallel_using resume' -l max-disk -x -d 'Room on the disk that one worktree may take'
complete -c git-parallel -n '__git_parallel_using resume' -l budget -x -d 'US dollars that the whole run may spend, with what it has spent already'
complete -c git-parallel -n '__git_parallel_using resume' -l timeout -x -d 'Time for this round of the run'
complete -c git-parallel -n '__git_parallel_using resume' -l terminal -x -d 'Where the agents of this round run: tmux, or none'
complete -c git-parallel -n '__git_parallel_using resume' -l detach -d 'Return once the run is up again, and print its id'
complete -c git-parallel -n '__git_parallel_using resume' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using resume' -s q -l quiet -d 'Show only the final result'
complete -c git-parallel -n '__git_parallel_using resume' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a retry -d 'send workers back, after a review or a failure'
complete -c git-parallel -n '__git_parallel_using retry' -s m -l message -x -d 'What to do, beside what the review says'
complete -c git-parallel -n '__git_parallel_using retry' -s F -l file -r -F -d 'The same from a file; '\''-'\'' is standard input'
complete -c git-parallel -n '__git_parallel_using retry' -l new-session -d 'Begin a new conversation: the old one is lost, or astray'
complete -c git-parallel -n '__git_parallel_using retry' -l timeout-per-worker -x -d 'Time for one worker in this round'
complete -c git-parallel -n '__git_parallel_using retry' -l budget-per-worker -x -d 'US dollars that one worker may spend in this round'
complete -c git-parallel -n '__git_parallel_using retry' -l idle-timeout -x -d 'Time that a worker may do nothing'
complete -c git-parallel -n '__git_parallel_using retry' -l max-steps -x -d 'Steps of one worker in this round'
complete -c git-parallel -n '__git_parallel_using retry' -l memory-per-worker -x -d 'Memory that one worker'\''s processes may use'
complete -c git-parallel -n '__git_parallel_using retry' -l memfree -x -d 'Memory that must be free for a worker to start'
complete -c git-parallel -n '__git_parallel_using retry' -l max-output -x -d 'Output that one worker may write, with that of earlier rounds'
complete -c git-parallel -n '__git_parallel_using retry' -l max-disk -x -d 'Room on the disk that one worktree may take'
complete -c git-parallel -n '__git_parallel_using retry' -l budget -x -d 'US dollars that the whole run may spend, with what it has spent already'
complete -c git-parallel -n '__git_parallel_using retry' -l timeout -x -d 'Time for this round of the run'
complete -c git-parallel -n '__git_parallel_using retry' -l terminal -x -d 'Where the agents of this round run: tmux, or none'
complete -c git-parallel -n '__git_parallel_using retry' -l detach -d 'Return once the run is up again, and print its id'
complete -c git-parallel -n '__git_parallel_using retry' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using retry' -s q -l quiet -d 'Show only the final result'
complete -c git-parallel -n '__git_parallel_using retry' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a compare -d 'the workers of one task side by side'
complete -c git-parallel -n '__git_parallel_using compare' -l rank -d 'Say which is best, and by what evidence'
complete -c git-parallel -n '__git_parallel_using compare' -l range-diff -x -k -a '(__git_parallel_words handles)' -d 'Show git'\''s range-diff of two workers'\'' commits instead'
complete -c git-parallel -n '__git_parallel_using compare' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using compare' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a conflicts -d 'which branches collide, and a good order'
complete -c git-parallel -n '__git_parallel_using conflicts' -l target -x -k -a '(__git_parallel_words commits)' -d 'What they are to land on (default: each run'\''s own target)'
complete -c git-parallel -n '__git_parallel_using conflicts' -l committed -d 'Look at branches alone, not at what live worktrees hold beside them'
complete -c git-parallel -n '__git_parallel_using conflicts' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using conflicts' -l porcelain -d 'Print stable lines for scripts'
complete -c git-parallel -n '__git_parallel_using conflicts' -s z -d 'End lines with NUL, quote nothing; implies --porcelain'
complete -c git-parallel -n '__git_parallel_using conflicts' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a review -d 'walk the branches in sequence for human approval'
complete -c git-parallel -n '__git_parallel_using review' -l follow -d 'Wait for workers that have not ended, and go on with each'
complete -c git-parallel -n '__git_parallel_using review' -l approve -x -k -a '(__git_parallel_words handles)' -d 'Approve these workers'\'' heads; ask nothing'
complete -c git-parallel -n '__git_parallel_using review' -l reject -x -k -a '(__git_parallel_words handles)' -d 'Reject these; -m says why'
complete -c git-parallel -n '__git_parallel_using review' -l changes -x -k -a '(__git_parallel_words handles)' -d 'Ask these for changes: those in -m or -F'
complete -c git-parallel -n '__git_parallel_using review' -s m -l message -x -d 'What the verdict before it says'
complete -c git-parallel -n '__git_parallel_using review' -s F -l file -r -F -d 'The same from a file; '\''-'\'' is standard input'
complete -c git-parallel -n '__git_parallel_using review' -l list -d 'List the workers and their verdicts; ask nothing'
complete -c git-parallel -n '__git_parallel_using review' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using review' -l porcelain -d 'Print stable lines for scripts'
complete -c git-parallel -n '__git_parallel_using review' -s z -d 'End lines with NUL, quote nothing; implies --porcelain'
complete -c git-parallel -n '__git_parallel_using review' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a merge -d 'land approved branches in sequence'
complete -c git-parallel -n '__git_parallel_using merge' -l target -x -k -a '(__git_parallel_words branches)' -d 'Branch to land on (default: the run'\''s own target)'
complete -c git-parallel -n '__git_parallel_using merge' -l strategy -x -a 'merge squash rebase ff' -d 'How it lands (default: parallel.strategy)'
complete -c git-parallel -n '__git_parallel_using merge' -s y -l yes -d 'Ask nothing: land what is approved and green'
complete -c git-parallel -n '__git_parallel_using merge' -l no-review -d 'Land what nobody has approved, too; this is recorded'
complete -c git-parallel -n '__git_parallel_using merge' -l batch -d 'Check all together first; if that is red, find the first one that is'
complete -c git-parallel -n '__git_parallel_using merge' -l stop -d 'Stop at a conflict for you to resolve, instead of parking the branch'
complete -c git-parallel -n '__git_parallel_using merge' -l resolve -x -a 'agent' -d 'Send a parked branch back to its agent to resolve'
complete -c git-parallel -n '__git_parallel_using merge' -l check -x -d 'Command that must succeed on each integrated tree'
complete -c git-parallel -n '__git_parallel_using merge' -l no-checks -d 'Run no check'
complete -c git-parallel -n '__git_parallel_using merge' -l check-timeout -x -d 'Time for one check of an integrated tree'
complete -c git-parallel -n '__git_parallel_using merge' -l recheck -d 'Run checks again whose result for a tree is known'
complete -c git-parallel -n '__git_parallel_using merge' -l no-verify -d 'Do not run the commit hooks, as in git merge'
complete -c git-parallel -n '__git_parallel_using merge' -l cleanup -d 'Remove branches and worktrees of what landed, safely'
complete -c git-parallel -n '__git_parallel_using merge' -l reject-siblings -d 'Reject the other workers of the same task'
complete -c git-parallel -n '__git_parallel_using merge' -l trust -d 'Approve the check commands that come from elsewhere'
complete -c git-parallel -n '__git_parallel_using merge' -s n -l dry-run -d 'Show the plan with predicted trees and conflicts; change nothing'
complete -c git-parallel -n '__git_parallel_using merge' -l continue -d 'Go on after a conflict was resolved, or after a crash'
complete -c git-parallel -n '__git_parallel_using merge' -l skip -d 'Leave out the branch that has stopped the landing, and go on'
complete -c git-parallel -n '__git_parallel_using merge' -l abort -d 'End a stopped landing; what has landed stays'
complete -c git-parallel -n '__git_parallel_using merge' -l undo -x -k -a '(__git_parallel_words merges)' -d 'Take a landing back: move the target back, or revert'
complete -c git-parallel -n '__git_parallel_using merge' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using merge' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a cleanup -d 'remove worktrees and branches safely'
complete -c git-parallel -n '__git_parallel_using cleanup' -l all -d 'All workers that have ended (the default without words)'
complete -c git-parallel -n '__git_parallel_using cleanup' -l merged -d 'Only workers whose work is in the run'\''s target already'
complete -c git-parallel -n '__git_parallel_using cleanup' -l keep-branches -d 'Remove worktrees only'
complete -c git-parallel -n '__git_parallel_using cleanup' -s n -l dry-run -d 'Show what would be removed and kept; change nothing'
complete -c git-parallel -n '__git_parallel_using cleanup' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using cleanup' -l porcelain -d 'Print stable lines for scripts'
complete -c git-parallel -n '__git_parallel_using cleanup' -s z -d 'End lines with NUL, quote nothing; implies --porcelain'
complete -c git-parallel -n '__git_parallel_using cleanup' -k -a '(__git_parallel_words handles)'

complete -c git-parallel -n __git_parallel_first -k -a restore -d 'get a removed branch or snapshot back'
complete -c git-parallel -n '__git_parallel_using restore' -l branch -x -d 'Call the branch NAME'
complete -c git-parallel -n '__git_parallel_using restore' -l worktree -d 'Bring the worktree back too, with what was uncommitted in it (--worktree=PATH: elsewhere)'
complete -c git-parallel -n '__git_parallel_using restore' -l to -x -a '(__fish_complete_directories)' -d 'Write the files into a new or empty directory DIR'
complete -c git-parallel -n '__git_parallel_using restore' -l from-trash -x -a '(__fish_complete_directories)' -d 'Move the directory, ignored files and all, from the trash to DIR'
complete -c git-parallel -n '__git_parallel_using restore' -l at -x -d 'As it was at TIME: the last checkpoint by then'
complete -c git-parallel -n '__git_parallel_using restore' -l list -d 'Show what can be restored; change nothing'
complete -c git-parallel -n '__git_parallel_using restore' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using restore' -k -a '(__git_parallel_words removed)'

complete -c git-parallel -n __git_parallel_first -k -a push -d 'give records of runs to a remote'
complete -c git-parallel -n '__git_parallel_using push' -l logs -d 'Also what agents printed, which may hold secrets'
complete -c git-parallel -n '__git_parallel_using push' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using push' -s q -l quiet -d 'Print nothing but what goes wrong'
complete -c git-parallel -n '__git_parallel_using push' -k -a '(__git_parallel_words remotes)'

complete -c git-parallel -n __git_parallel_first -k -a fetch -d 'get records of runs from a remote'
complete -c git-parallel -n '__git_parallel_using fetch' -l logs -d 'Also what agents printed, as far as it was pushed'
complete -c git-parallel -n '__git_parallel_using fetch' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using fetch' -s q -l quiet -d 'Print nothing but what goes wrong'
complete -c git-parallel -n '__git_parallel_using fetch' -k -a '(__git_parallel_words remotes)'

complete -c git-parallel -n __git_parallel_first -k -a agents -d 'the programs that can do the work'
complete -c git-parallel -n '__git_parallel_using agents' -l model -x -k -a '(__git_parallel_list models)' -d 'Model for the test (default: the first that is configured)'
complete -c git-parallel -n '__git_parallel_using agents' -l timeout -x -d 'Time for the test (default: 300)'
complete -c git-parallel -n '__git_parallel_using agents' -l trust -d 'Approve what .git-parallel.yaml says of programs'
complete -c git-parallel -n '__git_parallel_using agents' -l json -d 'Print one JSON document'
complete -c git-parallel -n '__git_parallel_using agents' -k -a '(__git_parallel_words trials)'

complete -c git-parallel -n __git_parallel_first -k -a config -d 'what is in force, and from where'
complete -c git-parallel -n '__git_parallel_using config' -l show-origin -d 'Say where each value comes from, before it'
complete -c git-parallel -n '__git_parallel_using config' -l json -d 'One JSON document; money in US dollars, times in seconds'
complete -c git-parallel -n '__git_parallel_using config' -s z -d 'End values with NUL, as git config -z does'
complete -c git-parallel -n '__git_parallel_using config' -l schema -d 'Print the JSON schema of .git-parallel.yaml, for editors'
complete -c git-parallel -n '__git_parallel_using config' -s c -l config -r -F -d 'Read FILE in place of the project file'\''s settings'
complete -c git-parallel -n '__git_parallel_using config' -k -a '(__git_parallel_words settings)'

complete -c git-parallel -n __git_parallel_first -k -a init -d 'notes in every git log, docs for agents (opt-in)'
complete -c git-parallel -n '__git_parallel_using init' -l agent-docs -d 'Tell coding agents how to start runs: a skill, and a block in AGENTS.md'
complete -c git-parallel -n '__git_parallel_using init' -l undo -d 'Take back what init has set or written, and nothing else'

complete -c git-parallel -n __git_parallel_first -k -a doctor -d 'find and repair trouble'
complete -c git-parallel -n '__git_parallel_using doctor' -l repair -d 'Do the repairs that are shown'
complete -c git-parallel -n '__git_parallel_using doctor' -l json -d 'One JSON document'

complete -c git-parallel -n __git_parallel_first -k -a demo -d 'a two-minute tour with no model'
complete -c git-parallel -n '__git_parallel_using demo' -a '(__fish_complete_directories)'
