import { randomUUID } from 'node:crypto';
import { isoTime } from '@conversation-operator/base/clock';
import type { EventDetails, EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Push, RefCommand } from '@conversation-operator/git/receive-pack';
import type { RepositoryAddress } from '../../agent/keys.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import { markedBeginningOf, plainText } from '../../resources/plain-text.ts';
import { maxPushes, type PushRecord } from '../../resources/git-settings.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Audit, AuditOrigin } from '../../observability/audit.ts';
import { HourlyLimit } from '../limits/host-budget.ts';
import { writeOnStored } from '../lookup/stored.ts';
import { notFound } from '../errors/common-problems.ts';

export interface PushRecordsOptions extends Pick<MeasuredRuntime, 'clock' | 'logger'> {
  readonly client: KubeClient;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly audit: Audit;
}

/** The request of a process in a sandbox. */
export interface PushOrigin extends AuditOrigin {
  readonly sandbox: Sandbox;
}

/** A push whose records are stored with the outcome `Unknown`. */
export interface BegunPush {
  readonly id: string;
  readonly from: PushOrigin;
  readonly conversation: CachedConversation;
  readonly address: RepositoryAddress;
  readonly commands: readonly RefCommand[];
}

/** Result of a push, as far as the git host has reported it. */
export interface PushResult {
  readonly outcomeOf: (ref: string) => PushRecord['outcome'];
  readonly bytes: number;
}

/** A push that the gateway rejects, so that the git host gets nothing of it. */
export interface RefusedPush {
  readonly from: PushOrigin;
  /** Undefined if no conversation of the sandbox uses the repository. */
  readonly conversation: CachedConversation | undefined;
  readonly address: RepositoryAddress;
  /** Undefined if the beginning of the push was not read, or is malformed. */
  readonly push: Pick<Push, 'commands' | 'options'> | undefined;
  /** The reasons, without duplicates. */
  readonly reasons: readonly string[];
}

/** Maximum references and options in a line of the audit log, and maximum characters of each. */
const maxAudited = { texts: 20, characters: 300 } as const;

/** The first texts, each truncated, and the number of the others. */
function shownTexts(texts: readonly string[]): readonly string[] {
  const shown = texts
    .slice(0, maxAudited.texts)
    .map((text) => markedBeginningOf(plainText(text, text.length), maxAudited.characters));
  const more = texts.length - shown.length;
  return more === 0 ? shown : [...shown, `… and ${more} more`];
}

type Outcome = PushRecord['outcome'];
const notices: Readonly<Record<Outcome, Pick<EventDetails, 'type' | 'reason'>>> = {
  Accepted: { type: 'Normal', reason: 'Pushed' },
  Rejected: { type: 'Warning', reason: 'PushRejected' },
  Unknown: { type: 'Warning', reason: 'PushOutcomeUnknown' },
};
const messages: Readonly<Record<Outcome, string>> = {
  Accepted: 'Pushed',
  Rejected: 'A push was rejected:',
  Unknown: 'The git host has not reported the outcome of a push:',
};

/** The fields of a line that all references of a push have. */
const lineOf = (
  { requestId, client, sandbox: { metadata, spec } }: PushOrigin,
  { provider, repository }: RepositoryAddress,
) => ({
  requestId,
  client,
  owner: spec.owner,
  sandbox: metadata.name,
  by: 'agent' as const,
  provider,
  repository,
});

const shortId = (id: string): string => id.slice(0, 8);

/**
 * Records pushes in the status of their conversation, in Events and in the audit log. The status
 * contains a push before the host gets it, so that no push is missing, even after a crash of the
 * gateway.
 */
export class PushRecords {
  readonly #options: PushRecordsOptions;
  readonly #perHour: HourlyLimit;

  constructor(options: PushRecordsOptions) {
    this.#options = options;
    this.#perHour = new HourlyLimit(options);
  }

  /** Counts a push. Returns false if the conversation has reached its maximum in an hour. */
  take(conversation: CachedConversation, maxPerHour: number): Promise<boolean> {
    return this.#perHour.take(conversation, 'pushes', maxPerHour);
  }

  /** Rejects if the push can't be stored. Then the caller must not send the push to the host. */
  async begin({
    from,
    conversation,
    address,
    commands,
  }: Omit<BegunPush, 'id'>): Promise<BegunPush> {
    const id = randomUUID();
    const time = isoTime(this.#options.clock);
    const begun = commands.map(({ ref, oldId, newId }): PushRecord => ({
      id,
      ref,
      oldId,
      newId,
      time,
      outcome: 'Unknown',
    }));
    await this.#write(conversation, (pushes) => [...pushes, ...begun].slice(-maxPushes));
    const line = { ...lineOf(from, address), conversation: conversation.metadata.name, id };
    for (const { ref, oldId, newId } of begun)
      this.#options.audit('PushStarted', { ...line, ref, oldId, newId });
    return { id, from, conversation, address, commands };
  }

  async end(
    { id, from, conversation, address, commands }: BegunPush,
    { outcomeOf, bytes }: PushResult,
  ): Promise<void> {
    const { events, audit, logger } = this.#options;
    const { metadata } = conversation;
    const line = { ...lineOf(from, address), conversation: metadata.name, id };
    for (const { ref, oldId, newId } of commands) {
      const outcome = outcomeOf(ref);
      const change = `${shortId(oldId)} to ${shortId(newId)} in ${address.repository}`;
      audit('Push', { ...line, ref, oldId, newId, outcome, bytes });
      events.record(
        { apiVersion: conversation.apiVersion, kind: conversation.kind, metadata },
        { ...notices[outcome], message: `${messages[outcome]} ${ref} from ${change}` },
      );
    }
    if (commands.every(({ ref }) => outcomeOf(ref) === 'Unknown')) return;
    try {
      await this.#write(conversation, (pushes) =>
        pushes.map((push) => {
          const outcome = push.id === id ? outcomeOf(push.ref) : 'Unknown';
          return outcome === 'Unknown' ? push : { ...push, outcome, bytes };
        }),
      );
    } catch (error) {
      // The push is over, and its record keeps the outcome `Unknown`.
      logger.warn('the outcome of a push was not stored', { conversation: metadata.name, error });
    }
  }

  /** Records a rejected push, in the audit log only. */
  refuse({ from, conversation, address, push, reasons }: RefusedPush): void {
    const { commands = [], options } = push ?? {};
    this.#options.audit('PushRefused', {
      ...lineOf(from, address),
      ...(conversation === undefined ? {} : { conversation: conversation.metadata.name }),
      refs: shownTexts(commands.map(({ ref }) => ref)),
      ...(options === undefined ? {} : { options: shownTexts(options) }),
      reasons: shownTexts(reasons),
    });
  }

  #write(
    { metadata: { namespace, name, uid } }: CachedConversation,
    change: (pushes: readonly PushRecord[]) => readonly PushRecord[],
  ): Promise<unknown> {
    const { client } = this.#options;
    return writeOnStored(
      () => client.get(conversations, namespace, name),
      ({ metadata, status }) => {
        if (metadata.uid !== uid) throw notFound('conversation');
        return client.mergePatch(
          conversations,
          namespace,
          name,
          {
            metadata: { resourceVersion: metadata.resourceVersion },
            status: { pushes: change(status?.pushes ?? []) },
          },
          { subresource: 'status' },
        );
      },
    );
  }
}
