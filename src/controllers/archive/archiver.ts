import type { CommonNeeds } from '../controller-spec.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime } from '@conversation-operator/base/clock';
import { StoreError } from '@conversation-operator/object-store/object-store';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { NewestStore } from '@conversation-operator/kube/store';
import type { AgentCredentials } from '../../agent/credentials.ts';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { AgentError, isAgentError } from '../../agent/errors.ts';
import type { AgentEvents } from '../../agent/events.ts';
import type { WorkspaceFiles } from '../../agent/workspace-files.ts';
import { agentSource } from '../../archive/agent-source.ts';
import { isGone, type ArchiveError, keyOf, type ArchiveState } from '../../archive/layout.ts';
import type { Codec } from '../../archive/codec.ts';
import { extendArchive, type Extension } from '../../archive/extend.ts';
import { installationName } from '../../archive/installation.ts';
import { newestState } from '../../archive/stored-archives.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import { archiveRulesOf, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Stores } from '../caches.ts';
import { storedConversation } from '../stored-object.ts';
import {
  storeArchiveStatus,
  type ArchiveChange,
  ArchiveReason,
  reasonOf,
} from './archive-status.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { namespaces } from '@conversation-operator/kube/core';
import { isForbidden, isNotFound } from '@conversation-operator/kube/errors';

interface NamespaceUidsOptions {
  readonly client: Pick<KubeClient, 'get'>;
  readonly logger: Logger;
}

const maxRemembered = 10_000;

/** Caches the UIDs of namespaces. A namespace UID and a master key identify an installation. */
export class NamespaceUids {
  readonly #options: NamespaceUidsOptions;
  readonly #known = recentlyUsed<string>(maxRemembered);

  constructor(options: NamespaceUidsOptions) {
    this.#options = options;
  }

  /** The last UID that this process has read; the first call reads it. */
  async of(namespace: string, signal: AbortSignal): Promise<string | undefined> {
    return this.#known.get(namespace) ?? this.read(namespace, signal);
  }

  /**
   * Reads the UID. Undefined if the operator lacks the permission, or the namespace is deleted.
   * Throws other errors of the API server.
   */
  async read(namespace: string, signal: AbortSignal): Promise<string | undefined> {
    const { client, logger } = this.#options;
    try {
      const { metadata } = await client.get(namespaces, '', namespace, { signal });
      this.#known.set(namespace, metadata.uid);
      return metadata.uid;
    } catch (error) {
      if (!isForbidden(error) && !isNotFound(error)) throw error;
      logger.debug('The namespace can not be read', { namespace, error });
      return undefined;
    }
  }
}

interface ArchiveSecretsOptions {
  readonly keys: SandboxKeys;
  readonly credentials: AgentCredentials;
}

interface ArchivedAgent {
  readonly conversation: Pick<CachedConversation, 'metadata' | 'spec'>;
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate | undefined;
}

/**
 * The secrets that the operator knows and that a process in the sandbox may print: the keys and
 * tokens of the sandbox, and the API key of the model.
 */
export async function archiveSecrets(
  { keys, credentials }: ArchiveSecretsOptions,
  { conversation, sandbox, template }: ArchivedAgent,
): Promise<readonly string[]> {
  const seed = keySeedOf(sandbox);
  const keyId = sandbox.status?.masterKeyId;
  const credential = template?.spec.agent.credential;
  const apiKey =
    credential === undefined
      ? undefined
      : await credentials.of(conversation.spec.owner, credential);
  return [
    keys.sessionKey(seed, keyId),
    keys.secretKey(seed, keyId),
    keys.bootstrapKey(seed, keyId),
    keys.gitToken(seed, keyId),
    keys.toolsToken(seed, keyId),
    keys.secretsToken(seed, keyId),
    keys.modelsToken(seed, conversationIdOf(conversation), keyId),
    ...(apiKey === undefined ? [] : [apiKey]),
  ];
}

/** The store of the archives, and the agents whose events and files are archived. */
export interface ArchiveWriting {
  readonly store: ObjectStore;
  readonly codec: Codec;
  readonly events: Pick<AgentEvents, 'search'>;
  /** Reads the files of sandboxes when they pause. Absent: files are not archived. */
  readonly files?: Pick<WorkspaceFiles, 'files' | 'changes' | 'diff'> | undefined;
}

export interface ArchiverOptions extends CommonNeeds {
  readonly keys: SandboxKeys;
  readonly metrics: Metrics;
  readonly archive: ArchiveWriting;
  readonly credentials: AgentCredentials;
  readonly namespaceUids: NamespaceUids;
  readonly stores: Pick<Stores, 'conversations' | 'templates'>;
  /** Bytes by which the archive may grow until the owner's quota is reached. */
  readonly ownerBytes: (conversation: CachedConversation) => number;
}

