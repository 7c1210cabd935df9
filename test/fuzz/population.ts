import type { Reflector } from '@conversation-operator/kube/reflector';
import { isNotFound } from '@conversation-operator/kube/errors';
import { apiKeys } from '../../src/resources/api-key.ts';
import type { CachedConversation } from '../../src/resources/cached-conversation.ts';
import { conversations, isStartOver, startStatusOf } from '../../src/resources/conversation.ts';
import { startStatuses } from '../../src/resources/conversation-status.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { handovers } from '../../src/resources/handover.ts';
import { startTaskIdOf, uuidOf } from '../../src/resources/ids.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sessionKeyGenerationOf } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import {
  failed,
  namespace,
  owners,
  ready,
  type Owner,
  type TwoOwners,
} from '../support/gateway/two-owners.ts';
import { knownDigest } from '../support/gateway/known-share.ts';
import { openApproval } from '../support/gateway/open-approval.ts';
import type { Aim, Pools } from './values.ts';

const time = '2026-01-01T00:00:00Z';
const withoutSandbox = (world: TwoOwners, owner: Owner, id: string): Promise<void> =>
  world.addConversation(owner, id, {
    ...ready,
    sandboxName: `sbx-${id}`,
    sandboxStatus: 'MISSING',
  });
const broken = {
  conditions: [
    {
      type: 'Failed',
      status: 'True' as const,
      reason: 'CrashLoop',
      message: 'It crashed.',
      lastTransitionTime: time,
    },
  ],
};
const starting = { conditions: [] };
const unknownIds = ['no such thing', 'never'].map(uuidOf);
/** Maximum number of remembered deleted objects, and of remembered cursors. */
const maxRemembered = 12;

/** A conversation, with or without a sandbox, in one of the states that there are. */
const states: Readonly<
  Record<string, (world: TwoOwners, owner: Owner, id: string) => Promise<void>>
> = {
  running: (world, owner, id) => world.addPair(owner, id),
  running2: (world, owner, id) => world.addPair(owner, id),
  paused: (world, owner, id) => world.addPair(owner, id, world.running, 0),
  starting: (world, owner, id) => world.addPair(owner, id, starting),
  failed: (world, owner, id) => world.addPair(owner, id, broken),
  missing: withoutSandbox,
  unoffered: withoutSandbox,
  refused: (world, owner, id) => world.addConversation(owner, id, failed),
};

/**
 * Puts resources in every state there, replaces what requests have deleted, and does what an
 * operator would have to do for answers to come.
 */
export class Population {
  readonly #world: TwoOwners;
  readonly #ids = new Map<string, string>();
  readonly #past: string[] = [...unknownIds];
  readonly #keys = new Map<Owner, string>();
  readonly #offers = new Map<Owner, string>();
  readonly #cursors: string[] = ['bm8', 'no cursor'];
  readonly #work = new Set<Promise<void>>();
  readonly #remove: () => void;
  #generation = 0;

  constructor(world: TwoOwners) {
    this.#world = world;
    const observe = (conversation: CachedConversation) => this.#operate(conversation);
    this.#remove = world.caches.conversations.addHandler({ added: observe, updated: observe });
  }

