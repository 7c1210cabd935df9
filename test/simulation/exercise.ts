import { sleep } from '@conversation-operator/base/clock';
import {
  conversations,
  startStatusOf,
  type Conversation,
} from '../../src/resources/conversation.ts';
import { conversationIdOf, ownSandboxName } from '../../src/resources/ids.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { resumeRequestedAnnotation } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Approvers } from './approvers.ts';
import type { Cluster } from './cluster.ts';
import type { Duties } from './duties.ts';
import type { MessageSender } from './message-sender.ts';
import type { SimulatedNode } from './node.ts';
import type { OperatorProcess } from './operator-process.ts';
import type { Random } from './random.ts';
import type { RetryDelayCheck } from './retry-delay-check.ts';
import type { Scheduler } from './scheduler.ts';
import type { Traffic } from './traffic.ts';

export interface ExerciseOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly operators: readonly OperatorProcess[];
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly owners: readonly string[];
  readonly messageSender: MessageSender;
  readonly approvers: Pick<Approvers, 'answerOne'>;
  readonly duties: Duties;
  readonly traffic: Traffic;
  readonly retryDelay: RetryDelayCheck;
  /** Default: each kind, and few of them. */
  readonly actions?: readonly Action[] | undefined;
}

const ordinary = [
  'pause',
  'pause',
  'resume',
  'resume',
  'message',
  'message',
  'start',
  'restart',
  'delete',
  'delete pod',
  'crash',
  'evict',
  'hand over',
  'change template',
  'refuse some',
  'pause deaf',
  'pause deaf',
] as const;

export type Action = (typeof ordinary)[number] | 'refuse long' | 'answer';

/** Number of actions where they are chosen. */
const longExercise = 25;

const core = '/api/v1/namespaces/default';
const group = `/apis/${apiVersion}/namespaces/default`;
/**
 * Longer than any pause waits for an agent. A resume in the meantime can keep the container, whose
 * runs nothing else would end.
 */
const deafMs = 60_000;
/** From a pause to another run: after the operator asked what runs, before its bound is over. */
const lateUseMs = 2_000;
/** A window of `RequestRateCheck` is as long, and another one begins within. */
const refusedMs = 20_000;
/** Interval of the checks whether a refused write is stored by now. */
const checkedMs = 1_000;
/** Maximum time from the last action until an operator has seen it. */
const seenWithinMs = 1_000;
/** A leader that ends gives its lease away, and the next one begins. */
const handoverMs = 30_000;

/** Ordinary use without faults after everything has settled, so that bounds are short. */
export class Exercise {
  readonly #options: ExerciseOptions;
  readonly #actions: readonly Action[];
  #count = 0;
  #hasRefused = false;
  /** Whether it has begun and is not over. */
  busy = false;

  constructor(options: ExerciseOptions) {
    this.#options = options;
    this.#actions = options.actions ?? ordinary;
  }

