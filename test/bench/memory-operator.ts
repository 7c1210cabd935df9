import { namespace } from './api-server.ts';
import { createAgentClient } from '../../src/agent/kinds.ts';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { createCaches, reflectorsOf } from '../../src/controllers/caches.ts';
import { Operator } from '../../src/controllers/operator.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import { heapBytes, taken } from './figure.ts';
import { masterKey } from './gateway-process.ts';

/**
 * The operator's caches and controllers. Prints how much the process has taken until it is ready,
 * then, once nothing is left to do, how many bytes of heap they have come to take.
 */
const [kubeconfig = ''] = process.argv.slice(2);
const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const { connection } = await loadConnection({ kubeconfig });
let calls = 0;
const transport = new Transport({ connection, ...runtime });
const counting: Pick<Transport, 'call' | 'stream'> = {
  call: (request) => {
    calls++;
    return transport.call(request);
  },
  stream: (request) => transport.stream(request),
};
const client = new HttpKubeClient({ transport: counting });
const caches = createCaches({ client, namespace, ...runtime });
const agent = createAgentClient();
const keys = new SandboxKeys([masterKey]);
const operator = new Operator({
  client,
  caches,
  agent,
  keys,
  namespace,
  gitHosts: {},
  ...runtime,
  audit: () => undefined,
  metrics: createMetrics(),
});
const before = heapBytes();
for (const reflector of reflectorsOf(caches)) reflector.start();
await Promise.all(reflectorsOf(caches).map((reflector) => reflector.synced()));
const filled = heapBytes();
await operator.start();
process.stdout.write(`${JSON.stringify(taken())}\n`);
for (let seen = -1; seen !== calls;) {
  seen = calls;
  await new Promise((resolve) => setTimeout(resolve, 3000));
}
process.stdout.write(
  `${JSON.stringify({ caches: filled - before, all: heapBytes() - before, calls })}\n`,
);
setInterval(() => undefined, 1000);