  async close(): Promise<void> {
    this.#remove();
    await Promise.all(this.#work);
  }

  /** Brings back what is gone. */
  async fill(): Promise<void> {
    const { caches } = this.#world;
    for (const owner of owners) {
      for (const [state, make] of Object.entries(states)) {
        const slot = `${owner}/${state}`;
        const id = this.#ids.get(slot);
        const isWhole =
          id !== undefined &&
          isThere(caches.conversations, id) &&
          (['missing', 'unoffered', 'refused'].includes(state) ||
            isThere(caches.sandboxes, `sbx-${id}`));
        if (isWhole) continue;
        if (id !== undefined) this.#past.push(id);
        const fresh = uuidOf(`${slot}/${(this.#generation += 1)}`);
        await make(this.#world, owner, fresh);
        this.#ids.set(slot, fresh);
      }
      await this.#world.addSecret(owner, 'TOKEN');
      const key = this.#keys.get(owner);
      if (key === undefined || !isThere(caches.apiKeys, key))
        this.#keys.set(owner, (await this.#world.addKey(owner, 'Spare')).name);
    }
    for (const owner of owners) await this.#offer(owner);
    const shared = this.#ids.get('alice/running');
    if (shared !== undefined) await this.#world.addShare('alice', shared, knownDigest);
    await this.#dropKeys();
  }

  remember(cursor: string): void {
    this.#cursors.push(cursor);
    if (this.#cursors.length > maxRemembered) this.#cursors.splice(2, 1);
  }

  get pools(): Pools {
    const running = [...this.#ids].flatMap(([slot, id]) =>
      slot.includes('running') ? Array.from({ length: 16 }, () => id) : [],
    );
    const conversation = [
      ...running,
      ...this.#ids.values(),
      ...this.#past.slice(-maxRemembered),
      ...unknownIds,
    ];
    const dashed = conversation
      .slice(0, 2)
      .map((id) => id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-').toUpperCase());
    return {
      conversation: [...conversation, ...dashed],
      startTask: [...conversation.map(startTaskIdOf), ...conversation.slice(0, 2)],
      sandbox: conversation.map((id) => `sbx-${id}`),
      spec: ['default', 'default', 'none'],
      key: [...this.#keys.values(), 'key-none'],
      cursor: this.#cursors,
      ...this.#agentPools,
      secretValue: Object.values(this.#world.secretValues).map(String),
      movable: [
        ...Array.from(owners, (owner) => this.#ids.get(`${owner}/missing`) ?? 'x'),
        ...this.#past.slice(-1),
      ],
      shared: [
        ...['alice', 'alice', 'bob'].map((owner) => this.#ids.get(`${owner}/running`) ?? 'x'),
        ...unknownIds.slice(1),
      ],
      handover: [...this.#offers.values(), 'none'],
      owner: [...owners, 'carol', 'no owner'],
      option: [...openApproval.options.map(({ id }) => id), 'none'],
      idempotencyKey: ['one', 'two', 'a key with spaces ~!', `turn-${this.#generation}`],
    };
  }

  /** Aims of the operations that few requests made by chance succeed with. */
  get aims(): ReadonlyMap<string, readonly Aim[]> {
    const { sessionKey, sessionSandbox } = this.#agentPools;
    const conversation = (state: string, more: Partial<Aim> = {}): readonly Aim[] =>
      owners.map((owner) => ({
        ...more,
        params: { ...more.params, id: this.#ids.get(`${owner}/${state}`) ?? 'x' },
        headers: { authorization: `Bearer ${this.#world.keys[owner]}` },
      }));
    const file = conversation('running', { query: { file_path: '/workspace/project/README.md' } });
    const approval = { params: { approval_id: openApproval.id } };
    return new Map([
      ['readFile', file],
      ['downloadFile', file],
      ['listChanges', conversation('running', { query: { path: '/workspace/project' } })],
      [
        'answerApproval',
        [...conversation('running', approval), ...conversation('running2', approval)],
      ],
      ['createShare', conversation('running')],
      ['openPullRequest', conversation('running')],
      ['offerHandover', conversation('unoffered')],
      [
        'getSandboxSecret',
        [
          {
            params: { id: sessionSandbox[0] ?? 'x', name: 'TOKEN' },
            headers: { 'x-session-api-key': sessionKey[0] ?? 'x' },
          },
        ],
      ],
    ]);
  }

  /** Mostly one agent that answers, with its key; sometimes values that are no agent. */
  get #agentPools(): Pick<Pools, 'host' | 'path' | 'sessionKey' | 'sessionSandbox'> {
    const { caches, sandboxKeys } = this.#world;
    const sandbox = caches.sandboxes.store
      .list()
      .find((candidate) => viewOfSandbox(candidate).phase === 'RUNNING');
    const ofOwner = caches.apiKeys.store
      .list()
      .find(
        ({ spec }) =>
          spec.owner === sandbox?.spec.owner && spec.description === `${spec.owner}'s key`,
      );
    const generation = sandbox && sessionKeyGenerationOf(sandbox);
    const key =
      sandbox === undefined || ofOwner === undefined || generation === undefined
        ? 'no key'
        : sandboxKeys.clientKey(sandbox.metadata.uid, {
            apiKeyUid: ofOwner.metadata.uid,
            generation,
          });
    const agent = `https://agents.example/sandboxes/${sandbox?.metadata.name ?? ''}/AGENT_SERVER`;
    return {
      host: [agent, agent, agent, agent, 'https://agents.example', 'http://127.0.0.3:8000'],
      path: ['/api/conversations/1', '/health', '/api/conversations?a=b', '/../x'],
      sessionKey: [key, key, key, key, 'no key'],
      sessionSandbox: [sandbox?.metadata.name ?? 'x'],
    };
  }

  /** An offer of this owner to the other one that nobody has answered. */
  async #offer(from: Owner): Promise<void> {
    const { caches, client } = this.#world;
    const name = this.#ids.get(`${from}/missing`);
    const conversation =
      name === undefined ? undefined : caches.conversations.store.get(namespace, name);
    const known = caches.handovers.store.get(namespace, this.#offers.get(from) ?? '');
    const isOpen =
      known?.spec.answer === undefined &&
      known?.spec.conversation.uid === conversation?.metadata.uid;
    if (conversation === undefined || isOpen) return;
    const { uid } = conversation.metadata;
    const created = await client.create(handovers, {
      apiVersion,
      kind: handovers.kind,
      metadata: { namespace, name: `offer-${(this.#generation += 1)}` },
      spec: {
        conversation: { name: conversation.metadata.name, uid },
        from,
        to: owners.find((owner) => owner !== from) ?? from,
        expirationTime: '2100-01-01T00:00:00Z',
      },
    });
    await this.#world.seen(caches.handovers, created);
    this.#offers.set(from, created.metadata.name);
  }

  /** The number of keys of an owner is limited, and at the limit no more are created. */
  async #dropKeys(): Promise<void> {
    const made = this.#world.caches.apiKeys.store
      .list()
      .filter(
        ({ metadata, spec }) =>
          !(spec.description ?? '').endsWith("'s key") && !isKept(metadata.name, this.#keys),
      );
    for (const { metadata } of made.slice(40))
      await ignoringGone(this.#world.client.delete(apiKeys, namespace, metadata.name));
  }

  /** Starts end, and messages are delivered. */
  #operate(conversation: CachedConversation): void {
    const { name, deletionTimestamp } = conversation.metadata;
    if (deletionTimestamp !== undefined) return;
    const transitions = startStatuses.slice(0, 5).map((status) => ({ status, time }));
    const last = Math.max(0, ...(conversation.spec.messages ?? []).map(({ number }) => number));
    const status = {
      ...(isStartOver(startStatusOf(conversation)) || conversation.status !== undefined
        ? {}
        : { start: { status: 'READY' as const, transitions } }),
      ...(last > (conversation.status?.messages?.lastDelivered ?? 0)
        ? { messages: { lastDelivered: last } }
        : {}),
    };
    if (Object.keys(status).length === 0) return;
    const { client } = this.#world;
    const work = ignoringGone(
      client.mergePatch(conversations, namespace, name, { status }, { subresource: 'status' }),
    ).finally(() => this.#work.delete(work));
    this.#work.add(work);
  }
}

const isKept = (name: string, kept: ReadonlyMap<Owner, string>): boolean =>
  [...kept.values()].includes(name);

const isThere = <S extends KubeObject, T extends KubeObject>(
  { store }: Reflector<S, T>,
  name: string,
): boolean => {
  const found = store.get(namespace, name);
  return found !== undefined && found.metadata.deletionTimestamp === undefined;
};

async function ignoringGone(work: Promise<unknown>): Promise<void> {
  try {
    await work;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
}
