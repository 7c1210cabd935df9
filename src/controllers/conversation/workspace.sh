#!/bin/sh
# Makes the folder of a conversation without a repository, and prints its absolute path.
set -eu
umask 022
mkdir -p project
cd project
pwd
