#!/bin/sh
# Runs a step apart from the agent, in a session of its own, with the lock in descriptor 9: as long
# as the runner lives the step is running, whatever becomes of the call that has begun it. The
# output of the step goes through a pipe into three files that take turns, and never takes more than
# some MiB of the volume. The newest file may be short, so the one before it stays until there is a
# newer one. `exit.new` has its block before the step can fill the volume.
#
# arguments: FOLDER TIMEOUT_SECONDS ID SCRIPT
d=$1 limit=$2 id=$3
mkfifo "$d/pipe" || exit
{
  while :; do
    dd bs=65536 count=16 of="$d/log.2"
    [ -s "$d/log.2" ] || break
    mv -f "$d/log.1" "$d/log.0"
    mv -f "$d/log.2" "$d/log.1"
  done
  cat
} <"$d/pipe" >/dev/null 2>&1 9>&- &
logger=$! begin=$(date +%s)
CO_STEP=$id timeout -k 5 "$limit" sh -c "$4" >"$d/pipe" 2>&1 9>&- &
step=$!
wait "$step"
code=$? took=$(($(date +%s) - begin))
kill -9 "-$step"
if [ "$code" -ne 0 ]; then
  # The exit code of a step whose time is over, in step-command.ts too.
  [ "$took" -lt "$limit" ] || code=124
  for each in /proc/[0-9]*; do
    grep -qsa "CO_STEP=$id" "$each/environ" && kill -9 "${each#/proc/}"
  done
fi
{
  sleep 1
  kill "$logger"
} 9>&- &
late=$!
wait "$logger"
kill "$late"
rm -f "$d/pipe"
printf '%3d\n' "$code" 1<>"$d/exit.new"
mv -f "$d/exit.new" "$d/exit"
