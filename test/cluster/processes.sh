# Read by up and down: starting, watching and ending processes, each known by the file
# STATE/NAME.pid.
# shellcheck shell=bash

# A number may have been given to another process since it was written, after a reboot for instance.
running() {
  local pid
  pid=$(cat "$state/$1.pid" 2>/dev/null) && grep -sqF "$state" "/proc/$pid/cmdline"
}

# start NAME COMMAND...: in a session of its own, so that it outlives the terminal; nothing when it
# runs already.
start() {
  local name=$1
  shift
  running "$name" && return
  # The lock of this script must not go to what outlives it. Go collects garbage at four times what
  # is alive, and not at twice: CPU time is scarcer here than memory.
  GOGC=300 setsid "$@" >"$state/logs/$name.log" 2>&1 </dev/null 9>&- &
  local pid=$!
  echo "$pid" >"$state/$name.pid"
  # Until the new process runs the command, its command line is the one of this script, which
  # `running` takes for another process.
  while kill -0 "$pid" 2>/dev/null && ! running "$name"; do sleep 0.02; done
}

# await NAME SECONDS WHAT COMMAND...: until the command succeeds; fails when the time is over or the
# process named has ended.
await() {
  local name=$1 seconds=$2 what=$3 end
  shift 3
  end=$((SECONDS + seconds))
  until "$@" >/dev/null 2>&1; do
    running "$name" || fail "$name has ended while it was waited for: $what" "$state/logs/$name.log"
    [ "$SECONDS" -lt "$end" ] || fail "not within $seconds s: $what" "$state/logs/$name.log"
    sleep 0.1
  done
}

# stop NAME: asks, waits 5 s, then insists.
stop() {
  if running "$1"; then
    local pid
    pid=$(cat "$state/$1.pid")
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 50); do
      running "$1" || break
      sleep 0.1
    done
    if running "$1"; then kill -KILL "$pid" 2>/dev/null || true; fi
  fi
  rm -f "$state/$1.pid"
}
