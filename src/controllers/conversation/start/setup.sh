#!/bin/sh
# Sets the author of commits, runs the set-up script of the repository, once per clone, and installs
# git hooks; exits with the code of the script. A path that leads out of the repository is not run.
#
# arguments: PRE_COMMIT CO_AUTHOR_HOOK NAME EMAIL CO_AUTHOR
#   PRE_COMMIT       the text of .git/hooks/pre-commit; the second line of a hook marks it
#   CO_AUTHOR_HOOK   the text of .git/hooks/prepare-commit-msg
#   NAME EMAIL       the author of commits; empty leaves it to the agent
#   CO_AUTHOR        the agent as NAME <EMAIL>; empty: commits name no co-author
set -u
pre_commit=$1 co_author_hook=$2 name=$3 email=$4 co_author=$5
# preparation-failures.ts has the same exit codes. A script of the repository can not exit with
# them, or with any code above them.
first_own_code=240 volume_full=247 leads_out=248
cd project || exit 1
done=../.agent/setup-done

inside() { # FILE
  case $(readlink -f "$1") in
    "$(pwd -P)"/*) ;;
    *)
      echo "$1 leads out of the repository."
      exit "$leads_out"
      ;;
  esac
}

# Replaces a hook, and keeps the one of the repository or the image as NAME.local.
install_hook() { # NAME TEXT
  hook=.git/hooks/$1
  mkdir -p .git/hooks
  if [ -e "$hook" ] && ! grep -q '^# Installed by conversation-operator' "$hook"; then mv -f "$hook" "$hook.local"; fi
  { printf '%s' "$2" >"$hook.new" && chmod 755 "$hook.new" && mv -f "$hook.new" "$hook"; } || exit 1
}
# The settings of the repository come before those of the user, which an image may bring. The work
# does not depend on them, so that a failure ends no start.
set_author() {
  own() { git config --file .git/config "$@"; }
  own user.name "$name" && own user.email "$email" || return
  if [ -z "$co_author" ]; then
    own --unset-all conversation-operator.coAuthor || :
    return
  fi
  own conversation-operator.coAuthor "$co_author"
  install_hook prepare-commit-msg "$co_author_hook"
}
if [ -n "$name" ] && [ -d .git ] && ! [ -L .git ] && command -v git >/dev/null; then set_author; fi

if [ -f .openhands/setup.sh ] && ! [ -e "$done" ]; then
  inside .openhands/setup.sh
  mkdir -p ../.agent
  code=0
  bash .openhands/setup.sh </dev/null || code=$?
  if [ "$code" -ne 0 ]; then
    echo "It ended with exit code $code."
    [ "$code" -lt "$first_own_code" ] || code=1
    exit "$code"
  fi
  : >"$done"
fi
if [ -f .openhands/pre-commit.sh ] && [ -d .git ]; then
  inside .openhands/pre-commit.sh
  install_hook pre-commit "$pre_commit"
fi
# On a full volume an agent could not even keep its conversation.
df -Pk . | tail -n 1 | {
  read -r _ _ _ free _
  [ "${free:-1024}" -ge 1024 ] 2>/dev/null
} || exit "$volume_full"
