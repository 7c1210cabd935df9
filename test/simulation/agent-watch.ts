import type { AgentNotification } from '../../src/agent/notifications.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import { SandboxReason, type Sandbox } from '../../src/resources/sandbox.ts';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface AgentWatchOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  /** Since when whoever leads now does so; undefined: nobody leads. */
  readonly leadsSince: () => number | undefined;
}

/**
 * What stands is asked for every 64 s; then it is asked again for 60 s; then, after the last
 * back-off, it is told.
 */
const silenceKnownMs = 64_000 + 60_000 + 40_000;
const answerKnownMs = 30_000;
/**
 * What has been told shows in the agent's record within a second; without a notification, a run is
 * asked for every 4 s.
 */
const toldKnownMs = 2_500;
/**
 * Whoever begins to lead has asked all agents for the first time within so long. Before, there is
 * no look that a notification brings forward.
 */
const firstLooksMs = 1_000;
/** More notifications than these for one sandbox in so long, and not each is acted on at once. */
const mostTold = 2;
const budgetMs = 20_000;

/**
 * What is known of agents that stop to answer, and of what they tell. For when the operators know
 * what is true.
 */
export class AgentWatch {
  readonly #options: AgentWatchOptions;
  /** Undefined: the operators do not know yet what is true. */
  #since: number | undefined;
  /** By the uid of the sandbox: since when its agent answers, or does not. */
  readonly #answers = new Map<
    string,
    { readonly agent: string; readonly silent: boolean; readonly since: number }
  >();
  readonly #told = new Map<string, number[]>();
  /** By the name of the sandbox: when somebody has used up what notifications may cost. */
  readonly #forged = new Map<string, number[]>();

  constructor(options: AgentWatchOptions) {
    this.#options = options;
  }

  /**
   * From here on the operators know what is true. Before, notifications only use up what they may
   * cost.
   */
  begin(): void {
    this.#since ??= this.#options.scheduler.monotonic();
  }

  look(): void {
    for (const sandbox of this.#options.cluster.sandboxes) this.#lookAt(sandbox);
  }

  #lookAt({ metadata: { uid, name }, status }: Sandbox): void {
    const { cluster, node, scheduler } = this.#options;
    const process = node.running.find(({ sandboxUid }) => sandboxUid === uid);
    const before = this.#answers.get(uid);
    const silent = process?.silentSince !== undefined;
    const agent = process?.id ?? '';
    if (before === undefined || before.agent !== agent || before.silent !== silent)
      this.#answers.set(uid, { agent, silent, since: scheduler.monotonic() });
    const forMs = scheduler.monotonic() - (this.#answers.get(uid)?.since ?? 0);
    if (
      !silent &&
      forMs > answerKnownMs &&
      process !== undefined &&
      status?.reason === SandboxReason.agentSilent
    )
      throw new Violation(
        'an agent that answers again is reported as responsive',
        `${name} for ${forMs} ms`,
      );
    // Nobody else has anything to ask it.
    const users = cluster.conversations.filter(
      ({ status: told }) => told?.start?.status === 'READY' && told.sandboxUID === uid,
    );
    if (!silent || forMs <= silenceKnownMs || users.length === 0) return;
    if (status?.phase === 'RUNNING')
      throw new Violation(
        'no unresponsive agent is reported as running',
        `${name} is RUNNING after ${forMs} ms`,
      );
    const running = users.find((user) => user.status?.executionStatus === 'running');
    if (running !== undefined)
      throw new Violation(
        'no unresponsive agent is reported as running',
        `${running.metadata.name} after ${forMs} ms`,
      );
  }

  /** A notification has come that is nobody's. */
  forged({ sandbox }: Pick<AgentNotification, 'sandbox'>): void {
    const now = this.#options.scheduler.monotonic();
    this.#forged.set(sandbox, [
      ...(this.#forged.get(sandbox) ?? []).filter((at) => now - at < budgetMs),
      now,
    ]);
  }

  /** A notification has come to whoever leads. */
  told(process: AgentProcess, conversation: StoredConversation): void {
    const { cluster, scheduler } = this.#options;
    const { status, updatedAt } = conversation;
    const now = scheduler.monotonic();
    const times = (this.#told.get(conversation.id) ?? []).filter((at) => now - at < budgetMs);
    this.#told.set(conversation.id, [...times, now]);
    const sandbox = cluster.sandboxOf(process.sandboxUid)?.metadata.name ?? '';
    const forged = (this.#forged.get(sandbox) ?? []).filter((at) => now - at < budgetMs).length;
    if (
      this.#since === undefined ||
      times.length + forged >= mostTold ||
      (status !== 'finished' && status !== 'waiting_for_confirmation')
    )
      return;
    scheduler.after(toldKnownMs, () => {
      const changed = conversation.status !== status || conversation.updatedAt !== updatedAt;
      if (!changed && process.alive && process.troubledUntil + answerKnownMs < now)
        this.#known(process, conversation, now);
    });
  }

  #known({ sandboxUid }: AgentProcess, { id, status }: StoredConversation, since: number): void {
    const { cluster, leadsSince } = this.#options;
    // Notifications are kept in memory alone. One that the last leader has heard, or nobody, is
    // lost to the next, whose first look may come before the agent's record shows what was told:
    // polls alone find it then, which is RunWatch's to see.
    if ((leadsSince() ?? Infinity) + firstLooksMs > since) return;
    const sandbox = cluster.sandboxOf(sandboxUid);
    const conversation = cluster.conversations.find(
      (known) => conversationIdOf(known) === id && known.status?.sandboxUID === sandboxUid,
    );
    const ready = conversation?.status?.start?.transitions.find(
      (transition) => transition.status === 'READY',
    );
    const asked =
      ready !== undefined &&
      Date.parse(ready.time) < this.#options.scheduler.now() - 4 * toldKnownMs;
    if (
      !asked ||
      sandbox?.status?.phase !== 'RUNNING' ||
      conversation?.status?.executionStatus === status
    )
      return;
    throw new Violation(
      'a notification of an agent takes effect soon',
      `${id} shows ${conversation?.status?.executionStatus ?? 'nothing'} for ${status}, told at ${since}`,
    );
  }
}
