import { Pool } from 'undici';
import { systemClock } from '@conversation-operator/base/clock';
import { Transport, type TransportRequest } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';

const rounds = 20;
const callsPerRound = 500;
const path = '/api/v1/namespaces/default/configmaps/one';
const request: TransportRequest = { verb: 'get', resource: 'configmaps', method: 'GET', path };

const server = startChild('transport-server.ts');
const url = `http://127.0.0.1:${await server.line()}`;
const pool = new Pool(url, { connections: 16, pipelining: 1, allowH2: false });
const transport = new Transport({
  connection: { server: url, token: 'token' },
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
  metrics: createMetrics(),
});

const bare = async (): Promise<unknown> =>
  (await pool.request({ path, method: 'GET' })).body.json();
const ours = (): Promise<unknown> => transport.call(request);

async function timed(call: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  for (let index = 0; index < callsPerRound; index++) await call();
  return (performance.now() - began) / callsPerRound;
}

// In turns, so that whatever else the machine does meets both.
const times = { bare: [] as number[], ours: [] as number[] };
await timed(bare);
await timed(ours);
for (let round = 0; round < rounds; round++) {
  times.bare.push(await timed(bare));
  times.ours.push(await timed(ours));
}
const bareMs = percentile(times.bare, 0.5);
const oursMs = percentile(times.ours, 0.5);
report({ what: 'a call with bare undici, one after the other', value: bareMs, unit: 'ms' });
report({ what: 'the same with the transport', value: oursMs, unit: 'ms' });
report({ what: 'added per call', value: oursMs - bareMs, unit: 'ms', target: { atMost: 0.25 } });

const before = Number(
  await (await pool.request({ path: '/connections', method: 'GET' })).body.text(),
);
for (let round = 0; round < 20; round++) await Promise.all(Array.from({ length: 500 }, ours));
const after = Number(
  await (await pool.request({ path: '/connections', method: 'GET' })).body.text(),
);
// The transport has had one of them before.
report({
  what: 'connections for 10,000 calls, 500 at a time',
  value: after - before + 1,
  unit: '',
  target: { atMost: 32 },
});
await transport.close();
await pool.close();
await server.close();
