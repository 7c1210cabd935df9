/* oxlint-disable @typescript-eslint/no-unsafe-member-access
   -- answers are JSON of every shape; a wrong guess fails the test */
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { connect } from 'node:net';
import { request as httpsRequest } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { eventually } from '../../../test/support/eventually.ts';
import { runApiServer, type RunningApiServer } from '../../../test/support/api-server.ts';
import {
  aConversation,
  aPod,
  coreInDefault,
  inDefault,
  type Body,
} from '../../../test/support/plane.ts';

const conversations: ResourceDefinition<KubeObject & { readonly status?: object }> = {
  group: 'conversation-operator.dev',
  version: 'v1alpha1',
  kind: 'Conversation',
  plural: 'conversations',
  namespaced: true,
};

let running: RunningApiServer;
beforeEach(async () => {
  running = await runApiServer({
    podLogs: {
      open: (_, container, { follow, tailLines, signal }) =>
        container === 'agent' ? lines(follow, tailLines ?? 2, signal) : undefined,
    },
  });
});
afterEach(() => running.close());

async function* lines(
  follow: boolean,
  count: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index += 1) yield Buffer.from(`line ${index}\n`);
  if (follow && !signal.aborted) await once(signal, 'abort');
}

const call = async (
  method: string,
  path: string,
  body?: string | object,
  headers: Record<string, string> = {},
) => {
  const response = await fetch(`${running.server.url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${running.token}`,
      'content-type': 'application/json',
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  return response;
};

describe('the server', () => {
  it.each([
    ['no token', ''],
    ['a wrong token', 'Bearer b-token'],
    ['a token of another scheme', 'Basic a-token'],
  ])('refuses %s', async (_, authorization) => {
    const response = await call('GET', '/api', undefined, { authorization });
    expect([response.status, ((await response.json()) as Body).reason]).toEqual([
      401,
      'Unauthorized',
    ]);
  });

  it('answers any caller whether it is ready', async () => {
    expect((await call('GET', '/readyz', undefined, { authorization: '' })).status).toBe(200);
  });

  it('speaks TLS on the same port, known by its certificate', async () => {
    const { secureUrl, ca } = running.server;
    const client = httpsRequest(`${secureUrl}/version`, {
      ca,
      headers: { authorization: `Bearer ${running.token}` },
    }).end();
    const [response] = (await once(client, 'response')) as [IncomingMessage];
    response.resume();
    expect(response.statusCode).toBe(200);
    const stranger = httpsRequest(`${secureUrl}/version`).end();
    const [error] = (await once(stranger, 'error')) as [Error & { code: string }];
    expect(error.code).toBe('DEPTH_ZERO_SELF_SIGNED_CERT');
  });

  it('refuses a body of more than 3 MiB', async () => {
    expect(
      (await call('POST', coreInDefault('configmaps'), 'x'.repeat(3 * 1024 * 1024 + 1))).status,
    ).toBe(413);
    expect((await call('GET', '/version')).status).toBe(200);
  });

  it('sends logs', async () => {
    await call('POST', coreInDefault('pods'), aPod('p'));
    expect(
      await (await call('GET', `${coreInDefault('pods', 'p', 'log')}?tailLines=1`)).text(),
    ).toBe('line 0\n');
    expect((await call('GET', `${coreInDefault('pods', 'p', 'log')}?container=other`)).status).toBe(
      400,
    );
    expect((await call('GET', `${coreInDefault('pods', 'p', 'log')}?tailLines=x`)).status).toBe(
      400,
    );
  });

  it('ends watches and logs when it closes', async () => {
    await call('POST', coreInDefault('pods'), aPod('p'));
    const log = await call('GET', `${coreInDefault('pods', 'p', 'log')}?follow=true`);
    const watch = await call('GET', `${coreInDefault('pods')}?watch=true`);
    const texts = Promise.all([log.text(), watch.text()]);
    await running.server.close();
    const [logged, watched] = await texts;
    expect(logged).toBe('line 0\nline 1\n');
    expect(JSON.parse(watched).type).toBe('ADDED');
  });

  it('closes a watcher that does not read', async () => {
    await running.close();
    running = await runApiServer({ stalledMs: 200 });
    const socket = connect(Number(new URL(running.server.url).port), '127.0.0.1');
    socket.write(
      `GET ${coreInDefault('configmaps')}?watch=true HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${running.token}\r\n\r\n`,
    );
    await once(socket, 'readable');
    const closed = once(socket, 'close');
    const data = { filler: 'x'.repeat(500_000) };
    for (let index = 0; index < 40; index += 1)
      await call('POST', coreInDefault('configmaps'), { metadata: { name: `m${index}` }, data });
    // Nothing was read for as long as the server waits; what is in the buffers can still be.
    await new Promise((resolve) => setTimeout(resolve, 400));
    socket.on('error', () => undefined);
    socket.resume();
    await closed;
    expect(socket.bytesRead).toBeLessThan(20_000_000);
  });

  it('survives what is no HTTP', async () => {
    const socket = connect(Number(new URL(running.server.url).port), '127.0.0.1');
    const closed = once(socket, 'close');
    socket.resume();
    socket.write('nonsense\r\n\r\n');
    await closed;
    const tls = connect(Number(new URL(running.server.url).port), '127.0.0.1');
    const tlsClosed = once(tls, 'close');
    tls.resume();
    tls.write(Buffer.of(0x16, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    tls.end();
    await tlsClosed;
    expect((await call('GET', '/version')).status).toBe(200);
  });

  it('writes a kubeconfig that only its owner reads', () => {
    expect(statSync(running.kubeconfig).mode & 0o777).toBe(0o600);
  });
});

describe("the product's client", () => {
  it('can do all that controllers do', async () => {
    const { client } = running;
    const { resourceVersion } = await client.list(conversations);
    const watching = new AbortController();
    const seen: string[] = [];
    const watch = (async () => {
      for await (const event of client.watch(conversations, {
        resourceVersion,
        timeoutSeconds: 30,
        signal: watching.signal,
      })) {
        if (event.type !== 'BOOKMARK') seen.push(`${event.type} ${event.object.metadata.name}`);
      }
    })().catch(() => undefined);
    await call('POST', inDefault('conversations'), aConversation('a'));
    const created = await client.get(conversations, 'default', 'a');
    const titled = await client.mergePatch(conversations, 'default', 'a', { spec: { title: 'x' } });
    await client.updateStatus(conversations, { ...titled, status: { observedGeneration: 2 } });
    await expect(client.update(conversations, created)).rejects.toMatchObject({
      status: 409,
      reason: 'Conflict',
    });
    await client.delete(conversations, 'default', 'a', { uid: created.metadata.uid });
    await expect(client.get(conversations, 'default', 'a')).rejects.toMatchObject({
      status: 404,
      reason: 'NotFound',
    });
    await eventually('the watch has seen it', () => seen.length === 4);
    expect(seen).toEqual(['ADDED a', 'MODIFIED a', 'MODIFIED a', 'DELETED a']);
    watching.abort();
    await watch;
  });
});
