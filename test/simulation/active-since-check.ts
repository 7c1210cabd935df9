import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Machine } from './machine.ts';
import { Violation } from './safety.ts';
import type { SandboxHistory } from './sandbox-history.ts';
import type { Scheduler } from './scheduler.ts';

export interface ActiveSinceCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly history: SandboxHistory;
  readonly isOperator: (actor: string) => boolean;
  /** The process of that name, if an operator runs as it now. */
  readonly machineOf: (actor: string) => Machine | undefined;
}

/** Maximum time from a process's reading of its clock to the execution of what it writes. */
const maxWriteAgeMs = 60_000;

const rule = 'activeSince is when a sandbox began to run after its last pause';

/** Compares `activeSince` with when the sandbox was wanted and its agents had their keys. */
export class ActiveSinceCheck {
  readonly #options: ActiveSinceCheckOptions;
  /** By the uid of the sandbox: its value, and when that was written first. */
  readonly #values = new Map<string, { readonly value: string; readonly at: number }>();

  constructor(options: ActiveSinceCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, type, object, actor }: Change): void {
    if (plural !== sandboxes.plural || type === 'DELETED') return;
    const { metadata, status } = object as Sandbox;
    const { uid, name } = metadata;
    const record = this.#options.history.of(uid);
    const before = this.#values.get(uid);
    const value = status?.activeSinceTime;
    const unwantedSince = record?.unwantedSince ?? Number.NEGATIVE_INFINITY;
    const isRunning = viewOfSandbox(object as Sandbox).phase === 'RUNNING';
    const paused = before === undefined || unwantedSince >= before.at;
    if (isRunning && value === undefined)
      throw new Violation(rule, `${name} is RUNNING and says nothing`);
    if (value !== before?.value && !paused)
      throw new Violation(
        rule,
        `${name} was not paused, and ${before.value} became ${value ?? 'nothing'}`,
      );
    if (isRunning && value === before?.value && paused && record?.runningSince === this.#now)
      throw new Violation(rule, `${name} was paused, and still runs since ${value ?? ''}`);
    if (value === undefined || value === before?.value) return;
    this.#values.set(uid, { value, at: this.#now });
    this.#isNow(name, value, actor);
    if (this.#options.history.workingSince(uid) > this.#now)
      throw new Violation(rule, `${name} says ${value}, and no agent of it had its keys`);
  }

  /** By the clock of the process that wrote it, unless that was moved. */
  #isNow(name: string, value: string, actor: string): void {
    const machine = this.#options.machineOf(actor);
    if (machine === undefined || this.#now - machine.clockMovedAt <= maxWriteAgeMs) return;
    const ageMs = machine.clock.now() - Date.parse(value);
    if (ageMs < 0 || ageMs > maxWriteAgeMs)
      throw new Violation(rule, `${name} begins to run, and says that it did ${ageMs} ms ago`);
  }

  get #now(): number {
    return this.#options.scheduler.monotonic();
  }
}
