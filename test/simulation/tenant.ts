import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { conversationIdOf, ownSandboxName } from '../../src/resources/ids.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { NamedConversations, idOfName, predictableNames } from './named-conversations.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import { TenantMetadata, tenantFinalizer } from './tenant-metadata.ts';

export interface TenantOptions {
  readonly cluster: Cluster;
  readonly random: Random;
  readonly scheduler: Scheduler;
  /** Whether there is a tenant at all. */
  readonly enabled: boolean;
  /** Owners of the other conversations. */
  readonly owners: readonly string[];
  /** The tenant does nothing later, apart from the exercise. */
  readonly untilMs: number;
}

/** User name of the tenant, and the only owner for whom the admission policies let her act. */
export const tenant = 'mallory';

const group = `/apis/${apiVersion}/namespaces/default`;
/** How long the tenant acts while nothing goes wrong. */
const exerciseMs = 30_000;
/** Number of her sandboxes from which on she only deletes some. */
const maxSandboxes = 6;

/**
 * A hostile tenant with kubectl. She reads every conversation of the namespace, and she creates,
 * changes and deletes Conversations and Sandboxes of her own owner, with any metadata:
 * installations without the admission policies of the chart restrict none of it. She never writes a
 * status, an object of another owner, a Scale or a warm sandbox.
 */
export class Tenant {
  readonly #options: TenantOptions;
  readonly #metadata: TenantMetadata;
  readonly #named: NamedConversations;
  #acts = false;
  #running = 0;
  #count = 0;

  constructor(options: TenantOptions) {
    this.#options = options;
    const { random } = options;
    this.#metadata = new TenantMetadata({ ...options, owner: tenant });
    this.#named = new NamedConversations({ ...options, random: random.fork('named') });
    if (options.enabled) options.cluster.onChange((change) => this.#react(change));
  }

  /** Whether she is about to do something. */
  get busy(): boolean {
    return this.#running > 0;
  }

  start(): void {
    const { enabled, untilMs, scheduler } = this.#options;
    if (!enabled) return;
    this.#named.start();
    this.#act(Math.max(1, untilMs - scheduler.monotonic()));
  }

  /** Starts the exercise, once nothing goes wrong any more. */
  startExercise(): void {
    const { enabled, random, scheduler } = this.#options;
    if (!enabled) return;
    for (let count = random.whole(1, 3); count > 0; count--)
      scheduler.after(random.between(1_000, exerciseMs / 2), () => void this.#named.create());
    this.#act(exerciseMs);
  }

  #act(forMs: number): void {
    const { random, scheduler } = this.#options;
    this.#acts = true;
    this.#running++;
    const until = scheduler.monotonic() + forMs;
    const next = () => {
      if (scheduler.monotonic() < until) {
        void this.#move();
        scheduler.after(
          random.chance(0.3) ? random.between(0, 500) : random.between(1_000, forMs / 4),
          next,
        );
        return;
      }
      this.#acts = false;
      void this.#leave();
    };
    scheduler.after(random.between(0, forMs / 4), next);
  }

  /** She takes back her finalizers, which would keep her objects for ever. */
  async #leave(): Promise<void> {
    for (const object of [...this.#sandboxes, ...this.#conversations])
      await this.#patch(object, { metadata: { finalizers: null } });
    this.#running--;
  }

  /** She sees a conversation of another owner, and acts on it within a moment. */
  #react({ plural, type, object }: Change): void {
    const { random, scheduler } = this.#options;
    if (!this.#acts || plural !== conversations.plural || type === 'DELETED') return;
    const conversation = object as Conversation;
    if (conversation.spec.owner === tenant) return;
    if (!random.chance(type === 'ADDED' ? 0.6 : 0.05)) return;
    this.#running++;
    const delayMs = random.chance(0.5) ? random.between(0, 5) : random.between(0, 300);
    scheduler.after(delayMs, () => {
      void this.#takeStartOf(conversation).then(() => {
        this.#running--;
      });
    });
  }

