import { once } from 'node:events';
import type { RequestListener, Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { createHttpServer, type HttpServerOptions } from '../../src/server/http-server.ts';
import { eventually } from '../../../../test/support/eventually.ts';

const request = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n';

describe('connections', () => {
  let server: Server;
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
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  };
  const open = async () => {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    client.on('error', () => undefined);
    clients.push(client);
    await once(client, 'connect');
    return client;
  };

  it('over the limit are closed at once, and make room by closing idle ones', async () => {
    let dropped = 0;
    await listen((_request, response) => response.end('ok'), {
      maxConnections: 2,
      onDrop: () => (dropped += 1),
    });
    const [first, second] = [await open(), await open()];
    for (const client of [first, second]) {
      client.write(request);
      await once(client, 'data');
    }
    const third = await open();
    await once(third, 'close');
    expect(dropped).toBe(1);
    await eventually('the idle ones are closed', () => first.closed && second.closed);
    const fourth = await open();
    fourth.write(request);
    expect(String((await once(fourth, 'data'))[0])).toContain('200 OK');
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
      timeouts: { stallMs: 2000 },
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
