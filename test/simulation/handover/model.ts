import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { silentLogger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import {
  isOwnedBy,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { bySandbox } from '../../../src/controllers/caches.ts';
import { HandoverReconciler } from '../../../src/controllers/handover/reconcile.ts';
import { queueMessage } from '../../../src/gateway/conversations/message-queue.ts';
import { deleteOwned } from '../../../src/gateway/lookup/stored.ts';
import { requestResume, requestRun } from '../../../src/gateway/sandboxes/resume.ts';
import { cachedConversation } from '../../../src/resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import { crdOf, definitions } from '../../../src/resources/crd.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { handovers, phaseOf, type Handover } from '../../../src/resources/handover.ts';
import { ownerAnnotation, sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { checkedAudit } from '../../support/checked-audit.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';
import { Random } from '../random.ts';
import { Network } from './plane-client.ts';

const namespace = 'default';
const crds = definitions.map(crdOf);
const [from, to, other] = ['alice', 'bob', 'carol'];
const troubledSteps = 160;
const calmSteps = 2_000;
/** Number of conversations that the quota of the new owner allows, where it has one. */
const limit = 1;

export class BrokenPromise extends Error {
  readonly rule: string;

  constructor(rule: string, message: string) {
    super(`${rule}: ${message}`);
    this.rule = rule;
  }
}

interface Known {
  conversations: readonly Conversation[];
  sandboxes: readonly Sandbox[];
}

/** A run of the operator with caches of its own, which lag. */
interface Process {
  readonly name: string;
  readonly known: Known;
  readonly reconciler: HandoverReconciler;
  isDead: boolean;
  /** The Handover that it reconciles at this moment. */
  busy: string | undefined;
}

/**
 * Runs the state machine of handovers, by two operators whose requests are interleaved, lost and
 * repeated, and which crash between any two of them, against requests of the gateway that are late:
 * the real reconciler, the real writes of the gateway and the real control plane with all rules of
 * the CRDs. The seed determines the run.
 */
export async function runHandovers(seed: number): Promise<readonly string[]> {
  const model = new Model(new Random(`handovers ${seed}`));
  try {
    await model.play();
  } catch (error) {
    throw new Error(`seed ${seed}: ${String(error)}\n${model.lines.slice(-60).join('\n')}`, {
      cause: error,
    });
  }
  return model.lines;
}

class Model {
  readonly #random: Random;
  readonly #clock = new VirtualClock();
  readonly #plane: ControlPlane;
  readonly #network: Network;
  #processes: Process[] = [];
  #runs = 0;
  #isCalm = false;
  #isFull = false;
  /** The first promise that a request has broken. */
  #broken: Error | undefined;
  /** Names of the handovers whose end is in the audit log. */
  readonly #audited = new Set<unknown>();
  #before: { conversation?: Conversation; sandbox?: Sandbox } = {};

  constructor(random: Random) {
    this.#random = random;
    this.#plane = new ControlPlane({
      storage: 'memory',
      clock: this.#clock,
      random: random.fork('plane').next,
      logger: silentLogger,
    });
    this.#network = new Network(this.#plane, random.fork('network'));
    // The callers of a request would take the error of a check for one of the request.
    this.#network.onExecuted = (actor) =>
      this.#check(actor).catch((error: unknown) => {
        this.#broken ??= error as Error;
      });
  }

  get lines(): readonly string[] {
    return this.#network.lines;
  }

  async play(): Promise<void> {
    await this.#begin();
    const { chances } = this.#network;
    Object.assign(chances, {
      lost: this.#random.chance(0.5) ? 0.1 : 0,
      answerLost: this.#random.chance(0.5) ? 0.1 : 0,
      late: this.#random.chance(0.5) ? 0.1 : 0,
    });
    for (let step = 0; step < troubledSteps; step++) await this.#trouble();
    this.#isCalm = true;
    Object.assign(chances, { lost: 0, answerLost: 0, late: 0 });
    for (let step = 0; step < calmSteps; step++) {
      if (this.#network.pending === 0 && (await this.#isSettled())) break;
      await this.#rest();
    }
    await this.#end();
  }

  async #begin(): Promise<void> {
    await this.#plane.start();
    await this.#plane.applyCrds(crds);
    this.#isFull = this.#random.chance(0.2);
    if (this.#isFull) await this.#make(conversations, 'of-bob', { owner: to });
    const conversation = await this.#make(conversations, 'moving', {
      owner: from,
      secrets: [{ name: 'TOKEN', sealed: 'sealed' }],
    });
    const controller = referenceTo(conversation, true);
    const sandbox = await this.#make(
      sandboxes,
      'sbx',
      { owner: from, templateName: 'default', replicas: 1 },
      { ownerReferences: [controller] },
    );
    const { name: sandboxName, uid: sandboxUID } = sandbox.metadata;
    const approval = {
      id: 'question',
      kind: 'execute',
      callHash: 'hash',
      title: 'make',
      tool: 'terminal',
      summary: 'make',
      options: [],
      requestedTime: this.#now,
      agentEpoch: 1,
      answer: { accept: true, by: from },
    };
    await this.#status(conversations, 'moving', {
      start: { status: 'READY', transitions: [{ status: 'READY', time: this.#now }] },
      sandboxName,
      sandboxUID,
      ...(this.#random.chance(0.5) ? { approval } : {}),
    });
    await this.#network.direct('POST', persistentVolumeClaims, [namespace], {
      metadata: { name: 'sbx', annotations: { [ownerAnnotation]: from } },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    await this.#podFor(sandbox);
    await this.#offer('to-bob', to);
    if (this.#random.chance(0.3)) await this.#offer('to-carol', other);
    for (const name of ['operator-0', 'operator-1']) await this.#start(name);
    await this.#check('begin');
  }

  get #now(): string {
    return new Date(this.#clock.now()).toISOString();
  }

  /** One thing that happens, of those that may happen at any time. */
  async #trouble(): Promise<void> {
    const random = this.#random;
    const dice = random.next();
    if (dice < 0.5) await this.#rest();
    else if (dice < 0.56) await this.#crash();
    else if (dice < 0.64) await this.#answer();
    else if (dice < 0.85) this.#useByOldOwner();
    // Most seeds have none of these, so that most handovers come to an end.
    else if (dice < 0.852) await this.#join();
    else if (dice < 0.8535)
      await this.#remove(handovers, random.chance(0.5) ? 'to-bob' : 'to-carol');
    else if (dice < 0.854) await this.#remove(conversations, 'moving');
    else await this.#rest();
  }

  async #rest(): Promise<void> {
    const random = this.#random;
    await this.#clock.advance(random.between(1, 2_000));
    for (const one of this.#processes)
      if (this.#isCalm || random.chance(0.3)) await this.#refresh(one.known);
    if (this.#isCalm || random.chance(0.2)) await this.#followSandboxes();
    if (this.#isCalm) await this.#answer();
    const names = ['to-bob', 'to-carol'];
    const process = random.pick(this.#processes);
    const name = random.pick(names);
    if (process !== undefined && process.busy === undefined && name !== undefined)
      this.#reconcile(process, name);
    if (this.#network.pending > 0) await this.#network.step();
    if (this.#broken !== undefined) throw this.#broken;
  }

  async #start(name: string): Promise<void> {
    // The caches of an operator are filled before it works.
    const known: Known = { conversations: [], sandboxes: [] };
    await this.#refresh(known);
    const process = { name: `${name}.${this.#runs++}`, known, isDead: false } as {
      -readonly [K in keyof Process]: Process[K];
    };
    const client = this.#network.client(process.name, () => process.isDead) as KubeClient;
    const indexed = <T extends KubeObject>(
      list: () => readonly T[],
      keyOf: (one: T) => unknown,
    ) => ({
      byIndex: (_index: string, key: string) =>
        list().filter((one) => `${namespace}/${String(keyOf(one))}` === key),
    });
    const lockOf = ({ spec }: Conversation | Sandbox) => spec.handover?.name;
    process.reconciler = new HandoverReconciler({
      client,
      clock: this.#clock,
      logger: silentLogger,
      audit: checkedAudit({
        info: (kind, line) => {
          if (kind === 'HandoverDone') this.#audited.add(line['handover']);
        },
      }),
      stores: {
        conversations: {
          byIndex: (index: string, key: string) =>
            indexed(
              () => known.conversations,
              (one) => (index === bySandbox ? one.status?.sandboxName : lockOf(one)),
            )
              .byIndex(index, key)
              .map((one) => cachedConversation(structuredClone(one))),
        },
        sandboxes: indexed(() => known.sandboxes, lockOf),
      } as never,
      noRoomFor: (_namespace, owner) =>
        this.#isFull &&
        known.conversations.filter(({ spec }) => spec.owner === owner).length >= limit
          ? `The quota allows ${owner} no more.`
          : undefined,
    });
    this.#processes.push(process);
  }

  #reconcile(process: Process, name: string): void {
    process.busy = name;
    const { signal } = new AbortController();
    process.reconciler.reconcile({ namespace, name }, signal).then(
      () => (process.busy = undefined),
      () => (process.busy = undefined),
    );
  }

  async #crash(): Promise<void> {
    const process = this.#random.pick(this.#processes);
    if (process === undefined) return;
    this.#network.lines.push(`${process.name} crashes`);
    process.isDead = true;
    this.#processes = this.#processes.filter((one) => one !== process);
    await this.#start(process.name.split('.')[0] ?? '');
  }

  async #refresh(known: Known): Promise<void> {
    known.conversations = await this.#network.list(conversations);
    known.sandboxes = await this.#network.list(sandboxes);
  }

  /** Answers an offer that waits, as the gateway stores it. */
  async #answer(): Promise<void> {
    for (const handover of await this.#network.list(handovers)) {
      if (handover.spec.answer !== undefined || this.#random.chance(0.5)) continue;
      const isRefused = this.#random.chance(0.1);
      const isWithdrawn = this.#random.chance(0.1);
      const value = isRefused ? 'Refused' : isWithdrawn ? 'Withdrawn' : 'Accepted';
      await this.#network.direct('PATCH', handovers, [namespace, handover.metadata.name], {
        spec: { answer: { value, by: handover.spec.to, time: this.#now } },
      });
      this.#network.lines.push(`${handover.metadata.name} is ${value}`);
    }
  }

  /** A request of the old owner, whose gateway has a cache that may be old. */
  #useByOldOwner(): void {
    const { conversation, sandbox } = this.#before;
    if (conversation?.spec.owner !== from || sandbox?.spec.owner !== from) return;
    const client = this.#network.client('gateway of alice', () => false) as KubeClient;
    const feed = { shows: () => Promise.resolve(), settled: () => Promise.resolve(undefined) };
    const needs = { client, clock: this.#clock, feeds: { sandboxes: feed as never } };
    const dice = this.#random.next();
    const use = (): Promise<unknown> => {
      if (dice < 0.3) return requestResume(needs, sandbox);
      if (dice < 0.5) return requestRun(needs, sandbox);
      if (dice < 0.95)
        return queueMessage(client, conversation, `m${dice}`, {
          role: 'user',
          run: true,
          content: [{ type: 'text', text: 'go' }],
        });
      return this.#isMoved
        ? deleteOwned(client, sandboxes, 'sandbox', sandbox, feed)
        : Promise.resolve();
    };
    use().catch(() => undefined);
  }

  /** Whether a deletion by the old owner is too late. Before, it would end most runs. */
  get #isMoved(): boolean {
    return this.#before.sandbox?.spec.handover !== undefined;
  }

  /** A start that joins the sandbox, as the operator writes it. */
  async #join(): Promise<void> {
    const [sandbox] = await this.#network.list(sandboxes);
    const isKnown = (await this.#network.list(conversations)).some(
      ({ metadata }) => metadata.name === 'joined',
    );
    if (sandbox?.spec.owner !== from || sandbox.spec.handover !== undefined || isKnown) return;
    const joined = await this.#make(conversations, 'joined', { owner: from, sandboxName: 'sbx' });
    const { resourceVersion, ownerReferences = [] } = sandbox.metadata;
    const client = this.#network.client('join', () => false);
    client
      .mergePatch(sandboxes, namespace, 'sbx', {
        metadata: {
          resourceVersion,
          ownerReferences: [...ownerReferences, referenceTo(joined, false)],
        },
      })
      .catch(() => undefined);
  }

  /** Pods follow `spec.replicas`. A pod is deleted before the status tells so. */
  async #followSandboxes(): Promise<void> {
    for (const sandbox of await this.#network.list(sandboxes)) {
      const { name } = sandbox.metadata;
      const pod = (await this.#network.list(pods)).find((one) => isOwnedBy(one, sandbox));
      if (sandbox.spec.replicas === 1 && pod === undefined) await this.#podFor(sandbox);
      else if (sandbox.spec.replicas === 0 && pod !== undefined)
        await this.#network.direct('DELETE', pods, [namespace, name], { gracePeriodSeconds: 0 });
      else if (sandbox.spec.replicas === 0 && sandbox.status?.replicas !== 0)
        await this.#status(sandboxes, name, { replicas: 0, podUID: null });
    }
  }

  async #podFor(sandbox: Sandbox): Promise<void> {
    const { name } = sandbox.metadata;
    await this.#status(sandboxes, name, { replicas: 1 });
    await this.#network
      .direct('POST', pods, [namespace], {
        metadata: { name, ownerReferences: [referenceTo(sandbox, true)] },
        spec: { containers: [{ name: 'agent', image: 'agent:1' }] },
      })
      .catch(() => undefined);
  }

  async #remove(resource: ResourceDefinition<KubeObject>, name: string): Promise<void> {
    await this.#network
      .direct('DELETE', resource, [namespace, name], { propagationPolicy: 'Background' })
      .catch(() => undefined);
    this.#network.lines.push(`${resource.plural}/${name} is deleted`);
    await this.#check('kubectl');
  }

  /** Checks each state that a write has made. */
  async #check(actor: string): Promise<void> {
    const before = this.#before;
    const conversation = (await this.#network.list(conversations)).find(
      ({ metadata }) => metadata.name === 'moving',
    );
    const sandbox = (await this.#network.list(sandboxes)).find(
      ({ metadata }) => metadata.name === 'sbx',
    );
    this.#before = {
      ...(conversation === undefined ? {} : { conversation }),
      ...(sandbox === undefined ? {} : { sandbox }),
    };
    const isSandboxMoved =
      sandbox !== undefined &&
      before.sandbox !== undefined &&
      sandbox.spec.owner !== before.sandbox.spec.owner;
    if (isSandboxMoved) {
      const pod = (await this.#network.list(pods)).find((one) => isOwnedBy(one, sandbox));
      if (pod !== undefined)
        throw new BrokenPromise('no agent outlives the move of its sandbox', actor);
      if ((sandbox.spec.handovers ?? 0) !== (before.sandbox?.spec.handovers ?? 0) + 1)
        throw new BrokenPromise('all keys of a sandbox change with its owner', actor);
      const references = sandbox.metadata.ownerReferences ?? [];
      if (references.length > 1)
        throw new BrokenPromise('no sandbox moves that others use', String(references.length));
    }
    if (conversation !== undefined && conversation.spec.owner !== from) {
      if (before.conversation?.spec.owner === from && sandbox?.spec.owner === from)
        throw new BrokenPromise('no conversation moves without its sandbox', actor);
      const { secrets, messages, handover } = conversation.spec;
      if (secrets !== undefined) throw new BrokenPromise('no secret of the start moves', actor);
      if (messages !== undefined)
        throw new BrokenPromise('no message of the old owner moves', actor);
      if (conversation.status?.approval?.answer !== undefined)
        throw new BrokenPromise('no answer of the old owner moves', actor);
      if (handover !== undefined) throw new BrokenPromise('a moved conversation is free', actor);
      if (actor === 'gateway of alice' && isChanged(before, this.#before))
        throw new BrokenPromise('the old owner changes nothing after the move', actor);
    }
    if (sandbox?.spec.handover !== undefined && sandbox.spec.replicas !== 0)
      throw new BrokenPromise('a sandbox that moves is paused', actor);
  }

  async #isSettled(): Promise<boolean> {
    // Kubernetes deletes a sandbox after its conversation, which no write of an actor shows.
    await this.#check('garbage collection');
    const all = await this.#network.list(handovers);
    const isLocked = [this.#before.conversation, this.#before.sandbox].some(
      (one) => one?.spec.handover !== undefined,
    );
    return !isLocked && all.every((one) => one.status?.finishedTime !== undefined);
  }

  async #end(): Promise<void> {
    if (!(await this.#isSettled()))
      throw new BrokenPromise(
        'everything settles',
        JSON.stringify(await this.#network.list(handovers)),
      );
    const all = await this.#network.list(handovers);
    const { conversation, sandbox } = this.#before;
    if (conversation === undefined) return;
    const owner = conversation.spec.owner;
    if (sandbox === undefined) throw new BrokenPromise('no object is lost', 'the sandbox');
    if (sandbox.spec.owner !== owner)
      throw new BrokenPromise(
        'conversation and sandbox have one owner in the end',
        `${owner}, ${sandbox.spec.owner}`,
      );
    const done = all.filter((one) => phaseOf(one) === 'Done');
    if (done.some(({ metadata }) => !this.#audited.has(metadata.name)))
      throw new BrokenPromise('the audit log has the end of a handover', owner);
    if (done.some(({ spec }) => spec.to !== owner))
      throw new BrokenPromise('Done means that the new owner has it', owner);
    // A Handover that somebody has deleted tells nothing.
    if (
      all.length > 0 &&
      done.length === 0 &&
      owner !== from &&
      all.some(({ spec }) => spec.to === owner)
    )
      throw new BrokenPromise('Refused means that everything stays', owner);
    const claim = (await this.#network.list(persistentVolumeClaims))[0];
    if (claim?.metadata.annotations?.[ownerAnnotation] !== owner)
      throw new BrokenPromise('the volume has the owner of its sandbox', owner);
    const ofBob = (await this.#network.list(conversations)).filter(({ spec }) => spec.owner === to);
    if (this.#isFull && ofBob.length > limit)
      throw new BrokenPromise('no owner gets more than the quota allows', String(ofBob.length));
  }

  #offer(name: string, owner = ''): Promise<Handover> {
    return this.#network
      .list(conversations)
      .then((list) => list.find(({ metadata }) => metadata.name === 'moving')?.metadata.uid ?? '')
      .then((uid) =>
        this.#make(handovers, name, {
          conversation: { name: 'moving', uid },
          from,
          to: owner,
          expirationTime: new Date(this.#clock.now() + 3_600_000).toISOString(),
        }),
      );
  }

  async #make<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    name: string,
    spec: object,
    metadata: object = {},
  ): Promise<T> {
    return this.#network.direct<T>('POST', resource, [namespace], {
      apiVersion,
      kind: resource.kind,
      metadata: { name, namespace, ...metadata },
      spec,
    });
  }

  async #status(
    resource: ResourceDefinition<KubeObject>,
    name: string,
    status: object,
  ): Promise<void> {
    await this.#network.direct('PATCH', resource, [namespace, name, 'status'], { status });
  }
}

const referenceTo = ({ metadata, kind }: KubeObject, controller: boolean) => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid,
  controller,
});

const isChanged = (before: object, after: object): boolean =>
  JSON.stringify(before) !== JSON.stringify(after);
