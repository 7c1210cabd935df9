import { namespaces } from '@conversation-operator/kube/core';
import type { Finality } from '@conversation-operator/kube/reflector';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { createCodec, type Codec } from '../../../src/archive/codec.ts';
import { installationName } from '../../../src/archive/installation.ts';
import { keyOf } from '../../../src/archive/layout.ts';
import { emptyManifest, packHead } from '../../../src/archive/manifest.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { SandboxCondition } from '../../../src/resources/sandbox.ts';
import {
  admitted,
  aConversation,
  aQuota,
  aSandbox,
  aTemplate,
  condition,
} from '../../support/builders.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import type { Random } from '../random.ts';
import type { Trace } from '../trace.ts';
import { AgentNetwork, ModelAgent } from './agents.ts';
import { ArchiveChecks } from './checks.ts';
import { FaultyApi } from './faulty-api.ts';
import { FaultyStore } from './faulty-store.ts';
import type { Findings } from './findings.ts';
import type { IoScheduler } from './io-scheduler.ts';
import { ModelOperator } from './operator.ts';

/** A conversation with its agent, and the sandbox that both are in. */
export interface Member {
  readonly name: string;
  readonly uid: string;
  readonly agent: ModelAgent;
  readonly place: Place;
}

/** A sandbox. Its agents share their state. */
export interface Place {
  sandbox: Sandbox;
  readonly members: Member[];
  /** running: the agent may answer; pausing: a seal is under way; paused: there is no pod. */
  phase: 'running' | 'pausing' | 'paused';
}

export interface WorldOptions {
  readonly scheduler: IoScheduler;
  readonly random: Random;
  readonly trace: Trace;
  readonly findings: Findings;
  /** The store without faults. */
  readonly store: ObjectStore;
  /** Called when an archive has expired, while its objects may still be deleted. */
  readonly onExpired: (uid: string) => void;
  /** Called when an operator has read which conversations there are. */
  readonly onListed: () => void;
  /** Begins the UIDs of conversations. Default: empty. */
  readonly prefix?: string;
  readonly namespaceUid?: string;
  /** Called with the keys of each write and deletion by an operator of this world. */
  readonly onWrite?: (keys: readonly string[]) => void;
  /** Whether archives have neither a limit nor a retention, and no agent lies. */
  readonly isPlain?: boolean;
  /** Limit of the sweep. Undefined: the default. */
  readonly maxOrphanShare?: number;
}

const namespace = 'default';
const apiKey = 'sk-the-key-of-the-model-0123456789';
const noLimit = 256 * 1024 * 1024;
const sealToleranceMs = 500;

/** The objects, the agents and the operators of one run. */
export class World {
  readonly store: FaultyStore;
  readonly api: FaultyApi;
  readonly checks: ArchiveChecks;
  readonly network: AgentNetwork;
  readonly codec: Codec;
  readonly places: Place[] = [];
  operators: ModelOperator[] = [];
  /** Whether the store has an archive of another installation. */
  readonly #isForeign: boolean;
  readonly maxBytes: number;
  readonly retentionMs: number | undefined;
  readonly #options: WorldOptions;
  readonly #client = new FakeKubeClient();
  readonly #keys = new SandboxKeys([Buffer.alloc(32, 7)]);
  /** Versions as the operators have been notified of them, by UID. */
  readonly #known = new Map<string, Conversation>();
  readonly #namespaceUid: string;
  /** How deletions reach the operators. */
  #finality: Finality = 'observed';
  readonly #textLength: number;
  #names = 0;
  #starts = 0;

  constructor(options: WorldOptions) {
    this.#options = options;
    const { scheduler, random, trace, findings, store, onExpired, onListed } = options;
    this.codec = createCodec({
      keys: this.#keys,
      encrypt: random.chance(0.3),
      random: (bytes) => Buffer.from(Array.from({ length: bytes }, () => random.whole(0, 255))),
    });
    this.#namespaceUid = options.namespaceUid ?? 'namespace-1';
    const { isPlain = false } = options;
    this.#isForeign = random.chance(0.1);
    this.maxBytes = random.chance(0.25) && !isPlain ? random.whole(2_000, 60_000) : noLimit;
    this.retentionMs =
      random.chance(0.5) && !isPlain ? (random.pick([1.5, 3, 10]) ?? 3) * 60_000 : undefined;
    this.#textLength = random.chance(0.15) ? 16_000 : random.whole(10, 200);
    this.network = new AgentNetwork(scheduler, trace);
    this.checks = new ArchiveChecks({
      findings,
      onExpired,
      store: this.#readable(store),
      codec: this.codec,
      namespace,
      maxBytes: this.maxBytes,
      retentionMs: this.retentionMs,
      now: () => scheduler.monotonic(),
    });
    this.store = new FaultyStore({
      scheduler,
      trace,
      store,
      random: random.fork('store'),
      onWrite: (verb, keys) => {
        options.onWrite?.(keys);
        if (verb === 'delete') this.checks.onDeleted(keys);
      },
    });
    this.api = new FaultyApi({
      scheduler,
      trace,
      client: this.#client,
      random: random.fork('api'),
      onWrite: () => this.#publish(),
      onList: onListed,
    });
  }

