import { systemClock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found, isForbidden } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { IndexedStore, type Indexers } from '@conversation-operator/kube/store';
import { gatewayIndexers, type FreshCache } from '../gateway/lookup/cache.ts';
import { ResourceLookup } from '../gateway/lookup/resource-lookup.ts';
import { startTextsOf } from '../gateway/lookup/start-texts.ts';
import { StorageCaps } from '../gateway/lookup/storage-caps.ts';
import { presentConversation, sandboxViewOf } from '../gateway/presenters/conversation.ts';
import { presentSandbox, type Exposure } from '../gateway/presenters/sandbox.ts';
import { startTaskRecord } from '../gateway/presenters/start-task.ts';
import { quotaRecord, refuseOverQuota } from '../gateway/quota/quota.ts';
import type { QuotaRecord } from '../gateway/quota/quota-record.ts';
import { comesBackFromError, refuseUnusable, requestResume } from '../gateway/sandboxes/resume.ts';
import { cachedConversation, type CachedConversation } from '../resources/cached-conversation.ts';
import { conversationQuotas } from '../resources/conversation-quota.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { conversationIdOf } from '../resources/ids.ts';
import { sandboxTemplates } from '../resources/sandbox-template.ts';
import { sandboxes, type Sandbox } from '../resources/sandbox.ts';
import { usageRecords, type CachedUsageRecord } from '../resources/usage-record.ts';
import type { Facts } from '../sentences/facts.ts';
import { forecastOf, pausedTitles, placeOf } from '../sentences/forecast.ts';
import type { Around } from '../sentences/sentences.ts';

/** The plugin shows no address and no key of an agent. */
const nothingExposed: Exposure = { accessTo: () => undefined };

/** A list in the form of the gateway's caches, so that the gateway's own readers can read it. */
function listed<T extends KubeObject>(
  objects: readonly T[],
  indexers: Indexers<T> = {},
): FreshCache<T> {
  const store = new IndexedStore<T>(indexers);
  for (const object of objects) store.set(object);
  return {
    store,
    hasSynced: true,
    freshness: { newsAgeMs: 0, isInterrupted: false },
    addHandler: (handler) => {
      for (const object of objects) handler.added?.(object);
      return () => undefined;
    },
  };
}

/** One namespace as the cluster showed it at one time. */
export interface Scene {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly lookup: ResourceLookup;
  readonly caps: StorageCaps;
  readonly now: number;
  /** Kinds that the person may not list, and without which sentences say less. */
  readonly unread: readonly string[];
  /** The records that `withBudgetsOf` has read; the lookup reads them here. */
  readonly usage: IndexedStore<CachedUsageRecord>;
}

/** Reads a namespace. Quotas and templates are left out where the person may not list them. */
export async function readScene(client: KubeClient, namespace: string): Promise<Scene> {
  const unread: string[] = [];
  const optional = async <T extends KubeObject>(resource: ResourceDefinition<T>) => {
    try {
      return (await client.list(resource, { namespace })).items;
    } catch (error) {
      if (!isForbidden(error)) throw error;
      unread.push(resource.plural);
      return [];
    }
  };
  const [stored, boxes, quotas, templates] = await Promise.all([
    client.listMapped(conversations, (object) => cachedConversation(object), { namespace }),
    client.list(sandboxes, { namespace }),
    optional(conversationQuotas),
    optional(sandboxTemplates),
  ]);
  const usage = new IndexedStore<CachedUsageRecord>({});
  const caches = {
    conversations: listed(stored.items, gatewayIndexers.conversations),
    sandboxes: listed(boxes.items, gatewayIndexers.sandboxes),
    quotas: listed(quotas),
    templates: listed(templates),
    apiKeys: listed([], gatewayIndexers.apiKeys),
    ownerSettings: listed([]),
    handovers: listed([], gatewayIndexers.handovers),
    usageRecords: { ...listed<CachedUsageRecord>([]), store: usage },
  };
  const lookup = new ResourceLookup({ client, namespace, caches });
  const caps = new StorageCaps({ caches, namespace, quotas: () => lookup.quotas() });
  caps.open();
  return { client, namespace, lookup, caps, now: Date.now(), unread, usage };
}

