import { namespace } from './api-server.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { gatewayCaches, serviceCaches } from '../../src/gateway/lookup/cache.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../src/observability/metrics.ts';
import { heapBytes, taken } from './figure.ts';
import { masterKey } from './gateway-process.ts';

/**
 * A gateway. Prints how much the process has taken until it is ready, then, once a client has seen
 * every conversation and start task, how many bytes of heap it has come to take.
 */
const [kubeconfig = '', key = ''] = process.argv.slice(2);
const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const { connection } = await loadConnection({ kubeconfig });
const client = new HttpKubeClient({ transport: new Transport({ connection, ...runtime }) });
const caches = gatewayCaches({ client, namespace, ...runtime });
const gateway = createGateway({
  client,
  namespace,
  caches,
  serviceCaches: serviceCaches({ client, namespace, ...runtime }),
  keys: new SandboxKeys([masterKey]),
  host: '127.0.0.1',
  port: 0,
  legacyApi: true,
  clock: systemClock,
  logger: silentLogger,
  audit: () => undefined,
  metrics: createMetrics(),
  version: '0',
});
const { port } = await gateway.listen();
const before = heapBytes();
for (const reflector of Object.values(caches)) reflector.start();
await Promise.all(Object.values(caches).map((reflector) => reflector.synced()));
process.stdout.write(`${JSON.stringify(taken())}\n`);
const filled = heapBytes();
for (const what of ['search', 'start-tasks/search']) {
  for (let page = ''; ;) {
    const url = `http://127.0.0.1:${port}/api/v1/app-conversations/${what}?limit=100${page}`;
    const answer = await fetch(url, { headers: { authorization: `Bearer ${key}` } });
    if (!answer.ok) throw new Error(`${what} answered ${answer.status}: ${await answer.text()}`);
    const { next_page_id } = (await answer.json()) as { readonly next_page_id: string | null };
    if (next_page_id === null) break;
    page = `&page_id=${encodeURIComponent(next_page_id)}`;
  }
}
process.stdout.write(`${JSON.stringify({ caches: filled - before, all: heapBytes() - before })}\n`);
setInterval(() => undefined, 1000);
