import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { RequestListener, Server, ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { Shares } from '@conversation-operator/base/shares';
import { silentLogger } from '@conversation-operator/base/logger';
import { trustedProxies, type TrustedProxies } from '../../src/limits/client-address.ts';
import { Connections, type ConnectionsOptions } from '../../src/limits/connections.ts';
import { createHttpServer, type HttpServerOptions } from '../../src/server/http-server.ts';
import { eventually } from '../../../../test/support/eventually.ts';

const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

describe('connections', () => {
  let server: Server;
  let taken = 0;
  const clients: Socket[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => {
      server.close(resolve);
    });
  });

  const listen = async (listener: RequestListener, options: HttpServerOptions) => {
    server = createHttpServer(
      {
        request: listener,
        wantsUpgrade: () => false,
        refuse: ({ code, headers }) => ({ status: 400, headers, json: { code } }),
      },
      options,
    );
    taken = 0;
    server.on('connection', () => (taken += 1));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  };
  /** Opens a connection that sends nothing. */
  const open = async (localAddress = '127.0.0.1') => {
    const client = connect({
      port: (server.address() as AddressInfo).port,
      host: '127.0.0.1',
      localAddress,
    });
    client.on('error', () => undefined);
    clients.push(client);
    await once(client, 'connect');
    // The server takes connections in the order in which they were made, and closes one at once.
    await eventually('the server has the connection', () => taken === clients.length);
    return client;
  };
  /** The timer of the server's side of a connection, as the kernel shows it: 02 is keep-alive. */
  const timerOf = (client: Socket): string | undefined => {
    const hex = (port = 0) => port.toString(16).toUpperCase().padStart(4, '0');
    const ports = [client.remotePort, client.localPort].map(hex);
    return readFileSync('/proc/net/tcp', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .find(
        ([, local, remote]) => local?.endsWith(ports[0] ?? '') && remote?.endsWith(ports[1] ?? ''),
      )
      ?.at(5)
      ?.slice(0, 2);
  };
  const answer = async (client: Socket): Promise<string> => {
    client.write(request);
    return String((await once(client, 'data'))[0]);
  };
  const bounded = async (
    maxConnections: number,
    more: Partial<ConnectionsOptions> = {},
    listener: RequestListener = (_request, response) => response.end('ok'),
  ) => {
    const counts = { dropped: 0, evicted: 0 };
    const connections = new Connections({
      places: new Shares({
        total: maxConnections,
        perOwner: maxConnections,
        refuse: () => new Error('no place'),
      }),
      proxies: trustedProxies([]),
      metrics: {
        droppedConnections: { inc: () => (counts.dropped += 1) },
        evictedConnections: { inc: () => (counts.evicted += 1) },
      },
      logger: silentLogger,
      ...more,
    });
    await listen(listener, { connections });
    return counts;
  };

  it('are probed while nothing is sent, so that a client that has vanished does not keep its place', async () => {
    await listen((_request, response) => response.end('ok'), {});
    expect(timerOf(await open())).toBe('02');
  });

  it('that send nothing, of six addresses with all of the places, keep no seventh client out', async () => {
    const counts = await bounded(12);
    const silent: Socket[] = [];
    for (let address = 2; address < 8; address++)
      silent.push(await open(`127.0.0.${address}`), await open(`127.0.0.${address}`));
    const client = await open('127.0.0.8');
    expect(await answer(client)).toContain('200 OK');
    await eventually('the oldest one is closed', () => silent[0]?.closed === true);
    expect(silent.filter(({ closed }) => closed)).toHaveLength(1);
    expect(counts).toEqual({ dropped: 0, evicted: 1 });
  });

  it('beyond the limit take the place of the oldest silent one of the address with the most', async () => {
    await bounded(5);
    const other = await open('127.0.0.2');
    const [first, second] = [await open('127.0.0.3'), await open('127.0.0.3')];
    const begun = await open('127.0.0.3');
    // The beginning of a head is none.
    begun.write('GET / HTTP/1.1\r\nHost: x\r\n');
    const busy = await open('127.0.0.3');
    expect(await answer(busy)).toContain('200 OK');
    const latest = await open('127.0.0.4');
    await eventually('the oldest one of the address is closed', () => first.closed);
    expect(await answer(await open('127.0.0.5'))).toContain('200 OK');
    await eventually('so is the next one', () => second.closed);
    expect([other, begun, busy, latest].map(({ closed }) => closed)).not.toContain(true);
  });

  it('of one /64 count together, as they do for the limit of an address', async () => {
    const addresses = new Map<string | undefined, string>([
      ['127.0.0.2', '2001:db8::1'],
      ['127.0.0.3', '2001:db8::2'],
      ['127.0.0.4', '2001:db8:0:1::1'],
    ]);
    const proxies: TrustedProxies = {
      has: () => false,
      carries: () => false,
      clientAddress: ({ socket: { remoteAddress } }) => addresses.get(remoteAddress) ?? '',
    };
    await bounded(3, { proxies });
    const other = await open('127.0.0.4');
    const [first, second] = [await open('127.0.0.2'), await open('127.0.0.3')];
    expect(await answer(await open('127.0.0.4'))).toContain('200 OK');
    await eventually('the oldest one of the /64 is closed', () => first.closed);
    expect([other.closed, second.closed]).toEqual([false, false]);
  });

  it('of a trusted proxy count as one each, because they are those of many clients', async () => {
    await bounded(4, { proxies: trustedProxies(['127.0.0.2']) });
    const ofProxy = [await open('127.0.0.2'), await open('127.0.0.2')];
    const [first] = [await open('127.0.0.3'), await open('127.0.0.3')];
    expect(await answer(await open('127.0.0.4'))).toContain('200 OK');
    await eventually('the oldest one of the client is closed', () => first.closed);
    expect(ofProxy.map(({ closed }) => closed)).toEqual([false, false]);
  });

  it('without a request under way make room when none is silent, one for each new one', async () => {
    const counts = await bounded(2);
    const [first, second] = [await open(), await open()];
    for (const client of [first, second]) expect(await answer(client)).toContain('200 OK');
    expect(await answer(await open())).toContain('200 OK');
    await eventually('the oldest one is closed', () => first.closed);
    expect(second.closed).toBe(false);
    expect(counts).toEqual({ dropped: 0, evicted: 1 });
  });

  it('with requests under way stay, and a new one is closed at once', async () => {
    const responses: ServerResponse[] = [];
    const counts = await bounded(2, {}, (_request, response) => responses.push(response));
    const busy = [await open(), await open()];
    for (const client of busy) client.write(request);
    await eventually('both requests are under way', () => responses.length === 2);
    const third = await open();
    if (!third.closed) await once(third, 'close');
    expect(counts).toEqual({ dropped: 1, evicted: 0 });
    for (const response of responses) response.end('ok');
    expect(
      await Promise.all(busy.map(async (client) => String((await once(client, 'data'))[0]))),
    ).toEqual([expect.stringContaining('200 OK'), expect.stringContaining('200 OK')]);
  });

  it('of an address or an owner with too many are closed, and take the place of no other', async () => {
    const places = new Shares({ total: 4, perOwner: 1, refuse: () => new Error('no place') });
    const ownerOf = (address: string) => (address === '127.0.0.1' ? undefined : 'alice');
    const counts = await bounded(4, { places, ownerOf, perAddress: 2 });
    const kept = [await open(), await open(), await open('127.0.0.2')];
    for (const address of ['127.0.0.1', '127.0.0.2', '127.0.0.3']) {
      const client = await open(address);
      if (!client.closed) await once(client, 'close');
    }
    expect(counts).toEqual({ dropped: 3, evicted: 0 });
    expect(kept.some(({ closed }) => closed)).toBe(false);
    kept[2]?.destroy();
    await eventually('the place of the owner is free', () => places.inUse === 0);
    expect(await answer(await open('127.0.0.3'))).toContain('200 OK');
  });

  it('are closed when the client takes nothing of an answer for long', async () => {
    const { promise: closed, resolve } = Promise.withResolvers<undefined>();
    await listen(
      (_request, response) => {
        response.once('close', () => resolve(undefined));
        response.end(Buffer.alloc(64 * 1024 * 1024));
      },
      { timeouts: { stallMs: 100 } },
    );
    const client = await open();
    client.pause();
    client.write(request);
    await closed;
  });

  it('stay when the client is slow but takes something', async () => {
    const size = 24 * 1024 * 1024;
    await listen((_request, response) => response.end(Buffer.alloc(size)), {
      timeouts: { stallMs: 20_000 },
    });
    const client = await open();
    let read = 0;
    client.on('data', (chunk: Buffer) => {
      read += chunk.length;
      client.pause();
      setTimeout(() => client.resume(), 1);
    });
    client.write(request);
    await eventually('all of it arrives', () => read >= size);
  });
});
