import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { hostInUrl } from '@conversation-operator/base/addresses';
import type { Runtime } from '@conversation-operator/base/runtime';
import {
  notificationsPath,
  maxNotifications,
  type AgentNotification,
} from '../../agent/notifications.ts';
import { BoundedClient } from '@conversation-operator/http/client/bounded-client';
import type { Timer } from '@conversation-operator/base/clock';

interface Entry {
  readonly namespace: string;
  readonly sandbox: string;
  /** Whether the entry is about all conversations of the sandbox, and names none. */
  isOfAny: boolean;
  readonly conversationIds: Set<string>;
}

/** Maximum conversations that an entry names; with more, the entry is about the whole sandbox. */
const maxNamed = 16;

/** Maximum sandboxes of one owner, and maximum owners, in a queue; the oldest are dropped. */
const queueLimits = { maxSandboxesPerOwner: 500, maxOwners: 5_000 };

/**
 * Notifications that wait for one operator, without duplicates. Owners are served round robin and
 * have equal shares, so an owner with many notifications neither delays nor displaces those of
 * other owners. A displaced notification is lost; the operator finds the change by polling.
 */
export class NotificationQueue {
  readonly #limits: typeof queueLimits;
  /** Entries by owner and sandbox. The first owner, and its first sandbox, are served next. */
  readonly #owners = new Map<string, Map<string, Entry>>();

  constructor(limits: typeof queueLimits) {
    this.#limits = limits;
  }

  get isEmpty(): boolean {
    return this.#owners.size === 0;
  }

  add(owner: string, { namespace, sandbox, conversationId }: AgentNotification): void {
    const sandboxes = entryOf(
      this.#owners,
      owner,
      this.#limits.maxOwners,
      () => new Map<string, Entry>(),
    );
    const entry = entryOf(
      sandboxes,
      `${namespace}/${sandbox}`,
      this.#limits.maxSandboxesPerOwner,
      () => ({ namespace, sandbox, isOfAny: false, conversationIds: new Set<string>() }),
    );
    if (conversationId === undefined || entry.conversationIds.size === maxNamed)
      entry.isOfAny = true;
    else entry.conversationIds.add(conversationId);
    if (entry.isOfAny) entry.conversationIds.clear();
  }

  /** Removes and returns at most `count` notifications, round robin by owner. */
  take(count: number): AgentNotification[] {
    const notifications: AgentNotification[] = [];
    while (notifications.length < count) {
      const [first] = this.#owners;
      if (first === undefined) break;
      const [owner, sandboxes] = first;
      this.#owners.delete(owner);
      notifications.push(...takeSandbox(sandboxes, count - notifications.length));
      if (sandboxes.size > 0) this.#owners.set(owner, sandboxes);
    }
    return notifications;
  }

  clear(): void {
    this.#owners.clear();
  }
}

/** Removes and returns at most `room` notifications of the first sandbox. */
function takeSandbox(sandboxes: Map<string, Entry>, room: number): AgentNotification[] {
  const [first] = sandboxes;
  if (first === undefined) return [];
  const [key, { namespace, sandbox, isOfAny, conversationIds }] = first;
  if (isOfAny || conversationIds.size <= room) sandboxes.delete(key);
  if (isOfAny) return [{ namespace, sandbox }];
  const ids = [...conversationIds].slice(0, room);
  for (const id of ids) conversationIds.delete(id);
  return ids.map((conversationId) => ({ namespace, sandbox, conversationId }));
}

/** Returns the entry of the key, or creates one. A full map loses its first entries for that. */
function entryOf<V>(map: Map<string, V>, key: string, maxEntries: number, create: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  for (const first of map.keys()) {
    if (map.size < maxEntries) break;
    map.delete(first);
  }
  const entry = create();
  map.set(key, entry);
  return entry;
}

export interface NotificationSenderOptions extends Pick<Runtime, 'clock' | 'logger'> {
  /** URLs of all operators, without a path. Each address of a host name gets the notifications. */
  readonly urls: readonly string[];
  /** The bearer token for requests to operators. */
  readonly key: () => string;
  /** Resolves all addresses of a host name; the system's resolver by default. */
  readonly resolve?: (host: string) => Promise<readonly string[]>;
}