export interface ArchiveTarget {
  readonly conversation: CachedConversation;
  readonly sandbox: Sandbox;
  readonly endpoint: AgentEndpoint;
}

export type ArchiveOutcome =
  | { readonly kind: Extension['stoppedBy']; readonly added: number }
  /** again: another writer was faster. unknown: the agent gave no answer about the conversation. */
  | { readonly kind: 'again' | 'unknown' }
  | { readonly kind: 'failed'; readonly reason: ArchiveReason };

/** Maximum events that one step archives, so that other conversations proceed. */
const maxEventsAtOnce = 2_000;

export class Archiver {
  readonly #options: ArchiverOptions;
  readonly #newest: NewestStore<CachedConversation>;
  /** The step in progress of each conversation, by UID, and the function that aborts it. */
  readonly #underWay = new Map<
    string,
    { readonly ended: Promise<unknown>; readonly giveUp: () => void }
  >();

  constructor(options: ArchiverOptions) {
    this.#options = options;
    this.#newest = new NewestStore(options.stores.conversations, options.clock);
  }

  /** The conversation with the last status that this process has stored. */
  conversation(namespace: string, name: string): CachedConversation | undefined {
    return this.#newest.get(namespace, name);
  }

  /**
   * Archives a part of the agent's new events, and aborts a step in progress for the conversation.
   * The outcome reports errors of the agent, the store and the archive. Throws other errors.
   */
  async extend(target: ArchiveTarget, signal: AbortSignal): Promise<ArchiveOutcome> {
    const { uid } = target.conversation.metadata;
    const before = this.#underWay.get(uid);
    before?.giveUp();
    const giving = new AbortController();
    const started = (before?.ended ?? Promise.resolve()).then(() =>
      this.#step(target, AbortSignal.any([signal, giving.signal])),
    );
    const step = {
      ended: started.catch(() => undefined),
      giveUp: () => giving.abort(new Error('another step for the conversation begins')),
    };
    this.#underWay.set(uid, step);
    try {
      return await started;
    } catch (error) {
      if (giving.signal.aborted && !signal.aborted) return { kind: 'again' };
      throw error;
    } finally {
      if (this.#underWay.get(uid) === step) this.#underWay.delete(uid);
    }
  }

  /** Stores a change of `status.archive`. Returns whether it is stored. */
  async record(
    conversation: CachedConversation,
    change: ArchiveChange,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { client, clock } = this.#options;
    const observe = (version: CachedConversation) => this.#newest.observe(version);
    const options = { client, clock, observe };
    return (await storeArchiveStatus(options, conversation, { ...change, signal })) !== undefined;
  }

  async #step(target: ArchiveTarget, signal: AbortSignal): Promise<ArchiveOutcome> {
    signal.throwIfAborted();
    const { namespace, name, uid } = target.conversation.metadata;
    const newest = this.#newest.get(namespace, name);
    const conversation = newest?.metadata.uid === uid ? newest : target.conversation;
    const { head, files } = conversation.status?.archive ?? {};
    try {
      const base =
        head === undefined
          ? await this.#stateInStore(conversation, signal)
          : { namespace, uid, head, files };
      return await this.#copy({ ...target, conversation }, base, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (isGone(error)) return this.#copyAnew(target, conversation, error, signal);
      return this.#failed(conversation, error, signal);
    }
  }

