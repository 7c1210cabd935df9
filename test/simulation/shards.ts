import { SandboxKeys } from '../../src/agent/keys.ts';
import { shardLeaseName } from '../../src/resources/lease-names.ts';
import { shardOf } from '../../src/controllers/shards/shard.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import type { AgentProcess } from './agent-process.ts';
import { BusyNamespace } from './busy-namespace.ts';
import { WholeCluster } from './cluster.ts';
import { FaultSchedule } from './fault-schedule.ts';
import { NamespaceCluster } from './namespace-cluster.ts';
import { leaseName, OperatorProcess } from './operator-process.ts';
import { Random } from './random.ts';
import { retentionTimes } from './retention.ts';
import { SandboxSteps } from './sandbox-steps.ts';
import { Scheduler } from './scheduler.ts';
import { stage, type SimulationOptions, type Stage } from './stage.ts';
import { outcomeOf } from './template.ts';
import { Trace } from './trace.ts';
import { Traffic } from './traffic.ts';

/** The first namespace of a shard whose name is the prefix and a number. */
function namespaceOf(shard: number, shards: number, prefix = 'team'): string {
  for (let index = 0; ; index++)
    if (shardOf(`${prefix}-${index}`, shards) === shard) return `${prefix}-${index}`;
}

/** A cluster with shared operators, network and API server, and in each shard one namespace. */
export function shardStages(options: SimulationOptions & { readonly shards: number }): Stage[] {
  const { seed, shards, keepLines = 0, busy = false } = options;
  const random = new Random(`${seed}/shards`);
  const scheduler = new Scheduler();
  const trace = new Trace(scheduler, keepLines);
  const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
  const whole = new WholeCluster({
    scheduler,
    trace,
    random: random.fork('plane'),
    ownLeases: true,
  });
  const faultSchedule = new FaultSchedule(random.fork('network'));
  const traffic = new Traffic();
  const metrics = createMetrics();
  const stages: Stage[] = [];
  const operators: OperatorProcess[] = [];
  const at = (process: AgentProcess) => stages.find(({ node }) => node.running.includes(process));
  const node = {
    at: (baseUrl: string) =>
      stages.map((one) => one.node.at(baseUrl)).find((agent) => agent !== undefined),
  };
  const commands = random.fork('commands');
  const steps = new SandboxSteps({
    scheduler,
    outcomeOf: (command) => outcomeOf(command, commands.nextOf(command)),
  });
  const count = random.whole(2, 3);
  for (let index = 0; index < count; index++) {
    operators.push(
      new OperatorProcess({
        name: `operator-${index}`,
        cluster: whole,
        node,
        faultSchedule,
        scheduler,
        trace,
        keys,
        traffic,
        metrics,
        retention: retentionTimes,
        minDelayMs: 1,
        shards,
        random: random.fork(`operator-${index}`),
        agentNetwork: {
          onRun: (conversation, process) => at(process)?.safety.operatorRuns(conversation),
          onInterruptSent: (actor, process, conversation) =>
            at(process)?.interruptedRuns.sent(actor, process.sandboxUid, conversation),
          outcomeOf: (command) => outcomeOf(command, commands.nextOf(command)),
          steps,
        },
      }),
    );
  }
  const busyMs = random.between(20_000, 90_000);
  for (let shard = 0; shard < shards; shard++) {
    const namespace = namespaceOf(shard, shards);
    const cluster = new NamespaceCluster({
      whole,
      namespace,
      leaseName: shardLeaseName(leaseName, shard),
    });
    const busyNamespace =
      busy && shard === 0
        ? new BusyNamespace({
            whole,
            scheduler,
            quiet: cluster,
            random: random.fork('busy'),
            namespace: namespaceOf(shard, shards, 'busy'),
          })
        : undefined;
    const ground = {
      busyNamespace,
      namespace,
      shard,
      whole,
      scheduler,
      trace,
      keys,
      cluster,
      faultSchedule,
      operators,
      busyMs,
      traffic: cluster.trafficOf(traffic),
      strikes: shard === 0,
      listeners: operators.map((operator) => ({
        notify: (notification: Parameters<OperatorProcess['notify']>[0]) =>
          operator.notify(
            notification.namespace === 'default' ? { ...notification, namespace } : notification,
          ),
      })),
      clocksAreRight: () => stages.every(({ blows }) => blows.clocksAreRight),
    };
    stages.push(stage(options, ground));
  }
  return stages;
}

/** Sentences about shards whose leaders are not spread evenly over the operators that run. */
export function unevenShards(operators: readonly OperatorProcess[], shards: number): string[] {
  const loads = operators.filter(({ up }) => up).map(({ load }) => load);
  const isEven =
    loads.reduce((sum, load) => sum + load, 0) === shards &&
    Math.max(...loads) - Math.min(...loads) <= 1;
  return isEven ? [] : [`${shards} shards are led as ${loads.join(', ')}`];
}
