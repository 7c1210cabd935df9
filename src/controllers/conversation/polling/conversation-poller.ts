import type { AgentClient, AgentConversation, AgentEndpoint } from '../../../agent/agent.ts';
import type { AgentError } from '../../../agent/errors.ts';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Request } from '@conversation-operator/kube/controller';
import type { Store } from '@conversation-operator/kube/store';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import type { ConversationStatus } from '../../../resources/conversation.ts';
import { conversationIdOf } from '../../../resources/ids.ts';
import { durationMs, type SandboxTemplate } from '../../../resources/sandbox-template.ts';
import type { Sandbox } from '../../../resources/sandbox.ts';
import { AgentSilence } from '../../unresponsive-agents.ts';
import { ownerShare } from '../../workers.ts';
import { AgentLooks, type Asked } from './agent-poller.ts';
import { Paces } from './poll-schedule.ts';
import { mostForIdleTimeout } from './poll-interval.ts';
import type { Later } from '../../poll-bulkhead.ts';
import { SoftWrites } from '../status-coalescer.ts';

export interface StatusWatchOptions {
  readonly agent: Pick<AgentClient, 'conversation' | 'conversations'>;
  readonly stores: { readonly templates: Store<SandboxTemplate> };
  /** However little happens, agents are asked again after so long, in milliseconds: for those that send no webhooks. */
  readonly mostPollMs?: number | undefined;
  readonly clock: Clock;
  /** Uniform in 0..1. */
  readonly random: () => number;
}

/** One look at a conversation, until what it has shown is stored. */
export interface Look {
  readonly asked: Asked;
  readonly beganAt: number;
  readonly subject: string;
  readonly sandbox: Sandbox;
  /** Undefined: the agent does not know it. */
  readonly state: AgentConversation | undefined;
}

const keyOf = ({ namespace, name }: Request): string => `${namespace}/${name}`;

/** What makes a look at once worth it: another word of its owner, another agent, another uid. */
const subjectOf = ({ metadata }: CachedConversation, sandbox: Sandbox): string =>
  [metadata.uid, metadata.generation, sandbox.metadata.uid, sandbox.metadata.resourceVersion].join('/');

const askedOf = (sandbox: Sandbox, endpoint: AgentEndpoint): Asked => ({
  endpoint,
  owner: ownerShare(sandbox),
  agent: [sandbox.metadata.uid, sandbox.status?.containerID, sandbox.status?.agentEpoch, endpoint.baseUrl].join('/'),
});

/** When and how agents are asked what they do, and when what they say is written. Remembers in memory alone, and may forget it all. */
export class StatusWatch {
  readonly #templates: Store<SandboxTemplate>;
  readonly #looks: AgentLooks;
  readonly #paces: Paces;
  readonly #softWrites: SoftWrites;
  readonly #mostPollMs: number;
  /** By conversation: those of whom nothing was understood. */
  readonly #misunderstood: AgentSilence;
  /** Whom each conversation was asked of last. */
  readonly #agents = new Map<string, string>();

  constructor(options: StatusWatchOptions) {
    this.#templates = options.stores.templates;
    this.#looks = new AgentLooks(options);
    this.#paces = new Paces(options);
    this.#misunderstood = new AgentSilence(options);
    this.#softWrites = new SoftWrites(options);
    this.#mostPollMs = options.mostPollMs ?? Infinity;
  }

  /** Somebody says that the agent has something to tell. Milliseconds until it is asked; undefined: nobody asks it. */
  hint(request: Request): number | undefined {
    const key = keyOf(request);
    const waitMs = this.#paces.hint(key);
    const agent = this.#agents.get(key);
    // Whoever sends webhooks answers too, by and by.
    if (waitMs === 0 && agent !== undefined) this.#looks.nudge(agent);
    return waitMs;
  }

  /** There is nothing to look at any more, or not for now. */
  forget(request: Request): void {
    this.#paces.forget(keyOf(request));
    this.#softWrites.forget(keyOf(request));
    this.#misunderstood.over(keyOf(request));
    this.#agents.delete(keyOf(request));
  }

  /** A look, if one is due and succeeds. Throws what is no `AgentError`, and when the signal is aborted. */
  async look(conversation: CachedConversation, sandbox: Sandbox, endpoint: AgentEndpoint, signal: AbortSignal): Promise<Look | Later> {
    const subject = subjectOf(conversation, sandbox);
    const waitMs = this.#paces.waitMs(keyOf(conversation.metadata), subject);
    if (waitMs > 0) return { laterMs: waitMs };
    const asked = askedOf(sandbox, endpoint);
    this.#agents.set(keyOf(conversation.metadata), asked.agent);
    const polled = await this.#looks.look(asked, conversationIdOf(conversation), signal);
    return 'laterMs' in polled ? polled : { asked, beganAt: polled.beganAt, subject, sandbox, state: polled.answer };
  }

  /** Whether the agent did not answer at all when it was last asked. */
  isSilent(sandbox: Sandbox, endpoint: AgentEndpoint): boolean {
    return this.#looks.isSilent(askedOf(sandbox, endpoint));
  }

  /** What the agent has said of it can't be understood. Returns whether that has been so for too long. */
  misunderstood(request: Request): boolean {
    this.#misunderstood.failed(keyOf(request));
    return this.#misunderstood.isSilent(keyOf(request));
  }

  /** What the agent has said of it has been understood. */
  understood(request: Request): void {
    this.#misunderstood.over(keyOf(request));
  }

  /** What followed a look has failed. Milliseconds to leave the agent alone. */
  failed({ asked }: Look, error: AgentError): number {
    return this.#looks.failed(asked, error);
  }

  /** What a look has shown is stored. Milliseconds until the next one. */
  looked(
    look: Look,
    conversation: CachedConversation,
    change: { readonly before: ConversationStatus; readonly status: ConversationStatus; readonly againAfterMs: number | undefined },
  ): number {
    const key = keyOf(conversation.metadata);
    const { metadata, spec } = look.sandbox;
    const idleTimeout = this.#templates.get(metadata.namespace, spec.templateName)?.spec.idleTimeout;
    const { before, status, againAfterMs = Infinity } = change;
    const telling = before.executionStatus !== status.executionStatus;
    return this.#paces.looked(key, {
      beganAt: look.beganAt,
      subject: look.subject,
      sandboxUid: metadata.uid,
      agent: look.asked.agent,
      status,
      runs: look.state?.executionStatus === 'running',
      changed: telling || before.title !== status.title,
      telling,
      againAfterMs: Math.min(againAfterMs, this.#softWrites.waitMs(key)),
      mostMs: Math.min(this.#mostPollMs, mostForIdleTimeout(idleTimeout === undefined ? undefined : durationMs(idleTimeout)) ?? Infinity),
    });
  }

  /** Whether what differs is not worth a write yet. If not, it has to be written now. */
  withheld({ metadata, status }: CachedConversation, next: ConversationStatus): boolean {
    return this.#softWrites.withheld(keyOf(metadata), next, status);
  }

  /** A look has shown what is stored: nothing of what was withheld before is left, which would be due again and again. */
  nothingToWrite(request: Request): void {
    this.#softWrites.forget(keyOf(request));
  }
}
