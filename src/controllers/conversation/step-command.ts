import { readFileSync } from 'node:fs';
import type { AgentCommandResult } from '../../agent/agent.ts';
import { shellCommand } from './shell.ts';

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

/** Exit code of a step whose time is over. */
export const stepTimedOut = 124;

export const stepFolder = (name: string): string => `.agent/steps/${name}`;

const stepProgram = readFileSync(new URL('./step.sh', import.meta.url), 'utf8');
const runnerProgram = readFileSync(new URL('./step-runner.sh', import.meta.url), 'utf8');

/** Says how far the step is. Begins nothing. */
export const lookCommand = ({ name, id }: Pick<Step, 'name' | 'id'>, waitSeconds: number): string =>
  shellCommand(stepProgram, name, id, waitSeconds);

/**
 * Begins the step unless it runs or is done, and says how far it is. However often this is called, by however many at once, the step
 * runs once at a time, and not again once it has come to an end.
 */
export const startCommand = ({ name, id, timeoutSeconds, script }: Step, waitSeconds: number): string =>
  shellCommand(stepProgram, name, id, waitSeconds, timeoutSeconds, runnerProgram, script);

const states: ReadonlySet<string> = new Set<StepState>(['none', 'running', 'lost', 'exhausted', 'done']);
const isState = (word: string): word is StepState => states.has(word);

/** Undefined for what none of the commands above has said. */
export function reportOf({ exitCode, stdout }: Pick<AgentCommandResult, 'exitCode' | 'stdout'>): StepReport | undefined {
  const [, state = '', code, folder = '', output = ''] = /^step (\w+) (\d+) (\/[^\n]*)\n([^]*)$/.exec(stdout) ?? [];
  return exitCode === 0 && isState(state) ? { state, exitCode: Number(code), folder, output } : undefined;
}
