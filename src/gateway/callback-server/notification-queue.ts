import type { AgentNotification } from '../../agent/notifications.ts';

/** The notifications that wait of one sandbox. */
interface Entry {
  readonly namespace: string;
  readonly sandbox: string;
  /** Whether a notification is about any of the sandbox's conversations: then none is named. */
  isOfAny: boolean;
  readonly conversationIds: Set<string>;
}

/**
 * Maximum number of conversations of one sandbox that are named; of more, all of the sandbox's are
 * meant.
 */
const maxNamed = 16;

/**
 * Notifications that wait for an operator, each once. Each owner has a share, and owners take
 * turns: an owner with many notifications delays and displaces no notification of others. A
 * displaced notification is lost; the operator finds the change by polling.
 */
export class NotificationQueue {
  readonly #maxSandboxesPerOwner: number;
  readonly #maxOwners: number;
  /** By owner and sandbox, each first whose turn is next. */
  readonly #owners = new Map<string, Map<string, Entry>>();

  constructor({
    maxSandboxesPerOwner,
    maxOwners,
  }: {
    readonly maxSandboxesPerOwner: number;
    readonly maxOwners: number;
  }) {
    this.#maxSandboxesPerOwner = maxSandboxesPerOwner;
    this.#maxOwners = maxOwners;
  }

  get isEmpty(): boolean {
    return this.#owners.size === 0;
  }

  add(owner: string, { namespace, sandbox, conversationId }: AgentNotification): void {
    const sandboxes = entryOf(this.#owners, owner, this.#maxOwners, () => new Map<string, Entry>());
    const entry = entryOf(sandboxes, `${namespace}/${sandbox}`, this.#maxSandboxesPerOwner, () => ({
      namespace,
      sandbox,
      isOfAny: false,
      conversationIds: new Set<string>(),
    }));
    if (conversationId === undefined || entry.conversationIds.size === maxNamed)
      entry.isOfAny = true;
    else entry.conversationIds.add(conversationId);
    if (entry.isOfAny) entry.conversationIds.clear();
  }

  /** Removes and returns at most `count` notifications, of the owners in turns. */
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

/** Takes the notifications of the sandbox whose turn is next, as far as there is room. */
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

/** The entry of the key. A new one displaces the first ones of a map that holds the maximum. */
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
