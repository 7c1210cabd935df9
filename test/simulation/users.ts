import type { AgentEndpoint } from '../../src/agent/agent.ts';
import { agentEndpointOf } from '../../src/agent/kinds.ts';
import type { SandboxKeys } from '../../src/agent/keys.ts';
import { sleep } from '@conversation-operator/base/clock';
import {
  ApiError,
  TransportError,
  isAlreadyExists,
  isConflict,
  isNotFound,
} from '@conversation-operator/kube/errors';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { conversations, type ConversationSpec } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { ownSandboxName } from '../../src/resources/ids.ts';
import { resumeRequestedAnnotation, sandboxes } from '../../src/resources/sandbox.ts';
import { SimulatedAgentClient, type AgentNetworkOptions } from './agent-network.ts';
import type { Cluster } from './cluster.ts';
import { apiClient } from './api-client.ts';
import { Machine } from './machine.ts';
import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { FaultSchedule } from './fault-schedule.ts';

export interface UsersOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  readonly keys: SandboxKeys;
  readonly owners: readonly string[];
  readonly agentNetwork: Pick<AgentNetworkOptions, 'onRun' | 'onReject'>;
  /** Whether people answer the agent of this conversation itself. */
  readonly answersAgents: (conversation: string) => boolean;
  /** Whether there are many conversations, whose users scarcely wait. */
  readonly crowd: boolean;
  /** The time in milliseconds at which everything that users begin has begun. */
  readonly busyMs: number;
}

const namespace = 'default';
const core = `/api/v1/namespaces/${namespace}`;
const group = `/apis/${apiVersion}/namespaces/${namespace}`;

type NewSpec = Partial<ConversationSpec> & Pick<ConversationSpec, 'owner'>;

/** The actions of a user in one conversation. */
interface Story {
  readonly id: string;
  readonly at: number;
  readonly spec: NewSpec;
}

/** Users of a gateway that may lose answers, who ask again, and a person with kubectl. */
export class Users {
  readonly #options: UsersOptions;
  readonly #client: HttpKubeClient;
  readonly #agents: SimulatedAgentClient;
  readonly #machine: Machine;
  #running = 0;

