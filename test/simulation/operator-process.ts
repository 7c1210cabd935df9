import { isDeepStrictEqual } from 'node:util';
import type { AgentNotification } from '../../src/agent/notifications.ts';
import { checkedAudit } from '../support/checked-audit.ts';
import type { SandboxKeys } from '../../src/agent/keys.ts';
import { createCaches, reflectorsOf, type Caches } from '../../src/controllers/caches.ts';
import { Operator } from '../../src/controllers/operator.ts';
import { lead } from '../../src/controllers/shards/leadership.ts';
import { shardCaches, ShardClient, shardOf } from '../../src/controllers/shards/shard.ts';
import type { RetentionTimes } from '../../src/controllers/retention/reconcile.ts';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import type { Metrics } from '../../src/observability/metrics.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import { SimulatedAgentClient, type AgentNetworkOptions } from './agent-network.ts';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import { SimulatedConnection } from './connection.ts';
import { Machine } from './machine.ts';
import type { SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { Traffic } from './traffic.ts';
import type { FaultSchedule } from './fault-schedule.ts';

export interface OperatorProcessOptions {
  readonly name: string;
  readonly cluster: Cluster;
  readonly node: Pick<SimulatedNode, 'at'>;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  readonly keys: SandboxKeys;
  readonly traffic: Traffic;
  readonly metrics: Metrics;
  /** See `Machine`. */
  readonly minDelayMs: number;
  /** Number of shards; with more than one, the operator works in all namespaces. Default 1. */
  readonly shards?: number;
  /** See `ConnectionOptions`. */
  readonly pageSize?: number | undefined;
  readonly agentNetwork: Pick<
    AgentNetworkOptions,
    'onRun' | 'outcomeOf' | 'steps' | 'onCommand' | 'answerDoubts' | 'keepsQuestions'
  > & {
    /** See `AgentNetworkOptions`; `actor` is the process in its present run. */
    readonly onInterruptSent: (
      actor: string,
      process: AgentProcess,
      conversation: StoredConversation,
    ) => void;
  };
  readonly retention?: Partial<RetentionTimes> | undefined;
}

export const leaseName = 'conversation-operator';
const namespace = 'default';

interface Run {
  readonly machine: Machine;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  /** The work of its present terms, by shard. */
  readonly leading: Map<number, { readonly work: Operator; readonly since: number }>;
}

/** Runs what the `operator` command wires; can be killed, frozen and restarted at any moment. */
export class OperatorProcess {
  readonly #options: OperatorProcessOptions;
  #run: Run | undefined;
  readonly #stops: AbortController[] = [];
  #caches: Caches | undefined;
  #runs = 0;
  isolated = false;
  /** How often it has begun to lead. */
  terms = 0;

  constructor(options: OperatorProcessOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  get up(): boolean {
    return this.#run !== undefined;
  }

  /** The present run of the process, if there is one. */
  get machine(): Machine | undefined {
    return this.#run?.machine;
  }

  /** Monotonic time since which a shard's notifications are heard; undefined: it does not lead. */
  leadsSince(shard = 0): number | undefined {
    return this.#run?.leading.get(shard)?.since;
  }

  /** Number of shards that it leads. */
  get load(): number {
    return this.#run?.leading.size ?? 0;
  }

  /** Sentences about changes that its caches have not received yet. */
  get behind(): readonly string[] {
    const { cluster } = this.#options;
    const caches = this.#caches;
    if (this.#run === undefined || caches === undefined) return [`${this.name} does not run`];
    const kinds: readonly (readonly [keyof Caches, readonly KubeObject[]])[] = [
      ['conversations', cluster.conversations],
      ['sandboxes', [...cluster.sandboxes, ...cluster.warmSandboxes]],
      ['quotas', cluster.quotas],
      ['pods', cluster.pods],
      ['claims', cluster.claims],
    ];
    const versions = (objects: readonly KubeObject[]) =>
      objects.map(({ metadata }) => `${metadata.uid} ${metadata.resourceVersion}`).sort();
    return kinds
      .filter(
        ([kind, objects]) =>
          !isDeepStrictEqual(versions(caches[kind].store.list()), versions(objects)),
      )
      .map(([kind]) => `the ${kind} of ${this.name} are not up to date`);
  }

  start(): void {
    const { scheduler, trace, minDelayMs } = this.#options;
    const machine = new Machine(`${this.name}.${this.#runs++}`, scheduler, minDelayMs);
    trace.note(`${machine.name} starts`);
    const stop = new AbortController();
    this.#stops.push(stop);
    const leading: Run['leading'] = new Map();
    const leads = (shard: number, work: Operator | undefined) => {
      if (work === undefined) leading.delete(shard);
      else leading.set(shard, { work, since: scheduler.monotonic() });
    };
    const run: Run = { machine, stop, leading, ended: this.#operate(machine, stop.signal, leads) };
    this.#run = run;
  }

  /** Delivers a gateway's notification to the present run of this process. */
  notify(notification: AgentNotification): void {
    const run = this.#run;
    const shard = shardOf(notification.namespace, this.#options.shards ?? 1);
    run?.machine.deliver(() => run.leading.get(shard)?.work.notify(notification));
  }

  crash(): void {
    this.#options.trace.note(`${this.#run?.machine.name ?? this.name} crashes`);
    this.#run?.machine.crash();
    this.#run = undefined;
  }

  /** Aborts the signals of every run, also of those that crashed, at the end of the simulation. */
  dispose(): void {
    for (const stop of this.#stops.splice(0)) stop.abort(new Error('the simulation is over'));
  }

  /** Ends as after SIGTERM; the machine is gone once it has drained. */
  terminate(): void {
    const run = this.#run;
    if (run === undefined || run.stop.signal.aborted) return;
    this.#options.trace.note(`${run.machine.name} gets SIGTERM`);
    run.stop.abort(new Error('the process is stopping'));
    void run.ended.then(() => {
      if (this.#run !== run) return;
      this.#options.trace.note(`${run.machine.name} has ended`);
      run.machine.crash();
      this.#run = undefined;
    });
  }

  /** Mirrors src/commands/operator.ts. */
  async #operate(
    machine: Machine,
    stopped: AbortSignal,
    leads: (shard: number, work: Operator | undefined) => void,
  ): Promise<void> {
    const {
      cluster,
      faultSchedule,
      scheduler,
      trace,
      keys,
      node,
      traffic,
      metrics,
      agentNetwork,
      pageSize,
      shards = 1,
    } = this.#options;
    const logger = trace.logger(machine.name);
    const random = this.#options.random.fork(machine.name).next;
    const runtime = { clock: machine.clock, random, logger, metrics };
    const dispatcher = new SimulatedConnection({
      machine,
      cluster,
      faultSchedule,
      scheduler,
      trace,
      traffic,
      pageSize,
      isolated: () => this.isolated,
    });
    const transport = new Transport({
      connection: { server: 'http://api' },
      ...runtime,
      dispatcher,
    });
    const plain = new HttpKubeClient({ transport });
    // As `operator` does it: renewals share no connections with the leader's work.
    const leaseTransport = new Transport({
      connection: { server: 'http://api' },
      ...runtime,
      dispatcher,
    });
    const scope = shards === 1 ? { namespace } : {};
    const caches = createCaches({ client: plain, ...scope, ...runtime });
    this.#caches = caches;
    for (const reflector of reflectorsOf(caches)) reflector.start();
    const agent = new SimulatedAgentClient({
      machine,
      node,
      faultSchedule,
      scheduler,
      trace,
      ...agentNetwork,
      onInterruptSent: (process, conversation) =>
        agentNetwork.onInterruptSent(machine.name, process, conversation),
    });
    await lead(
      {
        client: new HttpKubeClient({ transport: leaseTransport }),
        namespace,
        name: leaseName,
        shards,
        identity: machine.name,
        ...runtime,
        ready: async (signal) => {
          await Promise.all(reflectorsOf(caches).map((reflector) => reflector.synced(signal)));
        },
        onStartedLeading: async ({ shard, owns, fenced }, signal) => {
          const own = owns === undefined ? plain : new ShardClient(plain, owns);
          const gitHosts = { github: 'https://github.com' };
          const times =
            this.#options.retention === undefined ? {} : { retention: this.#options.retention };
          const work = new Operator({
            ...runtime,
            client: fenced(own),
            caches: owns === undefined ? caches : shardCaches(caches, owns),
            agent,
            keys,
            gitHosts,
            audit: checkedAudit(runtime.logger),
            ...times,
          });
          this.terms++;
          await work.start(signal);
          leads(shard, work);
          await new Promise<void>((resolve) =>
            signal.addEventListener('abort', () => resolve(), { once: true }),
          );
          leads(shard, undefined);
          await work.stop();
        },
      },
      stopped,
    );
    await Promise.all(reflectorsOf(caches).map((reflector) => reflector.stop()));
    await Promise.all([transport.close(), leaseTransport.close()]);
  }
}
