import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { startApiServer, type ApiServer } from '@conversation-operator/local-cluster/http/server';
import { systemClock } from '@conversation-operator/base/clock';
import { isAlreadyExists, TransportError } from '@conversation-operator/kube/errors';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Reflector } from '@conversation-operator/kube/reflector';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { crdOf, definitions } from '../../../src/resources/crd.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { startClosingProxy } from './closing-proxy.ts';

const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const token = 'integration';
const namespace = 'default';

let stack: AsyncDisposableStack;
let server: ApiServer;
let url: string;
let client: HttpKubeClient;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  // A short history, so that a watch that was away for long finds its version gone.
  const plane = new ControlPlane({ storage: 'memory', logCapacity: 50, ...runtime });
  stack.defer(() => plane.close());
  await plane.start();
  await plane.applyCrds(definitions.map(crdOf));
  server = await startApiServer({ plane, host: '127.0.0.1', port: 0, token, logger: silentLogger });
  stack.defer(() => server.close());
  url = server.url;
  client = clientOf(url);
});
afterEach(() => stack.disposeAsync());

function clientOf(address: string, ca?: string): HttpKubeClient {
  const connection = { server: address, token, ...(ca === undefined ? {} : { ca }) };
  const transport = new Transport({ connection, deadlineMs: 60_000, ...runtime });
  stack.defer(() => transport.close());
  return new HttpKubeClient({ transport });
}

const aSandbox = (name: string): NewObject<Sandbox> => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Sandbox',
  metadata: { namespace, name },
  spec: { owner: 'alice', templateName: 'default', replicas: 1 },
});

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );

describe('the client layer on a real API server', () => {
  it('speaks TLS to a server whose certificate it can check, and to no other', async () => {
    const sandbox = await client.create(sandboxes, aSandbox('one'));
    expect(await clientOf(server.secureUrl, server.ca).get(sandboxes, namespace, 'one')).toEqual(
      sandbox,
    );
    expect(
      await failureOf(clientOf(server.secureUrl).create(sandboxes, aSandbox('two'))),
    ).toMatchObject({ name: 'TransportError', sent: false });
  });

  it('keeps a store equal to the server over connections that close all the time', async () => {
    const proxy = await startClosingProxy(url);
    stack.defer(() => proxy.close());
    // Waits are shortened as a run of bad luck would be unlikely to.
    const clock = {
      ...systemClock,
      after: (delayMs: number, callback: () => void) => systemClock.after(delayMs / 50, callback),
    };
    const transport = new Transport({ connection: { server: proxy.url, token }, ...runtime });
    stack.defer(() => transport.close());
    const reflector = new Reflector({
      client: new HttpKubeClient({ transport }),
      resource: sandboxes,
      ...runtime,
      clock,
      silenceMs: 100_000,
    });
    const present = new Map<string, string>();
    reflector.addHandler({
      added: ({ metadata }) => present.set(metadata.uid, metadata.resourceVersion),
      updated: ({ metadata }) => present.set(metadata.uid, metadata.resourceVersion),
      deleted: ({ metadata }) => present.delete(metadata.uid),
    });
    reflector.start();
    stack.defer(() => reflector.stop());
    for (let round = 0; round < 300; round++) {
      const name = `sandbox-${round % 7}`;
      if (round % 3 === 2) await client.delete(sandboxes, namespace, name).catch(() => undefined);
      else if (isAlreadyExists(await failureOf(client.create(sandboxes, aSandbox(name))))) {
        await client.mergePatch(
          sandboxes,
          namespace,
          name,
          { status: { message: String(round) } },
          { subresource: 'status' },
        );
      }
      if (round % 10 === 0) proxy.closeConnections();
    }
    await eventually('store, handlers and server agree', async () => {
      const { items } = await client.list(sandboxes);
      const versions = new Map(
        items.map(({ metadata }) => [metadata.uid, metadata.resourceVersion]),
      );
      expect(
        new Map(
          reflector.store.list().map(({ metadata }) => [metadata.uid, metadata.resourceVersion]),
        ),
      ).toEqual(versions);
      expect(present).toEqual(versions);
      return true;
    });
  });

  it('never repeats a write whose connection closes', async () => {
    const proxy = await startClosingProxy(url);
    stack.defer(() => proxy.close());
    const interrupted = clientOf(proxy.url);
    let unknown = 0;
    let known = 0;
    const timer = setInterval(proxy.closeConnections, 7);
    for (let index = 0; index < 150; index++) {
      const error = await failureOf(
        interrupted.create(sandboxes, {
          ...aSandbox(''),
          metadata: { namespace, generateName: 'made-' },
        }),
      );
      if (error instanceof TransportError) unknown++;
      else if (error === undefined) known++;
    }
    clearInterval(timer);
    const { items } = await client.list(sandboxes);
    expect(items.length).toBeGreaterThanOrEqual(known);
    expect(items.length).toBeLessThanOrEqual(known + unknown);
  });
});
