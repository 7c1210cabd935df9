#!/bin/sh
# Prints "visible" if a path is in a folder after all symbolic links, is not in a folder .git, and
# is not ignored by git. A path that does not exist counts as its nearest folder that does. The
# repository is not trusted, and git runs no program of it.
#
# arguments: FOLDER PATH, absolute and without "." and ".."
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=none
export GIT_CEILING_DIRECTORIES="${1%/*}"
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
folder=$(readlink -f -- "$1") || exit 0
nearest=$2
while [ ! -e "$nearest" ] && [ ! -L "$nearest" ] && [ "$nearest" != / ]; do
  nearest=${nearest%/*}
  nearest=${nearest:-/}
done
real=$(readlink -f -- "$nearest") || exit 0
case "$real/" in "$folder"/*) ;; *) exit 0 ;; esac
case "$2/$real/" in */.git/*) exit 0 ;; esac

# Each repository says what it ignores. A repository in a folder that another one ignores is ignored
# too. What git does not answer is not shown.
path=$real
while [ "$path" != "$folder" ]; do
  holder=${path%/*}
  until [ -e "$holder/.git" ] || [ "$holder" = "$folder" ]; do holder=${holder%/*}; done
  [ -e "$holder/.git" ] || break
  git -C "$holder" --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null check-ignore --quiet -- "$path" 2>/dev/null
  [ "$?" -eq 1 ] || exit 0
  path=$holder
done
echo visible