  async begin(): Promise<void> {
    const { random } = this.#options;
    const metadata = { name: namespace, uid: this.#namespaceUid, resourceVersion: '1' };
    this.#client.put(namespaces, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { ...metadata, generation: 1, creationTimestamp: '2026-01-01T00:00:00Z' },
    });
    if (this.#isForeign) await this.#addForeign();
    const places = random.whole(1, 2);
    for (let count = 0; count < places; count++) await this.addPlace();
  }

  get members(): readonly Member[] {
    return this.places.flatMap(({ members }) => members);
  }

  get living(): readonly Member[] {
    return this.members.filter(({ uid }) => !this.checks.isDeleted(uid));
  }

  async addPlace(name?: string): Promise<void> {
    const { random } = this.#options;
    const number = ++this.#names;
    const podIP = `127.0.1.${number}`;
    const sandbox = aSandbox({
      name: `sbx-${number}`,
      status: {
        podIP,
        agentPort: 8000,
        conditions: [admitted, condition(SandboxCondition.ready, 'True', 'Running')],
      },
    });
    const place: Place = { sandbox, members: [], phase: 'running' };
    const count = random.chance(0.2) ? 2 : 1;
    for (let index = 0; index < count; index++) {
      const own = index === 0 && name !== undefined ? name : nameOf(number, index);
      this.#addMember(place, own, `${this.#options.prefix ?? ''}uid-${number}-${index}`);
    }
    this.places.push(place);
    for (const operator of this.operators) operator.sandboxChanged(sandbox);
    await this.#publish();
  }

