import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { BoundedClient, type BoundedCall, CallError } from '../../src/client/bounded-client.ts';

describe('a bounded client', () => {
  const client = new BoundedClient({
    connectTimeoutMs: 60_000,
    keepAlive: { readsMs: 4500, writesMs: 3000 },
  });
  let server: Server;
  let requests = 0;
  afterEach(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  afterAll(() => client.close());

  const serve = async (listener: RequestListener): Promise<BoundedCall> => {
    requests = 0;
    server = createServer((request, response) => {
      requests += 1;
      listener(request, response);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    return { method: 'GET', url: new URL(`http://127.0.0.1:${port}/`), timeoutMs: 60_000 };
  };
  const faultOf = async (call: Promise<unknown>): Promise<unknown> => {
    try {
      return await call;
    } catch (error) {
      return error instanceof CallError ? error.fault : error;
    }
  };

  it('returns the whole response, whatever its status, and follows no redirect', async () => {
    const call = await serve((_request, response) =>
      response.writeHead(302, { location: '/elsewhere' }).end('moved'),
    );
    expect(await client.send(call, 100)).toMatchObject({
      status: 302,
      headers: { location: '/elsewhere' },
      text: 'moved',
    });
    expect(requests).toBe(1);
  });

  it('rejects a body that is too large', async () => {
    const call = await serve((_request, response) => response.end('x'.repeat(101)));
    expect(await faultOf(client.send(call, 100))).toBe('too-large');
    expect(await client.send(call, 101)).toMatchObject({ status: 200 });
  });

  it('rejects a body in very small chunks', async () => {
    const call = await serve((_request, response) => {
      let left = 5000;
      const write = () => {
        left -= 1;
        response.write('x');
        if (left > 0) setImmediate(write);
        else response.end();
      };
      write();
    });
    expect(await faultOf(client.send(call, 1_000_000))).toBe('too-fragmented');
  });

  it('gives up in time, also in the middle of a body', async () => {
    const call = await serve((_request, response) => void response.write('x'));
    expect(await faultOf(client.send({ ...call, timeoutMs: 200 }, 100))).toBe('timeout');
    // The time in which even a busy machine receives the headers.
    const { text } = await client.open({ ...call, timeoutMs: 2_000 });
    expect(await faultOf(text(100))).toBe('timeout');
  });

  it('gives up when its caller does', async () => {
    const call = await serve(() => undefined);
    const signal = AbortSignal.timeout(100);
    expect(await faultOf(client.send({ ...call, signal }, 100))).toBe('aborted');
  });

  it('repeats a read on a lost connection once, and no write', async () => {
    const call = await serve((request) => void request.socket.destroy());
    expect(await faultOf(client.send(call, 100))).toBe('connection-lost');
    expect(requests).toBe(2);
    expect(await faultOf(client.send({ ...call, method: 'POST', body: 'x' }, 100))).toBe(
      'connection-lost',
    );
    expect(requests).toBe(3);
  });

  it('repeats a write that says that it is repeatable, on the connection of the reads', async () => {
    const ports = new Set<number | undefined>();
    const call = await serve((request, response) => {
      ports.add(request.socket.remotePort);
      if (requests === 2) request.socket.destroy();
      else response.end('x');
    });
    const write = { ...call, method: 'POST', body: 'x', repeatable: true } as const;
    await client.send(call, 100);
    expect(await client.send(write, 100)).toMatchObject({ status: 200 });
    expect([requests, ports.size]).toEqual([3, 2]);
  });

  it('reports a server that is not there', async () => {
    const call = await serve(() => undefined);
    server.close();
    await once(server, 'close');
    expect(await faultOf(client.send(call, 100))).toBe('unreachable');
    server.listen(0);
    await once(server, 'listening');
  });
});
