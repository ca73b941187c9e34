# Read when fish starts. fish 3.6.0 does not hand `git parallel` on to the completions of git-parallel; later ones
# do so by themselves, and the same words twice are shown once.

function __git_parallel_through_git
    set -l words (commandline -opc)
    set -l index (contains -i -- parallel $words); or return
    set -e words[1..$index]
    complete -C "git-parallel $(string join ' ' -- (string escape -- $words)) $(commandline -ct)"
end

complete -c git -f -n '__fish_git_using_command parallel' -a '(__git_parallel_through_git)'
