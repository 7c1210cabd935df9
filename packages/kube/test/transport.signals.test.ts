import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '../src/http-client.ts';
import { Transport } from '../src/transport.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { configMaps } from '../src/core.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

async function heapBytes(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    collect();
  }
  return process.memoryUsage().heapUsed;
}

it('leaves nothing of a call at a signal of its caller that outlives it', async () => {
  const server = createServer((_request, response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(
        JSON.stringify({
          metadata: { name: 'x', namespace: 'default', uid: 'x', resourceVersion: '1' },
        }),
      ),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = { server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  const transport = new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  const client = new HttpKubeClient({ transport });
  const { signal } = new AbortController();
  const calls = async (count: number) => {
    for (let done = 0; done < count; done += 20)
      await Promise.all(
        Array.from({ length: 20 }, () => client.get(configMaps, 'default', 'x', { signal })),
      );
  };
  try {
    await calls(2_000);
    const before = await heapBytes();
    await calls(8_000);
    expect(((await heapBytes()) - before) / 8_000).toBeLessThan(100);
  } finally {
    await transport.close();
    server.close();
    server.closeAllConnections();
  }
});
