# Read by every hook of the fence: whose repository is this, and where are its own hooks?
#
# The fence's hooks come from the environment, so git runs them in every repository that a worker touches,
# in those that a test suite makes for itself, too. Only the run's own repository is fenced.

hook=${0##*/}
here=$(cd "${GIT_DIR:-.}" && pwd -P)
case $here in
"$GIT_PARALLEL_COMMON" | "$GIT_PARALLEL_COMMON"/worktrees/*)
    fenced=true
    own=$GIT_PARALLEL_HOOKS/$hook
    ;;
*)
    fenced=false
    # GIT_CONFIG_COUNT=0: as that repository is configured, without the fence.
    own=$(GIT_CONFIG_COUNT=0 git rev-parse --git-path hooks)/$hook
    ;;
esac
[ -x "$own" ] || own=
