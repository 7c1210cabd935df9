import { directly } from '@conversation-operator/outward/outward';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { gatewayCaches, serviceCaches } from '../../src/gateway/lookup/cache.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { namespace } from './api-server.ts';
import { heapBytes } from './figure.ts';
import { masterKey } from './gateway-process.ts';

/**
 * A gateway at which people of one identity provider sign in. Prints its port, and at each SIGUSR2
 * the bytes that it takes.
 */
const [kubeconfig = '', issuer = ''] = process.argv.slice(2);
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
  signIn: {
    outward: directly,
    requireActivePerson: false,
    issuers: [
      {
        name: 'company',
        issuer,
        clientId: 'gateway',
        clientSecret: 'gateway-secret',
        scopes: ['openid', 'profile'],
        nameClaim: ['name'],
        rules: [{ claim: ['groups'], value: 'developers', role: 'user' }],
        recheckSeconds: 86_400,
      },
    ],
  },
});
for (const reflector of Object.values(caches)) reflector.start();
await Promise.all(Object.values(caches).map((reflector) => reflector.synced()));
const { port } = await gateway.listen();
process.on('SIGUSR2', () => {
  const heap = heapBytes();
  const { arrayBuffers, rss } = process.memoryUsage();
  process.stdout.write(`${JSON.stringify({ live: heap + arrayBuffers, rss })}\n`);
});
process.stdout.write(`${port}\n`);
