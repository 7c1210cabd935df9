import { readFileSync } from 'node:fs';
import type { AgentCommandResult } from '../../../agent/agent.ts';
import { shellCommand } from '../../../agent/shell-quote.ts';

/** Command that runs in a sandbox for longer than one call to its agent should take. */
export interface SandboxStep {
  /** One word, which names the step's state folder. Steps of one name run one after the other. */
  readonly name: string;
  /** One word that identifies the step. A step that is done for another `id` runs again. */
  readonly id: string;
  /**
   * Script for /bin/sh in the agent's working directory. Process lists and the volume show the
   * script, so it must not contain a secret.
   */
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

/** Exit code of a step after its timeout. */
export const stepTimedOut = 124;

export const stepFolder = (name: string): string => `.agent/steps/${name}`;

const stepProgram = readFileSync(new URL('./step.sh', import.meta.url), 'utf8');
const runnerProgram = readFileSync(new URL('./step-runner.sh', import.meta.url), 'utf8');

/** A command that reports on the step and starts nothing. */
export const reportCommand = (
  { name, id }: Pick<SandboxStep, 'name' | 'id'>,
  waitSeconds: number,
): string => shellCommand(stepProgram, name, id, waitSeconds);

/**
 * A command that starts the step unless it is running or done, and reports on the step. Concurrent
 * and repeated commands never start a running step, or a step that is done.
 */
export const startCommand = (
  { name, id, timeoutSeconds, script }: SandboxStep,
  waitSeconds: number,
): string =>
  shellCommand(stepProgram, name, id, waitSeconds, timeoutSeconds, runnerProgram, script);

const states: ReadonlySet<string> = new Set<StepState>([
  'none',
  'running',
  'lost',
  'exhausted',
  'done',
]);
const isState = (word: string): word is StepState => states.has(word);

/** The report in the output of a command; undefined for other output. */
export function reportOf({
  exitCode,
  stdout,
}: Pick<AgentCommandResult, 'exitCode' | 'stdout'>): StepReport | undefined {
  const [, state = '', code, folder = '', output = ''] =
    /^step (\w+) (\d+) (\/[^\n]*)\n([^]*)$/.exec(stdout) ?? [];
  return exitCode === 0 && isState(state)
    ? { state, exitCode: Number(code), folder, output }
    : undefined;
}