  start(): void {
    this.busy = true;
    void this.#run().then(() => {
      this.busy = false;
    });
  }

  async #run(): Promise<void> {
    const { random, scheduler } = this.#options;
    const count = this.#options.actions === undefined ? random.whole(3, 6) : longExercise;
    for (let left = count; left > 0; left--) {
      await sleep(
        scheduler,
        random.chance(0.3) ? random.between(0, 1_000) : random.between(1_000, 15_000),
      );
      const action = random.pick(this.#actions);
      if (action !== undefined) await this.#act(action);
    }
    // A resume that no operator has seen yet shows in no object that the checks take for unsettled.
    await sleep(scheduler, seenWithinMs);
  }

  /** The running action; undefined: the action has no object. */
  #act(action: Action): Promise<unknown> | undefined {
    const { random, node } = this.#options;
    switch (action) {
      case 'pause':
        return this.#scale('RUNNING', 0);
      case 'resume':
        return this.#scale('PAUSED', 1);
      case 'message':
        return this.#message();
      case 'answer':
        return this.#options.approvers.answerOne(random);
      case 'start':
        return this.#start();
      case 'restart':
        return this.#restart();
      case 'delete':
        return this.#delete();
      case 'delete pod':
        return this.#deletePod();
      case 'crash':
        return this.#with(random.pick(node.running), (agent) => node.crash(agent));
      case 'evict':
        return this.#with(random.pick(node.running), (agent) => node.evict(agent));
      case 'hand over':
        return this.#handOver();
      case 'change template':
        return this.#changeTemplate();
      case 'refuse some':
        return this.#refuseSome();
      case 'refuse long':
        return this.#refuseLong();
      case 'pause deaf':
        return this.#pauseDeaf();
    }
  }

  #with<T>(subject: T | undefined, act: (subject: T) => unknown): Promise<void> | undefined {
    if (subject === undefined) return undefined;
    act(subject);
    return Promise.resolve();
  }

  /** As the gateway does: a sandbox paused by a quota stays wanted; the annotation asks for it. */
  #scale(phase: 'RUNNING' | 'PAUSED', replicas: 0 | 1): Promise<unknown> | undefined {
    const { cluster, random, scheduler } = this.#options;
    const sandbox = random.pick(
      cluster.sandboxes.filter((one) => viewOfSandbox(one).phase === phase),
    );
    if (sandbox === undefined) return undefined;
    const annotations =
      replicas === 0
        ? {}
        : { [resumeRequestedAnnotation]: new Date(scheduler.now()).toISOString() };
    return this.#ask('PATCH', `${group}/sandboxes/${sandbox.metadata.name}`, {
      metadata: { annotations },
      spec: { replicas },
    });
  }

  #message(): Promise<unknown> | undefined {
    const { cluster, random, messageSender } = this.#options;
    const conversation = random.pick(
      cluster.conversations.filter((one) => startStatusOf(one) === 'READY'),
    );
    return conversation === undefined ? undefined : messageSender.send(conversation);
  }

  #start(): Promise<unknown> {
    const { random, owners } = this.#options;
    const text = `exercise ${this.#count++}`;
    const id = Array.from({ length: 32 }, () => random.whole(0, 15).toString(16)).join('');
    return this.#create(id, {
      owner: random.pick(owners) ?? 'alice',
      templateName: 'default',
      initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true },
      ...(random.chance(0.3) ? { repository: { name: 'owner/there' } } : {}),
    });
  }

  #delete(): Promise<unknown> | undefined {
    const conversation = this.#own();
    return conversation === undefined
      ? undefined
      : this.#ask('DELETE', `${group}/conversations/${conversation.metadata.name}`);
  }

  /** The same again under the same name, while the first one's pod and volume are still there. */
  #restart(): Promise<unknown> | undefined {
    const conversation = this.#own();
    if (conversation === undefined) return undefined;
    const { metadata, spec } = conversation;
    const { messages: _messages, approvals: _approvals, ...again } = spec;
    this.#protectVolume(ownSandboxName(conversationIdOf(conversation)));
    return this.#ask('DELETE', `${group}/conversations/${metadata.name}`).then(() =>
      this.#create(metadata.name, again),
    );
  }

  /** A claim in use is deleted some time after the request for its deletion, as in Kubernetes. */
  #protectVolume(name: string): void {
    const { random, scheduler, cluster } = this.#options;
    if (cluster.claims.every(({ metadata }) => metadata.name !== name)) return;
    const path = `${core}/persistentvolumeclaims/${name}`;
    const set = (finalizers: readonly string[]) =>
      void this.#ask('PATCH', path, { metadata: { finalizers } });
    set(['kubernetes.io/pvc-protection']);
    scheduler.after(random.between(3_000, 10_000), () => set([]));
  }

  /** A conversation whose sandbox was made for it. */
  #own(): Conversation | undefined {
    const { cluster, random } = this.#options;
    return random.pick(cluster.conversations.filter(({ spec }) => spec.sandboxName === undefined));
  }

  #deletePod(): Promise<unknown> | undefined {
    const { cluster, random } = this.#options;
    const pod = random.pick(cluster.pods);
    return pod === undefined ? undefined : this.#ask('DELETE', `${core}/pods/${pod.metadata.name}`);
  }

  #handOver(): Promise<unknown> | undefined {
    const { operators, cluster, scheduler, duties } = this.#options;
    const holder = cluster.leases[0]?.spec?.holderIdentity;
    const leader = operators.find(({ machine }) => machine?.name === holder);
    if (operators.length < 2 || leader === undefined) return undefined;
    duties.hold(handoverMs);
    leader.terminate();
    scheduler.after(handoverMs / 2, () => {
      if (!leader.up) leader.start();
    });
    return sleep(scheduler, handoverMs);
  }

  /**
   * A pause of an agent whose runs do not end when they are interrupted, and in which another run
   * begins meanwhile: any caller with the session key can use the agent until its container ends.
   */
  #pauseDeaf(): Promise<unknown> | undefined {
    const { cluster, node, scheduler, random } = this.#options;
    const agent = random.pick(node.running.filter(({ state }) => state === 'ready'));
    const sandbox = agent && cluster.sandboxOf(agent.sandboxUid);
    if (agent === undefined || sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING')
      return undefined;
    if (agent.running.length === 0) this.#useAgent(agent);
    agent.isDeaf = true;
    scheduler.after(deafMs, () => {
      agent.isDeaf = false;
    });
    scheduler.after(lateUseMs, () => this.#useAgent(agent));
    return this.#ask('PATCH', `${group}/sandboxes/${sandbox.metadata.name}`, {
      spec: { replicas: 0 },
    });
  }

  /** A conversation that is no resource, begun with the agent itself. */
  #useAgent(agent: AgentProcess): void {
    const id = `direct-${this.#count++}`;
    if (agent.alive)
      agent.create({
        id,
        workingDir: '/workspace',
        message: { content: [{ type: 'text', text: id }] },
      });
  }

  /** Changes the template; no existing object depends on the change. */
  #changeTemplate(): Promise<unknown> {
    const size = `${this.#options.random.whole(1, 9)}Gi`;
    return this.#ask('PATCH', `${group}/sandboxtemplates/default`, { spec: { storage: { size } } });
  }

  /** The template changes some times; each time one write of the operator about it fails. */
  async #refuseSome(): Promise<void> {
    const { traffic, retryDelay, scheduler } = this.#options;
    for (let changes = 0; changes < 8; changes++) {
      traffic.refusal = (request) => {
        if (
          request.method !== 'PATCH' ||
          !request.path.endsWith('/sandboxtemplates/default/status')
        )
          return undefined;
        traffic.refusal = () => undefined;
        retryDelay.refused(request);
        return 500;
      };
      await this.#changeTemplate();
      await sleep(scheduler, 2_000);
    }
    traffic.refusal = () => undefined;
  }

  /**
   * The template changes, and the API server fails for a while at what an operator writes of that;
   * until the write is stored, everybody has a reason to be late.
   */
  async #refuseLong(): Promise<void> {
    // The last delay may be minutes, of which a run has few.
    if (this.#hasRefused) return;
    this.#hasRefused = true;
    const { traffic, duties, scheduler, cluster } = this.#options;
    traffic.refusal = ({ method, path }) =>
      method === 'PATCH' && path.endsWith('/sandboxtemplates/default/status') ? 500 : undefined;
    await this.#changeTemplate();
    duties.hold(refusedMs);
    await sleep(scheduler, refusedMs);
    traffic.refusal = () => undefined;
    const isStored = () =>
      cluster.templates.every(
        ({ metadata, status }) => status?.observedGeneration === metadata.generation,
      );
    while (!isStored()) {
      duties.hold(2 * checkedMs);
      await sleep(scheduler, checkedMs);
    }
  }

  async #create(id: string, spec: Conversation['spec']): Promise<void> {
    await this.#ask('POST', `${group}/conversations`, {
      apiVersion,
      kind: conversations.kind,
      metadata: { name: id, namespace: 'default' },
      spec,
    });
  }

  #ask(method: string, path: string, body?: object): Promise<unknown> {
    return this.#options.cluster.call('kubectl', method, path, body);
  }
}
