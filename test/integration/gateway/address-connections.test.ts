import { once } from 'node:events';
import type { Socket } from 'node:net';
import { eventually } from '../../support/eventually.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { expectDecent, openRaw, sendRaw, verdictOf } from '../../support/gateway/raw-http.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

describe('connections of one address', () => {
  let agent: StubAgent;
  let gateway: TestGateway;
  let key = '';
  const sockets: Socket[] = [];
  beforeAll(async () => {
    agent = await StubAgent.start();
  });
  afterEach(async () => {
    for (const socket of sockets.splice(0)) socket.destroy();
    agent.reset();
    await gateway.stop();
  });
  afterAll(() => agent.stop());

  const begin = async (trustedProxies: readonly string[] = []) => {
    gateway = await TestGateway.start({ maxConnectionsPerAddress: 2, trustedProxies });
    const sandbox = await gateway.addSandbox('sbx-1', { status: agent.status });
    key = gateway.sessionKeyOf(sandbox);
  };
  const open = async (address: string) => {
    const socket = await openRaw(gateway.port, address);
    sockets.push(socket);
    return socket.resume();
  };
  /** A request of a client behind the proxy that the agent lets wait, or a WebSocket. */
  const ask = (client: string, more = '') =>
    `GET /sandboxes/sbx-1/AGENT_SERVER/wait HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${client}\r\nX-Session-API-Key: ${key}\r\n${more}\r\n`;
  const webSocket =
    'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
  const wait = async (client: string, more?: string) => {
    const socket = await open('127.0.0.1');
    socket.write(ask(client, more));
    return socket;
  };

  it('are limited, and those of others are not concerned', async () => {
    await begin();
    const [first] = [await open('127.0.0.2'), await open('127.0.0.2')];
    const third = await open('127.0.0.2');
    await once(third, 'close');
    for (const socket of [await open('127.0.0.3'), first]) {
      socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
      expect(String((await once(socket, 'data'))[0])).toContain('200 OK');
    }
    first.destroy();
    await eventually('there is room again', async () => {
      const socket = await open('127.0.0.2');
      socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
      const [event] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [
        unknown,
      ];
      return Buffer.isBuffer(event);
    });
    const { values } = await gateway.metrics.droppedConnections.get();
    expect(values[0]?.value).toBeGreaterThan(0);
  });

  it('that is a trusted proxy are not limited; what each client has under way through it is', async () => {
    await begin(['127.0.0.1']);
    agent.answer = (request, response) => {
      if (request.url !== '/wait') response.end('ok');
    };
    await Promise.all(Array.from({ length: 10 }, () => open('127.0.0.1')));
    await wait('192.0.2.1');
    const tunnel = await wait('192.0.2.1', webSocket);
    await eventually(
      'both are at the agent',
      () => agent.sockets.size === 1 && agent.connections.size === 2,
    );

    const refused = await sendRaw(gateway.port, ask('192.0.2.1'));
    expect(verdictOf(refused)).toBe('503 too-many-connections');
    expect(refused.answers[0]?.headers).toHaveProperty('retry-after');
    expect(verdictOf(await sendRaw(gateway.port, ask('192.0.2.1', webSocket)))).toBe(
      '503 too-many-connections',
    );
    // The client's own claim about its address comes before the address that the proxy adds.
    expect(verdictOf(await sendRaw(gateway.port, ask('10.0.0.1, 192.0.2.1')))).toBe(
      '503 too-many-connections',
    );
    expect(verdictOf(await sendRaw(gateway.port, ask('192.0.2.2').replace('/wait', '/x')))).toBe(
      '200',
    );
    const healthCheck = await sendRaw(gateway.port, 'GET /ready HTTP/1.1\r\nHost: x\r\n\r\n');
    expect(verdictOf(healthCheck)).toBe('200');
    expectDecent(healthCheck);

    tunnel.destroy();
    await eventually(
      'there is room again',
      async () =>
        verdictOf(await sendRaw(gateway.port, ask('192.0.2.1').replace('/wait', '/x'))) === '200',
    );
  });
});
