import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isTrue } from '../../src/resources/conditions.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { sandboxTemplates } from '../../src/resources/sandbox-template.ts';
import { freePort } from '../support/free-port.ts';
import { program } from '../support/installation.ts';
import { namespace, openApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { imageEnvironment, imageFlags } from './image.ts';

/**
 * Starts of sandboxes with the built operator on the API server of KUBECONFIG, or the embedded one,
 * and pods that run as soon as they are there: what is measured is the operator and the API server.
 * The load is the one with which kubernetes-sigs/agent-sandbox was measured beside it.
 */
const nodeName = 'bench-node';
const clockTicksPerSecond = 100;
const sustainedPerSecond = 60;

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = await openApiServer();
stack.defer(() => server.close());
const { client } = server;
const agentPort = await freePort();
const node = startChild('fake-node.ts', [server.kubeconfig, nodeName, String(agentPort)]);
stack.defer(() => node.close());
await node.line();

await client.create(sandboxTemplates, {
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: { name: 'default', namespace },
  spec: {
    podTemplate: {
      spec: {
        nodeName,
        tolerations: [{ operator: 'Exists' }],
        containers: [{ name: 'agent', image: 'busybox' }],
      },
    },
    agent: { port: agentPort, workingDir: '/workspace' },
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
    limit: 100_000,
    onExceeded: 'PauseOldest',
    minActiveSeconds: 0,
    autoResume: 'All',
  },
});

const masterKey = join(folder, 'master');
writeFileSync(masterKey, randomBytes(32));
const metricsPort = await freePort();
const operator = spawn(process.execPath, [...imageFlags, program, 'operator'], {
  env: {
    ...imageEnvironment,
    ...{ PATH: process.env['PATH'], HOME: folder, KUBECONFIG: server.kubeconfig },
    ...{ NAMESPACE: namespace, MASTER_KEY_FILES: masterKey, LOG_LEVEL: 'warn' },
    ...{ METRICS_PORT: String(metricsPort), HEALTH_PORT: '0' },
  },
  stdio: ['ignore', 'inherit', 'inherit'],
});
stack.defer(async () => {
  const ended = once(operator, 'exit');
  operator.kill('SIGTERM');
  await ended;
});

/** Milliseconds of processor that the operator has used so far. */
function processorMs(): number {
  const fields = readFileSync(`/proc/${operator.pid ?? 0}/stat`, 'utf8').split(') ')[1] ?? '';
  const [user, system] = fields.split(' ').slice(11, 13).map(Number);
  return (((user ?? 0) + (system ?? 0)) * 1000) / clockTicksPerSecond;
}
const residentMiB = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${operator.pid ?? 0}/status`, 'utf8'))?.[1]) /
  1024;

/** Requests of the operator so far, without those about its lease and its own watches. */
async function requests(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const lines = text.matchAll(
    /kube_api_calls_total\{verb="(\w+)",resource="([^"]+)",status="\d+"\} (\d+)/g,
  );
  let sum = 0;
  for (const [, verb, resource, calls] of lines)
    if (verb !== 'watch' && verb !== 'list' && resource !== 'leases') sum += Number(calls);
  return sum;
}

interface Run {
  readonly latencies: readonly number[];
  readonly allReadyMs: number;
  readonly eventsPerObject: number;
  readonly processorMsPerStart: number;
  readonly requestsPerStart: number;
}

let runs = 0;
/** Creates sandboxes, all at once or at a rate, and watches them until all are Ready. */
async function run(count: number, perSecond = Infinity): Promise<Run> {
  const prefix = `r${runs++}-`;
  const created = new Map<string, number>();
  const readyAt = new Map<string, number>();
  let events = 0;
  const stop = new AbortController();
  const { resourceVersion } = await client.list(sandboxes, { namespace });
  const watching = (async () => {
    const options = { namespace, resourceVersion, timeoutSeconds: 600, signal: stop.signal };
    for await (const event of client.watch(sandboxes, options)) {
      if (event.type === 'BOOKMARK') continue;
      const { metadata, status }: Sandbox = event.object;
      if (!metadata.name.startsWith(prefix)) continue;
      events++;
      if (readyAt.has(metadata.name) || !isTrue(status?.conditions, SandboxCondition.ready))
        continue;
      readyAt.set(metadata.name, performance.now());
      if (readyAt.size === count) return;
    }
  })();
  // Else the end of the transport would hide the error that ended the run.
  watching.catch(() => undefined);
  const [processor, calls] = [processorMs(), await requests()];
  const began = performance.now();
  const creating: Promise<unknown>[] = [];
  for (let index = 0; index < count; index++) {
    const waitMs = began + (index * 1000) / perSecond - performance.now();
    if (waitMs > 0) await delay(waitMs);
    const name = `${prefix}${index}`;
    created.set(name, performance.now());
    creating.push(
      client.create(sandboxes, {
        apiVersion,
        kind: sandboxes.kind,
        metadata: { name, namespace },
        spec: { owner: `owner-${index % 20}`, templateName: 'default', replicas: 1 },
      }),
    );
  }
  await Promise.all(creating);
  const tooLate = delay(180_000, undefined, { signal: stop.signal }).then(
    () => Promise.reject(new Error(`${readyAt.size} of ${count} are Ready after 180 s`)),
    () => undefined,
  );
  await Promise.race([watching, tooLate]);
  const allReadyMs = Math.max(...readyAt.values()) - began;
  const eventsPerObject = events / count;
  stop.abort();
  const spent = { processor: processorMs() - processor, calls: (await requests()) - calls };
  return {
    latencies: [...readyAt].map(([name, at]) => at - (created.get(name) ?? at)),
    allReadyMs,
    eventsPerObject,
    processorMsPerStart: spent.processor / count,
    requestsPerStart: spent.calls / count,
  };
}

const latency = (what: string, { latencies }: Run, p50?: number, p99?: number) => {
  const target = (atMost: number | undefined) =>
    atMost === undefined ? {} : { target: { atMost } };
  report({ what: `${what}, p50`, value: percentile(latencies, 0.5), unit: 'ms', ...target(p50) });
  report({ what: `${what}, p99`, value: percentile(latencies, 0.99), unit: 'ms', ...target(p99) });
};

const answers = () =>
  requests().then(
    () => true,
    () => false,
  );
while (!(await answers())) {
  if (operator.exitCode !== null) throw new Error(`the operator ended with ${operator.exitCode}`);
  await delay(100);
}
// Until it leads, and its code is compiled.
await run(20);
await run(100);
const burst = await run(300);
report({ what: `on ${server.name}: 300 at once, all Ready`, value: burst.allReadyMs, unit: 'ms' });
latency('300 at 20 a second', await run(300, 20));
const steady = await run(600, 45);
latency('600 at 45 a second', steady, 150, 600);
report({
  what: 'watch events of a sandbox',
  value: steady.eventsPerObject,
  unit: '',
  target: { atMost: 3.2 },
});
report({
  what: 'requests of the operator for a sandbox',
  value: steady.requestsPerStart,
  unit: '',
});
const sustained = await run(sustainedPerSecond * 60, sustainedPerSecond);
report({
  what: `starts a second, of ${sustainedPerSecond} asked for a minute`,
  value: (sustainedPerSecond * 60_000) / sustained.allReadyMs,
  unit: '/s',
  target: { atLeast: sustainedPerSecond * 0.97 },
});
latency(`${sustainedPerSecond} a second`, sustained);
report({
  what: 'processor of the operator for a start',
  value: sustained.processorMsPerStart,
  unit: 'ms',
  target: { atMost: 5 },
});
report({
  what: `memory of the operator after ${(20 + 100 + 300 + 300 + 600 + 3600).toLocaleString('en')} starts`,
  value: residentMiB(),
  unit: 'MiB',
  target: { atMost: 150 },
});