  constructor(options: UsersOptions) {
    const { scheduler, cluster, faultSchedule, trace, random, node, agentNetwork } = options;
    this.#options = options;
    this.#machine = new Machine('gateway', scheduler);
    const machine = this.#machine;
    this.#client = apiClient({ machine, cluster, faultSchedule, scheduler, trace, random });
    this.#agents = new SimulatedAgentClient({
      machine: this.#machine,
      node,
      faultSchedule,
      scheduler,
      trace,
      isDirect: true,
      ...agentNetwork,
    });
  }

  /** Whether everything that they have begun is done. */
  get done(): boolean {
    return this.#running === 0;
  }

  start(): void {
    const { random, busyMs, crowd } = this.#options;
    const rng = random.fork('owners');
    const owners: string[] = [];
    const count = crowd || random.chance(0.4) ? random.whole(4, 8) : random.whole(1, 4);
    const ids = Array.from({ length: count }, () => this.#newId(random));
    for (const [index, id] of ids.entries()) {
      const other = ids[index - 1];
      const joins = other !== undefined && random.chance(0.2);
      const before = owners.at(-1);
      // A sandbox of another owner can't be joined, and a user tries.
      const owner = joins && before !== undefined && rng.chance(0.9) ? before : this.#anOwner(rng);
      owners.push(owner);
      const spec: NewSpec = {
        owner,
        ...(random.chance(0.9)
          ? {
              initialMessage: {
                role: 'user' as const,
                content: [{ type: 'text' as const, text: `first of ${id}` }],
                run: random.chance(0.9),
              },
            }
          : {}),
        ...(random.chance(0.5)
          ? {
              repository: {
                name: `owner/${random.chance(0.15) ? 'missing' : 'there'}`,
                ...(random.chance(0.1) ? { branch: 'missing' } : {}),
              },
            }
          : {}),
        ...(joins ? { sandboxName: ownSandboxName(other) } : {}),
      };
      const at = joins ? random.between(10_000, busyMs) : random.between(0, busyMs / 2);
      this.#begin(() => this.#live({ id, at, spec }));
    }
    if (random.chance(0.2)) this.#begin(() => this.#useOwnSandbox());
    if (random.chance(0.5)) this.#begin(() => this.#meddle());
  }

  #anOwner(rng: Random): string {
    const [first = 'alice', ...others] = this.#options.owners;
    return others.length === 0 ? first : (rng.pick([first, ...others]) ?? first);
  }

  #newId(random: Random): string {
    const digits = Array.from({ length: 32 }, () => random.whole(0, 15).toString(16));
    return digits.join('');
  }

  #begin(work: () => Promise<void>): void {
    this.#running++;
    void work().then(() => {
      this.#running--;
    });
  }

  async #live({ id, at, spec }: Story): Promise<void> {
    const { busyMs, scheduler, crowd } = this.#options;
    const longestWaitMs = crowd ? 8_000 : busyMs / 2;
    const random = this.#options.random.fork(`story of ${id}`);
    await this.#until(at);
    await this.#create(id, spec);
    while (scheduler.monotonic() < busyMs) {
      await this.#wait(
        random.chance(0.2) ? random.between(10, 1_000) : random.between(1_000, longestWaitMs),
      );
      const choice = random.next();
      const sandbox = this.#sandboxOf(id, spec);
      if (choice < 0.3) await this.#scale(sandbox, 0);
      else if (choice < 0.6) await this.#scale(sandbox, 1);
      else if (choice < 0.7) await this.#say(id, `another of ${id} ${random.whole(0, 1e9)}`);
      else if (choice < 0.75) await this.#create(id, spec);
      else if (choice > 0.9) await this.#answer(id, random.chance(0.7));
      else if (choice < 0.85 && spec.sandboxName === undefined) {
        await this.#delete(id);
        if (random.chance(0.5)) return;
        await this.#wait(random.between(0, 5_000));
        await this.#create(id, spec);
      }
    }
  }

  /** A warm sandbox that the start has claimed has another name than the conversation. */
  #sandboxOf(id: string, spec: NewSpec): string {
    const { cluster } = this.#options;
    const known = cluster.conversations.find(({ metadata }) => metadata.name === id);
    return spec.sandboxName ?? known?.status?.sandboxName ?? ownSandboxName(id);
  }

  async #useOwnSandbox(): Promise<void> {
    const { busyMs } = this.#options;
    const random = this.#options.random.fork('own sandbox');
    const name = 'standalone';
    const owner = this.#anOwner(random.fork('owner of standalone'));
    await this.#until(random.between(0, busyMs / 2));
    await this.#insist(async () => {
      await this.#client.create(sandboxes, {
        apiVersion,
        kind: sandboxes.kind,
        metadata: { name, namespace },
        spec: { owner, templateName: 'default', replicas: 1 },
      });
    });
    await this.#wait(random.between(0, busyMs / 2));
    await this.#create(this.#newId(random), { owner, sandboxName: name });
    if (random.chance(0.3)) {
      await this.#wait(random.between(0, busyMs / 2));
      await this.#insist(() => this.#client.delete(sandboxes, namespace, name));
    }
  }

  /** A person with kubectl: scales, deletes, edits. */
  async #meddle(): Promise<void> {
    const { busyMs, cluster, scheduler } = this.#options;
    const random = this.#options.random.fork('kubectl');
    while (scheduler.monotonic() < busyMs) {
      await this.#wait(random.between(500, busyMs / 4));
      const sandbox = random.pick(cluster.sandboxes)?.metadata.name;
      const conversation = random.pick(cluster.conversations)?.metadata.name;
      const pod = random.pick(cluster.pods)?.metadata.name;
      const choice = random.next();
      const note = { metadata: { annotations: { note: String(random.whole(0, 1e6)) } } };
      if (choice < 0.3 && pod !== undefined) await this.#kubectl('DELETE', `${core}/pods/${pod}`);
      else if (choice < 0.4 && sandbox !== undefined)
        await this.#kubectl('DELETE', `${group}/sandboxes/${sandbox}`);
      else if (choice < 0.55 && sandbox !== undefined)
        await this.#kubectl('PATCH', `${group}/sandboxes/${sandbox}/scale`, {
          spec: { replicas: random.whole(0, 1) },
        });
      else if (choice < 0.75 && sandbox !== undefined)
        await this.#kubectl('PATCH', `${group}/sandboxes/${sandbox}`, note);
      else if (choice < 0.95 && conversation !== undefined)
        await this.#kubectl('PATCH', `${group}/conversations/${conversation}`, note);
      else if (conversation !== undefined)
        await this.#kubectl('DELETE', `${group}/conversations/${conversation}`);
    }
  }

  async #kubectl(method: string, path: string, body?: object): Promise<void> {
    await this.#options.cluster.call('kubectl', method, path, body);
  }

  #create(id: string, spec: NewSpec): Promise<void> {
    return this.#insist(async () => {
      await this.#client.create(conversations, {
        apiVersion,
        kind: conversations.kind,
        metadata: { name: id, namespace },
        spec: { templateName: 'default', ...spec },
      });
    });
  }

  #delete(id: string): Promise<void> {
    return this.#insist(() =>
      this.#client.delete(conversations, namespace, id, { propagationPolicy: 'Background' }),
    );
  }

  #scale(name: string, replicas: 0 | 1): Promise<void> {
    const annotations =
      replicas === 1
        ? { [resumeRequestedAnnotation]: new Date(this.#machine.clock.now()).toISOString() }
        : {};
    return this.#insist(async () => {
      await this.#client.mergePatch(sandboxes, namespace, name, {
        metadata: { annotations },
        spec: { replicas },
      });
    });
  }

  /** Sends once, straight to the agent with its session key; a lost answer may lose the message. */
  #say(id: string, text: string): Promise<void> {
    return this.#callAgent(id, (endpoint) =>
      this.#agents.sendMessage(endpoint, id, { content: [{ type: 'text', text }] }),
    );
  }

  /** Answers an action that waits, as far as is known. */
  async #answer(id: string, accept: boolean): Promise<void> {
    const conversation = this.#options.cluster.conversations.find(
      ({ metadata }) => metadata.name === id,
    );
    if (conversation?.status?.executionStatus !== 'waiting_for_confirmation') return;
    if (!this.#options.answersAgents(id)) return;
    await this.#callAgent(id, (endpoint) =>
      accept ? this.#agents.run(endpoint, id) : this.#agents.rejectPending(endpoint, id, 'no'),
    );
  }

  async #callAgent(id: string, call: (endpoint: AgentEndpoint) => Promise<unknown>): Promise<void> {
    const { cluster, keys } = this.#options;
    const conversation = cluster.conversations.find(({ metadata }) => metadata.name === id);
    const sandbox = cluster.sandboxes.find(
      ({ metadata: { uid, name } }) =>
        name === conversation?.status?.sandboxName && uid === conversation.status.sandboxUID,
    );
    if (conversation?.status?.start?.status !== 'READY' || sandbox?.status?.phase !== 'RUNNING')
      return;
    const endpoint = agentEndpointOf(sandbox, keys);
    if (endpoint === undefined) return;
    try {
      await call(endpoint);
    } catch {
      // The user sees an error, and may send the message again.
    }
  }

  /** Repeats a call until it succeeds, as a client does that has lost an answer. */
  async #insist(call: () => Promise<void>): Promise<void> {
    for (;;) {
      try {
        await call();
        return;
      } catch (error) {
        if (isAlreadyExists(error) || isNotFound(error) || isConflict(error)) return;
        if (!(error instanceof ApiError) && !(error instanceof TransportError)) throw error;
        if (error instanceof ApiError && error.status < 429) throw error;
      }
      await this.#wait(1_000);
    }
  }

  #until(at: number): Promise<void> {
    return this.#wait(Math.max(0, at - this.#options.scheduler.monotonic()));
  }

  #wait(delayMs: number): Promise<void> {
    return sleep(this.#machine.clock, delayMs);
  }
}
