import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxTemplates } from '../../src/resources/sandbox-template.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { program } from '../support/installation.ts';
import { namespace, type ApiServer } from './api-server.ts';
import { imageEnvironment, operatorFlags } from './image.ts';

const clockTicksPerSecond = 100;

/** A template whose pods the fake node runs, and a quota of that many sandboxes for each owner. */
export async function createDefaults(
  { client }: ApiServer,
  node: { readonly name: string; readonly agentPort: number },
  limit: number,
): Promise<void> {
  await client.create(sandboxTemplates, {
    apiVersion,
    kind: sandboxTemplates.kind,
    metadata: { name: 'default', namespace },
    spec: {
      podTemplate: {
        spec: {
          nodeName: node.name,
          tolerations: [{ operator: 'Exists' }],
          containers: [{ name: 'agent', image: 'busybox' }],
        },
      },
      agent: { port: node.agentPort, workingDir: '/workspace' },
      storage: { size: '1Gi', storageClassName: 'bench', retain: false },
      startDeadline: '5m',
    },
  });
  await client.create(conversationQuotas, {
    apiVersion,
    kind: conversationQuotas.kind,
    metadata: { name: 'default', namespace },
    spec: {
      scope: 'Owner',
      limit,
      onExceeded: 'PauseOldest',
      minActiveSeconds: 0,
      autoResume: 'All',
    },
  });
}

export interface OperatorProgram {
  processorMs(): number;
  residentMiB(): number;
  /** Maximum resident memory of the process so far. */
  maxResidentMiB(): number;
  /** Whether its caches are filled; it may not lead. */
  isReady(): Promise<boolean>;
  /** The sum of a metric over the series that `isCounted`. */
  metric(name: string, isCounted?: (labels: string) => boolean): Promise<number>;
  /** Requests so far, without those about its lease and its own watches. */
  requests(): Promise<number>;
  /** Ends the process, which releases its Lease on SIGTERM. */
  stop(signal?: NodeJS.Signals): Promise<void>;
}

/**
 * `conversation-operator operator` as it is built, started as the chart starts it. `folder` has its
 * key, a file `master`. Resolves once the program answers; it may not lead yet.
 */
export async function startOperator(
  { kubeconfig }: ApiServer,
  folder: string,
  env: Readonly<Record<string, string>> = {},
): Promise<OperatorProgram> {
  const metricsPort = await freePort();
  const profile =
    process.env['PROFILE'] === undefined
      ? []
      : ['--cpu-prof', `--cpu-prof-dir=${process.env['PROFILE']}`];
  const child = spawn(process.execPath, [...operatorFlags, ...profile, program, 'operator'], {
    env: {
      ...imageEnvironment,
      PATH: process.env['PATH'],
      HOME: folder,
      KUBECONFIG: kubeconfig,
      NAMESPACE: namespace,
      MASTER_KEY_FILES: join(folder, 'master'),
      LOG_LEVEL: 'warn',
      METRICS_PORT: String(metricsPort),
      HEALTH_PORT: '0',
      ...env,
    },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const fileOf = (name: string) => readFileSync(`/proc/${child.pid ?? 0}/${name}`, 'utf8');
  const metric = async (name: string, isCounted: (labels: string) => boolean = () => true) => {
    const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    let sum = 0;
    for (const [, labels = '', value] of text.matchAll(
      new RegExp(`^conversation_operator_${name}(?:\\{(.*)\\})? ([\\d.e+]+)$`, 'gm'),
    ))
      if (isCounted(labels)) sum += Number(value);
    return sum;
  };
  await eventually('the operator answers', () => {
    if (child.exitCode !== null) throw new Error(`the operator ended with ${child.exitCode}`);
    return metric('kube_api_calls_total').then(
      () => true,
      () => false,
    );
  });
  return {
    processorMs: () => {
      const fields = fileOf('stat').split(') ')[1]?.split(' ') ?? [];
      return ((Number(fields[11]) + Number(fields[12])) * 1000) / clockTicksPerSecond;
    },
    residentMiB: () => Number(/VmRSS:\s+(\d+)/.exec(fileOf('status'))?.[1]) / 1024,
    maxResidentMiB: () => Number(/VmHWM:\s+(\d+)/.exec(fileOf('status'))?.[1]) / 1024,
    isReady: async () => (await fetch(`http://127.0.0.1:${metricsPort}/ready`)).ok,
    metric,
    requests: () =>
      metric(
        'kube_api_calls_total',
        (labels) => !/verb="(watch|list)"|resource="leases"/.test(labels),
      ),
    stop: async (signal = 'SIGTERM') => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
  };
}
