import type { AgentCommandResult } from '../../../agent/agent.ts';
import { shellQuote } from './shell-quote.ts';

/** Command that runs in a sandbox for longer than one call to its agent should take. */
export interface SandboxStep {
  /** Name of the folder that holds the state of the step, one word. Steps of one name run one after the other. */
  readonly name: string;
  /** Identity of the step, one word. A step that is done for another identity is run again. */
  readonly id: string;
  /** Script for /bin/sh in the agent's working directory. Process lists and the volume show the script, so it must not contain a secret. */
  readonly script: string;
  readonly timeoutSeconds: number;
}

/**
 * - none: the step has never begun.
 * - lost: the step has ended without an exit code, because the step or its container was killed.
 * - exhausted: the step was lost too often to run again.
 */
export type StepState = 'none' | 'running' | 'lost' | 'exhausted' | 'done';

export interface StepReport {
  readonly state: StepState;
  /** Exit code of a step that is done; 124 after its timeout. */
  readonly exitCode: number;
  /** Absolute path of the agent's working directory. */
  readonly folder: string;
  /** Last part of the output, unchanged. */
  readonly output: string;
}

export const stepTimedOut = 124;
/** Maximum attempts of a step, because a step may kill its own sandbox. */
const maxAttempts = 3;
/** Maximum size of the output in a report. */
const maxOutputBytes = 8192;

export const stepFolder = (name: string): string => `.agent/steps/${name}`;

/** Programs that the commands below call. Both util-linux and busybox have them. */
const tools = ['flock', 'setsid', 'timeout', 'mkfifo', 'dd', 'tail'];

/**
 * Script that runs a step apart from the agent, in a session of its own, with the lock in descriptor 9: the step is running as long as the
 * script lives, whatever becomes of the call that began the step. The output passes through a pipe into two files in turn, so that the
 * volume holds no more than some MiB of output. `exit.new` has its block before the step can fill the volume.
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

/** Lines that report on a step, after a wait of `seconds` for its end. */
const reportLines = (seconds: number): readonly string[] => [
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

const prologue = ({ name, id }: Pick<SandboxStep, 'name' | 'id'>): readonly string[] => [
  'umask 077',
  `d=${shellQuote(stepFolder(name))} id=${shellQuote(id)}`,
  `for tool in ${tools.join(' ')}; do`,
  `  command -v "$tool" >/dev/null || { echo "the sandbox's image has no $tool" >&2; exit 1; }`,
  'done',
  'mkdir -p "$d" && : >>"$d/lock" || exit 1',
];

/** Returns a command that reports on the step and changes nothing. */
export const reportCommand = (step: Pick<SandboxStep, 'name' | 'id'>, waitSeconds: number): string =>
  [...prologue(step), ...reportLines(waitSeconds)].join('\n');

/**
 * Returns a command that begins the step unless the step is running or done, and reports on the step. Concurrent and repeated commands
 * run the step once at a time, and never again after its end.
 */
export const startCommand = (step: SandboxStep, waitSeconds: number): string =>
  [
    ...prologue(step),
    '(',
    // A report holds the lock too, shared and for a moment; a running step holds the lock exclusively.
    '  until flock -n 9; do flock -n -s 9 || exit 0; done',
    '  if [ "$(cat "$d/id" 2>/dev/null)" = "$id" ]; then [ ! -s "$d/exit" ] || exit 0; else : >"$d/attempts"; fi',
    `  [ "$(wc -c <"$d/attempts")" -lt ${maxAttempts} ] || exit 0`,
    '  printf x >>"$d/attempts"',
    '  rm -f "$d/exit" "$d/exit.new" "$d/log.0" "$d/log.1" "$d/pipe"',
    `  printf '%s' "$id" >"$d/id" && printf '   \\n' >"$d/exit.new" || exit 0`,
    `  setsid sh -c ${shellQuote(runner)} step "$PWD/$d" ${step.timeoutSeconds} "$id" ${shellQuote(step.script)} </dev/null >/dev/null 2>&1 &`,
    ') 9>>"$d/lock"',
    ...reportLines(waitSeconds),
  ].join('\n');

const states: ReadonlySet<string> = new Set<StepState>(['none', 'running', 'lost', 'exhausted', 'done']);
const isState = (word: string): word is StepState => states.has(word);

/** Returns the report in the output of a command; undefined for other output. */
export function reportOf({ exitCode, stdout }: Pick<AgentCommandResult, 'exitCode' | 'stdout'>): StepReport | undefined {
  const [, state = '', code, folder = '', output = ''] = /^step (\w+) (\d+) (\/[^\n]*)\n([^]*)$/.exec(stdout) ?? [];
  return exitCode === 0 && isState(state) ? { state, exitCode: Number(code), folder, output } : undefined;
}
