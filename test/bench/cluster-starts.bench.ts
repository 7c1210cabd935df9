import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isTrue } from '../../src/resources/conditions.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { freePort } from '../support/free-port.ts';
import { namespace, openApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { createDefaults, startOperator } from './operator-program.ts';

/**
 * Starts of sandboxes with the built operator on the API server of KUBECONFIG, or the embedded one,
 * and pods that run as soon as they are there: what is measured is the operator and the API server.
 * The load is the one with which kubernetes-sigs/agent-sandbox was measured beside it.
 */
const nodeName = 'bench-node';
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

await createDefaults(server, { name: nodeName, agentPort }, 100_000);
writeFileSync(join(folder, 'master'), randomBytes(32));
const operator = await startOperator(server, folder);
stack.defer(() => operator.stop());

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
  const [processor, calls] = [operator.processorMs(), await operator.requests()];
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
  const spent = {
    processor: operator.processorMs() - processor,
    calls: (await operator.requests()) - calls,
  };
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

// In these runs the operator begins to lead, and its code is compiled.
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
await run(2000 - 20 - 100 - 300 - 300 - 600, 45);
report({
  what: 'memory of the operator after 2,000 starts',
  value: operator.residentMiB(),
  unit: 'MiB',
  target: { atMost: 150 },
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
