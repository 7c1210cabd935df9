#!/bin/sh
# Installed by conversation-operator: runs .openhands/pre-commit.sh.
own=$(dirname "$0")/pre-commit.local
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
if [ -f .openhands/pre-commit.sh ]; then exec timeout -k 5 600 bash .openhands/pre-commit.sh </dev/null; fi
