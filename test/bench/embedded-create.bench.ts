import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { latencies, startApiServer } from './api-server.ts';
import { percentile, report } from './figure.ts';

const count = 3000;
const targets = { memory: 1, file: 3 } as const;

for (const storage of ['memory', 'file'] as const) {
  const server = await startApiServer(storage);
  const create = (round: number) => (index: number) =>
    server.client.create(sandboxes, {
      apiVersion,
      kind: 'Sandbox',
      metadata: { namespace: 'default', name: `sandbox-${round}-${index}` },
      spec: { owner: 'alice', templateName: 'default', replicas: 1 },
    });
  await latencies(500, create(0));
  const times = await latencies(count, create(1));
  const where = storage === 'memory' ? 'in memory' : 'on SQLite, each on disk';
  report({
    what: `create of a Sandbox over HTTP, ${where}, p50`,
    value: percentile(times, 0.5),
    unit: 'ms',
    target: { atMost: targets[storage] },
  });
  report({
    what: `create of a Sandbox over HTTP, ${where}, p99`,
    value: percentile(times, 0.99),
    unit: 'ms',
  });
  await server.close();
}