  /**
   * Handles a status whose `head` does not exist in the store: the cache is outdated, the status
   * comes from a backup, or the objects were deleted. The archive continues from the newest head in
   * the store, or starts again with the events that the agent has.
   */
  async #copyAnew(
    target: ArchiveTarget,
    known: CachedConversation,
    error: ArchiveError,
    signal: AbortSignal,
  ): Promise<ArchiveOutcome> {
    const stored = await storedConversation({ client: this.#options.client, signal }, known);
    if (stored === undefined) return { kind: 'unknown' };
    const conversation = cachedConversation(stored);
    this.#newest.observe(conversation);
    const head = conversation.status?.archive?.head;
    if (head !== known.status?.archive?.head) return { kind: 'again' };
    try {
      const base = await this.#stateInStore(conversation, signal);
      this.#options.logger.warn(
        base === undefined
          ? 'The archive of a conversation is gone, and begins anew'
          : 'The archive of a conversation continues the newest head in the store',
        { conversation: known.metadata.name, error },
      );
      return await this.#copy({ ...target, conversation }, base, signal);
    } catch (later) {
      signal.throwIfAborted();
      return this.#failed(conversation, later, signal);
    }
  }

  /**
   * The newest state in the store, for a status whose `head` is absent or does not exist in the
   * store: the status was restored from a backup, or the status write of an earlier attempt failed.
   */
  #stateInStore(
    { metadata: { namespace, uid }, status }: CachedConversation,
    signal: AbortSignal,
  ): Promise<ArchiveState | undefined> {
    const { expiredTime } = status?.archive ?? {};
    return newestState(this.#options.archive, { namespace, uid }, expiredTime, signal);
  }

  /** @param base The state that is extended; undefined if the archive is new. */
  async #copy(
    target: ArchiveTarget,
    base: ArchiveState | undefined,
    signal: AbortSignal,
  ): Promise<ArchiveOutcome> {
    const { archive, metrics, stores } = this.#options;
    const { conversation, sandbox, endpoint } = target;
    const { namespace, uid } = conversation.metadata;
    const template = stores.templates.get(sandbox.metadata.namespace, sandbox.spec.templateName);
    const ownBytes = conversation.status?.archive?.bytes ?? 0;
    const ownerBytes = ownBytes + this.#options.ownerBytes(conversation);
    const { maxBytes } = archiveRulesOf(template);
    const keyId = this.#options.keys.currentKeyId;
    const namespaceUid = await this.#options.namespaceUids.of(namespace, signal);
    const extension = await extendArchive({ namespace, uid }, base?.head, {
      ...archive,
      source: agentSource({
        events: archive.events,
        endpoint,
        id: conversationIdOf(conversation),
        secrets: await archiveSecrets(this.#options, { conversation, sandbox, template }),
      }),
      installation:
        namespaceUid === undefined ? undefined : installationName({ keyId, namespaceUid }),
      salt: conversation.status?.archive?.expiredTime,
      maxBytes: Math.min(maxBytes, ownerBytes),
      maxEvents: maxEventsAtOnce,
      signal,
    });
    const { added, stoppedBy } = extension;
    const reason =
      stoppedBy !== 'limit'
        ? ArchiveReason.following
        : ownerBytes < maxBytes
          ? ArchiveReason.ownerLimitReached
          : ArchiveReason.limitReached;
    const stored = await this.record(
      conversation,
      changeOf({ conversation, base, extension, reason }, this.#now()),
      signal,
    );
    if (!stored) return { kind: 'again' };
    metrics.archivedEvents.inc({}, added);
    if (extension.head !== undefined && base?.head !== extension.head)
      await this.#deleteHead(conversation, base?.head, signal);
    return { kind: stoppedBy, added };
  }

  /** Deletes a replaced head, which no reader needs. After a failure, the next pause deletes it. */
  async #deleteHead(
    { metadata: { namespace, uid } }: CachedConversation,
    head: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    if (head === undefined) return;
    try {
      await this.#options.archive.store.delete([keyOf({ namespace, uid }, 'h', head)], { signal });
    } catch (error) {
      if (!signal.aborted && !(error instanceof StoreError)) throw error;
    }
  }

  async #failed(
    conversation: CachedConversation,
    error: unknown,
    signal: AbortSignal,
  ): Promise<ArchiveOutcome> {
    const { logger, metrics } = this.#options;
    if (error instanceof AgentError && !isAgentError(error, 'malformed'))
      return { kind: 'unknown' };
    const reason = error instanceof AgentError ? ArchiveReason.agentUnreadable : reasonOf(error);
    if (reason === undefined) throw error;
    metrics.archiveFailures.inc({ reason });
    const { name } = conversation.metadata;
    const isNews = !isShown(conversation, reason);
    logger[isNews ? 'warn' : 'debug']('The events of a conversation were not archived', {
      conversation: name,
      reason,
      error,
    });
    await this.record(conversation, { reason }, signal);
    return { kind: 'failed', reason };
  }

  #now(): string {
    return isoTime(this.#options.clock);
  }
}

const isShown = ({ status }: CachedConversation, reason: ArchiveReason): boolean =>
  status?.conditions?.some(
    (condition) => condition.type === 'Archived' && condition.reason === reason,
  ) === true;

/** The status after a step. A step that adds nothing may still store the `head` of its base. */
function changeOf(
  {
    conversation: { status },
    base,
    extension: { head = base?.head, events, bytes },
    reason,
  }: {
    readonly conversation: CachedConversation;
    readonly base: ArchiveState | undefined;
    readonly extension: Extension;
    readonly reason: ArchiveReason;
  },
  now: string,
): ArchiveChange {
  if (head === undefined || head === status?.archive?.head) return { reason };
  const { files: _files, ...known } = status?.archive ?? {};
  const files = base?.files === undefined ? {} : { files: base.files };
  return { reason, archive: { ...known, ...files, head, events, bytes, time: now } };
}
