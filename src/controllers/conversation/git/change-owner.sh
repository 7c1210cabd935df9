#!/bin/sh
# Sets the author of commits to that of the new owner of the sandbox, or removes the one of the old
# owner where the new one has chosen none. Without a clone or git there is nothing to do.
#
# arguments: NAME EMAIL CO_AUTHOR
#   NAME EMAIL   the author of commits; empty leaves it to the agent
#   CO_AUTHOR    the agent as NAME <EMAIL>; empty: commits name no co-author
set -u
name=$1 email=$2 co_author=$3
cd project 2>/dev/null || exit 0
[ -d .git ] && ! [ -L .git ] && command -v git >/dev/null || exit 0

setting() { # NAME VALUE
  if [ -n "$2" ]; then
    git config --file .git/config "$1" "$2"
  else
    git config --file .git/config --unset-all "$1" || [ "$?" -eq 5 ]
  fi
}
setting user.name "$name" && setting user.email "$email" &&
  setting conversation-operator.coAuthor "$co_author"
