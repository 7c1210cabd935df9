import { setTimeout as wait } from 'node:timers/promises';
import { apiVersion } from '../../src/resources/group.ts';
import { configMaps } from '@conversation-operator/kube/core';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { inParallel, latencies, startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';

const objects = 10_000;
const watchers = 1000;
const changesPerSecond = 5;
const calls = 1500;
const namespace = 'default';

const server = await startApiServer('memory');
const { client, connection } = server;
await inParallel(objects, 16, (index) =>
  client.create(sandboxes, {
    apiVersion,
    kind: 'Sandbox',
    metadata: { namespace, name: `sandbox-${index}` },
    spec: { owner: 'alice', templateName: 'default', replicas: 1 },
  }),
);

let round = 0;
/** A read and a write of other objects; p50 and p99 of both together. */
async function measure(): Promise<{ readonly p50: number; readonly p99: number }> {
  round++;
  const times = await latencies(calls, (index) =>
    index % 2 === 0
      ? client.get(sandboxes, namespace, `sandbox-${index}`)
      : client.create(configMaps, {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { namespace, name: `map-${round}-${index}` },
        }),
  );
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}

/** Changes of what is watched, at a steady pace, until the function returned is called. */
function change(): () => Promise<void> {
  const stopping = new AbortController();
  const stopped = () => stopping.signal.aborted;
  const changing = (async () => {
    for (let index = 0; !stopped(); index++) {
      await client.mergePatch(
        sandboxes,
        namespace,
        `sandbox-${index % objects}`,
        { status: { message: String(index) } },
        { subresource: 'status' },
      );
      await wait(1000 / changesPerSecond);
    }
  })();
  return async () => {
    stopping.abort();
    await changing;
  };
}

await measure();
const stopAlone = change();
const without = await measure();
await stopAlone();
const { metadata } = await client.get(sandboxes, namespace, 'sandbox-0');
const child = startChild('watchers.ts', [
  connection.server,
  'a-token',
  String(watchers),
  metadata.resourceVersion,
]);
const stop = change();
await child.line();
const withWatchers = await measure();
await stop();
report({ what: 'get and create without watchers, p50', value: without.p50, unit: 'ms' });
report({
  what: `get and create beside ${watchers} watchers of ${objects} changing objects, p50`,
  value: withWatchers.p50,
  unit: 'ms',
});
report({
  what: 'ratio of both, p50',
  value: withWatchers.p50 / without.p50,
  unit: 'times',
  target: { atMost: 2 },
});
report({ what: 'get and create without watchers, p99', value: without.p99, unit: 'ms' });
report({ what: 'get and create beside the watchers, p99', value: withWatchers.p99, unit: 'ms' });
await child.close();
await server.close();
