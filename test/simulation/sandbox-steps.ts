import type { AgentCommandResult } from '../../src/agent/agent.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Scheduler } from './scheduler.ts';

export interface SandboxStepsOptions {
  readonly scheduler: Scheduler;
  /** How a step goes, by its command. */
  readonly outcomeOf: (command: string) => {
    readonly exitCode?: number;
    readonly stderr?: string;
    readonly tookMs: number;
  };
}

/** One step of a start, as its sandbox's volume knows it. */
interface StoredStep {
  readonly id: string;
  readonly container: string;
  readonly endsAt: number;
  readonly exitCode: number;
  readonly output: string;
}

interface Command {
  readonly step: string;
  readonly id: string;
  readonly begins: boolean;
  readonly waitMs: number;
}

/** Clones and set-up scripts, which run apart from their calls and end with their container. */
export class SandboxSteps {
  readonly #options: SandboxStepsOptions;
  /** By the claim and the name of the step. */
  readonly #steps = new Map<string, StoredStep>();

  constructor(options: SandboxStepsOptions) {
    this.#options = options;
  }

  /** Takes a command as its agent does. Returns how long the command itself takes. */
  take(agent: AgentProcess, command: string): number {
    const known = parsed(command);
    if (known === undefined) return this.#options.outcomeOf(command).tookMs;
    const now = this.#options.scheduler.monotonic();
    let step = this.#steps.get(keyOf(agent, known));
    const isBusy = step !== undefined && step.endsAt > now && !this.#isLost(agent, step);
    const isOwn = step?.id === known.id && !this.#isLost(agent, step);
    // Steps of one name run one after the other, whosever they are.
    if (known.begins && !isBusy && !isOwn) {
      const { exitCode = 0, stderr = '', tookMs } = this.#options.outcomeOf(command);
      step = { id: known.id, container: agent.id, endsAt: now + tookMs, exitCode, output: stderr };
      this.#steps.set(keyOf(agent, known), step);
    }
    return step === undefined ? 0 : Math.min(known.waitMs, Math.max(0, step.endsAt - now));
  }

  resultOf(agent: AgentProcess, command: string): AgentCommandResult {
    const known = parsed(command);
    const stdout = known === undefined ? '/workspace/project\n' : this.#report(agent, known);
    return { exitCode: 0, stdout, stderr: '', timedOut: false };
  }

  #report(agent: AgentProcess, command: Command): string {
    const step = this.#steps.get(keyOf(agent, command));
    if (step === undefined) return 'step none 0 /workspace\n';
    const isLost = this.#isLost(agent, step);
    if (!isLost && step.endsAt > this.#options.scheduler.monotonic())
      return 'step running 0 /workspace\n';
    if (step.id !== command.id) return 'step none 0 /workspace\n';
    return isLost
      ? 'step lost 0 /workspace\n'
      : `step done ${step.exitCode} /workspace\n${step.output}`;
  }

  /** Whether the container ended before the step did. */
  #isLost(agent: AgentProcess, { container, endsAt }: StoredStep): boolean {
    const endedAt = container === agent.id ? Infinity : agent.bootedAfter;
    return endedAt < endsAt;
  }
}

const keyOf = ({ volume }: AgentProcess, { step }: Command): string => `${volume.claimUid} ${step}`;

/** The parsed command; undefined for a command that is no step. */
function parsed(command: string): Command | undefined {
  // The arguments of step.sh; those from the fourth on begin the step.
  const [, step, id, waitSeconds, more] =
    /^set -- '(\w+)' '([\w-]+)' '(\d+)'( ')?/.exec(command) ?? [];
  if (step === undefined || id === undefined) return undefined;
  return { step, id, begins: more !== undefined, waitMs: Number(waitSeconds) * 1000 };
}
