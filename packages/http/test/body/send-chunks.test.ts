import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { eventually } from '../../../../test/support/eventually.ts';
import { HeldClock } from '../../../../test/support/held-clock.ts';
import { sendChunks } from '../../src/body/send-chunks.ts';

const periodMs = 30_000;

async function* endless() {
  for (;;) yield await Promise.resolve(Buffer.alloc(65_536));
}

it('ends a client that keeps its connection and takes next to nothing', async () => {
  const clock = new HeldClock(periodMs);
  const begin = () => undefined;
  const over = Promise.withResolvers<number>();
  const server = createServer((_request, response) => {
    over.resolve(sendChunks(response, endless(), { clock, begin }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  try {
    socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    let sent = 0;
    void over.promise.then((bytes) => (sent = bytes));
    // In the first period the system takes what it keeps for the client.
    await eventually('the client is let go', () => {
      clock.pass();
      return sent > 0;
    });
    expect(clock.held).toBe(0);
  } finally {
    socket.destroy();
    server.close();
  }
});
