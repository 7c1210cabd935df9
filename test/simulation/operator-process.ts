import { isDeepStrictEqual } from 'node:util';
import type { AgentNotification } from '../../src/agent/notifications.ts';
import type { SandboxKeys } from '../../src/agent/keys.ts';
import { createCaches, reflectorsOf, type Caches } from '../../src/controllers/caches.ts';
import { Operator } from '../../src/controllers/operator.ts';
import type { RetentionTimes } from '../../src/controllers/retention/reconcile.ts';
import { fenced } from '../../packages/kube/src/fenced-client.ts';
import { HttpKubeClient } from '../../packages/kube/src/http-client.ts';
import { LeaderElection } from '../../packages/kube/src/leader-election.ts';
import { Transport } from '../../packages/kube/src/transport.ts';
import type { Metrics } from '../../src/observability/metrics.ts';
import type { KubeObject } from '../../packages/kube/src/object.ts';
import { SimulatedAgentClient, type AgentNetworkOptions } from './agent-network.ts';
import type { AgentProcess, StoredConversation } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import { SimulatedConnection } from './connection.ts';
import { Machine } from './machine.ts';
import type { SimulatedNode } from './node.ts';
import type { ComponentMutant, MutantContext } from './component-mutants/component-mutant.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import type { Traffic } from './traffic.ts';
import type { FaultSchedule } from './fault-schedule.ts';

export interface OperatorProcessOptions {
  readonly name: string;
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  readonly keys: SandboxKeys;
  readonly traffic: Traffic;
  readonly metrics: Metrics;
  /** See `Machine`. */
  readonly minDelayMs: number;
  /** See `ConnectionOptions`. */
  readonly pageSize?: number | undefined;
  readonly agentNetwork: Pick<AgentNetworkOptions, 'onRun' | 'outcomeOf' | 'steps'> & {
    /** See `AgentNetworkOptions`; `actor` is the process in its present run. */
    readonly onInterruptSent: (
      actor: string,
      process: AgentProcess,
      conversation: StoredConversation,
    ) => void;
  };
  readonly mutant: ComponentMutant;
  readonly retention?: Partial<RetentionTimes> | undefined;
}

export const leaseName = 'conversation-operator';
const namespace = 'default';

interface Run {
  readonly machine: Machine;
  readonly stop: AbortController;
  readonly ended: Promise<void>;
  /** While it leads. */
  leading: { readonly work: Operator; readonly since: number } | undefined;
}

/**
 * A process that runs what `operator` (src/commands) wires, and can be killed, frozen and started
 * again at any moment.
 */
export class OperatorProcess {
  readonly #options: OperatorProcessOptions;
  #run: Run | undefined;
  #caches: Caches | undefined;
  #runs = 0;
  /** Isolated from the API server. */
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

  /**
   * Since when notifications are heard here, on the monotonic clock; undefined: it does not lead.
   */
  get leadsSince(): number | undefined {
    return this.#run?.leading?.since;
  }

  /** Sentences about changes that its caches have not received yet. */
  get behind(): readonly string[] {
    const { cluster } = this.#options;
    const caches = this.#caches;
    if (this.#run === undefined || caches === undefined) return [`${this.name} does not run`];
    const kinds: readonly (readonly [keyof Caches, readonly KubeObject[]])[] = [
      ['conversations', cluster.conversations],
      ['sandboxes', [...cluster.sandboxes, ...cluster.spares]],
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
    const leads = (work: Operator | undefined) => {
      run.leading = work && { work, since: scheduler.monotonic() };
    };
    const run: Run = {
      machine,
      stop,
      leading: undefined,
      ended: this.#operate(machine, stop.signal, leads),
    };
    this.#run = run;
  }

  /** A gateway's notification, by a request to this process as it is now. */
  notify(notification: AgentNotification): void {
    const run = this.#run;
    run?.machine.deliver(() => run.leading?.work.notify(notification));
  }

  crash(): void {
    this.#options.trace.note(`${this.#run?.machine.name ?? this.name} crashes`);
    this.#run?.machine.crash();
    this.#run = undefined;
  }

  /** As after SIGTERM; the machine is gone when it has drained. */
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
    leads: (work: Operator | undefined) => void,
  ): Promise<void> {
    const {
      cluster,
      faultSchedule,
      scheduler,
      trace,
      keys,
      mutant,
      node,
      traffic,
      metrics,
      agentNetwork,
      pageSize,
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
    const context: MutantContext = {
      client: plain,
      caches: () => caches,
      clock: machine.clock,
      keys,
    };
    const cachesOptions = { client: plain, namespace, ...runtime };
    const caches: Caches = mutant.caches?.(cachesOptions, context) ?? createCaches(cachesOptions);
    this.#caches = caches;
    for (const reflector of reflectorsOf(caches)) reflector.start();
    const agents = new SimulatedAgentClient({
      ...{ machine, node, faultSchedule, scheduler, trace, ...agentNetwork },
      onInterruptSent: (process, conversation) =>
        agentNetwork.onInterruptSent(machine.name, process, conversation),
    });
    const agent = mutant.agent?.(agents, context) ?? agents;
    const election: LeaderElection = new LeaderElection({
      client: new HttpKubeClient({ transport: leaseTransport }),
      namespace,
      name: leaseName,
      identity: machine.name,
      ...runtime,
      onStartedLeading: async (signal) => {
        const gated = mutant.unfenced === true ? plain : fenced(plain, election);
        const client = mutant.client?.(gated, context) ?? gated;
        const clock = mutant.clock?.(machine.clock) ?? machine.clock;
        const gitHosts = { github: 'https://github.com' };
        const times =
          this.#options.retention === undefined ? {} : { retention: this.#options.retention };
        const work = new Operator({
          ...runtime,
          clock,
          client,
          caches,
          agent,
          keys,
          gitHosts,
          ...times,
        });
        this.terms++;
        await work.start(signal);
        leads(work);
        await new Promise<void>((resolve) =>
          signal.addEventListener('abort', () => resolve(), { once: true }),
        );
        leads(undefined);
        await work.stop();
      },
    });
    const aborted = () => stopped.aborted;
    while (!aborted()) await election.run(stopped);
    await Promise.all(reflectorsOf(caches).map((reflector) => reflector.stop()));
    await Promise.all([transport.close(), leaseTransport.close()]);
  }
}
