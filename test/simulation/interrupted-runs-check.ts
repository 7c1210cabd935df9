import { conversationIdOf } from '../../src/resources/ids.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { StoredConversation } from './agent-process.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Findings } from './findings.ts';
import { Violation } from './safety.ts';

export interface InterruptedRunsCheckOptions {
  readonly cluster: Cluster;
  readonly findings: Findings;
  /** The process that the lease names. */
  readonly holder: () => string | undefined;
}

/**
 * Follows which runs the node saw ended by the operator, and holds `interrupted` against that: a
 * run is stored before it is interrupted, and stays stored until its conversation says so or the
 * sandbox's agent runs again, however many times the controller comes by.
 */
export class InterruptedRunsCheck {
  readonly #options: InterruptedRunsCheckOptions;
  /** By the uid of the sandbox: the runs that its current pause has ended. */
  readonly #stops = new Map<string, Set<string>>();

  constructor(options: InterruptedRunsCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  /** An operator process orders an agent to interrupt a run, or to reject the action that waits. */
  sent(actor: string, sandboxUid: string, { id, stalledAt }: StoredConversation): void {
    const sandbox = this.#options.cluster.sandboxOf(sandboxUid);
    // Later writes of another leader are unknown to a process that no longer leads.
    if (sandbox === undefined || actor !== this.#options.holder()) return;
    // One that reports nothing is stopped for that, and its conversation says so.
    if (stalledAt !== undefined) return;
    if (sandbox.status?.interruptedConversationIDs?.includes(id) !== true)
      this.#options.findings.report(
        new Violation(
          'a run is stored before it is interrupted',
          `${id} in ${sandbox.metadata.name}`,
        ),
      );
  }

  /** The order has ended a run. */
  interrupted(sandboxUid: string, { id, stalledAt }: StoredConversation): void {
    if (stalledAt !== undefined) return;
    const sandbox = this.#options.cluster.sandboxOf(sandboxUid);
    if (sandbox?.status?.interruptedConversationIDs?.includes(id) !== true) return;
    // A client rejects the action, and no stop is under way.
    if (viewOfSandbox(sandbox).phase === 'RUNNING') return;
    this.#stops.set(sandboxUid, (this.#stops.get(sandboxUid) ?? new Set()).add(id));
  }

  /** The conversation already shows the interruption: its resume has been decided. */
  #isKnown(id: string, sandboxUid: string): boolean {
    const conversation = this.#options.cluster.conversations.find(
      (one) => conversationIdOf(one) === id && one.status?.sandboxUID === sandboxUid,
    );
    const { executionStatus } = conversation?.status ?? {};
    return (
      conversation === undefined || executionStatus === 'paused' || executionStatus === 'error'
    );
  }

  #observe({ plural, type, object }: Change): void {
    if (plural !== sandboxes.plural) return;
    const sandbox = object as Sandbox;
    const { metadata, status } = sandbox;
    const stopped = this.#stops.get(metadata.uid) ?? new Set();
    const forgotten = [...stopped].filter(
      (id) =>
        status?.interruptedConversationIDs?.includes(id) !== true &&
        !this.#isKnown(id, metadata.uid),
    );
    if (type === 'DELETED' || viewOfSandbox(sandbox).phase === 'RUNNING')
      this.#stops.delete(metadata.uid);
    if (type !== 'DELETED' && forgotten.length > 0)
      throw new Violation(
        'an interrupted run is remembered until its agent runs again',
        `${metadata.name} has forgotten ${forgotten.join(' ')}`,
      );
  }
}
