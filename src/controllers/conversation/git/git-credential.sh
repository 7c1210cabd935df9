#!/bin/sh
# Answers git with the token for the gateway, which lies beside this program. The token is in no
# argument and in no environment.
cat >/dev/null
[ "${1:-}" = get ] || exit 0
token=$(cat "${0%/*}/token" 2>/dev/null) || exit 0
printf 'username=agent\npassword=%s\n' "$token"
