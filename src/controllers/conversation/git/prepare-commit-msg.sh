#!/bin/sh
# Installed by conversation-operator: names the agent as co-author of each commit.
own=$(dirname "$0")/prepare-commit-msg.local
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
agent=$(git config --get conversation-operator.coAuthor) || exit 0
git interpret-trailers --in-place --if-exists addIfDifferent --trailer "Co-authored-by: $agent" "$1"
