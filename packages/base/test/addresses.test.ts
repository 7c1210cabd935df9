import { connect, createServer, Server } from 'node:net';
import { hostInUrl, isEveryAddress, listenAt, withoutMapping } from '../src/addresses.ts';

it.each([
  ['192.0.2.1', '192.0.2.1'],
  ['agents.example', 'agents.example'],
  ['::1', '[::1]'],
  ['fd00:10:244::5', '[fd00:10:244::5]'],
])('the host %s is %s in a URL', (host, expected) => {
  expect(hostInUrl(host)).toBe(expected);
  expect(new URL(`http://${hostInUrl(host)}:8000`).port).toBe('8000');
});

it.each([
  ['::', true],
  ['0.0.0.0', true],
  ['::1', false],
  ['127.0.0.1', false],
])('%s is every address: %p', (host, expected) => {
  expect(isEveryAddress(host)).toBe(expected);
});

it.each([
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::FFFF:192.0.2.1', '192.0.2.1'],
  ['::ffff:c000:201', '192.0.2.1'],
  ['::ffff:a01:1', '10.1.0.1'],
  ['0:0:0:0:0:ffff:c000:0201', '192.0.2.1'],
  ['0000:0000:0000:0000:0000:ffff:192.0.2.1', '192.0.2.1'],
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8::ffff:c000:201', '2001:db8::ffff:c000:201'],
  ['::ffff:0:c000:201', '::ffff:0:c000:201'],
  ['::1', '::1'],
  ['', ''],
])('the address %p is %p without its mapping', (address, expected) => {
  expect(withoutMapping(address)).toBe(expected);
});

describe('a server', () => {
  /** Hosts on which a server of a system without this one would listen. */
  function onSystemWithout(refused: string, code: string) {
    const tried: unknown[] = [];
    class Refusing extends Server {
      override listen(...args: readonly unknown[]): this {
        const [{ host }] = args as [{ readonly host: string }];
        tried.push(host);
        if (host !== refused) return super.listen({ host, port: 0 });
        process.nextTick(() => this.emit('error', Object.assign(new Error(code), { code })));
        return this;
      }
    }
    return { server: new Refusing(), tried };
  }

  it.each(['EAFNOSUPPORT', 'EADDRNOTAVAIL'])(
    'that is to have every address has those of IPv4 where IPv6 is refused with %s',
    async (code) => {
      const { server, tried } = onSystemWithout('::', code);
      const port = await listenAt(server, { host: '::', port: 0 });
      expect(tried).toEqual(['::', '0.0.0.0']);
      expect(server.address()).toEqual({ address: '0.0.0.0', family: 'IPv4', port });
      expect(server.listenerCount('error')).toBe(0);
      server.close();
    },
  );

  it.each([
    ['::', 'EACCES'],
    ['::1', 'EADDRNOTAVAIL'],
    ['127.0.0.1', 'EADDRNOTAVAIL'],
  ])('that is refused %s with %s fails', async (host, code) => {
    const { server, tried } = onSystemWithout(host, code);
    await expect(listenAt(server, { host, port: 0 })).rejects.toMatchObject({ code });
    expect(tried).toEqual([host]);
  });

  it('fails where the port is in use, and does not take it from the other family', async () => {
    const first = createServer();
    const port = await listenAt(first, { host: '::', port: 0 });
    await expect(listenAt(createServer(), { host: '::', port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    first.close();
  });

  it('at every address is reached by IPv4, and the address of the client is that of IPv4', async () => {
    const server = createServer();
    const seen = new Promise((resolve) =>
      server.once('connection', (socket) => {
        resolve(withoutMapping(socket.remoteAddress ?? ''));
        socket.destroy();
      }),
    );
    const port = await listenAt(server, { host: '::', port: 0 });
    connect(port, '127.0.0.1').on('error', () => undefined);
    expect(await seen).toBe('127.0.0.1');
    server.close();
  });
});
