#!/bin/sh
# Prints the names of the files below a folder, as base64, because names have any bytes. Each name
# ends with a NUL: those that git knows but that are gone, two NULs, and those that are there. In a
# repository, ignored files are left out, else the folders .git and node_modules. A folder that does
# not exist has no files. The repository is not trusted, and git runs no program of it.
#
# arguments: FOLDER MAX_BYTES
folder=$1 max=$2
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=none
# A repository around the workspace is none of its own.
export GIT_CEILING_DIRECTORIES="${PWD%/*}"
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
cd -- "$folder" 2>/dev/null || exit 0

quiet_git() { git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@" 2>/dev/null; }
git_files() { quiet_git ls-files -z "$@"; }
found_in() {
  find "$1" \( -name .git -o -name node_modules \) -prune -o \( -type f -o -type l \) -print0 2>/dev/null
}
# Git does not list the files of repositories in a repository.
in_repository() {
  git_files --cached --others --exclude-standard
  for each in */.git; do
    [ ! -e "$each" ] || found_in "./${each%/.git}"
  done
}

# The files of a folder that is ignored itself are all ignored, and were asked for all the same.
if [ "$(quiet_git rev-parse --is-inside-work-tree)" = true ] && ! quiet_git check-ignore --quiet .; then
  git_files --deleted | head -c "$max"
  printf '\000\000'
  in_repository | head -c "$max"
else
  printf '\000\000'
  found_in . | head -c "$max"
fi | base64
