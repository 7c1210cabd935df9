#!/bin/sh
# Puts the token that the operator has written to `.agent/git/token.new` in its place. A start at
# the same time may have done that: all starts in a sandbox write the same token.
set -eu
folder=.agent/git
is_file() { [ -f "$1" ] && ! [ -L "$1" ]; }
if [ -L "$folder" ]; then
  echo 'The folder for the settings of git is a link.' >&2
  exit 1
fi
chmod 700 "$folder"
cd "$folder"
if is_file token.new; then
  chmod 600 token.new
  if [ -d token ] && ! [ -L token ]; then rm -rf token; fi
  mv -fT token.new token
fi
is_file token
