#!/bin/sh
# Prints the state of a step, and begins the step before, if a SCRIPT is given and the step neither
# runs nor is done. However many calls there are, and however many at once, the step runs once at a
# time, and not again after its end.
#
# arguments: NAME ID WAIT_SECONDS [TIMEOUT_SECONDS RUNNER SCRIPT]
#   WAIT_SECONDS   maximum time to wait for the end of the step
#   RUNNER         the text of step-runner.sh
# output: `step STATE EXIT_CODE FOLDER`, then the end of what the step has printed
umask 077
d=.agent/steps/$1 id=$2 wait=$3
# A start that kills its own sandbox is not repeated for ever.
max_attempts=3 max_output_bytes=8192
# util-linux or busybox has them.
for tool in flock setsid timeout mkfifo dd tail; do
  command -v "$tool" >/dev/null || {
    echo "the sandbox's image has no $tool" >&2
    exit 1
  }
done
{ mkdir -p "$d" && : >>"$d/lock"; } || exit 1

is_own() { [ "$(cat "$d/id" 2>/dev/null)" = "$id" ]; }
attempts() { wc -c <"$d/attempts"; }

if [ $# -gt 3 ]; then
  (
    # A call that only reads the state holds the lock too, for a moment and with others; a step
    # holds it alone.
    until flock -n 9; do flock -n -s 9 || exit 0; done
    if is_own; then [ ! -s "$d/exit" ] || exit 0; else : >"$d/attempts"; fi
    [ "$(attempts)" -lt "$max_attempts" ] || exit 0
    printf x >>"$d/attempts"
    rm -f "$d/exit" "$d/exit.new" "$d/log.0" "$d/log.1" "$d/log.2" "$d/pipe"
    { printf '%s' "$id" >"$d/id" && printf '   \n' >"$d/exit.new"; } || exit 0
    setsid sh -c "$5" step "$PWD/$d" "$4" "$id" "$6" </dev/null >/dev/null 2>&1 &
  ) 9>>"$d/lock"
fi

i=0
while [ "$i" -lt $((wait * 5)) ] && ! flock -n -s "$d/lock" true; do
  i=$((i + 1))
  sleep 0.2
done
state=none code=0
if is_own && [ -s "$d/exit" ]; then
  state='done' code=$(($(cat "$d/exit")))
elif ! flock -n -s "$d/lock" true; then
  state=running
elif is_own; then
  state=lost
  [ "$(attempts)" -lt "$max_attempts" ] || state=exhausted
fi
printf 'step %s %s %s\n' "$state" "$code" "$PWD"
if is_own; then cat "$d/log.0" "$d/log.1" "$d/log.2" 2>/dev/null | tail -c "$max_output_bytes"; fi