  startOperator(): ModelOperator {
    const { random, scheduler, trace } = this.#options;
    const name = `operator-${++this.#starts}`;
    trace.note(`${name} starts`);
    const operator = new ModelOperator({
      name,
      scheduler,
      trace,
      random: random.fork(name),
      store: this.store,
      api: this.api,
      network: this.network,
      codec: this.codec,
      keys: this.#keys,
      apiKey,
      conversations: [...this.#known.values()],
      sandboxes: this.places.map(({ sandbox }) => sandbox),
      template: aTemplate({
        agent: { port: 8000, workingDir: '/workspace', credential: 'model' },
        archive: { enabled: true, maxBytes: this.maxBytes },
      }),
      quotas:
        this.retentionMs === undefined
          ? []
          : [aQuota('retention', { archiveRetention: `${this.retentionMs / 1000}s` })],
      maxOrphanShare: this.#options.maxOrphanShare,
    });
    this.operators.push(operator);
    for (const member of this.living)
      if (member.agent.state === 'running') this.#report(operator, member);
    return operator;
  }

  kill(operator: ModelOperator): void {
    this.#options.trace.note(`${operator.machine.name} is killed`);
    operator.machine.crash();
    this.operators = this.operators.filter((one) => one !== operator);
  }

  get isLimited(): boolean {
    return this.maxBytes < noLimit;
  }

  /** The agent writes, and reports that to the operators a little later. */
  write(member: Member, count: number): void {
    const { scheduler, random } = this.#options;
    member.agent.write(count);
    scheduler.after(random.between(50, 900), () => this.report(member));
  }

  report(member: Member): void {
    if (member.agent.state !== 'running' || member.place.phase === 'paused') return;
    for (const operator of this.operators) this.#report(operator, member);
  }

  /** Another part of the product writes the status. */
  async touch({ name }: Member, random: Random): Promise<void> {
    const { scheduler } = this.#options;
    const stored = await this.#stored(name);
    if (stored === undefined) return;
    const lastActivityTime = random.chance(0.1)
      ? new Date(scheduler.now()).toISOString()
      : stored.status?.lastActivityTime;
    const executionStatus = random.chance(0.5) ? 'running' : 'idle';
    const status = { ...stored.status, lastActivityTime, executionStatus } as const;
    await this.#client.updateStatus(conversations, { ...stored, status }, { from: stored.status });
    await this.#publish();
  }

  /**
   * Pauses a sandbox: its agent is archived within the bound, and then its pod is deleted. Returns
   * whether everything was archived; undefined where the operator has ended meanwhile.
   */
  async pause(place: Place, operator: ModelOperator, maxMs: number): Promise<boolean | undefined> {
    const { findings, trace } = this.#options;
    const { name } = operator.machine;
    trace.note(`${name} pauses ${place.sandbox.metadata.name} within ${maxMs.toFixed(0)} ms`);
    place.phase = 'pausing';
    this.#change(place, { ...place.sandbox, spec: { ...place.sandbox.spec, replicas: 0 } });
    const logs = place.members.map(({ uid, agent }) => ({
      uid,
      ids: agent.log.map(({ id }) => id),
      expiries: this.checks.expiriesOf(uid),
    }));
    const died = Promise.withResolvers<undefined>();
    operator.machine.onDeath(() => died.resolve(undefined));
    const wasFrozen = operator.machine.frozen;
    const members = place.members.filter(({ uid }) => !this.checks.isDeleted(uid)).length;
    const sealed = await Promise.race([operator.seal(place.sandbox, maxMs, members), died.promise]);
    if (sealed !== undefined) {
      const { isComplete, tookMs } = sealed;
      trace.note(`${name} has paused ${place.sandbox.metadata.name}: ${isComplete}`);
      if (tookMs > maxMs + sealToleranceMs && !wasFrozen && !this.#wasFrozen(operator))
        findings.report('a seal ends in time', `${tookMs.toFixed(0)} ms of ${maxMs.toFixed(0)} ms`);
      for (const [index, { uid, ids, expiries }] of isComplete ? logs.entries() : []) {
        // The archive has expired while the process of the pause was frozen.
        if (this.checks.expiriesOf(uid) !== expiries) continue;
        // A volume that is replaced meanwhile has lost what nothing can archive any more.
        const left = new Set(place.members[index]?.agent.log.map(({ id }) => id));
        this.checks.onSealed(
          uid,
          ids.filter((id) => left.has(id)),
        );
      }
    }
    place.phase = 'paused';
    for (const { agent } of place.members) agent.state = 'down';
    await this.#setStatuses(place, 'PAUSED');
    return sealed?.isComplete;
  }

  async resume(place: Place): Promise<void> {
    this.#options.trace.note(`${place.sandbox.metadata.name} is resumed`);
    place.phase = 'running';
    this.#change(place, { ...place.sandbox, spec: { ...place.sandbox.spec, replicas: 1 } });
    for (const { agent } of place.members) agent.state = 'running';
    await this.#setStatuses(place, 'RUNNING');
    for (const member of place.members) this.report(member);
  }

  async delete({ name, uid }: Member): Promise<void> {
    const stored = await this.#stored(name);
    if (stored?.metadata.uid !== uid) return;
    this.#options.trace.note(`${uid} is deleted`);
    await this.#client.delete(conversations, namespace, name, { uid });
    await this.#publish();
  }

  /** The conversations as a backup of the cluster has them. */
  async backup(): Promise<readonly Conversation[]> {
    return structuredClone((await this.#client.list(conversations)).items);
  }

  /** The cluster has a backup's conversations: lists lack later ones, statuses name old heads. */
  async restore(backup: readonly Conversation[]): Promise<void> {
    this.#options.trace.note('the cluster is restored');
    const kept = new Set(backup.map(({ metadata }) => metadata.uid));
    for (const { metadata } of (await this.#client.list(conversations)).items)
      if (!kept.has(metadata.uid))
        await this.#client.delete(conversations, namespace, metadata.name, { uid: metadata.uid });
    for (const conversation of backup) this.#client.put(conversations, conversation);
    this.checks.onRestored(backup);
    this.#finality = 'assumed';
    await this.#publish();
    this.#finality = 'observed';
    for (const place of this.places)
      await this.#setStatuses(place, place.phase === 'paused' ? 'PAUSED' : 'RUNNING');
  }

  /** Reads the conversation as a reader with a fresh status does. */
  async headOf({ name, uid }: Member): Promise<string | undefined> {
    const stored = await this.#stored(name);
    return stored?.metadata.uid === uid ? stored.status?.archive?.head : undefined;
  }

  /** A process that was frozen has not counted its time. */
  #wasFrozen(operator: ModelOperator): boolean {
    return this.thawed.has(operator);
  }

  /** Operators that were frozen at some time. */
  readonly thawed = new Set<ModelOperator>();

  #addMember(place: Place, name: string, uid: string): void {
    const { random, scheduler } = this.#options;
    const { sandbox } = place;
    const secrets = [apiKey, this.#keys.sessionKey(sandbox.metadata.uid)];
    const agent = new ModelAgent({
      name: uid,
      scheduler,
      random: random.fork(uid),
      lies: random.chance(0.06) && this.#options.isPlain !== true,
      secrets,
      textLength: this.#textLength,
    });
    const {
      storedBytes: _bytes,
      firstWords: _words,
      lacksSteps: _lacks,
      ...base
    } = aConversation({
      name,
      status: {
        start: { status: 'READY', transitions: [] },
        sandboxName: sandbox.metadata.name,
        sandboxUID: sandbox.metadata.uid,
        sandboxStatus: 'RUNNING',
        executionStatus: random.chance(0.5) ? 'running' : 'idle',
      },
    });
    this.#client.put(conversations, { ...base, metadata: { ...base.metadata, namespace, uid } });
    this.network.connect(`http://${sandbox.status?.podIP ?? ''}:8000`, name, agent);
    this.checks.add(uid, agent, secrets);
    place.members.push({ name, uid, agent, place });
  }

  /** Archives whose heads name an unknown master key, a namesake namespace, or the key alone. */
  async #addForeign(): Promise<void> {
    const { scheduler, store } = this.#options;
    const { currentKeyId: keyId } = this.#keys;
    const other = new SandboxKeys([Buffer.alloc(32, 8)]).currentKeyId;
    const namespaceUid = this.#namespaceUid;
    const codec = createCodec({ keys: this.#keys, encrypt: false });
    for (const [index, installation] of [
      installationName({ keyId: other, namespaceUid }),
      installationName({ keyId, namespaceUid: 'namespace-2' }),
      keyId,
    ].entries()) {
      const address = { namespace, uid: `foreign-${index}` };
      const manifest = { ...emptyManifest(address), installation };
      const { name, body } = packHead(codec, address, manifest, Buffer.alloc(0));
      await scheduler.io(() => store.put(keyOf(address, 'h', name), body));
    }
  }

  #report(operator: ModelOperator, { uid, agent }: Member): void {
    const conversation = this.#known.get(uid);
    if (conversation !== undefined) operator.observe(conversation, agent.report);
  }

  #change(place: Place, sandbox: Sandbox): void {
    const { metadata } = sandbox;
    const resourceVersion = String(Number(metadata.resourceVersion) + 1);
    place.sandbox = { ...sandbox, metadata: { ...metadata, resourceVersion } };
    for (const operator of this.operators) operator.sandboxChanged(place.sandbox);
  }

  async #setStatuses(place: Place, sandboxStatus: 'RUNNING' | 'PAUSED'): Promise<void> {
    for (const { name, uid } of place.members) {
      const stored = await this.#stored(name);
      if (stored?.status === undefined || stored.metadata.uid !== uid) continue;
      const status = { ...stored.status, sandboxStatus };
      await this.#client.updateStatus(
        conversations,
        { ...stored, status },
        { from: stored.status },
      );
    }
    await this.#publish();
  }

  async #stored(name: string): Promise<Conversation | undefined> {
    try {
      return await this.#client.get(conversations, namespace, name);
    } catch {
      return undefined;
    }
  }

  /** Checks what was stored, and notifies the operators of it. */
  async #publish(): Promise<void> {
    const { items } = await this.#client.list(conversations);
    const present = new Set(items.map(({ metadata }) => metadata.uid));
    for (const [uid, conversation] of this.#known) {
      if (present.has(uid)) continue;
      this.#known.delete(uid);
      await this.checks.onConversation(conversation, true);
      for (const operator of this.operators)
        operator.conversationChanged(conversation, true, this.#finality);
    }
    for (const conversation of items) {
      const { uid, resourceVersion } = conversation.metadata;
      if (this.#known.get(uid)?.metadata.resourceVersion === resourceVersion) continue;
      this.#known.set(uid, conversation);
      await this.checks.onConversation(conversation, false);
      for (const operator of this.operators) operator.conversationChanged(conversation, false);
    }
  }

  /** The store for the checks, whose reads belong to the step in which they begin. */
  #readable(store: ObjectStore): ObjectStore {
    const { scheduler } = this.#options;
    return {
      ...store,
      get: (key, options) => scheduler.io(() => store.get(key, options)),
      list: (options) => scheduler.io(() => store.list(options)),
    };
  }
}

const nameOf = (number: number, index: number): string =>
  `019aa6a65c4d7b1e8f1f2f7f4f3a${String(number).padStart(2, '0')}${String(index).padStart(2, '0')}`;