/**
 * Reads what is spent of an owner's budgets, without which a start appears to have room. Reads the
 * records of these budgets alone, because there is one for each owner and month.
 */
export async function withBudgetsOf(scene: Scene, owner: string): Promise<Scene> {
  const { client, namespace, lookup, now, unread, usage } = scene;
  try {
    const records = await Promise.all(
      lookup
        .budgetsOf(owner, now)
        .map(({ record: { name } }) => found(client.get(usageRecords, namespace, name))),
    );
    for (const record of records) if (record !== undefined) usage.set(record);
    return scene;
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { ...scene, unread: [...unread, usageRecords.plural] };
  }
}

export const lacksBudgets = ({ unread }: Pick<Scene, 'unread'>): boolean =>
  unread.includes(usageRecords.plural);

/** The outcome of one more start of an owner, for people. Needs `withBudgetsOf`. */
export function nextStartOf(scene: Scene, owner: string): string {
  const forecast = forecastOf(quotaOf(scene, owner), titlesOf(scene, owner), scene.now);
  return lacksBudgets(scene)
    ? `${forecast} Budgets are left out: you may not get usagerecords.`
    : forecast;
}

/** The records of a conversation as REST and the page have them, without keys and addresses. */
export function factsOf({ lookup }: Scene, conversation: CachedConversation): Required<Facts> {
  const sandbox = lookup.sandboxIn(conversation);
  const texts = { message: undefined, systemMessageSuffix: undefined };
  const steps = conversation.status?.start?.steps ?? [];
  return {
    conversation: presentConversation(
      {
        conversation,
        sandbox,
        parent: lookup.parentOf(conversation),
        children: lookup.children(conversation),
      },
      nothingExposed,
    ),
    task: startTaskRecord(conversation, { ...texts, steps }, undefined),
    sandbox: sandbox && presentSandbox(sandbox, nothingExposed),
  };
}

/** The same with the texts of the start. */
export const wholeTaskOf = (stored: Conversation) =>
  startTaskRecord(cachedConversation(stored), startTextsOf(stored), undefined);

export const quotaOf = ({ lookup, caps }: Scene, owner: string): QuotaRecord =>
  quotaRecord({ lookup, caps, clock: systemClock }, owner);

export const titlesOf = (
  { lookup }: Scene,
  owner: string,
): ((id: string) => string | undefined) => {
  const titles = new Map(
    lookup
      .conversationsOf(owner)
      .map((each) => [
        conversationIdOf(each),
        each.spec.title ?? each.status?.title ?? each.firstWords,
      ]),
  );
  return (id) => titles.get(id) || undefined;
};

/** The other conversations and the quota of an owner, which the sentences about one name. */
export function aroundOf(scene: Scene, owner: string): Around {
  const quota = quotaOf(scene, owner);
  const titleOf = titlesOf(scene, owner);
  return {
    now: scene.now,
    titleOf,
    resumePauses: pausedTitles(quota, titleOf),
    placeOf: (sandboxId) => placeOf(quota, sandboxId),
  };
}

/**
 * Resumes the sandbox where a message or an answer needs it, as the gateway does: before the write,
 * so that nothing is stored for a sandbox that stays paused. Returns the phase before.
 */
export async function resumeFor(
  { client, lookup }: Scene,
  conversation: Conversation,
  sandbox: Sandbox | undefined,
): Promise<string> {
  const { phase } = sandboxViewOf(conversation, sandbox);
  const isFailed = sandbox !== undefined && comesBackFromError(lookup, sandbox);
  refuseUnusable(phase, { comesBack: isFailed });
  if ((phase === 'PAUSED' || isFailed) && sandbox !== undefined) {
    refuseOverQuota(lookup, conversation.spec.owner);
    await requestResume(resumeNeeds(client), sandbox);
  }
  return phase;
}

/** The plugin has no cache that a write has to reach. */
export const resumeNeeds = (client: KubeClient) => ({
  client,
  clock: systemClock,
  feeds: { sandboxes: { shows: () => Promise.resolve() } },
});