/** Delay before the addresses of the operators are resolved again. */
const refreshMs = 10_000;
const answerMs = 2_000;
const maxAnswerBytes = 4096;
const keepAliveMs = 4_000;
/** Delay before an operator that has failed gets the next request. */
const restMs = 1_000;

const systemLookup = async (host: string): Promise<readonly string[]> =>
  isIP(host) === 0 ? (await lookup(host, { all: true })).map(({ address }) => address) : [host];

/** One operator, with at most one request in flight; further notifications wait in `waiting`. */
interface Target {
  readonly origin: string;
  readonly waiting: NotificationQueue;
  isBusy: boolean;
  restUntil: number;
}

/**
 * Sends notifications to every operator; only the leader acts on them. A notification is neither
 * stored nor sent again, because operators also poll the agents.
 */
export class NotificationSender {
  readonly #options: NotificationSenderOptions;
  readonly #urls: readonly URL[];
  readonly #client = new BoundedClient({
    connectTimeoutMs: answerMs,
    keepAlive: { readsMs: keepAliveMs, writesMs: keepAliveMs },
  });
  #isClosed = false;
  #targets = new Map<string, Target>();
  #timer: Timer | undefined;
  readonly #unknown = new Set<string>();

  constructor(options: NotificationSenderOptions) {
    this.#options = options;
    this.#urls = options.urls.map((url) => new URL(url));
  }

  /** Resolves after the first DNS lookup of the operators' host names, successful or not. */
  async open(): Promise<void> {
    await this.#refresh();
  }

  notify(notification: AgentNotification, owner: string): void {
    for (const target of this.#targets.values()) {
      target.waiting.add(owner, notification);
      void this.#pump(target);
    }
  }

  async close(): Promise<void> {
    this.#timer?.cancel();
    this.#isClosed = true;
    await this.#client.close();
  }

  async #refresh(): Promise<void> {
    const { clock } = this.#options;
    const found = await Promise.all(this.#urls.map((url) => this.#originsOf(url)));
    this.#targets = new Map(
      found.flat().map((origin) => [origin, this.#targets.get(origin) ?? newTarget(origin)]),
    );
    if (!this.#isClosed) this.#timer = clock.after(refreshMs, () => void this.#refresh());
  }

  async #originsOf({ protocol, hostname, port }: URL): Promise<readonly string[]> {
    const { resolve = systemLookup, logger } = this.#options;
    try {
      const addresses = await resolve(hostname.replace(/^\[|\]$/g, ''));
      this.#unknown.delete(hostname);
      return addresses.map(
        (address) => `${protocol}//${hostInUrl(address)}${port === '' ? '' : `:${port}`}`,
      );
    } catch (error) {
      // DNS may not know the name of a headless Service while no operator is ready.
      if (!this.#unknown.has(hostname))
        logger.warn('Operators can not be found; agents are polled only', {
          host: hostname,
          error,
        });
      this.#unknown.add(hostname);
      return [];
    }
  }

  async #pump(target: Target): Promise<void> {
    const { clock, logger } = this.#options;
    if (target.isBusy) return;
    if (clock.monotonic() < target.restUntil) {
      target.waiting.clear();
      return;
    }
    target.isBusy = true;
    try {
      while (!target.waiting.isEmpty && !this.#isClosed)
        await this.#send(target.origin, target.waiting.take(maxNotifications));
    } catch (error) {
      target.waiting.clear();
      target.restUntil = clock.monotonic() + restMs;
      logger.debug('an operator took no notifications', { operator: target.origin, error });
    } finally {
      target.isBusy = false;
    }
  }

  async #send(origin: string, notifications: readonly AgentNotification[]): Promise<void> {
    const call = {
      method: 'POST',
      url: new URL(notificationsPath, origin),
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${this.#options.key()}`,
      },
      body: JSON.stringify({ notifications }),
      timeoutMs: answerMs,
    } as const;
    const { status } = await this.#client.send(call, maxAnswerBytes);
    if (status !== 204) throw new Error(`the operator answered ${status}`);
  }
}

const newTarget = (origin: string): Target => ({
  origin,
  waiting: new NotificationQueue(queueLimits),
  isBusy: false,
  restUntil: -Infinity,
});
