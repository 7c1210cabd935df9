import type { AgentCommandResult } from '../../../agent/agent.ts';
import { shellQuote } from './shell-quote.ts';

/** What runs in a sandbox for longer than one call to its agent should take. */
export interface Step {
  /** One word: the folder of its state. Steps of one name run one after the other. */
  readonly name: string;
  /** One word that tells whose step it is: where that of another is done, it is run again. */
  readonly id: string;
  /** For /bin/sh in the agent's working directory. Stands in process lists and on the volume: never with a secret in it. */
  readonly script: string;
  readonly timeoutSeconds: number;
}

/**
 * - none: it has never been begun.
 * - lost: it has ended without a word: it was killed, or its container was.
 * - exhausted: and that so often that it is not tried again.
 */
export type StepState = 'none' | 'running' | 'lost' | 'exhausted' | 'done';

export interface StepReport {
  readonly state: StepState;
  /** Of one that is done; 124 when its time was up. */
  readonly exitCode: number;
  /** The agent's working directory, absolute. */
  readonly folder: string;
  /** The last of what it has printed, as it came. */
  readonly output: string;
}

export const stepTimedOut = 124;
/** A start that kills its own sandbox is not tried for ever. */
const maxAttempts = 3;
/** Of output that a report has. */
const maxOutputBytes = 8192;

export const stepFolder = (name: string): string => `.agent/steps/${name}`;

/** Everything that the commands below call; util-linux or busybox has them. */
const tools = ['flock', 'setsid', 'timeout', 'mkfifo', 'dd', 'tail'];

/**
 * Runs apart from the agent, in a session of its own, with the lock in descriptor 9: as long as it lives the step is running, whatever
 * becomes of the call that has begun it. What the step prints goes through a pipe into two files that take turns, so that no more than
 * some MiB of it are ever on the volume. `exit.new` has its block before the step can fill the volume.
 */
const runner = `d=$1 limit=$2 id=$3
mkfifo "$d/pipe" || exit
{ while :; do dd bs=65536 count=32 of="$d/log.1"; [ -s "$d/log.1" ] || break; mv -f "$d/log.1" "$d/log.0"; done; cat; } \\
  <"$d/pipe" >/dev/null 2>&1 9>&- &
logger=$! begin=$(date +%s)
CO_STEP=$id timeout -k 5 "$limit" sh -c "$4" >"$d/pipe" 2>&1 9>&- &
step=$!
wait "$step"
code=$? took=$(($(date +%s) - begin))
kill -9 "-$step"
if [ "$code" -ne 0 ]; then
  [ "$took" -lt "$limit" ] || code=${stepTimedOut}
  for each in /proc/[0-9]*; do grep -qsa "CO_STEP=$id" "$each/environ" && kill -9 "\${each#/proc/}"; done
fi
{ sleep 1; kill "$logger"; } 9>&- &
late=$!
wait "$logger"
kill "$late"
rm -f "$d/pipe"
printf '%3d\\n' "$code" 1<>"$d/exit.new"
mv -f "$d/exit.new" "$d/exit"`;

/** `seconds`: how long it waits for the step to end. */
const look = (seconds: number): readonly string[] => [
  'i=0',
  `while [ "$i" -lt ${seconds * 5} ] && ! flock -n -s "$d/lock" true; do i=$((i + 1)); sleep 0.2; done`,
  `mine() { [ "$(cat "$d/id" 2>/dev/null)" = "$id" ]; }`,
  'state=none code=0',
  'if mine && [ -s "$d/exit" ]; then state=done code=$(($(cat "$d/exit")))',
  'elif ! flock -n -s "$d/lock" true; then state=running',
  `elif mine; then state=lost; [ "$(wc -c <"$d/attempts")" -lt ${maxAttempts} ] || state=exhausted; fi`,
  `printf 'step %s %s %s\\n' "$state" "$code" "$PWD"`,
  `if mine; then cat "$d/log.0" "$d/log.1" 2>/dev/null | tail -c ${maxOutputBytes}; fi`,
];

const begin = ({ name, id }: Pick<Step, 'name' | 'id'>): readonly string[] => [
  'umask 077',
  `d=${shellQuote(stepFolder(name))} id=${shellQuote(id)}`,
  `for tool in ${tools.join(' ')}; do`,
  `  command -v "$tool" >/dev/null || { echo "the sandbox's image has no $tool" >&2; exit 1; }`,
  'done',
  'mkdir -p "$d" && : >>"$d/lock" || exit 1',
];

/** Says how far the step is. Changes nothing. */
export const lookCommand = (step: Pick<Step, 'name' | 'id'>, waitSeconds: number): string =>
  [...begin(step), ...look(waitSeconds)].join('\n');

/**
 * Begins the step unless it runs or is done, and says how far it is. However often this is called, by however many at once, the step
 * runs once at a time, and not again once it has come to an end.
 */
export const startCommand = (step: Step, waitSeconds: number): string =>
  [
    ...begin(step),
    '(',
    // Whoever only looks holds it too, for a moment and with others; what runs holds it alone.
    '  until flock -n 9; do flock -n -s 9 || exit 0; done',
    '  if [ "$(cat "$d/id" 2>/dev/null)" = "$id" ]; then [ ! -s "$d/exit" ] || exit 0; else : >"$d/attempts"; fi',
    `  [ "$(wc -c <"$d/attempts")" -lt ${maxAttempts} ] || exit 0`,
    '  printf x >>"$d/attempts"',
    '  rm -f "$d/exit" "$d/exit.new" "$d/log.0" "$d/log.1" "$d/pipe"',
    `  printf '%s' "$id" >"$d/id" && printf '   \\n' >"$d/exit.new" || exit 0`,
    `  setsid sh -c ${shellQuote(runner)} step "$PWD/$d" ${step.timeoutSeconds} "$id" ${shellQuote(step.script)} </dev/null >/dev/null 2>&1 &`,
    ') 9>>"$d/lock"',
    ...look(waitSeconds),
  ].join('\n');

const states: ReadonlySet<string> = new Set<StepState>(['none', 'running', 'lost', 'exhausted', 'done']);
const isState = (word: string): word is StepState => states.has(word);

/** Undefined for what none of the commands above has said. */
export function reportOf({ exitCode, stdout }: Pick<AgentCommandResult, 'exitCode' | 'stdout'>): StepReport | undefined {
  const [, state = '', code, folder = '', output = ''] = /^step (\w+) (\d+) (\/[^\n]*)\n([^]*)$/.exec(stdout) ?? [];
  return exitCode === 0 && isState(state) ? { state, exitCode: Number(code), folder, output } : undefined;
}
