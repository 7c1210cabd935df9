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
  /** The time since which the present leader leads; undefined: no process leads. */
  readonly leadsSince: () => number | undefined;
}

/**
 * An agent without a run is polled every 64 s; polls are then repeated for 60 s; after the last
 * back-off the agent is reported as unresponsive.
 */
const silenceKnownMs = 64_000 + 60_000 + 40_000;
const answerKnownMs = 30_000;
/**
 * A notified change shows in the record of the agent within a second. Without a notification, a run
 * is polled every 4 s.
 */
const notificationKnownMs = 2_500;
/**
 * Maximum time from the begin of a leader until it has polled all agents for the first time. Before
 * that, no poll exists that a notification could bring forward.
 */
const firstPollsMs = 1_000;
/** With more notifications than these for a sandbox in this time, some are delayed. */
const maxNotifications = 2;
const budgetMs = 20_000;

/** Checks what operators know of silent and notifying agents, once they know the true state. */
export class AgentWatch {
  readonly #options: AgentWatchOptions;
  /** Undefined: the operators do not know yet what is true. */
  #since: number | undefined;
  /** By the uid of the sandbox: since when its agent answers, or does not. */
  readonly #answers = new Map<
    string,
    { readonly agent: string; readonly silent: boolean; readonly since: number }
  >();
  readonly #notified = new Map<string, number[]>();
  /** By the name of the sandbox: times of forged notifications, which use up the budget. */
  readonly #forged = new Map<string, number[]>();

  constructor(options: AgentWatchOptions) {
    this.#options = options;
  }

  /** From here on operators know the true state; before, notifications only use up their budget. */
  begin(): void {
    this.#since ??= this.#options.scheduler.monotonic();
  }

  check(): void {
    for (const sandbox of this.#options.cluster.sandboxes) this.#checkSandbox(sandbox);
  }

  #checkSandbox({ metadata: { uid, name }, status }: Sandbox): void {
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
    // No other caller polls the agent.
    const users = cluster.conversations.filter(
      ({ status: stored }) => stored?.start?.status === 'READY' && stored.sandboxUID === uid,
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

  /** A notification without a sender has arrived. */
  forged({ sandbox }: Pick<AgentNotification, 'sandbox'>): void {
    const now = this.#options.scheduler.monotonic();
    this.#forged.set(sandbox, [
      ...(this.#forged.get(sandbox) ?? []).filter((at) => now - at < budgetMs),
      now,
    ]);
  }

  notified(process: AgentProcess, conversation: StoredConversation): void {
    const { cluster, scheduler } = this.#options;
    const { status, updatedAt } = conversation;
    const now = scheduler.monotonic();
    const times = (this.#notified.get(conversation.id) ?? []).filter((at) => now - at < budgetMs);
    this.#notified.set(conversation.id, [...times, now]);
    const sandbox = cluster.sandboxOf(process.sandboxUid);
    const forged = (this.#forged.get(sandbox?.metadata.name ?? '') ?? []).filter(
      (at) => now - at < budgetMs,
    ).length;
    if (
      this.#since === undefined ||
      // The agent is not asked before its sandbox runs, and its record may show the change later.
      sandbox?.status?.phase !== 'RUNNING' ||
      times.length + forged >= maxNotifications ||
      (status !== 'finished' && status !== 'waiting_for_confirmation')
    )
      return;
    scheduler.after(notificationKnownMs, () => {
      const changed = conversation.status !== status || conversation.updatedAt !== updatedAt;
      if (!changed && process.alive && process.troubledUntil + answerKnownMs < now)
        this.#known(process, conversation, now);
    });
  }

  #known({ sandboxUid }: AgentProcess, { id, status }: StoredConversation, since: number): void {
    const { cluster, leadsSince } = this.#options;
    // Notifications are kept in memory alone. One that reached the last leader, or no leader, is
    // lost to the next one, whose first poll may come before the record of the agent shows the
    // change: only later polls find it then, and RunWatch checks those.
    if ((leadsSince() ?? Infinity) + firstPollsMs > since) return;
    const sandbox = cluster.sandboxOf(sandboxUid);
    const conversation = cluster.conversations.find(
      (known) => conversationIdOf(known) === id && known.status?.sandboxUID === sandboxUid,
    );
    const ready = conversation?.status?.start?.transitions.find(
      (transition) => transition.status === 'READY',
    );
    const asked =
      ready !== undefined &&
      Date.parse(ready.time) < this.#options.scheduler.now() - 4 * notificationKnownMs;
    if (
      !asked ||
      sandbox?.status?.phase !== 'RUNNING' ||
      conversation?.status?.executionStatus === status
    )
      return;
    throw new Violation(
      'a notification of an agent takes effect soon',
      `${id} shows ${conversation?.status?.executionStatus ?? 'nothing'} for ${status}, notified at ${since}`,
    );
  }
}
