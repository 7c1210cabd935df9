#!/bin/sh
# Leaves in `.agent/git` the settings by which git reaches private repositories, and pushes, through
# the gateway in every shell of the sandbox. GIT_CONFIG_SYSTEM names the file `config`. The settings
# of all starts in the sandbox add up. A repeated run changes nothing, and a killed run leaves the
# earlier files, because one rename moves each file to its place.
#
# An earlier conversation may have put anything there. The program replaces what is no file, never
# writes through a link, and makes every setting itself: it reads only names of repositories.
#
# arguments: HELPER GATEWAY PROVIDER NAME READABLE [PROVIDER HOST]...
#   HELPER          the text of git-credential.sh
#   GATEWAY         URL of the sandbox at the gateway, with a slash at its end
#   PROVIDER NAME   the repository of this start; empty where there is none
#   READABLE        further repositories of that host that the gateway serves, between spaces
#   PROVIDER HOST   each git host, with a slash at the end of its URL
# environment: CLONE_SOURCE
#   gateway: the clone came from the gateway, so the repository is private; host: the repository is
#   public; empty: not known, and what an earlier start has found stays
set -eu
umask 077
export LC_ALL=C
helper=$1 gateway=$2 provider=$3 name=$4 readable=$5
shift 5
source=${CLONE_SOURCE:-} max_entries=50

discard() { # NAME
  if [ -d "$1" ] && ! [ -L "$1" ]; then chmod -R u+rwx "$1"; fi
  if [ -e "$1" ] || [ -L "$1" ]; then rm -rf "$1"; fi
}
is_file() { [ -f "$1" ] && ! [ -L "$1" ]; }
# Replaces a file by the standard input. The shell creates the new file, or fails.
put() { # NAME
  discard "$1.new"
  (
    set -C
    exec cat >"$1.new"
  )
  is_file "$1" || discard "$1"
  mv -fT "$1.new" "$1"
}

[ -d .agent ] || mkdir -p .agent
cd .agent
if [ -L git ] || ! [ -d git ]; then
  discard git
  mkdir -p git
fi
chmod 700 git
cd git

# Starts at the same time take turns, so that none drops the entries of another one. A process that
# keeps the lock delays a start by 5 s and no more.
is_file lock || discard lock
exec 9>>lock
i=0
until flock -n 9 || [ "$i" -ge 50 ]; do
  i=$((i + 1))
  sleep 0.1
done

# An entry `PROVIDER` is a git host, an entry `PROVIDER NAME` a private repository.
entries() {
  if [ -n "$provider" ]; then echo "$provider"; fi
  if [ "$source" = gateway ]; then echo "$provider $name"; fi
  if [ -n "$provider" ]; then for each in $readable; do echo "$provider $each"; done; fi
  is_file entries || return 0
  head -c 65536 entries | while read -r each repository; do
    case "$each $repository" in
      "$provider ") continue ;;
      "$provider $name") [ -z "$source" ] || continue ;;
    esac
    case "$each $readable" in "$provider "*" $repository "*) continue ;; esac
    echo "$each${repository:+ $repository}"
  done
}
entry='[^[:cntrl:][:blank:]"\\]+( [A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)+)?'
{ entries | grep -axE "$entry" || :; } | head -n "$max_entries" | put entries

rule() { # URL NAME VALUE
  printf '[url "%s"]\n\t%s = "%s"\n' "$1" "$2" "$3"
}
# Calls COMMAND with the URL at the gateway, that at the host, and the name, of each entry.
each_entry() { # COMMAND [PROVIDER HOST]...
  command=$1
  shift
  while [ $# -gt 1 ]; do
    while read -r each repository; do
      if [ "$each" = "$1" ]; then "$command" "$gateway$1/" "$2" "$repository"; fi
    done <entries
    shift 2
  done
}
rules() { # URL_AT_GATEWAY URL NAME
  if [ -z "$3" ]; then
    rule "$1" pushInsteadOf "$2"
  else
    rule "$1$3.git" insteadOf "$2$3.git"
    rule "$1$3.git" insteadOf "$2$3"
  fi
}
# Git replaces the beginning of a URL, so the rules for owner/name would change the URLs of
# owner/name-2 and of owner/name.github.io too. Git takes the longest beginning, and of two that are
# alike the first: rules that change nothing keep these URLs.
other_names() { # URL_AT_GATEWAY URL NAME
  [ -n "$3" ] || return 0
  for next in a b c d e f g h i j k l m n o p q r s t u v w x y z A B C D E F G H I J K L M \
    N O P Q R S T U V W X Y Z 0 1 2 3 4 5 6 7 8 9 _ . -; do
    rule "$2$3$next" insteadOf "$2$3$next"
    rule "$2$3.git$next" insteadOf "$2$3.git$next"
  done
}
# A word of the shell within a value of git.
quoted() { # TEXT
  case $1 in
    *[\'\"\\]*) printf '%s' "$1" | sed "s/'/'\\\\''/g; s/[\\\\\"]/\\\\&/g" ;;
    *) printf '%s' "$1" ;;
  esac
}

printf '%s' "$helper" | put credential
{
  printf '# conversation-operator writes this file at each start.\n'
  printf '[include]\n\tpath = /etc/gitconfig\n[push]\n\tautoSetupRemote = true\n'
  printf '[credential "%s"]\n\thelper =\n\thelper = "!sh '\''%s'\''"\n' "$gateway" \
    "$(quoted "$PWD/credential")"
  # An empty proxy is none, whatever the environment has: a proxy would see the token.
  printf '[http "%s"]\n\tfollowRedirects = false\n\tproxy =\n' "$gateway"
  each_entry rules "$@"
  each_entry other_names "$@"
} | put config
# The operator writes the token to a file that does not exist.
discard token.new
