#!/bin/sh
# Runs the set-up script of the repository, once per clone, and installs its git hook; exits with
# the code of the script. A path that leads out of the repository is not run.
#
# arguments: HOOK
#   HOOK   the text of .git/hooks/pre-commit; its second line marks it
set -u
hook_text=$1
# exit-codes.ts has the same exit codes. A script of the repository can not exit with them, or with
# any code above them.
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
  hook=.git/hooks/pre-commit
  mkdir -p .git/hooks
  if [ -e "$hook" ] && ! grep -q '^# Installed by conversation-operator' "$hook"; then mv -f "$hook" "$hook.local"; fi
  { printf '%s' "$hook_text" >"$hook.new" && chmod 755 "$hook.new" && mv -f "$hook.new" "$hook"; } || exit 1
fi
# On a full volume an agent could not even keep its conversation.
df -Pk . | tail -n 1 | {
  read -r _ _ _ free _
  [ "${free:-1024}" -ge 1024 ] 2>/dev/null
} || exit "$volume_full"
