import { createCaches, reflectorsOf } from '../../../src/controllers/caches.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { runApiServer } from '../../support/api-server.ts';

const count = 70;
/** Maximum size of one URL of an image: 256 KiB. */
const pictureBytes = 250_000;
const pictures = 4;

/**
 * One owner's starts with a pasted picture made a page that no process would read: none could fill
 * its caches again.
 */
it(`fills its caches with ${count} conversations of a megabyte each`, async () => {
  await using stack = new AsyncDisposableStack();
  const api = await runApiServer();
  stack.defer(() => api.close());
  const clientOf = () => {
    const connection = { server: api.server.url, token: api.token };
    const transport = new Transport({
      connection,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
    });
    stack.defer(() => transport.close());
    return new HttpKubeClient({ transport });
  };
  const client = clientOf();
  const imageUrls = Array.from(
    { length: pictures },
    () => `data:image/png;base64,${'A'.repeat(pictureBytes)}`,
  );
  for (let index = 0; index < count; index++) {
    await client.create(conversations, {
      apiVersion,
      kind: conversations.kind,
      metadata: { namespace: 'default', name: String(index).padStart(32, '0') },
      spec: {
        owner: 'alice',
        templateName: 'default',
        initialMessage: { role: 'user', run: true, content: [{ type: 'image', imageUrls }] },
      },
    });
  }
  const caches = createCaches({
    client: clientOf(),
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  for (const reflector of reflectorsOf(caches)) {
    reflector.start();
    stack.defer(() => reflector.stop());
  }
  await Promise.all(
    reflectorsOf(caches).map((reflector) => reflector.synced(AbortSignal.timeout(30_000))),
  );
  const cached = caches.conversations.store.list();
  expect(cached).toHaveLength(count);
  expect(JSON.stringify(cached).length).toBeLessThan(count * 1000);
  for (const { storedBytes } of cached)
    expect(storedBytes).toBeGreaterThan(pictures * pictureBytes);
});
