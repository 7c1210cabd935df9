#!/bin/sh
# Reads process groups that begin (+) and end (-) from its input. When the input ends, because the
# server has ended, the program kills the groups that are left.
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -)
      rest=
      for each in $groups; do [ "$each" = "$group" ] || rest="$rest $each"; done
      groups=$rest
      ;;
  esac
done
for each in $groups; do kill -9 "-$each"; done 2>/dev/null
