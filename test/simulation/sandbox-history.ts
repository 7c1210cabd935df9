import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun, viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Change, Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import type { Scheduler } from './scheduler.ts';

export interface SandboxHistoryOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
}

/** Times are milliseconds of the simulation. */
export interface SandboxRecord {
  readonly owner: string;
  /** When the sandbox was last wanted to run and had not been before; undefined: it never was. */
  wantedSince: number | undefined;
  /** When the sandbox last ceased to be wanted; undefined: it never did. */
  unwantedSince: number | undefined;
  /** When it was first reported as RUNNING since it was wanted. */
  runningSince: number | undefined;
  /** The sandbox has been RUNNING: its volume may contain work. */
  hasRun: boolean;
}

/**
 * The history of every sandbox, by the writes as the API server took them and by the node's own
 * record of agents. The checks compare the product's own fields with this, so that a field which is
 * wrong can't vouch for itself.
 */
export class SandboxHistory {
  readonly #options: SandboxHistoryOptions;
  readonly #records = new Map<string, SandboxRecord>();

  constructor(options: SandboxHistoryOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  of(sandboxUid: string): SandboxRecord | undefined {
    return this.#records.get(sandboxUid);
  }

  agentOf(sandboxUid: string): AgentProcess | undefined {
    return this.#options.node.running.find((process) => process.sandboxUid === sandboxUid);
  }

  /**
   * The agent that a pause has to stop: the one that runs, or one whose container has ended since
   * the sandbox ceased to be wanted. A call to it that got no answer outlasts its container.
   */
  agentToStop(sandboxUid: string): AgentProcess | undefined {
    const since = this.#records.get(sandboxUid)?.unwantedSince ?? Infinity;
    return (
      this.agentOf(sandboxUid) ??
      [...this.#options.node.processes.values()].findLast(
        (process) => process.sandboxUid === sandboxUid && (process.endedAt ?? 0) >= since,
      )
    );
  }

  /**
   * Whether a call to an agent of this sandbox may still wait: the agent does not answer, or has
   * left a call of at most `callMs` without an answer. Such a call outlasts its container.
   */
  mayHoldCall(sandboxUid: string, callMs: number): boolean {
    const now = this.#options.scheduler.monotonic();
    return [...this.#options.node.processes.values()].some(
      ({ sandboxUid: uid, silentSince, troubledUntil, endedAt }) =>
        uid === sandboxUid &&
        (endedAt === undefined
          ? silentSince !== undefined || now < troubledUntil
          : now < Math.min(troubledUntil, endedAt + callMs)),
    );
  }

  /** When an agent first had its keys since the sandbox has been wanted; Infinity: none has. */
  workingSince(sandboxUid: string): number {
    const wantedSince = this.#records.get(sandboxUid)?.wantedSince ?? Infinity;
    let first = Infinity;
    for (const process of this.#options.node.processes.values()) {
      if (
        process.sandboxUid !== sandboxUid ||
        process.initialisedAt === undefined ||
        (process.endedAt ?? Infinity) < wantedSince
      )
        continue;
      first = Math.min(first, Math.max(wantedSince, process.initialisedAt));
    }
    return first;
  }

  #observe({ plural, type, object }: Change): void {
    if (plural !== sandboxes.plural) return;
    const sandbox = object as Sandbox;
    const { uid } = sandbox.metadata;
    const now = this.#options.scheduler.monotonic();
    const record = this.#records.get(uid) ?? {
      owner: sandbox.spec.owner,
      wantedSince: undefined,
      unwantedSince: undefined,
      runningSince: undefined,
      hasRun: false,
    };
    this.#records.set(uid, record);
    const wanted = type !== 'DELETED' && shouldRun(sandbox);
    if (wanted) record.wantedSince ??= now;
    else if (record.wantedSince !== undefined) {
      record.unwantedSince = now;
      record.wantedSince = undefined;
      record.runningSince = undefined;
    }
    if (!wanted || viewOfSandbox(sandbox).phase !== 'RUNNING') return;
    record.runningSince ??= now;
    record.hasRun = true;
  }
}
