import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { silentLogger } from '@conversation-operator/base/logger';
import { IndexedStore } from '@conversation-operator/kube/store';
import { systemClock } from '@conversation-operator/base/clock';
import { createCallbackServer } from '../../../src/gateway/callback-server/callback-server.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { createMetrics, type Metrics } from '../../../src/observability/metrics.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const maxConnections = 6;

interface Place {
  readonly host: string;
  readonly port: number;
}

/** Value of a metric that has no labels. */
const valueOf = async (
  metrics: Metrics,
  name: 'evictedConnections' | 'droppedConnections',
): Promise<number> => (await metrics[name].get()).values[0]?.value ?? 0;

describe('connections that send nothing and have every place', () => {
  const sockets: Socket[] = [];
  let close: () => Promise<void>;
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    await close();
  });

  const open = async ({ host, port }: Place, localAddress: string) => {
    const socket = connect({ host, port, localAddress });
    sockets.push(socket);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    return socket;
  };
  /** Fills every place from three addresses, and returns the status line that another one gets. */
  const besiege = async (
    place: Place,
    metrics: Metrics,
    places = maxConnections,
  ): Promise<string> => {
    // More than there are places: once one is evicted, the server has taken all of the others.
    for (let index = 0; index <= places; index++) await open(place, `127.0.0.${10 + (index % 3)}`);
    await eventually(
      'one is evicted',
      async () => (await valueOf(metrics, 'evictedConnections')) > 0,
    );
    const socket = await open(place, '127.0.0.20');
    socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
    const [data] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [unknown];
    return String(data).split('\r\n')[0] ?? '';
  };

  it('keep no client out of the gateway', async () => {
    const gateway = await TestGateway.start({ maxConnections });
    close = () => gateway.stop();
    const answer = await besiege({ host: '127.0.0.1', port: gateway.port }, gateway.metrics);
    expect(answer).toBe('HTTP/1.1 200 OK');
    expect(await valueOf(gateway.metrics, 'droppedConnections')).toBe(0);
  });

  it("keep no client out of a sandbox's own address", async () => {
    const agent = await StubAgent.start();
    let addresses: Readonly<Record<string, unknown>> = {};
    const addressOf = (uid: string) => addresses[`${uid}/AGENT_SERVER`];
    const gateway = await TestGateway.start({
      maxConnections,
      loopbackOrigins: {
        read: () => undefined,
        write: (text) => {
          addresses = JSON.parse(text) as typeof addresses;
        },
      },
    });
    close = async () => {
      await gateway.stop();
      await agent.stop();
    };
    const { metadata } = await gateway.addSandbox('sbx-1', { status: agent.status });
    const host = String(addressOf(metadata.uid));
    await eventually('the address is open', async () =>
      (await gateway.get('/api/v1/sandboxes?id=sbx-1')).text.includes(host),
    );
    const place = { host, port: gateway.port };
    expect(await besiege(place, gateway.metrics)).toBe('HTTP/1.1 200 OK');
    expect(await valueOf(gateway.metrics, 'droppedConnections')).toBe(0);
  });

  it('keep no sandbox out of the callback server', async () => {
    const metrics = createMetrics();
    const store = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
    const server = createCallbackServer({
      handlers: [],
      sandboxes: quietCache(store),
      namespace: 'agents',
      host: '127.0.0.1',
      port: 0,
      maxConnections,
      clock: systemClock,
      logger: silentLogger,
      metrics,
    });
    close = () => server.close();
    const { port } = await server.listen();
    const place = { host: '127.0.0.1', port };
    // The server has sixteen more places, for health checks.
    expect(await besiege(place, metrics, maxConnections + 16)).toBe('HTTP/1.1 200 OK');
  });
});