  /** A sandbox of hers where the start of another owner searches its own. */
  async #takeStartOf(conversation: Conversation): Promise<void> {
    const { random } = this.#options;
    const name = random.chance(0.6)
      ? ownSandboxName(conversationIdOf(conversation))
      : this.#aName();
    const isSquatter = random.chance(0.2);
    await this.#put(name, isSquatter ? [] : this.#metadata.references(conversation));
  }

  async #move(): Promise<void> {
    const { random } = this.#options;
    const sandbox = random.pick(this.#sandboxes);
    if (sandbox !== undefined && this.#sandboxes.length >= maxSandboxes)
      return this.#delete(sandbox);
    const choice = random.next();
    if (choice < 0.15) await this.#squat();
    else if (choice < 0.3) await this.#put(this.#aName(), this.#metadata.references());
    else if (choice < 0.45) await this.#converse();
    else if (choice < 0.55) await this.#changeConversation();
    else if (sandbox === undefined) await this.#put(this.#aName(), []);
    else if (choice < 0.7)
      await this.#patch(sandbox, {
        metadata: { ownerReferences: random.chance(0.2) ? [] : this.#metadata.references() },
      });
    else if (choice < 0.8)
      await this.#patch(sandbox, {
        metadata: { labels: this.#metadata.labels(), annotations: this.#metadata.annotations() },
      });
    else if (choice < 0.85)
      await this.#patch(sandbox, {
        metadata: { finalizers: random.chance(0.5) ? [tenantFinalizer] : null },
      });
    else if (choice < 0.92) await this.#patch(sandbox, { spec: { replicas: random.whole(0, 1) } });
    else {
      await this.#delete(sandbox);
      if (random.chance(0.5)) await this.#put(sandbox.metadata.name, this.#metadata.references());
    }
  }

  /** Creates a sandbox under the name of that of a conversation to come, or of a present one. */
  async #squat(): Promise<void> {
    const { random } = this.#options;
    const predicted = random.pick(predictableNames) ?? 'nightly';
    const known = random.pick(this.#conversationsOfOthers)?.metadata.name;
    const name = known === undefined || random.chance(0.6) ? predicted : known;
    const stored = this.#conversationsOfOthers.find(({ metadata }) => metadata.name === name);
    await this.#put(
      ownSandboxName(idOfName(name)),
      stored === undefined || random.chance(0.3) ? [] : this.#metadata.references(stored),
    );
  }

  /** A conversation of hers that names objects of others. */
  async #converse(): Promise<void> {
    const { random } = this.#options;
    const other = random.pick(this.#conversationsOfOthers);
    const sandbox = random.chance(0.4)
      ? other?.status?.sandboxName
      : random.chance(0.4)
        ? random.pick(this.#sandboxes)?.metadata.name
        : undefined;
    // The id of a conversation under a name of its own is as good a name as any.
    const id = other === undefined ? undefined : conversationIdOf(other);
    const name = id !== undefined && random.chance(0.4) ? id : `${tenant}-${this.#count++}`;
    const text = `${tenant} ${this.#count++}`;
    await this.#options.cluster.call(tenant, 'POST', `${group}/conversations`, {
      apiVersion,
      kind: conversations.kind,
      metadata: {
        name,
        namespace: 'default',
        ownerReferences: random.chance(0.3) ? this.#metadata.references() : [],
        ...(random.chance(0.1) ? { finalizers: [tenantFinalizer] } : {}),
      },
      spec: {
        owner: tenant,
        templateName: 'default',
        initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true },
        ...(sandbox === undefined ? {} : { sandboxName: sandbox }),
        ...(other === undefined || random.chance(0.5) ? {} : { parent: other.metadata.name }),
      },
    });
  }

  async #changeConversation(): Promise<void> {
    const { random } = this.#options;
    const conversation = random.pick(this.#conversations);
    if (conversation === undefined) return;
    const choice = random.next();
    if (choice < 0.4) await this.#delete(conversation);
    else if (choice < 0.7)
      await this.#patch(conversation, {
        metadata: { ownerReferences: this.#metadata.references() },
      });
    else
      await this.#patch(conversation, {
        metadata: { finalizers: random.chance(0.5) ? [tenantFinalizer] : null },
      });
  }

  async #delete({ kind, metadata: { name } }: Sandbox | Conversation): Promise<void> {
    const { plural } = kind === sandboxes.kind ? sandboxes : conversations;
    await this.#options.cluster.call(tenant, 'DELETE', `${group}/${plural}/${name}`);
  }

  /** Creates a sandbox of hers; one that is there already gets the references. */
  async #put(
    name: string,
    ownerReferences: NonNullable<Sandbox['metadata']['ownerReferences']>,
  ): Promise<void> {
    const { random, cluster } = this.#options;
    const pool = random.pick(cluster.pools)?.metadata.name ?? 'warm';
    const { status } = await cluster.call(tenant, 'POST', `${group}/sandboxes`, {
      apiVersion,
      kind: sandboxes.kind,
      metadata: {
        name,
        namespace: 'default',
        ownerReferences,
        labels: this.#metadata.labels(),
        annotations: this.#metadata.annotations(),
        ...(random.chance(0.1) ? { finalizers: [tenantFinalizer] } : {}),
      },
      spec: {
        owner: tenant,
        templateName: 'default',
        replicas: random.chance(0.9) ? 1 : 0,
        ...(random.chance(0.2) ? { poolName: pool } : {}),
      },
    });
    const known = this.#sandboxes.find(({ metadata }) => metadata.name === name);
    if (status === 409 && known !== undefined)
      await this.#patch(known, { metadata: { ownerReferences } });
  }

  #patch({ kind, metadata: { name } }: Sandbox | Conversation, body: object): Promise<unknown> {
    const { plural } = kind === sandboxes.kind ? sandboxes : conversations;
    return this.#options.cluster.call(tenant, 'PATCH', `${group}/${plural}/${name}`, body);
  }

  #aName(): string {
    return `${tenant}-${this.#count++}`;
  }

  get #sandboxes(): readonly Sandbox[] {
    return this.#options.cluster.sandboxes.filter(({ spec }) => spec.owner === tenant);
  }

  get #conversations(): readonly Conversation[] {
    return this.#options.cluster.conversations.filter(({ spec }) => spec.owner === tenant);
  }

  get #conversationsOfOthers(): readonly Conversation[] {
    return this.#options.cluster.conversations.filter(({ spec }) => spec.owner !== tenant);
  }
}
