import { found } from '@conversation-operator/kube/errors';
import { Periods } from '../../budget/period.ts';
import {
  accountOf,
  budgetsOf,
  quotaBudgets,
  useOf,
  type BudgetAccount,
  type BudgetUse,
} from '../../quota/budgets.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedUsageRecord } from '../../resources/usage-record.ts';
import { apiKeys, type ApiKey } from '../../resources/api-key.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations, startStatusOf } from '../../resources/conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import {
  isLive,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { isInSandbox } from '../../resources/sandbox-owner-references.ts';
import { inNamespace, type Cache, type Caches, type gatewayIndexers, Derived } from './cache.ts';

/** A DNS-1123 subdomain. Only a name of this form becomes part of a URL of the API server. */
const objectName = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;

/** Maximum concurrent reads from the API server for one request. */
const maxParallelReads = 8;

interface Owned extends KubeObject {
  readonly spec: { readonly owner: string };
}

/** Conversations and sandboxes, including those being deleted, which may still have a pod. */
export interface Holdings {
  readonly conversations: readonly CachedConversation[];
  readonly sandboxes: readonly Sandbox[];
}

/**
 * The resources of one namespace as their owners see them. An object that is being deleted counts
 * as missing, so that a deletion shows at once. Results come from the caches. A single object that
 * the cache does not show as the owner's is read once from the API server, because the cache may
 * lag. An object of another owner takes the same path as a missing one, so that not even the
 * duration distinguishes them.
 */
export class ResourceLookup {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #caches: Caches;
  readonly #quotas = new Derived((all: readonly ConversationQuota[]) => this.#here(all));
  readonly #budgets = new Derived((quotas: readonly ConversationQuota[]) => quotaBudgets(quotas));
  readonly #periods = new Periods();
  readonly #liveConversations = new Derived((all: readonly CachedConversation[]) =>
    all.filter(isLive),
  );

  constructor(options: { client: KubeClient; namespace: string; caches: Caches }) {
    this.#client = options.client;
    this.#namespace = options.namespace;
    this.#caches = options.caches;
  }

  conversation(owner: string, id: string): Promise<CachedConversation | undefined> {
    const cached = [this.cachedConversation(id), ...this.#conversationsBy('restId', id)].find(
      (candidate) => candidate !== undefined && isOwnedBy(candidate, owner),
    );
    return this.#own(owner, cached, async () => {
      const stored = await this.#read(conversations, id);
      return stored && cachedConversation(stored);
    });
  }

  /** Returns the conversations in the order of the ids. */
  conversations(
    owner: string,
    ids: readonly string[],
  ): Promise<(CachedConversation | undefined)[]> {
    return mapLimited(ids, (id) => this.conversation(owner, id));
  }

  sandbox(owner: string, name: string): Promise<Sandbox | undefined> {
    return this.#own(owner, this.sandboxNamed(name), () => this.#read(sandboxes, name));
  }

  /** Returns the sandboxes in the order of the names. */
  sandboxes(owner: string, names: readonly string[]): Promise<(Sandbox | undefined)[]> {
    return mapLimited(names, (name) => this.sandbox(owner, name));
  }

  async template(name: string): Promise<SandboxTemplate | undefined> {
    const cached = this.#caches.templates.store.get(this.#namespace, name);
    const template = cached ?? (await this.#read(sandboxTemplates, name));
    return template !== undefined && isLive(template) ? template : undefined;
  }

  /**
   * The sandbox in which a conversation was started. If the cache lacks the sandbox, and the status
   * does not report it as MISSING, the API server is asked: the cache of sandboxes may lag behind
   * the cache of conversations.
   */
  async sandboxOf(conversation: CachedConversation): Promise<Sandbox | undefined> {
    const { sandboxName, sandboxStatus } = conversation.status ?? {};
    const cached = this.sandboxIn(conversation);
    if (cached !== undefined || sandboxName === undefined || sandboxStatus === 'MISSING')
      return cached;
    if (startStatusOf(conversation) !== 'READY') return undefined;
    const stored = await this.#read(sandboxes, sandboxName);
    return stored !== undefined && isInSandbox(conversation, stored) ? stored : undefined;
  }

  /** The cached sandbox of a conversation, and never a newer sandbox of the same name. */
  sandboxIn(conversation: CachedConversation): Sandbox | undefined {
    const named = this.sandboxNamed(conversation.status?.sandboxName);
    return named !== undefined && isInSandbox(conversation, named) ? named : undefined;
  }

  /** The cached sandbox with this name, of any owner. */
  sandboxNamed(name: string | undefined): Sandbox | undefined {
    return name === undefined ? undefined : this.#caches.sandboxes.store.get(this.#namespace, name);
  }

  /** The cached conversation with this resource name, of any owner. */
  cachedConversation(name: string | undefined): CachedConversation | undefined {
    return name === undefined
      ? undefined
      : this.#caches.conversations.store.get(this.#namespace, name);
  }

  /** The cached conversations, of any owner, whose status names this sandbox. */
  conversationsNaming(sandboxName: string): readonly CachedConversation[] {
    return this.#conversationsBy('sandboxName', sandboxName);
  }

  /** An undefined owner means every owner. */
  apiKey(owner: string | undefined, name: string): Promise<ApiKey | undefined> {
    const cached = this.#caches.apiKeys.store.get(this.#namespace, name);
    return this.#own(owner, cached, () => this.#read(apiKeys, name));
  }

  apiKeysOf(owner: string): readonly ApiKey[] {
    return this.#of(this.#caches.apiKeys, owner).filter(isLive);
  }

  everyApiKey(): readonly ApiKey[] {
    return this.#here(this.#caches.apiKeys.store.list()).filter(isLive);
  }

  /** Returns the same array until one of its objects changes, unless it has only one object. */
  conversationsOf(owner: string): readonly CachedConversation[] {
    return this.#liveConversations.of(this.#conversationsBy('owner', owner));
  }

  sandboxesOf(owner: string): readonly Sandbox[] {
    return this.#of(this.#caches.sandboxes, owner).filter(isLive);
  }

  /** Returns the same array until one of its objects changes, unless it has only one object. */
  quotas(): readonly ConversationQuota[] {
    return this.#quotas.of(this.#caches.quotas.store.list());
  }

  usageRecords(): readonly CachedUsageRecord[] {
    return this.#here(this.#caches.usageRecords.store.list());
  }

  /** The budgets that hold for an owner now, with their use as the cache shows it. */
  budgetsOf(
    owner: string,
    nowMs: number,
  ): readonly (BudgetAccount & { readonly use: BudgetUse })[] {
    const namespace = this.#namespace;
    return budgetsOf(this.#budgets.of(this.quotas()), owner).map((quota) => {
      const account = accountOf(quota, { namespace, owner, nowMs }, this.#periods);
      const { record } = account;
      const cached = this.#caches.usageRecords.store.get(namespace, record.name);
      return { ...account, use: useOf(account, cached) };
    });
  }

  holdingsOf(owner: string): Holdings {
    return {
      conversations: this.#conversationsBy('owner', owner),
      sandboxes: this.#of(this.#caches.sandboxes, owner),
    };
  }

  everyHolding(): Holdings {
    return {
      conversations: this.#here(this.#caches.conversations.store.list()),
      sandboxes: this.#here(this.#caches.sandboxes.store.list()),
    };
  }

  templates(): readonly SandboxTemplate[] {
    return this.#here(this.#caches.templates.store.list()).filter(isLive);
  }

  /** The conversation that this one was started from, if it has the same owner. */
  parentOf({ spec }: CachedConversation): CachedConversation | undefined {
    const parent = this.cachedConversation(spec.parent);
    return parent?.spec.owner === spec.owner ? parent : undefined;
  }

  /** The conversations that were started from this one, by the same owner. */
  children(parent: CachedConversation): readonly CachedConversation[] {
    return this.#conversationsBy('parent', parent.metadata.name).filter(
      (child) => isLive(child) && child.spec.owner === parent.spec.owner,
    );
  }

  #conversationsBy(
    index: keyof typeof gatewayIndexers.conversations,
    value: string,
  ): readonly CachedConversation[] {
    return this.#caches.conversations.store.byIndex(index, inNamespace(this.#namespace, value));
  }

  #of<T extends Owned>(cache: Cache<T>, owner: string): readonly T[] {
    return cache.store.byIndex('owner', inNamespace(this.#namespace, owner));
  }

  /** Selects the objects in this namespace, because a cache may span all namespaces. */
  #here<T extends KubeObject>(objects: readonly T[]): readonly T[] {
    return objects.filter(({ metadata }) => metadata.namespace === this.#namespace);
  }

  async #own<T extends Owned>(
    owner: string | undefined,
    cached: T | undefined,
    read: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const object = cached !== undefined && isOwnedBy(cached, owner) ? cached : await read();
    return object !== undefined && isOwnedBy(object, owner) && isLive(object) ? object : undefined;
  }

  async #read<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    name: string,
  ): Promise<T | undefined> {
    if (!objectName.test(name)) return undefined;
    return found(this.#client.get(resource, this.#namespace, name));
  }
}

/** An undefined `owner` accepts the objects of all owners, but no warm sandbox. */
const isOwnedBy = ({ spec }: Owned, owner: string | undefined): boolean =>
  owner === undefined ? spec.owner !== '' : spec.owner === owner;

/** Like `Promise.all` over a map, with at most `maxParallelReads` concurrent calls. */
export async function mapLimited<T, R>(
  items: readonly T[],
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const [only] = items;
  if (only !== undefined && items.length === 1) return [await map(only)];
  const results = new Array<R>(items.length);
  const entries = items.entries();
  const worker = async () => {
    for (const [index, item] of entries) results[index] = await map(item);
  };
  await Promise.all(Array.from({ length: Math.min(maxParallelReads, items.length) }, worker));
  return results;
}
